"""The same story with one twist each: whatever happens in between, the right node is held once, and nobody else."""

import time

import pytest

from sickbay.actions import Action, ActionState
from sickbay.messages import Event, Incident
from tests.services.kafka import Cluster as Kafka
from tests.thread import story as thread
from tests.thread.conftest import Placing
from tests.thread.place import Way
from tests.thread.story import NODE, held, judged, nothing_else, onset, ready, released, requeued
from tests.thread.watch import until

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.thread]
LATER_S = 60.0  # for what has to wait for a restart first


@pytest.mark.parametrize("way", ["spread", "single"])
def test_the_process_that_diagnoses_is_killed_in_between(place: Placing, way: Way) -> None:
    with place(way) as one:
        story = ready(one)
        onset(story)
        story.watch.wait(Event, lambda event: event.component == story.component, 10, "event")
        one.children[one.diagnoses()].kill()
        time.sleep(2)
        one.start(one.diagnoses())
        judged(story, LATER_S)
        held(story, LATER_S)
        requeued(story, LATER_S)
        released(story)
        nothing_else(story)


def test_the_broker_restarts_in_between(place: Placing, broker: Kafka) -> None:
    with place("spread") as one:
        story = ready(one)
        broker.stop()  # a lone broker that is killed may leave a transaction for ever open: docs/adr/0002
        onset(story)
        time.sleep(3)
        broker.start()
        judged(story, LATER_S)
        held(story, LATER_S)
        requeued(story, LATER_S)
        released(story)
        nothing_else(story)


def test_the_remediator_sleeps_after_the_drain_and_wakes_to_a_job_that_somebody_requeued(place: Placing) -> None:
    with place("spread") as one:
        story = ready(one)
        onset(story)
        until(lambda: "+DRAIN" in one.node(NODE), 15, "the node is drained")
        one.children["remediate"].pause()
        if int(one.slurm.job(story.job)["Restarts"]) == 0:
            one.slurm.run("scontrol", "requeue", story.job)
        one.slurm.wait(story.job, "RUNNING", LATER_S, attempt=1)
        time.sleep(15)
        one.children["remediate"].resume()
        judged(story, LATER_S)
        held(story, LATER_S)
        released(story)
        nothing_else(story)
        assert one.slurm.job(story.job)["Restarts"] == "1"


def test_a_node_that_an_admin_drained_is_never_written(place: Placing) -> None:
    with place("single") as one:
        story = ready(one)
        one.slurm.run("scontrol", "update", f"nodename={NODE}", "state=drain", "reason=fan is loud, bob")
        onset(story)
        judged(story)
        requeued(story, LATER_S)
        one.site.repair(NODE)
        time.sleep(15)
        story.watch.look()
        assert "Reason=fan is loud, bob" in one.node(NODE)
        assert "+DRAIN" in one.node(NODE)
        verified = story.watch.of(Action, lambda action: action.state is ActionState.VERIFIED)
        assert not [action for _, action in verified if action.do in ("drain_host", "release")], verified
        assert not one.ended_badly()


def test_a_program_that_brings_its_own_code_holds_nobody(place: Placing) -> None:
    with place("single") as one:
        story = ready(one)
        one.site.fail_program(NODE, thread.INDEX)
        event = story.watch.wait(Event, lambda told: told.code == "Xid 31", 15, "event")[1]
        time.sleep(15)
        story.watch.look()
        assert not [one for _, one in story.watch.of(Incident) if one.action in thread.DRAINS]
        assert not story.watch.of(Action, lambda action: action.state not in (ActionState.SHOWN, ActionState.REFUSED))
        assert not [node for node in one.slurm.nodes if "+DRAIN" in one.node(node)]
        assert one.slurm.job(story.job)["Restarts"] == "0"
        assert event.component.startswith(f"accelerator:{NODE}/")


def test_observe_shows_the_plan_and_touches_nothing(place: Placing) -> None:
    with place("single", mode="observe") as one:
        story = ready(one)
        onset(story)
        judged(story)
        story.watch.wait_action("drain_host", ActionState.SHOWN, 15)
        time.sleep(5)
        story.watch.look()
        assert {action.state for _, action in story.watch.of(Action)} <= {ActionState.SHOWN, ActionState.REFUSED}
        assert not [node for node in one.slurm.nodes if "+DRAIN" in one.node(node)]
        assert one.slurm.job(story.job)["Restarts"] == "0"
        shown = one.sickbay("incidents", "show", story.incident)
        assert "drain_host" in shown
        assert story.component in shown
