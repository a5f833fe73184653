"""The management controller's own log: what an entry means, what is over, what dates nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats import management_log
from collectors.formats.reading import Reading, Tally
from collectors.inputs.sniff import sniff
from sickbay.clock import Clock
from sickbay.messages import Action, Event, Severity

AC_LOST = "  18 | 05/04/2026 | 03:01:58 | Power Supply PSU2 | Power Supply AC lost | {}"


def read(text: str) -> list[Reading]:
    tally = Tally()
    found = list(management_log.read([text.encode()], tally))
    assert tally.unparsed == 0
    return found


def events(text: str) -> list[Event]:
    return [one.record for one in read(text) if isinstance(one.record, Event)]


@pytest.mark.parametrize(
    ("row", "kind", "component"),
    [
        (AC_LOST.format("Asserted"), "host.power_event", "host:?"),
        ("19 | 05/04/2026 | 03:02:00 | Temperature Inlet | Upper Critical going high | Asserted | Reading 46 > "
         "Threshold 45 degrees C", "host.environment", "host:?"),
        ("1a | Pre-Init  |0000000021| Critical Interrupt #0x9 | PCI SERR | Asserted", "pcie.uncorrected", "pcie:?/?"),
        ("1b | 05/04/2026 | 03:02:11 | Memory A1 | Uncorrectable ECC | Asserted", "dimm.uncorrected", "dimm:?/A1"),
        ("1c | 05/04/26 | 03:02:11 UTC | Memory A1 | Correctable ECC | Asserted", "dimm.corrected", "dimm:?/A1"),
        ("1d | 05/04/2026 | 03:06:11 | Event Logging Disabled SEL | Log full | Asserted", "monitor.notice",
         "monitor:?/management_log"),
        ("1e | 05/04/2026 | 03:06:11 | Cooling Device tray7 | Coolant leak | Asserted", "host.environment", "host:?"),
    ],
)  # fmt: skip
def test_what_an_entry_means(row: str, kind: str, component: str) -> None:
    assert sniff(row.encode(), "x").kind == "management_log"
    (event,) = events(row)
    assert (event.kind, event.component, event.advice) == (kind, component, Action.WATCH)
    assert event.severity in (Severity.INFO, Severity.WARNING)  # the log reaches back years


def test_times_are_the_controllers_and_none_before_its_clock_was_set() -> None:
    (one,) = read(AC_LOST.format("Asserted"))
    assert one.stamp.clock is Clock.NO_ZONE
    (one,) = read("1a | Pre-Init  |0000000021| Power Unit | Power off/down | Asserted")
    assert one.stamp.clock is Clock.NONE


def test_what_is_over_is_told_where_its_beginning_was() -> None:
    assert [event.code for event in events(AC_LOST.format("Deasserted"))] == []
    both = AC_LOST.format("Asserted") + "\n" + AC_LOST.format("Deasserted")
    assert [(event.code, event.severity) for event in events(both)] == [
        ("Power Supply AC lost", Severity.WARNING), ("well again", Severity.INFO),
    ]  # fmt: skip


def test_presence_and_clock_entries_say_nothing() -> None:
    assert not events("1 | 05/04/2026 | 03:01:58 | Power Supply PSU2 | Presence detected | Asserted")
    assert not events("1 | 05/04/2026 | 03:01:58 | System Event | Timestamp Clock Sync | Asserted")


@given(st.text(alphabet="0123456789ab|/: PreInitAsserted\n\x1b", max_size=300))
def test_any_text_is_read_or_counted(text: str) -> None:
    list(management_log.read([text.encode()], Tally()))
