"""The thread, start to end: a card falls off the bus under a running job; every step is waited for and timed.

Each function is one stretch of the story and can be used alone, so that a twist tells only what is different in it.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from sickbay.actions import Action, ActionState, Judged
from sickbay.components import Kind, name
from sickbay.messages import Event, Evidence, Incident, Placement, Verdict
from simulator.parts.cluster import Card
from tests.thread.place import Place
from tests.thread.watch import Watch, until

READY_S, HOLD_S = 60.0, 10.0
NODE, INDEX = "n2", 3


@dataclass
class Story:
    """One run. `rows`: (wall ms, what, detail), in the order in which they were seen."""

    place: Place
    watch: Watch
    job: str = ""
    card: Card | None = None
    onset_ms: int = 0
    incident: str = ""
    rows: list[tuple[int, str, str]] = field(default_factory=list)

    def row(self, at_ms: int, what: str, detail: str = "") -> None:
        """Add a line to the time line."""
        self.rows.append((at_ms, what, detail))

    @property
    def component(self) -> str:
        """The card that was lost."""
        assert self.card is not None
        return self.card.component

    def shown(self) -> list[str]:
        """The time line for people: seconds since the onset."""
        ordered = sorted(self.rows, key=lambda row: row[0])
        return [f"{(at - self.onset_ms) / 1000:+8.2f} s  {what:22} {detail}" for at, what, detail in ordered]


def ready(place: Place) -> Story:
    """Everything runs, the job trains and diagnosis has read it all."""
    place.start(*place.names)
    story = Story(place, Watch(place.open_log(), place.ended_badly))
    story.job = place.train()
    began = now_ms()
    story.row(began, "job submitted", story.job)
    place.slurm.wait(story.job, "RUNNING", READY_S)
    until(lambda: len(place.steps(story.job)) > 5, READY_S, "the job makes steps")
    running = story.watch.wait(
        Placement, lambda one: one.job == story.job and one.state == "running", READY_S, "placement"
    )  # fmt: skip
    story.row(running[0], "placement known", f"{story.job}/{running[1].attempt} on {','.join(running[1].hosts)}")
    story.watch.wait(Judged, lambda one: one.as_of_ms > began, READY_S, "heartbeat of diagnosis")
    return story


def onset(story: Story, node: str = NODE) -> None:
    """The card is lost."""
    story.onset_ms = now_ms()
    story.card = story.place.site.lose(node, INDEX)
    story.row(story.onset_ms, "onset", f"{story.component} falls off the bus")


def judged(story: Story, limit_s: float = HOLD_S) -> Incident:
    """The incident that names the card, with what led to it."""
    at, incident = story.watch.wait(
        Incident, lambda one: one.component == story.component and one.state == "open", limit_s, "incident"
    )  # fmt: skip
    story.incident = incident.id
    assert (incident.verdict, incident.fault) == (Verdict.COMPONENT, "accelerator_off_bus")
    for event_at, event in story.watch.of(Event, lambda one: one.component == story.component)[:1]:
        story.row(event_at, "event appended", f"{event.kind} {event.code}")
    for evidence_at, evidence in story.watch.of(Evidence, lambda one: one.component == story.component)[:1]:
        story.row(evidence_at, "evidence", f"{evidence.detector} {evidence.says}")
    story.row(at, "incident", f"{incident.verdict} {incident.component} P {incident.probability:.2f}")
    return incident


def held(story: Story, limit_s: float = HOLD_S) -> Action:
    """The node is drained, by us, with a reason."""
    target = name(Kind.HOST, story.card.host if story.card else "")
    at, action = story.watch.wait_action("drain_host", ActionState.VERIFIED, limit_s, target)
    assert story.card is not None
    shown = story.place.node(story.card.host)
    assert "+DRAIN" in shown, shown
    assert "sickbay" in shown, shown
    story.row(at, "hold", shown.partition("Reason=")[2].strip())
    return action


def requeued(story: Story, limit_s: float = 60) -> None:
    """The job runs again, elsewhere, as its next attempt, from its checkpoint."""
    at, _ = story.watch.wait_action("requeue", ActionState.VERIFIED, limit_s)
    story.row(at, "requeue", f"job {story.job}")
    before = len(story.place.steps(story.job))
    story.place.slurm.wait(story.job, "RUNNING", limit_s, attempt=1)
    until(lambda: len(story.place.steps(story.job)) > before + 2, limit_s, "the job makes steps again")
    steps = story.place.steps(story.job)
    assert story.card is not None
    told = story.watch.wait(
        Placement, lambda one: one.job == story.job and one.attempt == 1 and one.state == "running", limit_s,
        "placement of the next attempt",
    )[1]  # fmt: skip
    assert story.card.host not in told.hosts
    assert 0 < steps[before] <= steps[before - 1] + 1, "did not resume from its checkpoint"
    story.row(now_ms(), "running again", f"step {steps[-1]} on {','.join(told.hosts)}")


def released(story: Story, limit_s: float = 90) -> None:
    """Somebody power-cycled the node; the test passes and it comes back."""
    assert story.card is not None
    story.place.site.repair(story.card.host)
    story.row(now_ms(), "power-cycled", f"{story.card.host}, by a person")
    target = name(Kind.HOST, story.card.host)
    at, _ = story.watch.wait_action("run_test", ActionState.VERIFIED, limit_s)
    story.row(at, "test passed", story.card.host)
    at, _ = story.watch.wait_action("release", ActionState.VERIFIED, limit_s, target)
    story.place.slurm.wait_node(story.card.host, "IDLE", limit_s)
    assert "+DRAIN" not in story.place.node(story.card.host)
    story.row(at, "release", story.card.host)


def alerted(story: Story, limit_s: float = 15) -> None:
    """One alert stands for the incident."""
    mine = until(lambda: standing(story), limit_s, "an alert stands")
    assert len(mine) == 1, mine
    story.row(ms_of(mine[0]["startsAt"]), "alert says onset", mine[0]["labels"]["component"])


def resolved(story: Story, limit_s: float = 60) -> None:
    """The alert is gone."""
    until(lambda: not standing(story), limit_s, "the alert is resolved")
    story.row(now_ms(), "alert resolved", "")


def standing(story: Story) -> list[dict[str, Any]]:
    """The alerts of incidents that stand now."""
    return [one for one in story.place.alerts() if one["labels"]["alertname"] == "SickbayIncident"]


def nothing_else(story: Story) -> None:
    """Nobody else was touched, nothing was done twice, nothing was lost, and every process lives."""
    story.watch.look()
    assert story.card is not None
    verified = [one for _, one in story.watch.of(Action, lambda one: one.state is ActionState.VERIFIED)]
    done = [(one.do, one.target) for one in verified if one.do in ("drain_host", "requeue", "release")]
    assert len(done) == len(set(done)), done
    assert {target for do, target in done if do == "drain_host"} <= {name(Kind.HOST, story.card.host)}
    blamed = {one.component for _, one in story.watch.of(Incident) if one.action in DRAINS}
    assert blamed <= {story.component, name(Kind.HOST, story.card.host)}, blamed
    assert not story.watch.strange, story.watch.strange
    assert int(story.place.slurm.job(story.job)["Restarts"]) <= 1
    others = [node for node in story.place.slurm.nodes if node != story.card.host]
    assert not [node for node in others if "+DRAIN" in story.place.node(node)]
    assert not story.place.ended_badly()


DRAINS = frozenset({"drain_host", "reboot_host", "replace_part", "reset_device"})


def whole(place: Place) -> Story:
    """The story without a twist."""
    story = ready(place)
    onset(story)
    judged(story)
    held(story)
    if place.alertmanager:
        alerted(story)
    requeued(story)
    released(story)
    if place.alertmanager:
        resolved(story)
    nothing_else(story)
    return story


def now_ms() -> int:
    """Wall time."""
    return time.time_ns() // 1_000_000


def ms_of(stamp: object) -> int:
    """An RFC 3339 stamp of Alertmanager as UTC milliseconds."""
    from datetime import datetime

    return round(datetime.fromisoformat(str(stamp).replace("Z", "+00:00")).timestamp() * 1000)
