"""What neighbours say about an event: each rule on its own time line, and the laws that all of them keep."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.codes import in_context, nvidia
from collectors.codes.context import PEER_CODES, VICTIM_S, victims
from sickbay.messages import Action, Blame, Event, Severity

CARD_A, CARD_B = "accelerator:h1/0000:3b:00", "accelerator:h1/0000:5d:00"


def xid(code: int, at_s: float | None, component: str = CARD_A, **fields: Any) -> Event:
    """The event of an Xid as the table has it."""
    row = nvidia.xid(code)
    plain: dict[str, Any] = {
        "component": component, "kind": row.kind, "code": f"Xid {code}", "severity": row.severity, "blame": row.blame,
        "scope": row.scope, "advice": row.advice, "path": "dmesg",
        "at_ms": None if at_s is None else round(at_s * 1000),
    }  # fmt: skip
    return Event(**(plain | fields))


def recovery(at_s: float | None, asks: str, advice: Action, component: str = CARD_A) -> Event:
    """The driver's recovery action."""
    return xid(154, at_s, component, advice=advice, severity=Severity.ERROR, attributes={"asks": asks})


def marked(events: Sequence[Event], attribute: str) -> list[str]:
    """The attribute of each event, "" where it has none."""
    return [event.attributes.get(attribute, "") for event in in_context(events)]


# --- teardown storms ---


def test_a_storm_of_teardowns_is_one_event() -> None:
    #  0 .. 50 s: 200 channels of one process      70 s: the next storm
    storm = [xid(45, second / 4, process="python3[7]") for second in range(200)] + [xid(45, 70, process="python3[7]")]
    folded = in_context(storm)
    assert [event.count for event in folded] == [200, 1]
    assert folded[0].until_ms == 49_750


def test_teardowns_of_two_processes_or_cards_stay_apart() -> None:
    events = [xid(45, 0, process="a[1]"), xid(45, 1, process="b[2]"), xid(45, 2, CARD_B, process="a[1]")]
    assert len(in_context(events)) == 3


# --- consequences ---


def test_a_program_error_right_after_a_hardware_fault_is_its_consequence() -> None:
    #  0: memory error   2: page fault   3: channel closed   40: a page fault of its own
    events = [xid(95, 0), xid(31, 2), xid(43, 3), xid(31, 40)]
    assert marked(events, "caused_by") == ["", "Xid 95", "Xid 95", ""]


def test_a_program_error_on_another_card_or_before_is_no_consequence() -> None:
    assert marked([xid(31, 0), xid(95, 1), xid(31, 2, CARD_B)], "caused_by") == ["", "", ""]


def test_undated_lines_tell_no_order() -> None:
    assert marked([xid(95, None), xid(31, None)], "caused_by") == ["", ""]


def test_what_the_driver_names_as_cause_stays() -> None:
    told = in_context([xid(95, 0), xid(45, 1, attributes={"caused_by": "Xid 94"})])
    assert told[1].attributes["caused_by"] == "Xid 94"


# --- context timeout ---


def test_a_timeout_after_the_programs_own_error_asks_for_the_job() -> None:
    timeout = in_context([xid(13, 0), xid(13, 0.1), xid(109, 5)])[2]
    assert (timeout.advice, timeout.attributes["follows"]) == (Action.RESTART_JOB, "Xid 13")


@pytest.mark.parametrize(
    "before", [[], [xid(13, -300)], [xid(13, 4, CARD_B)]], ids=["alone", "long before", "another card"]
)
def test_a_timeout_by_itself_keeps_the_tables_advice(before: list[Event]) -> None:
    timeout = in_context([*before, xid(109, 5)])[-1]
    assert timeout.advice is Action.RESET_DEVICE


def test_the_drivers_word_outranks_the_order_of_events() -> None:
    events = [xid(13, 0), xid(109, 5), recovery(5.2, "reset", Action.RESET_DEVICE)]
    assert in_context(events)[1].advice is Action.RESET_DEVICE


# --- the driver's verdict ---


@pytest.mark.parametrize(("asks", "advice"), [("reboot", Action.REBOOT_HOST), ("drain_and_reset", Action.RESET_DEVICE)])
def test_the_recovery_action_outranks_the_table(asks: str, advice: Action) -> None:
    fault = in_context([xid(48, 0), recovery(1, asks, advice)])[0]
    assert (fault.advice, fault.attributes["verdict"]) == (advice, asks)


def test_the_recovery_action_leaves_programs_other_cards_and_old_faults_alone() -> None:
    events = [xid(95, -60), xid(13, 0), xid(95, 0.5, CARD_B), recovery(1, "reboot", Action.REBOOT_HOST)]
    assert [event.advice for event in in_context(events)][:3] == [
        Action.RESET_DEVICE, Action.RESTART_JOB, Action.RESET_DEVICE,
    ]  # fmt: skip


def test_what_is_off_the_bus_cannot_be_reset_whatever_the_text_says() -> None:
    assert in_context([xid(79, 0), recovery(1, "reset", Action.RESET_DEVICE)])[0].advice is Action.REBOOT_HOST


def test_back_to_none_closes_what_was_asked_before() -> None:
    events = [
        xid(119, 0),
        recovery(1, "reset", Action.RESET_DEVICE),
        recovery(600, "none", Action.IGNORE),
        xid(119, 700),
    ]
    told = in_context(events)
    assert [event.attributes.get("cleared_by_recovery", "") for event in told] == ["Xid 154", "Xid 154", "", ""]
    assert told[1].advice is None


# --- victims ---


def test_peers_of_a_dead_card_are_victims() -> None:
    #  0: card A off the bus   0.1: B's link, channels, the switch   30: B's own link error
    switch = Event(
        component="fabric:h1/0000:87:00", kind="fabric.switch_fatal", code="SXid 20034", scope="domain", at_ms=300
    )
    events = [xid(79, 0), xid(74, 0.1, CARD_B), xid(45, 0.2, CARD_B), switch, xid(74, 30, CARD_B)]
    assert marked(events, "victim_of") == ["", CARD_A, CARD_A, CARD_A, ""]


def test_the_victims_may_speak_first() -> None:
    assert marked([xid(74, 0, CARD_B), xid(79, 8)], "victim_of") == [CARD_A, ""]


def test_the_dead_card_itself_and_other_hosts_are_no_victims() -> None:
    elsewhere = "accelerator:h2/0000:5d:00"
    assert marked([xid(79, 0), xid(74, 1), xid(74, 1, elsewhere)], "victim_of") == ["", "", ""]
    both_dead = [xid(79, 0), xid(79, 1, CARD_B), xid(74, 2), xid(74, 2, CARD_B)]
    assert marked(both_dead, "victim_of") == ["", "", "", ""]


def test_other_faults_near_a_dead_card_stay_their_own() -> None:
    assert marked([xid(79, 0), xid(95, 1, CARD_B), xid(13, 1, CARD_B)], "victim_of") == ["", "", ""]


def test_peers_of_a_fatal_link_and_of_a_dead_switch_are_victims() -> None:
    peer = xid(145, 0.2, CARD_B, kind="accelerator.link_peer_error", severity=Severity.INFO, advice=None)
    assert marked([xid(149, 0), peer], "victim_of") == ["", CARD_A]
    switch = Event(
        component="fabric:h1/0000:87:00", kind="fabric.switch_fatal", code="SXid 12020", scope="fabric", at_ms=0
    )
    assert marked([switch, xid(74, 1, CARD_B)], "victim_of") == ["", "fabric:h1/0000:87:00"]


def test_a_fatal_port_of_the_switch_is_the_dead_cards() -> None:
    port = Event(
        component="fabric:h1/0000:87:00", kind="fabric.switch_fatal", code="SXid 11012", scope="domain", at_ms=900
    )
    assert marked([xid(79, 0), port], "victim_of") == ["", CARD_A]
    assert marked([xid(119, 0), port], "victim_of") == ["", ""]


def test_own_link_errors_are_not_excused() -> None:
    own = xid(145, 0.2, CARD_B, attributes={"containment": "XC0"})
    assert marked([xid(79, 0), own], "victim_of") == ["", ""]


def test_different_clocks_are_not_compared() -> None:
    assert marked([xid(79, 0), xid(74, None, CARD_B, at_boot_s=0.1)], "victim_of") == ["", ""]


# --- boots ---


def boot(at_s: float | None, line: int = 0, component: str = "host:h1", path: str = "dmesg") -> Event:
    """The host has started."""
    return Event(
        component=component, kind="host.boot", at_ms=None if at_s is None else round(at_s * 1000), line=line, path=path
    )


def test_a_boot_ends_a_pending_repair_and_a_hang_but_heals_no_card() -> None:
    events = [xid(63, 0), xid(119, 1), xid(79, 2), xid(64, 3), boot(60), xid(63, 90)]
    assert marked(events, "cleared_by_boot") == ["yes", "yes", "", "", "", ""]


def test_a_boot_of_another_host_clears_nothing() -> None:
    assert marked([xid(63, 0), boot(60, component="host:h2")], "cleared_by_boot") == ["", ""]


def test_undated_events_go_by_the_order_of_their_input() -> None:
    events = [xid(63, None, line=10), boot(None, line=20), xid(63, None, line=30), boot(None, line=40, path="other")]
    assert marked(events, "cleared_by_boot") == ["yes", "", "", ""]


def test_a_new_boot_id_is_a_boot() -> None:
    events = [xid(63, 0, boot_id="aa"), xid(13, 60, boot_id="bb"), xid(63, 90, boot_id="bb")]
    assert marked(events, "cleared_by_boot") == ["yes", "", ""]


# --- repeats ---


def fault(at_s: float, who: str, low20: str, component: str = CARD_A, code: int = 31, **fields: Any) -> Event:
    """A page fault of a program (`name[pid]`) or of a job."""
    owner = {"job": who} if who.startswith("job-") else {"process": who}
    return xid(code, at_s, component, attributes={"address_low20": low20}, **owner, **fields)


def test_one_card_that_fails_different_jobs_is_marked() -> None:
    events = [fault(0, "job-1", "0x1000"), fault(4000, "job-2", "0x2000"), fault(9000, "job-3", "0x3000")]
    assert marked(events, "repeats_across_jobs") == ["3", "3", "3"]


def test_runs_of_one_failing_program_are_the_program() -> None:
    runs = [fault(100 * n, f"test1[{n}]", "0x4f000") for n in range(1, 6)]
    nameless = [fault(100 * n, f"[{n}]", f"{n:#x}000") for n in range(1, 6)]
    requeued = [fault(100 * n, f"job-{n}", "0x4f000") for n in range(1, 6)]
    for events in (runs, nameless, requeued):
        assert marked(events, "repeats_across_jobs") == [""] * 5


def test_names_of_programs_are_weaker_than_jobs() -> None:
    programs = [fault(100 * n, f"{name}[{n}]", f"{n:#x}000") for n, name in enumerate(("vasp", "python3", "namd"), 1)]
    assert marked(programs[:2], "repeats_across_jobs") == ["", ""]
    assert marked(programs, "repeats_across_jobs") == ["3", "3", "3"]


def test_a_burst_counts_once() -> None:
    burst = [fault(n / 10, "job-1", f"{n:#x}000") for n in range(1, 9)]
    assert marked(burst, "repeats_across_jobs") == [""] * 8


def test_a_job_that_fails_on_several_cards_carries_its_error_along() -> None:
    events = [fault(0, "job-1", "0x1000"), fault(1, "job-1", "0x1000", CARD_B), fault(9000, "job-2", "0x2000")]
    assert marked(events, "repeats_across_jobs") == ["", "", ""]


def test_more_than_a_day_apart_is_no_repetition() -> None:
    assert marked([fault(0, "job-1", "0x1000"), fault(90_000, "job-2", "0x2000")], "repeats_across_jobs") == ["", ""]


def test_engine_exceptions_must_come_from_the_same_place() -> None:
    def exception(at_s: float, job: str, tpc: str) -> Event:
        return xid(13, at_s, job=job, attributes={"gpc": "3", "tpc": tpc, "sm": "0"})

    same = [exception(0, "job-1", "2"), exception(5000, "job-2", "2")]
    spread = [exception(0, "job-1", "2"), exception(5000, "job-2", "4")]
    assert marked(same, "repeats_across_jobs") == ["2", "2"]
    assert marked(spread, "repeats_across_jobs") == ["", ""]
    assert marked([xid(13, 0, job="job-1"), xid(13, 5000, job="job-2")], "repeats_across_jobs") == ["", ""]


def test_programs_that_the_driver_ended_are_no_sign_of_the_card_however_many() -> None:
    ended = [xid(43, at * 3600, process=f"{name}[{at}]") for at, name in enumerate(("train", "infer", "bench", "eval"))]
    assert marked(ended, "repeats_across_jobs") == [""] * 4


def test_a_card_that_is_not_known_repeats_nothing() -> None:
    unknown = "accelerator:h1/?"
    assert marked([fault(0, "job-1", "0x1", unknown), fault(9, "job-2", "0x2", unknown)], "repeats_across_jobs") == [
        "",
        "",
    ]


# --- laws ---

CODES = (13, 31, 43, 45, 48, 63, 74, 79, 94, 95, 109, 119, 145, 149, 154)
EVENTS = st.lists(
    st.builds(
        lambda code, at, card, job, boot_id: xid(
            code, at, f"accelerator:h{card % 2}/0000:{card:02x}:00", job=job, boot_id=boot_id,
            attributes={"asks": "reset"} if code == 154 else {"address_low20": f"{code:#x}"},
        ),
        st.sampled_from(CODES), st.none() | st.integers(0, 200), st.integers(0, 5),
        st.sampled_from(["", "job-1", "job-2"]),
        st.sampled_from(["", "aa", "bb"]),
    )
    | st.builds(lambda at, line: boot(at, line, "host:h1"), st.none() | st.integers(0, 200), st.integers(0, 50)),
    max_size=40,
)  # fmt: skip


@given(EVENTS)
def test_rules_keep_order_identity_and_the_input(events: list[Event]) -> None:
    before = list(events)
    told = in_context(events)
    assert events == before
    assert sum(event.count for event in told) == len(events)
    key = [(event.component, event.code, event.at_ms) for event in events]
    places = iter(key)
    assert all((event.component, event.code, event.at_ms) in places for event in told), "a subsequence, in order"
    assert in_context(told) == told, "a second time changes nothing"


@given(EVENTS)
def test_rules_never_raise_severity_kind_or_blame(events: list[Event]) -> None:
    told = {id(event): event for event in in_context(events)}
    severities = sorted((event.code, event.kind, event.severity, event.blame) for event in told.values())
    assert set(severities) <= {(event.code, event.kind, event.severity, event.blame) for event in events}


@given(EVENTS)
def test_renaming_hosts_changes_only_names(events: list[Event]) -> None:
    def renamed(event: Event) -> Event:
        fields = {field: getattr(event, field) for field in event.__struct_fields__}
        victim = {key: value.replace(":h", ":node-") for key, value in event.attributes.items()}
        return Event(**(fields | {"component": event.component.replace(":h", ":node-"), "attributes": victim}))

    assert [renamed(event) for event in in_context(events)] == in_context([renamed(event) for event in events])


@given(EVENTS)
def test_victims_agree_with_the_plain_way(drawn: list[Event]) -> None:
    events = [event for event in drawn if event.at_ms is not None and event.kind != "host.boot"]

    def plain(event: Event) -> bool:
        if event.code not in PEER_CODES or event.code == "Xid 145" or event.at_ms is None:
            return False
        near = {
            root.component
            for root in events
            if root.at_ms is not None and abs(root.at_ms - event.at_ms) <= VICTIM_S * 1000
            if root.component.split("/")[0] == event.component.split("/")[0]
            if root.code == "Xid 79" or (root.code == "Xid 149" and event.code == "Xid 74")
        }
        return bool(near) and event.component not in near

    assert ["victim_of" in event.attributes for event in victims(list(events))] == [plain(event) for event in events]


def test_hardware_that_is_blamed_is_never_eased_by_a_program() -> None:
    told = in_context([xid(13, 0), xid(95, 1)])
    assert (told[1].advice, told[1].blame) == (Action.RESET_DEVICE, Blame.HARDWARE)
