"""Laws of remediation, whatever happens in whatever order: crashes, people, silence, an absent scheduler."""

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from remediation.ledger import DRAIN, Ledger, action_id, is_ours, reason
from remediation.schedulers import NodeState, Unreachable
from remediation.schedulers.reasons import ours
from sickbay.actions import Action, ActionState
from sickbay.app.remediating.errands import passes_wanted
from sickbay.messages import Affected
from sickbay.settings import Remediation
from tests.remediation.kit import JOB, Cluster, Crash, writes

EXAMPLES = 25 * int(os.environ.get("FUZZ_FACTOR", "1"))
MOMENTS = (
    "commit:before", "commit:after", "nodes:before", "nodes:after", "jobs:before", "jobs:after", "drain:before",
    "drain:after", "requeue:before", "requeue:after",
)  # fmt: skip
TROUBLES = st.lists(
    st.tuples(st.sampled_from(MOMENTS), st.integers(1, 12), st.sampled_from(["crash", "sleep", "away"])), max_size=4
)
PEOPLE = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.sampled_from(["hold", "free", "requeue", "close", "repeat", "silent", "judge", "other"]),
        st.sampled_from(["n1", "n2", "n3"]),
    ),
    max_size=6,
)


class Watched:
    """A cluster in trouble that checks at every write what must never be."""

    def __init__(self, troubles: list[tuple[str, int, str]], mode: str, seed: int) -> None:
        self.limits = Remediation(mode=mode, scheduler="simulated", holds_per_hour=2, held_at_once=2)  # type: ignore[arg-type]
        self.one = Cluster(self.limits, seed=seed, job_size=2)
        self.left = list(troubles)
        self.counts: dict[str, int] = {}
        self.attempts: list[int] = []
        self.held: list[str] = []  # ids of the actions that drained
        self.one.scheduler.trouble = self.one.log.hook = self.trouble

    def trouble(self, moment: str) -> None:
        self.counts[moment] = self.counts.get(moment, 0) + 1
        if moment == "drain:before":
            self.check_fresh()
        if moment == "requeue:before":
            self.check_fresh()
            self.attempts.append(self.one.scheduler._jobs[JOB].attempt)
        if moment == "drain:after":
            node = self.one.scheduler.writes[-1][1]
            self.held.append(str(ours(self.one.scheduler._nodes[node].reason)))
        for what in [one for one in self.left if (one[0], one[1]) == (moment, self.counts[moment])]:
            self.left.remove(what)
            if what[2] == "crash":
                raise Crash
            if what[2] == "sleep":
                self.one.clock.sleep(40_000)
            elif not moment.startswith("commit"):
                raise Unreachable("no answer")

    def check_fresh(self) -> None:
        """The law itself: at every write, what diagnosis knew is at most so old (and the five seconds of the write)."""
        judged = self.one.remediator.inputs.judged
        assert judged is not None
        assert self.one.clock.now_ms - judged.as_of_ms <= self.limits.fresh_s * 1000 + 5_000

    def go(self, seconds: int) -> None:
        for _ in range(seconds):
            try:
                self.one.run(1)
            except Crash:
                self.one.restart()

    def person(self, what: str, node: str) -> None:
        scheduler = self.one.scheduler
        if what == "hold":
            scheduler.hold(node, f"{node} is loud", "alice")
        elif what == "free":
            scheduler.release(node)
        elif what == "requeue" and scheduler._jobs[JOB].state == "running":
            scheduler._requeue(JOB)
        elif what == "close":
            self.one.close("i1")
        elif what == "repeat":
            self.one.tell(self.one.incidents["i1"])
        elif what in ("silent", "judge"):
            self.one.judging = what == "judge"
        elif what == "other":
            self.one.incident(f"x{node}", component=f"accelerator:{node}/0000:0a:00", affected=Affected())


def told(watched: Watched, people: list[tuple[int, str, str]]) -> None:
    watched.one.incident()
    for second in range(21):
        for _, what, node in [one for one in people if one[0] == second]:
            watched.person(what, node)
        watched.go(1)
    watched.left.clear()
    watched.go(10)


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(TROUBLES, PEOPLE, st.integers(0, 999))
def test_law_one_hold_per_incident_and_one_requeue_per_attempt(
    troubles: list[tuple[str, int, str]], people: list[tuple[int, str, str]], seed: int
) -> None:
    watched = Watched(troubles, "act", seed)
    told(watched, people)
    one = watched.one
    assert len(watched.held) == len(set(watched.held))
    assert set(watched.attempts) <= {0}  # the placement tells of no later one
    assert len(writes(one, "requeue")) <= 1
    assert len(one.remediator.inputs.ledger.holds) <= 2


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(TROUBLES, PEOPLE, st.integers(0, 999))
def test_law_observe_never_calls_a_write(
    troubles: list[tuple[str, int, str]], people: list[tuple[int, str, str]], seed: int
) -> None:
    watched = Watched(troubles, "observe", seed)
    told(watched, people)
    assert watched.one.scheduler.writes == []


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(TROUBLES, st.integers(0, 999))
def test_law_a_node_of_somebody_else_is_never_written(troubles: list[tuple[str, int, str]], seed: int) -> None:
    watched = Watched(troubles, "act", seed)
    watched.one.scheduler.hold("n1", "PSU swap", "alice")
    told(watched, [])
    assert "n1" not in writes(watched.one, "drain") + writes(watched.one, "resume")
    assert watched.one.scheduler.nodes(["n1"])["n1"].reason == "PSU swap"


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(TROUBLES, st.integers(0, 999), st.lists(st.sampled_from(["n1", "n2", "n3", "n4"]), unique=True))
def test_law_the_budget_is_never_exceeded(troubles: list[tuple[str, int, str]], seed: int, nodes: list[str]) -> None:
    watched = Watched(troubles, "act", seed)
    for node in nodes:
        watched.one.incident(f"x{node}", component=f"accelerator:{node}/0000:0a:00", affected=Affected())
    told(watched, [])
    assert len(writes(watched.one, "drain")) <= 2


# --- the fold ---------------------------------------------------------------------------------------------------------
ACTIONS = st.builds(
    Action,
    id=st.sampled_from(["a", "b", "c", "d"]),
    incident=st.sampled_from(["i1", "i2"]),
    do=st.sampled_from([DRAIN, "requeue", "release"]),
    target=st.sampled_from(["host:n1", "host:n2"]),
    state=st.sampled_from(list(ActionState)),
    generation=st.integers(0, 3),
    attempt=st.sampled_from(["1/0", "1/1"]),
    intended_ms=st.none() | st.integers(0, 100),
    co_hold=st.booleans(),
)


def facts(ledger: Ledger) -> tuple[Any, ...]:
    targets = ("host:n1", "host:n2")
    return (
        dict(ledger.lines), ledger.holds, ledger.co_holds, [ledger.generation(one) for one in targets],
        ledger.holds_begun(50), [ledger.requeued(one, "1/0") for one in targets],
    )  # fmt: skip


@pytest.mark.slow
@given(st.lists(ACTIONS, max_size=12), st.integers(0, 12))
def test_law_the_ledger_is_a_fold_that_pieces_and_repeats_do_not_change(lines: list[Action], cut: int) -> None:
    whole = Ledger().told(lines)
    assert facts(Ledger().told(lines[:cut]).told(lines[cut:])) == facts(whole)
    assert facts(whole.told(lines[-1:])) == facts(whole)


@given(st.lists(ACTIONS, max_size=12))
def test_law_compaction_does_not_change_what_is_held(lines: list[Action]) -> None:
    newest = list({line.id: line for line in lines}.values())
    assert facts(Ledger().told(newest)) == facts(Ledger().told(lines))


@given(st.text(max_size=300), st.text(max_size=80), st.integers(0, 99))
def test_law_our_reason_is_known_again_and_is_plain(about: str, incident: str, generation: int) -> None:
    action = Action(id=action_id(incident, DRAIN, "host:n1", generation), incident=incident, do=DRAIN, target="host:n1",
                    state=ActionState.INTENDED, generation=generation)  # fmt: skip
    text = reason(action, about)
    assert ours(text) == action.id
    assert text.isascii()
    node = NodeState(name="n1", flags=frozenset({"drain"}), reason=text, reason_by="sickbay", read_ms=0)
    assert is_ours(node, action)
    assert is_ours(node, replace(action, reason_by="sickbay"))
    assert not is_ours(node, replace(action, reason_by="bob"))
    assert not is_ours(node, replace(action, id="0" * 16))


@given(st.floats(0.9, 1.0), st.integers(1, 200))
def test_law_all_tests_together_let_a_bad_part_through_at_most_one_time_in_ten(sensitivity: float, tests: int) -> None:
    assert tests * (1 - sensitivity) ** passes_wanted(sensitivity, tests) <= 0.1 + 1e-6
