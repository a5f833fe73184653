"""The time line of an incident: messages in, rows in the order of time out; and what the incident took."""

import random

from hypothesis import given
from hypothesis import strategies as st

from dashboards.timeline import MAX_EACH, Cost, Row, cost, timeline
from sickbay.actions import Action, ActionState, Outcome
from sickbay.log.reading import Logged
from sickbay.messages import Affected, Event, Incident, Placement, replace
from tests.dashboards.story_kit import CARD, HOSTS, T0, action, event, evidence, incident, night, placement


def of(kind: type, told: list[tuple[int, object]]) -> list[Logged]:  # type: ignore[type-arg]
    return [Logged(at_ms, one) for at_ms, one in told if isinstance(one, kind)]


def whole() -> list[Row]:
    told = night().told
    mine = [one for one in of(Incident, told) if one.message.id == incident().id]
    return timeline(
        mine, of(Action, told), of(Outcome, told),
        events=[one for one in of(Event, told) if one.message.component == CARD][1:],
        evidence={evidence().id: T0 + 1200}, placements=of(Placement, told),
    )  # fmt: skip


def test_the_story_is_told_in_order() -> None:
    rows = whole()
    # 0 onset, 0.3 event taken, 1.2 claim, 1.5 incident, 2 hold, 3 requeue, 9 ends, 130 runs, 299 test, 302 closed
    assert [row.what for row in rows] == [
        "onset", "event", "evidence", "event_appended", "evidence", "incident", "judged_again", "drain_host",
        "drain_host", "requeue", "job_ends", "job_runs", "run_test", "outcome", "release", "closed",
    ]  # fmt: skip
    seconds = {row.what: (row.at_ms - T0) / 1000 for row in rows}
    assert seconds["event_appended"] == 0.3
    assert seconds["incident"] == 1.5
    assert seconds["drain_host"] == 2.29
    assert seconds["job_runs"] == 130
    assert seconds["closed"] == 302


def test_rows_say_who_what_and_why() -> None:
    text = {(row.what, row.detail) for row in whole()}
    assert ("event", f"{CARD} Code 79: the device has fallen off the bus") in text
    assert ("drain_host", "host:n2 intended: why drain_host") in text
    assert ("drain_host", "host:n2 verified: n2 DRAIN") in text
    assert ("outcome", "host:n2 refuted bus_test (sensitivity 0.95)") in text
    assert ("job_ends", "job:41 attempt 0: requeued") in text
    assert ("job_runs", "job:41 attempt 1 on n1, n3, n4, n5") in text
    assert any(what == "release" and "by anna" in detail for what, detail in text)
    assert ("judged_again", f"component accelerator_off_bus {CARD}, drain_host (P 0.97)") in text


def test_a_state_that_is_only_repeated_is_told_once_and_one_that_comes_back_again() -> None:
    states = [ActionState.WAITING, ActionState.WAITING, ActionState.INTENDED, ActionState.WAITING]
    told = [Logged(T0 + n, action("drain_host", state, T0 + n)) for n, state in enumerate(states)]
    rows = timeline([Logged(T0, incident())], told)
    assert [row.detail.split()[1] for row in rows if row.what == "drain_host"] == ["waiting:", "intended:", "waiting:"]


def test_no_record_is_no_story_and_little_is_little() -> None:
    assert timeline([]) == []
    bare = incident(onset_ms=None, evidence=(), against=())
    assert [row.what for row in timeline([Logged(T0, bare)])] == ["incident"]
    undated = replace(action("release", ActionState.SHOWN, T0), at_ms=None)
    assert timeline([Logged(T0, bare)], [Logged(T0 + 5, undated)])[-1].at_ms == T0 + 5


def test_merged_and_reopened_are_told() -> None:
    states = [incident(), incident(state="closed"), incident(), incident(state="merged", merged_into="other")]
    rows = timeline([Logged(T0 + 100 * n, one) for n, one in enumerate(states)])
    assert [row.what for row in rows][-3:] == ["closed", "reopened", "merged"]
    assert rows[-1].detail == "into other"


def test_a_storm_stays_readable() -> None:
    claims = tuple(evidence(id=f"e{n}") for n in range(500))
    rows = timeline([Logged(T0, incident(evidence=claims))], events=[Logged(T0 + n, event()) for n in range(5000)])
    assert len(rows) <= 4 * MAX_EACH


@given(seed=st.integers(0, 1000))
def test_the_story_does_not_depend_on_how_topics_interleave(seed: int) -> None:
    """Each kind keeps its own order; how kinds are mixed is nobody's promise."""
    told = night().told
    kinds = (Action, Outcome, Event, Placement)
    turn = random.Random(seed)
    order = sorted(kinds, key=lambda _: turn.random())
    mixed = [one for kind in order for one in told if isinstance(one[1], kind)]
    mine = [one for one in of(Incident, told) if one.message.id == incident().id]

    def rows(of_them: list[tuple[int, object]]) -> list[Row]:
        return timeline(
            mine,
            of(Action, of_them),
            of(Outcome, of_them),
            events=of(Event, of_them),
            placements=of(Placement, of_them),
        )

    found = rows(mixed)
    assert found == rows(told)
    assert [row.at_ms for row in found] == sorted(row.at_ms for row in found)


# ---- what it took ---------------------------------------------------------------------------------------------------


def test_four_cards_stood_from_the_onset_to_the_next_attempt() -> None:
    took = cost(incident(), of(Placement, night().told))
    assert took == Cost(("41",), 4, 4, 4 * 130.0, (), 4, 4 * 130.0)


def test_a_job_that_does_not_run_again_has_no_bill_yet() -> None:
    took = cost(incident(), [Logged(T0, placement(0, T0 - 1000, None, "running", HOSTS))])
    assert took.card_seconds is None
    assert took.open_jobs == ("41",)
    assert took.cards == 4


def test_what_no_placement_tells_is_not_made_up() -> None:
    assert cost(incident()) == Cost(("41",), 4, 0, None, ())
    assert cost(incident(affected=Affected())) == Cost()
    assert cost(incident(onset_ms=None), of(Placement, night().told)).card_seconds is None
    later = [Logged(T0, placement(0, T0 + 5000, None, "running", HOSTS))]  # began after the onset: not hit by it
    assert cost(incident(), later).card_seconds is None
    hosts_only = Placement(job="41", hosts=HOSTS, from_ms=T0 - 1, state="running")
    again = Placement(job="41", attempt=1, hosts=HOSTS, from_ms=T0 + 9000, state="running")
    took = cost(incident(), [Logged(0, hosts_only), Logged(0, again)])
    assert (took.card_seconds, took.hosts, took.host_seconds) == (None, 4, 36.0)


def test_one_job_of_two_that_nobody_placed_leaves_the_bill_open() -> None:
    two = incident(affected=Affected(jobs=("41", "42")))
    assert cost(two, of(Placement, night().told)).card_seconds is None
