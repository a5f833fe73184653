"""Turns the stamps of all inputs into UTC: years from neighbours, boot clocks from lines that carry both or are shared.

What stays unknown stays null. An input whose clock cannot be tied to another is never ordered against it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from statistics import median
from typing import NamedTuple

from collectors.formats.reading import Reading
from collectors.inputs.gather import Gathered
from sickbay.clock import Clock, Stamp, resolve
from sickbay.messages import Event
from sickbay.schema import Samples

AGREE_MS = 2_000  # boot offsets of one input that differ by more are not one clock
HALF_YEAR_MS = 183 * 86_400_000  # December lines beside a stamp of January are of the year before
FIRST_MS, LAST_MS = 946_684_800_000, 4_102_444_800_000  # 2000 to 2099: a clock outside is not set and tells no year


class Near(NamedTuple):
    """What tells the year of a stamp without one: a time, and whether the same input tells it."""

    at_ms: int
    own: bool


class Dater:
    """Dates the readings of one input; made by `daters`."""

    def __init__(self, zone: tzinfo, near: Near | None, boot_ms: float | None = None) -> None:
        self._zone, self._near, self._boot_ms = zone, near, boot_ms

    def at_ms(self, stamp: Stamp, boot_s: float | None = None) -> int | None:
        """UTC milliseconds, None where unknown."""
        at = self._in_its_year(stamp) if stamp.clock is Clock.NO_YEAR else resolve(stamp, self._zone)
        since_boot = stamp.ms if stamp.clock is Clock.SINCE_BOOT else None if boot_s is None else boot_s * 1000
        if at is None and since_boot is not None and self._boot_ms is not None:
            return round(self._boot_ms + since_boot)
        return at

    def booted(self, boot_ms: float | None) -> "Dater":
        """The same with the time at which the kernel started."""
        return Dater(self._zone, self._near, boot_ms)

    def _in_its_year(self, stamp: Stamp) -> int | None:
        """Stamp by stamp: a log that runs over New Year has lines of two years."""
        if self._near is None:
            return None
        at_ms, own = self._near
        year = datetime.fromtimestamp(at_ms / 1000, self._zone).year
        at = resolve(stamp, self._zone, year)
        for other in (year - 1, year + 1) if own else (year - 1,):
            moved = resolve(stamp, self._zone, other)
            gap = None if moved is None else at_ms - moved if other < year else moved - at_ms
            if gap is not None and gap <= HALF_YEAR_MS and (at is None or abs(at - at_ms) > HALF_YEAR_MS):
                return moved
        return at


def daters(inputs: Sequence[Gathered], hosts: Sequence[str], zone: tzinfo = UTC) -> list[Dater]:
    """One dater an input. `hosts`: the host that the lines of each input speak of where they do not say."""
    latest = max((at for found in inputs if (at := _latest(found, zone)) is not None), default=None)
    first = [Dater(zone, _near(found, zone, latest)) for found in inputs]
    booted = _boot_times(inputs)
    shared = _shared_events(inputs, hosts, first)
    made = []
    for found, host, dater in zip(inputs, hosts, first, strict=True):
        boot_ms = _own_boot(found, dater)
        if boot_ms is None:
            boot_ms = _borrowed_boot(found, host, shared)
        if boot_ms is None:
            boot_ms = booted.get(host)
        made.append(dater.booted(boot_ms))
    return made


def _latest(found: Gathered, zone: tzinfo) -> int | None:
    dated = (reading.stamp for reading in found.readings if reading.stamp.clock in (Clock.ABSOLUTE, Clock.NO_ZONE))
    ends = [at for stamp in dated if (at := resolve(stamp, zone)) is not None]
    ends += [
        int(reading.record.at_ms.max())
        for reading in found.readings
        if isinstance(reading.record, Samples) and len(reading.record.at_ms) and reading.record.at_ms.max() > 0
    ]
    return max((at for at in ends if FIRST_MS <= at < LAST_MS), default=None)


def _near(found: Gathered, zone: tzinfo, latest: int | None) -> Near | None:
    """The latest dated line of the input itself, else the latest stamp of all inputs."""
    own = _latest(found, zone)
    if own is not None:
        return Near(own, own=True)
    return None if latest is None else Near(latest, own=False)


def _own_boot(found: Gathered, dater: Dater) -> float | None:
    """When the kernel started, from lines of this input that carry both clocks and agree."""
    return _agreed(
        at - reading.boot_s * 1000
        for reading in found.readings
        if reading.boot_s is not None and (at := dater.at_ms(reading.stamp)) is not None
    )


def _boot_times(inputs: Iterable[Gathered]) -> dict[str, float]:
    """Boot times that hosts' own exporters tell, where there is just one."""
    told: defaultdict[str, set[float]] = defaultdict(set)
    for found in inputs:
        for reading in found.readings:
            if isinstance(reading.record, Samples) and "boot_time_seconds" in reading.record.values:
                for component, value in zip(
                    reading.record.component, reading.record.values["boot_time_seconds"], strict=True
                ):
                    if value > 0:
                        told[component.partition(":")[2]].add(float(value) * 1000)
    return {host: next(iter(times)) for host, times in told.items() if len(times) == 1}


Key = tuple[str, str, str, str]


def _key(reading: Reading, host: str) -> Key | None:
    event = reading.record
    if not isinstance(event, Event) or not event.message:
        return None
    return (reading.host or host, event.component, event.code, event.message)


def _shared_events(inputs: Sequence[Gathered], hosts: Sequence[str], first: Sequence[Dater]) -> dict[Key, int | None]:
    """When events happened that one dated line tells; None for those told more than once: they tie no clocks."""
    times: dict[Key, int | None] = {}
    for found, host, dater in zip(inputs, hosts, first, strict=True):
        for reading in found.readings:
            key, at = _key(reading, host), dater.at_ms(reading.stamp)
            if key is not None and at is not None:
                times[key] = None if key in times else at
    return times


def _borrowed_boot(found: Gathered, host: str, shared: dict[Key, int | None]) -> float | None:
    """When the kernel started, from events that another input dates: the same host, component, code and words."""
    return _agreed(
        at - reading.boot_s * 1000
        for reading in found.readings
        if reading.boot_s is not None
        and (key := _key(reading, host)) is not None
        and (at := shared.get(key)) is not None
    )


def _agreed(starts: Iterable[float]) -> float | None:
    found = sorted(starts)
    return median(found) if found and found[-1] - found[0] <= AGREE_MS else None
