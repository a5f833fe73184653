"""What a replay reads of an archive: the records in the order of the log, what had been said before, and what the live
service said then.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

import polars as pl

from diagnosis.incidents import in_order
from sickbay.app.alerting.standstill import is_ours
from sickbay.app.diagnosing.diagnosis_state import Memory
from sickbay.app.replaying.replay import Run, Said, Story
from sickbay.app.replaying.replay_span import FACTS, SECOND_MS, Span, extent
from sickbay.archive_place import telemetry
from sickbay.history import History, moment, told
from sickbay.log import Record
from sickbay.messages import Incident, replace
from sickbay.schema import TABLES
from sickbay.topics import EVENTS, STEPS
from streams.archive_read import full_rate, records
from streams.replay import Batch, Pieces, wanted

FACT_TABLES = ("edges", "identities", "placements", "changes", "control")
LATE_MS = 60_000  # what a look said lies in the log so much later at most
CLAIMS_MS = 24 * 3_600_000  # so long before, claims are looked for that go on
MOST_ROWS, LEAST_ROWS = 4_000_000, 1_000_000  # of telemetry that are read at once, and where more would do
LEAST_MS, FIRST_MS, MOST_MS = 10_000, 60_000, 15 * 60_000  # of append time that is read at once


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
        and (found := extent(history, name, until_ms=begin_ms))
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
            step_ms = max(LEAST_MS, step_ms // 2 // SECOND_MS * SECOND_MS)
        elif rows < LEAST_ROWS:
            step_ms = min(MOST_MS, step_ms * 2)


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
