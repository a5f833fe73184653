"""What a replay reads of an archive: which part of the range can be replayed, the records in the order of the log, what
had been said before, and what the live service said.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import polars as pl

from diagnosis.incidents import in_order
from sickbay.app.diagnosis_state import Memory
from sickbay.app.horizon import HORIZON_MS
from sickbay.app.replay import SECOND_MS, Run, Said, Story
from sickbay.app.standstill import is_ours
from sickbay.archive_place import telemetry
from sickbay.clock import rfc3339
from sickbay.history import History, moment, told
from sickbay.log import Record
from sickbay.messages import Incident, replace
from sickbay.schema import TABLES
from sickbay.topics import CHANGES, CONTROL, EVENTS, PLACEMENT, STEPS, TELEMETRY, TOPOLOGY
from streams.archive_read import full_rate, records
from streams.replay import Batch, Pieces, wanted

FACTS = (TOPOLOGY, PLACEMENT, CHANGES, CONTROL)
FACT_TABLES = ("edges", "identities", "placements", "changes", "control")
WARM_MS = HORIZON_MS + 5 * 60_000  # before the first look: what is remembered, and what its oldest windows count from
QUIET_MS = 4_000  # looks begin where nobody told anything for so long: nothing is cut in two
LATE_MS = 60_000  # what a look said lies in the log so much later at most
CLAIMS_MS = 24 * 3_600_000  # so long before, claims are looked for that go on
TOLD_LATE_MS = 30_000  # windows that were told later than that were judged without, live
MOST_ROWS, LEAST_ROWS = 4_000_000, 1_000_000  # of telemetry that are read at once, and where more would do
FIRST_MS, LONGEST_MS = 60_000, 15 * 60_000  # of append time that is read at once


class NothingThere(ValueError):
    """The range cannot be replayed; the text says why and what would do."""


@dataclass(frozen=True, slots=True)
class Span:
    """Times of a replay: read from `begin_ms` on, looked at after `cut_ms` (0: from the first record on), compared from
    `since_ms` to `until_ms`. `notes`: what people must know of what can come out; `blind`: windows lack for some."""

    begin_ms: int
    cut_ms: int
    since_ms: int
    until_ms: int
    notes: tuple[str, ...] = ()
    blind: bool = False


@dataclass(slots=True)
class _Notes:
    texts: list[str] = field(default_factory=list)
    blind: bool = False

    def add(self, text: str, *, blind: bool = False) -> None:
        self.texts.append(text)
        self.blind |= blind


def span(history: History, since_ms: int, until_ms: int) -> Span:
    """The span for a range. Raises NothingThere."""
    extents = {name: found for name in _driving(history) if (found := _extent(history, name))}
    if not extents:
        raise NothingThere("the archive holds no telemetry, events or steps: nothing can be replayed")
    first, last = min(one for one, _ in extents.values()), max(one for _, one in extents.values())
    if since_ms > last or until_ms <= first:
        raise NothingThere(
            f"no telemetry, events or steps in that range: the archive holds {rfc3339(first)} to {rfc3339(last)}"
        )
    notes = _Notes()
    if until_ms > last:
        until_ms = last
        notes.add(f"the archive ends at {rfc3339(last)}: what comes later is not compared")
    if since_ms < first:
        since_ms = first
        notes.add(f"the archive begins at {rfc3339(first)}")
    begin_ms, cut_ms = _beginning(history, first, since_ms, notes)
    for name in TABLES:
        _telemetry_notes(history, name, extents.get(telemetry(name)), begin_ms, until_ms, notes)
    if not any(name in extents for name in map(telemetry, TABLES)):
        notes.add("no telemetry at full rate in the archive: windows are blind, judged by events and steps", blind=True)
    _gap_notes(history, begin_ms, until_ms, notes)
    _late_notes(history, since_ms, until_ms, notes)
    return Span(begin_ms, cut_ms, since_ms, until_ms, tuple(notes.texts), notes.blind)


def _driving(history: History) -> list[str]:
    names = ("events", "steps", "progress", *map(telemetry, TABLES))
    return [name for name in names if history.place.holds(name)]


def _extent(history: History, table: str, since_ms: int = 0, until_ms: int = 2**62) -> tuple[int, int] | None:
    """The first and the last append time of the records of a table."""
    at = pl.col("append_ms")
    rows = history.scan(table)
    if "topic" in rows.collect_schema() and table.startswith("telemetry_"):
        rows = rows.filter(pl.col("topic") == TELEMETRY)
    row = rows.filter(at >= since_ms, at < until_ms).select(at.min().alias("a"), at.max().alias("b")).collect().row(0)
    return None if row[0] is None else (int(row[0]), int(row[1]))


def _beginning(history: History, first: int, since_ms: int, notes: _Notes) -> tuple[int, int]:
    """Where reading begins, and after which moment looks do."""
    cut_ms = _quiet(history, since_ms) // SECOND_MS * SECOND_MS
    begin_ms = cut_ms - WARM_MS
    if begin_ms <= first:
        if cut_ms - HORIZON_MS > first:
            notes.add(f"the archive begins {(cut_ms - first) // 60_000} minutes before the range")
        elif _said_before(history, first):
            notes.add(f"what was told before {rfc3339(first)}, where the archive begins, is not remembered")
        return first // SECOND_MS * SECOND_MS, 0
    notes.add(
        f"records are read from {rfc3339(begin_ms)} on, half an hour and more before, so that memory is warm; "
        f"looks begin at {rfc3339(cut_ms)}, with the incidents that stood then"
    )
    return begin_ms, cut_ms


def _quiet(history: History, since_ms: int) -> int:
    """The last moment up to the range at which nothing was being told."""
    if not history.place.holds("incidents"):
        return since_ms
    at = pl.col("append_ms")
    rows = history.scan("incidents").filter(at.is_between(since_ms - HORIZON_MS, since_ms + QUIET_MS))
    times = rows.select(at).collect()["append_ms"].sort(descending=True).to_list()
    cut_ms = since_ms
    for time in times:
        if time < cut_ms:
            break
        cut_ms = min(cut_ms, time - QUIET_MS - SECOND_MS)
    return cut_ms


def _said_before(history: History, first: int) -> bool:
    return history.place.holds("incidents") and _extent(history, "incidents", until_ms=first) is not None


def _telemetry_notes(
    history: History, name: str, extent: tuple[int, int] | None, begin_ms: int, until_ms: int, notes: _Notes
) -> None:
    made = history.minutes_until(name)
    if made is None or (made_ms := int(made.timestamp() * 1000)) <= begin_ms:
        return
    upto = rfc3339(min(made_ms, until_ms))
    notes.add(
        f"telemetry of {name} is kept as one-minute rows up to {upto}: these cannot make windows again, which are "
        "blind there; detectors see events and steps only",
        blind=True,
    )


def _gap_notes(history: History, begin_ms: int, until_ms: int, notes: _Notes) -> None:
    if not history.place.holds("gaps"):
        return
    for row in history.gaps().collect().iter_rows(named=True):
        table, topic, partition = row["table"], row["topic"], row["partition"]
        name = table if history.place.holds(table) else ""
        if not name or topic in FACTS:
            continue
        around = _around(history, name, topic, partition, row["from_offset"], row["to_offset"])
        if around[0] < until_ms and around[1] > begin_ms:
            notes.add(
                f"gap: {row['to_offset'] - row['from_offset']} records of {topic}[{partition}] were removed before the "
                f"archive had them, between {rfc3339(around[0]) or 'its beginning'} and {_or_end(around[1])}: who told "
                "them seems silent there",
                blind=topic == TELEMETRY,
            )


def _or_end(at_ms: int) -> str:
    return "its end" if at_ms >= 2**62 else rfc3339(at_ms) or ""


def _around(history: History, table: str, topic: str, partition: int, start: int, to: int) -> tuple[int, int]:
    """Append times of the records beside a gap."""
    rows = history.scan(table).filter(pl.col("partition") == partition)
    if "topic" in rows.collect_schema():
        rows = rows.filter(pl.col("topic") == topic)
    at, offset = pl.col("append_ms"), pl.col("offset")
    before, after = (
        rows.select(
            at.filter(offset < start).max().alias("before"), at.filter(offset >= to).min().alias("after")
        ).collect().row(0)
    )  # fmt: skip
    return before or 0, 2**62 if after is None else after


def _late_notes(history: History, since_ms: int, until_ms: int, notes: _Notes) -> None:
    """Windows that the live service had too late: it judged without them, which a replay does not."""
    late = 0
    for name in TABLES:
        if not history.place.holds(f"features_{name}"):
            continue
        rows = history.features(name, since_ms, until_ms)
        spent = pl.col("append_ms") - pl.col("time").dt.epoch("ms")
        late += rows.filter(spent > TOLD_LATE_MS + 2 * 10_000).select(pl.col("time").n_unique()).collect().item()
    if late:
        notes.add(f"{late} windows were computed late by the live service, which may have judged without them")


def feed(history: History, at: Span, runs: Sequence[Run]) -> Iterator[int]:
    """Replays a span in all runs at once; yields each second of append time that is done."""
    for record in _facts(history, at.begin_ms):
        for run in runs:
            run.message(record)
    end_ms = at.until_ms // SECOND_MS * SECOND_MS + 2 * SECOND_MS
    messages = _Ahead(kept.record for kept in records(history, at.begin_ms, end_ms, (*FACTS, EVENTS, STEPS)))
    batches = _Ahead(_batches(history, at.begin_ms, end_ms))
    for tick_ms in range(at.begin_ms + SECOND_MS, end_ms + 1, SECOND_MS):
        for record in messages.before(tick_ms):
            for run in runs:
                run.message(record)
        for batch in batches.before(tick_ms):
            for run in runs:
                run.batch(batch)
        for run in runs:
            for look in run.tick(tick_ms):
                if look.at_ms >= at.until_ms:
                    break
        yield tick_ms


class _Ahead:
    """An iterator of records or batches, read one ahead."""

    def __init__(self, found: Iterable) -> None:  # type: ignore[type-arg]
        self._found = iter(found)
        self._next = next(self._found, None)

    def before(self, at_ms: int) -> Iterator:  # type: ignore[type-arg]
        """Those that were appended before."""
        while self._next is not None and _append_ms(self._next) < at_ms:
            yield self._next
            self._next = next(self._found, None)


def _append_ms(one: Record | Batch) -> int:
    return one.record.append_ms if isinstance(one, Batch) else one.append_ms


def _facts(history: History, begin_ms: int) -> Iterator[Record]:
    """All facts that were told before."""
    extents = [
        found for name in FACT_TABLES if history.place.holds(name)
        and (found := _extent(history, name, until_ms=begin_ms))
    ]  # fmt: skip
    if extents:
        for kept in records(history, min(one for one, _ in extents), begin_ms, FACTS):
            yield kept.record


def _batches(history: History, begin_ms: int, end_ms: int) -> Iterator[Batch]:
    names, pieces, step_ms = [one for one in TABLES if history.place.holds(telemetry(one))], Pieces(), FIRST_MS
    while names and begin_ms < end_ms:
        stop_ms = min(end_ms, begin_ms + step_ms)
        tables = {name: full_rate(history, name, begin_ms, stop_ms, wanted(name)) for name in names}
        rows = sum(one.height for one in tables.values())
        yield from pieces.cut({name: one for name, one in tables.items() if one.height})
        begin_ms = stop_ms
        if rows > MOST_ROWS:
            step_ms = max(FIRST_MS, step_ms // 2 // SECOND_MS * SECOND_MS)
        elif rows < LEAST_ROWS:
            step_ms = min(LONGEST_MS, step_ms * 2)


def memory(history: History, cut_ms: int) -> Memory:
    """What had been said up to a moment, as far as the archive tells it."""
    if not cut_ms:
        return Memory()
    at = pl.col("append_ms")
    standing: tuple[Incident, ...] = ()
    if history.place.holds("incidents"):
        rows = history.scan("incidents").filter(at < cut_ms).sort("partition", "offset")
        newest = rows.unique("id", keep="last", maintain_order=True)
        standing = in_order(one.message for one in told(newest, Incident) if not is_ours(one.message))
    known: dict[str, int] = {}
    if history.place.holds("evidence"):
        claims = history.scan("evidence", moment(cut_ms) - timedelta(days=2)).filter(
            at.is_between(cut_ms - CLAIMS_MS, cut_ms, closed="left")
        )
        known = dict.fromkeys(claims.select("id").unique().collect()["id"].sort().to_list(), cut_ms)
    bare = tuple(replace(one, plan=()) for one in standing)
    return Memory(bare, standing, known, {cut_ms: len(known)} if known else {})


def archived(history: History, at: Span) -> Story:
    """What the live service said in a span, and a little later."""
    story, time = Story(), pl.col("append_ms")
    for table, of in (("incidents", story.incidents), ("evidence", story.evidence)):
        if not history.place.holds(table):
            continue
        rows = history.scan(table).filter(time.is_between(at.cut_ms, at.until_ms + LATE_MS)).sort("partition", "offset")
        for id_, append_ms, record in rows.select("id", "append_ms", "record").collect().iter_rows():
            of.setdefault(id_, []).append(Said(append_ms, record.encode()))
    return story
