"""Dating: years from neighbours, boot clocks from shared lines, null where nothing tells."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from collectors.formats.reading import Reading
from collectors.inputs.dating import daters
from collectors.inputs.gather import Gathered
from sickbay.clock import Clock, Stamp
from sickbay.messages import Event


def ms(year: int, month: int, day: int, hour: int = 0) -> int:
    return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp() * 1000)


def yearless(month: int, day: int, hour: int = 0) -> Stamp:
    return Stamp(Clock.NO_YEAR, ms(2000, month, day, hour) - ms(2000, 1, 1))


def event(what: str = "x", message: str = "") -> Event:
    return Event(component=f"accelerator:?/{what}", kind="accelerator.off_bus", message=message)


def gathered(*stamps: Stamp, boots: tuple[float | None, ...] = (), message: str = "") -> Gathered:
    boots = boots or (None,) * len(stamps)
    readings = [
        Reading(event(message=message), stamp=stamp, boot_s=boot) for stamp, boot in zip(stamps, boots, strict=True)
    ]
    return Gathered("p", "log", readings)


def test_a_yearless_stamp_takes_the_year_of_the_same_input() -> None:
    (dater,) = daters([gathered(yearless(3, 11), Stamp(Clock.ABSOLUTE, ms(2024, 3, 12)))], ["h"])
    assert dater.at_ms(yearless(3, 11)) == ms(2024, 3, 11)


def test_else_of_the_latest_stamp_of_all_inputs() -> None:
    inputs = [gathered(yearless(3, 11)), gathered(Stamp(Clock.ABSOLUTE, ms(2025, 5, 1)))]
    assert daters(inputs, ["a", "b"])[0].at_ms(yearless(3, 11)) == ms(2025, 3, 11)


def test_december_beside_a_january_is_of_the_year_before() -> None:
    inputs = [gathered(yearless(12, 31, 23)), gathered(Stamp(Clock.ABSOLUTE, ms(2025, 1, 1, 2)))]
    assert daters(inputs, ["a", "b"])[0].at_ms(yearless(12, 31, 23)) == ms(2024, 12, 31, 23)


def test_without_any_year_it_stays_null() -> None:
    (dater,) = daters([gathered(yearless(3, 11))], ["h"])
    assert dater.at_ms(yearless(3, 11)) is None


def test_a_29th_of_february_in_a_common_year_stays_null() -> None:
    (dater,) = daters([gathered(yearless(2, 29), Stamp(Clock.ABSOLUTE, ms(2025, 3, 1)))], ["h"])
    assert dater.at_ms(yearless(2, 29)) is None


def test_zoneless_stamps_are_read_in_the_given_zone() -> None:
    stamp = Stamp(Clock.NO_ZONE, ms(2025, 1, 1, 8))
    (dater,) = daters([gathered(stamp)], ["h"], ZoneInfo("Asia/Shanghai"))
    assert dater.at_ms(stamp) == ms(2025, 1, 1, 0)


def test_lines_that_carry_both_clocks_date_the_boot_clock_of_their_input() -> None:
    both = Stamp(Clock.ABSOLUTE, ms(2025, 1, 1, 1))
    (dater,) = daters([gathered(both, boots=(3600.0,))], ["h"])
    assert dater.at_ms(Stamp(Clock.SINCE_BOOT, 60_000), 60.0) == ms(2025, 1, 1, 0) + 60_000


def test_clocks_of_two_inputs_are_joined_by_the_event_they_share() -> None:
    journal = gathered(Stamp(Clock.ABSOLUTE, ms(2025, 1, 1, 1)), message="fell off")
    dmesg = gathered(Stamp(Clock.SINCE_BOOT, 3_600_000), boots=(3600.0,), message="fell off")
    dater = daters([journal, dmesg], ["h", "h"])[1]
    assert dater.at_ms(Stamp(Clock.SINCE_BOOT, 0), 0.0) == ms(2025, 1, 1, 0)


def test_but_not_by_another_hosts_event_or_one_told_twice() -> None:
    dmesg = gathered(Stamp(Clock.SINCE_BOOT, 3_600_000), boots=(3600.0,), message="fell off")
    journal = gathered(Stamp(Clock.ABSOLUTE, ms(2025, 1, 1, 1)), message="fell off")
    twice = gathered(Stamp(Clock.ABSOLUTE, 1_000_000), Stamp(Clock.ABSOLUTE, 2_000_000), message="fell off")
    assert daters([journal, dmesg], ["other", "h"])[1].at_ms(Stamp(Clock.SINCE_BOOT, 0), 0.0) is None
    assert daters([twice, dmesg], ["h", "h"])[1].at_ms(Stamp(Clock.SINCE_BOOT, 0), 0.0) is None


def test_a_log_over_new_year_has_lines_of_two_years() -> None:
    for own in (True, False):
        dated = Stamp(Clock.ABSOLUTE, ms(2025, 1, 3))
        inputs = [gathered(yearless(12, 30), yearless(1, 2), *([dated] if own else [])), gathered(dated)]
        dater = daters(inputs, ["a", "b"])[0]
        assert dater.at_ms(yearless(12, 30)) == ms(2024, 12, 30)
        assert dater.at_ms(yearless(1, 2)) == ms(2025, 1, 2)


def test_january_beside_a_december_of_the_same_input_is_of_the_year_after() -> None:
    (dater,) = daters([gathered(yearless(1, 1), Stamp(Clock.ABSOLUTE, ms(2024, 12, 31, 23)))], ["h"])
    assert dater.at_ms(yearless(1, 1)) == ms(2025, 1, 1)


def test_a_clock_that_was_never_set_tells_no_year() -> None:
    for year in (1970, 2107):
        (dater,) = daters([gathered(yearless(3, 11), Stamp(Clock.ABSOLUTE, ms(year, 1, 1)))], ["h"])
        assert dater.at_ms(yearless(3, 11)) is None
