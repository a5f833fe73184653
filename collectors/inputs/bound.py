"""What many inputs may keep together: a folder of ten thousand hostile files must not fill the memory either.

The worst events stay wherever they come from; of equals every input keeps a fair share, its first. Of all other records
every input keeps a fair share, its latest.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from collectors.formats.reading import Reading
from collectors.inputs.gather import Gathered
from sickbay.messages import Event, Severity

ALL_EVENTS = 100_000
ALL_RECORDS = 2_000_000
_OTHER = ""


def collected(inputs: Iterable[Gathered], events: int = ALL_EVENTS, records: int = ALL_RECORDS) -> list[Gathered]:
    """All inputs as they come, thinned whenever many readings were added since the last time, and at the end."""
    found: list[Gathered] = []
    held, thin_at = 0, 2 * events
    for one in inputs:
        found.append(one)
        held += len(one.readings)
        if held > thin_at:
            thin(found, events, records)
            held = sum(len(other.readings) for other in found)
            thin_at = held + events
    thin(found, events, records)
    return found


def thin(inputs: Sequence[Gathered], events: int = ALL_EVENTS, records: int = ALL_RECORDS) -> None:
    """Cuts what the inputs hold to at most `events` events and `records` other records, counted where they are lost."""
    counts = [Counter(map(_group, found.readings)) for found in inputs]
    shares: dict[str, int] = {_OTHER: _share([count[_OTHER] for count in counts], records)}
    left = events
    for severity in reversed(Severity):
        wanted = [count[severity] for count in counts]
        shares[severity] = _share(wanted, left)
        left -= min(left, sum(min(want, shares[severity]) for want in wanted))
    for found, count in zip(inputs, counts, strict=True):
        if any(size > shares[group] for group, size in count.items()):
            _cut(found, count, shares)


def _group(reading: Reading) -> str:
    return str(reading.record.severity) if isinstance(reading.record, Event) else _OTHER


def _share(wanted: Sequence[int], room: int) -> int:
    """The largest share with which all together stay within `room`."""
    left = sum(1 for want in wanted if want)
    share = 0
    for want in sorted(want for want in wanted if want):
        if want * left > room:
            return room // left
        share, room, left = want, room - want, left - 1
    return share


def _cut(found: Gathered, count: Counter[str], shares: dict[str, int]) -> None:
    seen: Counter[str] = Counter()
    readings = []
    for reading in found.readings:
        group = _group(reading)
        seen[group] += 1
        late = group == _OTHER and seen[group] > count[group] - shares[group]
        if late or (group != _OTHER and seen[group] <= shares[group]):
            readings.append(reading)
    found.omitted += len(found.readings) - len(readings)
    found.readings = readings
