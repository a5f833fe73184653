"""Whose clock is off, and by how much: what a host says of itself, and what its metrics tell of its time source."""

from collections.abc import Mapping

from diagnosis.case import Case
from diagnosis.frames import table
from sickbay.components import host_of
from sickbay.messages import Event

FLAGGED_S = 1.0  # [house] an offset worth a notice
UNORDERED_S = 5.0  # [house] beyond it a host's order among others is neither blame nor acquittal


def offsets_of(case: Case) -> Mapping[str, float]:
    """Seconds that each host's clock is off, the largest told; infinite where only the fact is told."""
    found: dict[str, float] = {}
    for event in case.events:
        if event.kind == "monitor.clock_off" and (host := host_of(event.component) or event.host):
            _keep(found, host, told_by(event))
    frame = table(case, "host", ("clock_offset_seconds",)).drop_nulls()
    for host, seconds in frame.select("host", "clock_offset_seconds").iter_rows():
        if host and abs(seconds) > FLAGGED_S:
            _keep(found, host, seconds)
    return dict(sorted(found.items()))


def told_by(event: Event) -> float:
    """The offset that an event tells, in seconds; infinite where it tells none."""
    try:
        return float(event.attributes.get("offset_s", "inf"))
    except ValueError:
        return float("inf")


def _keep(found: dict[str, float], host: str, seconds: float) -> None:
    if abs(seconds) >= abs(found.get(host, 0.0)):
        found[host] = seconds
