"""Time as an interval and as an argument: what a source's stamp can tell, and when it becomes UTC.

No function here reads a clock. `Stamp` keeps what the source said; `resolve` turns it into UTC milliseconds once the
zone and the year are known, and into None where they are not: nothing is dated wrongly with confidence.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import NamedTuple


class Clock(StrEnum):
    """What a stamp is measured against, from best to worst."""

    ABSOLUTE = "absolute"  # UTC milliseconds since 1970
    NO_ZONE = "no_zone"  # local milliseconds since 1970, zone unknown
    NO_YEAR = "no_year"  # local milliseconds since the start of the leap year 2000
    SINCE_BOOT = "since_boot"  # milliseconds since the kernel started
    NONE = "none"


class Stamp(NamedTuple):
    """A source's own time: `ms` counts from what `clock` says."""

    clock: Clock = Clock.NONE
    ms: int = 0


NO_STAMP = Stamp()


def resolve(stamp: Stamp, zone: tzinfo = UTC, year: int | None = None) -> int | None:
    """UTC milliseconds of a stamp, None where the clock is unknown, the year is missing, or no calendar has the time.

    A local time that the zone skips or repeats is read with its first offset (PEP 495, fold 0).
    """
    if stamp.clock is Clock.ABSOLUTE:
        return stamp.ms
    try:
        if stamp.clock is Clock.NO_ZONE:
            return _local(datetime(1970, 1, 1) + timedelta(milliseconds=stamp.ms), zone)
        if stamp.clock is Clock.NO_YEAR and year is not None:
            when = datetime(2000, 1, 1) + timedelta(milliseconds=stamp.ms)
            return _local(when.replace(year=year), zone)
    except (ValueError, OverflowError):  # 29 February in a common year: the guess was wrong; or beyond the calendar
        return None
    return None


def _local(when: datetime, zone: tzinfo) -> int:
    return round(when.replace(tzinfo=zone).timestamp() * 1000)


def rfc3339(at_ms: int | None) -> str | None:
    """RFC 3339 UTC with milliseconds, None for None or a time outside years 1 to 9999."""
    if at_ms is None:
        return None
    try:
        when = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at_ms)
    except OverflowError:
        return None
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
