"""Written dates to `Stamp`. An impossible date, or a year outside 1970 to 2100, is no stamp at all."""

import re
from datetime import UTC, datetime, timedelta

from sickbay.clock import NO_STAMP, Clock, Stamp

YEARS = range(1970, 2101)
MONTHS = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1
    )
}
_EPOCH = datetime(1970, 1, 1)
_LEAP_YEAR = datetime(2000, 1, 1)
_RANK = {Clock.ABSOLUTE: 4, Clock.NO_ZONE: 3, Clock.NO_YEAR: 2, Clock.SINCE_BOOT: 1, Clock.NONE: 0}

DATE = r"(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)"
CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
ZONE = r"(?: ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)(?!\w|:\d))?"
ISO = rf"{DATE}[T _]{CLOCK}{ZONE}"
_ISO = re.compile(rf"^{ISO}$")
# glog and klog: [rank3]:[E311 04:27:23.100200300, E0311 04:27:31.120000; the month may lack its zero.
_GLOG = re.compile(rf"^(?:\[\w{{1,20}}\]: ?)?\[?[IWEFD](?P<date>\d{{3,4}}|\d{{8}}) {CLOCK}(?!\d)")
_LEVELLED = re.compile(rf"^\[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\]?:? +\[?{ISO}(?!\w)")
_COLLECTIVE = re.compile(rf"^\S{{1,253}}:\d{{1,10}}:\d{{1,10}} \[\d{{1,3}}\] {ISO}(?!\w)")
_ASCEND = re.compile(
    r"\(\d{1,10},[^()]{1,64}\):(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)-"
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)\.(?P<fraction>\d{3})"
)
_BLACK_BOX = re.compile(rf"^\[{DATE}-{CLOCK}\] (?=system exception )")  # of an Ascend device: history.log
_CANCELLED = re.compile(rf" AT {DATE}T{CLOCK}(?!\S)")


def better(first: Stamp, second: Stamp) -> Stamp:
    """The one whose clock tells more; `second` where they tell the same."""
    return first if _RANK[first.clock] > _RANK[second.clock] else second


def since_boot(seconds: float) -> Stamp:
    """A stamp counted from the start of the kernel."""
    return Stamp(Clock.SINCE_BOOT, round(seconds * 1000))


def absolute(ms: float) -> Stamp:
    """A stamp in UTC milliseconds, none where the year is out of range."""
    if not -1e15 < ms < 1e15:
        return NO_STAMP
    year = 1970 + ms / (365.2425 * 86_400_000)
    return Stamp(Clock.ABSOLUTE, int(ms + 0.001)) if YEARS.start <= year < YEARS.stop else NO_STAMP


def epoch(number: float) -> Stamp:
    """A stamp from a count since 1970 in seconds, milli-, micro- or nanoseconds: told apart by size."""
    for limit, per_ms in ((1e11, 1e-3), (1e14, 1.0), (1e17, 1e3), (1e20, 1e6)):
        if 1e8 <= number < limit:
            return absolute(number / per_ms)
    return NO_STAMP


def of_match(match: re.Match[str], year: str | None = None) -> Stamp:
    """The stamp of a match with the groups of ISO (any may be missing but the time of day), or a month's name."""
    groups = match.groupdict()
    month = groups.get("month") or ""
    return stamp(
        year=(groups.get("year") or "") if year is None else year,
        month=MONTHS.get(month) or int(month or 0),
        day=int(groups.get("day") or 0),
        clock=(int(groups["hour"]), int(groups["minute"]), int(groups["second"])),
        fraction=groups.get("fraction") or "",
        zone=groups.get("zone") or "",
    )


def stamp(*, year: str, month: int, day: int, clock: tuple[int, int, int], fraction: str = "", zone: str = "") -> Stamp:
    """A stamp from its pieces; an empty `year` gives NO_YEAR, an empty `zone` NO_ZONE."""
    if year and int(year) not in YEARS:
        return NO_STAMP
    try:
        when = datetime(int(year or 2000), month, day, *clock)
    except ValueError:
        return NO_STAMP
    ms_of_second = int(fraction[:3].ljust(3, "0")) if fraction else 0
    local = (when - (_EPOCH if year else _LEAP_YEAR)) // timedelta(milliseconds=1) + ms_of_second
    if not year:
        return Stamp(Clock.NO_YEAR, local)
    if not zone:
        return Stamp(Clock.NO_ZONE, local)
    return Stamp(Clock.ABSOLUTE, local - _offset_minutes(zone) * 60_000)


def iso(text: str) -> Stamp:
    """The stamp of a string that is one ISO date and nothing else."""
    match = _ISO.match(text.strip())
    return of_match(match) if match else NO_STAMP


def in_text(body: str) -> Stamp:
    """The stamp that a program's own line carries behind a prefix of its own; only in places known to hold one."""
    if match := _GLOG.match(body):
        digits = match["date"]
        year, date = (digits[:4], digits[4:]) if len(digits) == 8 else ("", digits.rjust(4, "0"))
        return stamp(
            year=year,
            month=int(date[:2]),
            day=int(date[2:]),
            clock=(int(match["hour"]), int(match["minute"]), int(match["second"])),
            fraction=match["fraction"] or "",
        )
    for pattern in (_LEVELLED, _COLLECTIVE, _ASCEND, _BLACK_BOX, _CANCELLED):
        if match := pattern.search(body[:400]):
            return of_match(match)
    return NO_STAMP


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0, ms: int = 0) -> int:
    """UTC milliseconds of a date: for tests and samples."""
    return round(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()) * 1000 + ms


def _offset_minutes(zone: str) -> int:
    if zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return -minutes if zone[0] == "-" else minutes
