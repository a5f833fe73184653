"""Series of a request as samples, events and identities: the mapping of scrapes, for what comes in pieces.

A sender cuts one scrape into several requests, so three things that a whole scrape tells must be remembered: which
names belong together, which codes were told already, and the parts of numbers that are sums.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from collectors.agent.naming import identity_key
from collectors.cluster.poll import Outgoing
from collectors.formats.metric_names import HOST_INFO, NIC_INFO, UP, converted, targets
from collectors.formats.reading import Reading, Tally
from collectors.formats.series_matrix import FIRST_MS, LAST_MS, Series, of_this_age, readings
from collectors.formats.series_names import fits, is_slice
from collectors.listen import Allowed, Request, Told, kept, owner
from collectors.listen.memory import Known, SeriesMemory
from collectors.listen.rows import wide
from collectors.listen.sums import points_of
from sickbay.clock import Clock
from sickbay.components import UNKNOWN, Kind, host_of
from sickbay.messages import Event, Identity, replace
from sickbay.schema import Samples
from sickbay.topics import EVENTS, TOPOLOGY

MAX_LABEL = 4096  # characters of a name or value: longer ones are no device's
WRONG_MS, OLD_MS = 60_000, 600_000
STRANGE = "times or numbers that are none: a time is in ms (remote_write) or ns (OTLP) since 1970"
NO_HOST = "no label tells the host: add a label hostname, or scrape hosts by their names"


def told_of(found: Sequence[Series], request: Request, memory: SeriesMemory, allowed: Allowed, told: Told) -> None:
    """Adds to `told` what the series tell, as far as the sender may tell it."""
    tally = Tally()
    memory.rotate(request.now_ms)
    fast, slow = _sorted(found, request, memory, told)
    batches = list(_known(fast, memory, tally))
    for reading in readings(memory.sums.whole(list(slow.values())), tally, "", memory.names, memory.codes):
        record = reading.record
        if isinstance(record, Samples):
            batches.append(record)
        elif isinstance(record, Identity):
            _identity(record, memory, allowed, told)
        elif isinstance(record, Event):
            _event(reading, record, request, memory, allowed, told)
    if tally.unparsed:
        told.refuse("unparsed", tally.unparsed, STRANGE)
    for batch in wide(batches):
        _samples(batch, memory, allowed, told)
    _clock(told, request.now_ms)
    _count(_rows(fast, slow.values(), memory), allowed, told)
    _remember(slow, memory)


def _clock(told: Told, now_ms: int) -> None:
    """What is taken and of little use is said: nobody else would see that two clocks differ."""
    newest = max((int(batch.at_ms.max()) for batch in told.samples), default=now_ms)
    if newest > now_ms + WRONG_MS:
        told.note = told.note or f"its times are {(newest - now_ms) // 1000} s ahead of this clock: one is wrong"
    elif newest < now_ms - OLD_MS:
        told.note = told.note or f"{(now_ms - newest) // 1000} s old: kept in the archive, no window waits for it"


def _sorted(
    found: Sequence[Series], request: Request, memory: SeriesMemory, told: Told
) -> tuple[list[tuple[Known, Series]], dict[int, Series]]:
    """Series that were resolved before, and those that were not; without those that nothing has room for."""
    fast, slow, left = list[tuple[Known, Series]](), dict[int, Series](), 0
    for place, (key, series) in enumerate(zip(memory.seen.keys(found, request.now_ms), found, strict=True)):
        if key is None:
            left += 1
        elif known := memory.seen.seen.get(key):
            fast.append((known, series))
        elif any(len(name) > MAX_LABEL or len(value) > MAX_LABEL for name, value in series.labels.items()):
            told.refuse("labels", len(points_of(series)[0]), f"a label of more than {MAX_LABEL} characters", 400)
        else:
            slow[key if key not in slow else -1 - place] = series
    if left:
        note = f"more than {memory.seen.most} series of this token in an hour: drop labels that change"
        told.refuse("cardinality", left, note, 400)  # no repeat would mend it
    return fast, slow


def _known(fast: Sequence[tuple[Known, Series]], memory: SeriesMemory, tally: Tally) -> Iterator[Samples]:
    """The values of series that were resolved before, one batch a metric."""
    groups: dict[str, list[tuple[Known, Series]]] = {}
    for known, series in fast:
        groups.setdefault(known.target.name, []).append((known, series))
    for group in groups.values():
        target = group[0][0].target
        points = [points_of(series) for _, series in group]
        at = np.array([one for times, _ in points for one in times], np.float64)
        raw = np.array([one for _, values in points for one in values], np.float64)
        component = [known.component for known, series in group for _ in points_of(series)[0]]
        sound = (at >= FIRST_MS) & (at < LAST_MS)
        if not sound.all():
            component = [one for one, yes in zip(component, sound, strict=True) if yes]
        at_ms, raw = of_this_age(at, raw, tally)
        yield Samples(target.source.table, component, at_ms, {target.metric.to: converted(target.metric, raw)})


def _remember(slow: dict[int, Series], memory: SeriesMemory) -> None:
    """Resolve what can be: a device whose series says nothing but a number."""
    memory.seen.learnt(memory.taught)
    for key, series in slow.items():
        target = targets().get(series.labels["__name__"])
        if target is None or key not in memory.seen.seen:
            continue
        metric, source = target.metric, target.source
        if metric.speaks or metric.sum_over or not metric.to or not fits(metric, series.labels):
            continue
        component = memory.names.component(target, series.labels)
        if component is not None and not is_slice(source, series.labels):
            memory.seen.seen[key] = Known(target, memory.canonical(component))


def _count(rows: Counter[str], allowed: Allowed, told: Told) -> None:
    """How many samples of each host were taken, and why others were not."""
    for host, count in rows.items():
        if host == UNKNOWN:
            told.refuse("no_host", count, NO_HOST)
        elif allowed(f"{Kind.HOST}:{host}"):
            told.written += count
        else:
            told.refuse("host", count, f"{host} is not a host that this token may tell of", 403)


def _rows(fast: Sequence[tuple[Known, Series]], slow: Iterable[Series], memory: SeriesMemory) -> Counter[str]:
    """Samples by host; those of every target of a scrape, whether we follow it or not, are nobody's."""
    rows: Counter[str] = Counter()
    for known, series in fast:
        rows[host_of(known.component) or UNKNOWN] += len(points_of(series)[0])
    for series in slow:
        if series.labels["__name__"] not in (UP, HOST_INFO, NIC_INFO):
            rows[memory.names.host(series.labels)] += len(points_of(series)[0])
    return rows


def _identity(record: Identity, memory: SeriesMemory, allowed: Allowed, told: Told) -> None:
    if record.host == UNKNOWN or not allowed(f"{Kind.HOST}:{record.host}"):
        return  # its samples are counted
    if memory.learn(record):
        told.records.append(Outgoing(TOPOLOGY, identity_key(record), record))


def _event(
    reading: Reading, event: Event, request: Request, memory: SeriesMemory, allowed: Allowed, told: Told
) -> None:
    component = memory.canonical(event.component)
    if host_of(component) is not None and allowed(component):
        at_ms = reading.stamp.ms if reading.stamp.clock is Clock.ABSOLUTE else request.now_ms
        at_ms, host = min(at_ms, request.now_ms), owner(component)
        path = f"{request.sender} series"
        event = replace(event, component=component, host=host, at_ms=at_ms, seen_ms=request.now_ms, path=path)
        told.records.append(Outgoing(EVENTS, host, event))


def _samples(batch: Samples, memory: SeriesMemory, allowed: Allowed, told: Told) -> None:
    names = {one: memory.canonical(one) for one in dict.fromkeys(batch.component)}
    may = kept(list(names.values()), lambda name: host_of(name) is not None and allowed(name))
    rows = np.array([may[names[one]] for one in batch.component], bool)
    if rows.any():
        values = {column: told_[rows] for column, told_ in batch.values.items()}
        component = [names[one] for one, yes in zip(batch.component, rows, strict=True) if yes]
        told.samples.append(Samples(batch.table, component, batch.at_ms[rows], values))
