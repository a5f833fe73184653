"""Times of a simulated night: its start, and how programs spell a time. UTC throughout."""

from datetime import UTC, datetime, timedelta

START_MS = 1_773_194_400_000  # 2026-03-11 02:00:00 UTC: nights on call begin at two


def moment(at_ms: int) -> datetime:
    """The UTC time of milliseconds since 1970."""
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at_ms)


def local(at_ms: int) -> str:
    """`2026-03-11 02:00:00`."""
    return moment(at_ms).strftime("%Y-%m-%d %H:%M:%S")


def glog(at_ms: int, digits: int = 9) -> str:
    """`0311 02:00:00.000000000`: month and day without the year, as glog prints them."""
    when = moment(at_ms)
    return when.strftime("%m%d %H:%M:%S.") + f"{when.microsecond:06d}".ljust(digits, "0")
