"""Stamps become UTC where the clock is known, and nothing where it is not."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay.clock import NO_STAMP, Clock, Stamp, resolve, rfc3339

SHANGHAI = ZoneInfo("Asia/Shanghai")
NEW_YORK = ZoneInfo("America/New_York")


def ms(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    return round(datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp() * 1000)


LEAP_YEAR_MS = ms(2000, 1, 1)


def test_an_absolute_stamp_is_itself_whatever_the_zone() -> None:
    assert resolve(Stamp(Clock.ABSOLUTE, 5), SHANGHAI, 1999) == 5


def test_a_stamp_without_zone_is_read_in_the_given_one() -> None:
    local = Stamp(Clock.NO_ZONE, ms(2026, 7, 1, 8))
    assert resolve(local) == ms(2026, 7, 1, 8)
    assert resolve(local, SHANGHAI) == ms(2026, 7, 1, 0)


def test_a_stamp_without_year_needs_one() -> None:
    stamp = Stamp(Clock.NO_YEAR, ms(2000, 3, 1, 12) - LEAP_YEAR_MS)
    assert resolve(stamp) is None
    assert resolve(stamp, year=2025) == ms(2025, 3, 1, 12)
    assert resolve(stamp, SHANGHAI, 2025) == ms(2025, 3, 1, 4)


def test_the_leap_day_of_a_common_year_is_no_time() -> None:
    stamp = Stamp(Clock.NO_YEAR, ms(2000, 2, 29) - LEAP_YEAR_MS)
    assert resolve(stamp, year=2024) == ms(2024, 2, 29)
    assert resolve(stamp, year=2025) is None


@pytest.mark.parametrize("stamp", [NO_STAMP, Stamp(Clock.SINCE_BOOT, 7)])
def test_other_clocks_tell_no_time(stamp: Stamp) -> None:
    assert resolve(stamp, UTC, 2025) is None


def test_a_repeated_hour_is_its_first_and_a_skipped_one_still_a_time() -> None:
    #  01:30 comes twice on 1 November 2026 (first at -04:00); 02:30 never on 8 March
    assert resolve(Stamp(Clock.NO_ZONE, ms(2026, 11, 1, 1, 30)), NEW_YORK) == ms(2026, 11, 1, 5, 30)
    assert resolve(Stamp(Clock.NO_ZONE, ms(2026, 3, 8, 2, 30)), NEW_YORK) == ms(2026, 3, 8, 7, 30)


@given(st.sampled_from(Clock), st.integers(), st.none() | st.integers())
def test_no_number_is_too_strange(clock: Clock, number: int, year: int | None) -> None:
    for zone in (UTC, SHANGHAI, timezone(timedelta(hours=-12))):
        found = resolve(Stamp(clock, number), zone, year)
        assert found is None or isinstance(found, int)
    text = rfc3339(number)
    assert text is None or (len(text) == 24 and text.endswith("Z"))


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_text_and_milliseconds_mean_the_same(at_ms: int) -> None:
    text = rfc3339(at_ms)
    assert text is not None
    assert datetime.fromisoformat(text) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)


def test_known_texts() -> None:
    assert rfc3339(None) is None
    assert rfc3339(0) == "1970-01-01T00:00:00.000Z"
    assert rfc3339(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert rfc3339(-62_135_596_800_000) == "0001-01-01T00:00:00.000Z"
    assert rfc3339(253_402_300_800_000) is None
