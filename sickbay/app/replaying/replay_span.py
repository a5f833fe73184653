"""Which part of a range an archive lets one replay, where that begins, and what it cannot tell."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import polars as pl

from sickbay.app.diagnosing.diagnosis_fold import PATIENCE_MS
from sickbay.app.diagnosing.horizon import HORIZON_MS
from sickbay.app.running.live import widths
from sickbay.archive_place import telemetry
from sickbay.clock import rfc3339
from sickbay.history import History, moment
from sickbay.schema import TABLES, WINDOWED
from sickbay.settings import Windows
from sickbay.topics import CHANGES, CONTROL, PLACEMENT, TELEMETRY, TOPOLOGY

SECOND_MS = 1_000
FACTS = (TOPOLOGY, PLACEMENT, CHANGES, CONTROL)
WARM_MS = HORIZON_MS + 5 * 60_000  # before the first look: what is remembered, and what its oldest windows count from
QUIET_MS = 4_000  # looks begin where nobody told anything for so long: nothing is cut in two
PAUSE_MS = 60_000  # the slowest source of telemetry tells something within
DAY_MS = 24 * 3_600_000
LATEST_MS = 250_000_000_000_000  # in the year 9892: a day later still has a date
FOREVER = 2**62
FEW = 5  # windows, of which nobody can tell how wide they are


Extent: TypeAlias = tuple[int, int]  # first and last append time
_FULL = tuple(map(telemetry, TABLES))


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
    since_ms, until_ms = max(0, min(since_ms, LATEST_MS)), max(0, min(until_ms, LATEST_MS))
    extents = _extents(history, since_ms - 2 * WARM_MS, until_ms)
    if not extents or since_ms > _last(extents) or until_ms <= _first(extents):
        raise NothingThere(_what_is_there(history))
    first, last = _first(extents), _last(extents)
    notes = _Notes()
    if until_ms > last:
        until_ms = last
        notes.add(f"the archive ends at {rfc3339(last)}: what comes later is not compared")
    if since_ms < first:
        since_ms = first
        notes.add(f"the archive begins at {rfc3339(first)}")
    begin_ms, cut_ms = _beginning(history, first, since_ms, notes)
    for name in TABLES:
        _telemetry_notes(history, name, begin_ms, until_ms, notes)
    _full_rate_notes({name: one for name, one in extents.items() if name in _FULL}, begin_ms, until_ms, notes)
    _gap_notes(history, begin_ms, until_ms, notes)
    return Span(begin_ms, cut_ms, since_ms, until_ms, tuple(notes.texts), notes.blind)


def extent(history: History, table: str, since_ms: int = 0, until_ms: int = FOREVER) -> Extent | None:
    """The first and the last append time of the records of a table, of those of a range: to the day for telemetry."""
    at = pl.col("append_ms")
    rows = history.scan(table)
    if table in _FULL:
        rows = rows.filter(pl.col("topic") == TELEMETRY)
        if until_ms < FOREVER:  # whole days, by which files lie: so that little is read
            rows = rows.filter(pl.col("day").is_between(moment(since_ms).date(), moment(until_ms).date()))
    else:
        rows = rows.filter(at >= since_ms, at < until_ms)
    row = rows.select(at.min().alias("a"), at.max().alias("b")).collect().row(0)
    return None if row[0] is None else (int(row[0]), int(row[1]))


def _extents(history: History, since_ms: int = 0, until_ms: int = FOREVER) -> dict[str, Extent]:
    """What there is of records that drive windows and looks."""
    names = ("events", "steps", "progress", *_FULL)
    there = [name for name in names if history.place.holds(name)]
    return {name: found for name in there if (found := extent(history, name, max(0, since_ms), until_ms + DAY_MS))}


def _first(extents: Mapping[str, Extent]) -> int:
    return min(one for one, _ in extents.values())


def _last(extents: Mapping[str, Extent]) -> int:
    return max(one for _, one in extents.values())


def _what_is_there(history: History) -> str:
    extents = _extents(history)
    if not extents:
        return "the archive holds no telemetry, events or steps: nothing can be replayed"
    held = f"{rfc3339(_first(extents))} to {rfc3339(_last(extents))}"
    return f"no telemetry, events or steps in that range: the archive holds {held}"


def _full_rate_notes(extents: Mapping[str, Extent], begin_ms: int, until_ms: int, notes: _Notes) -> None:
    if not extents or _first(extents) >= until_ms or _last(extents) < begin_ms:
        notes.add("no telemetry at full rate in that range: windows are blind, judged by events and steps", blind=True)
        return
    first, last = _first(extents), _last(extents)
    if first > begin_ms + PAUSE_MS:
        notes.add(f"telemetry at full rate begins at {rfc3339(first)}: before that windows are blind", blind=True)
    if last < until_ms - PAUSE_MS:
        notes.add(f"telemetry at full rate ends at {rfc3339(last)}: after that windows are blind", blind=True)


def _beginning(history: History, first: int, since_ms: int, notes: _Notes) -> tuple[int, int]:
    """Where reading begins, and after which moment looks do."""
    cut_ms = _quiet(history, since_ms) // SECOND_MS * SECOND_MS
    begin_ms, first_ms = cut_ms - WARM_MS, first // SECOND_MS * SECOND_MS
    if begin_ms <= first_ms:
        if not _said_before(history, first):
            if since_ms > first:
                notes.add(f"the archive begins at {rfc3339(first)}: memory goes back so far only")
            return first_ms, 0
        notes.add(f"what was recorded before {rfc3339(first)} is not in the archive: memory is not warm at first")
        return first_ms, first_ms
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
    return history.place.holds("incidents") and extent(history, "incidents", until_ms=first) is not None


def _telemetry_notes(history: History, name: str, begin_ms: int, until_ms: int, notes: _Notes) -> None:
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
    return "its end" if at_ms >= FOREVER else rfc3339(at_ms) or ""


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
    return before or 0, FOREVER if after is None else after


def window_notes(history: History, at: Span, settings: Windows) -> list[str]:
    """Where the live service had other windows than these settings ask for, or had them too late."""
    width = widths(settings)
    known = [name for name in WINDOWED if history.place.holds(f"features_{name}")]
    after = pl.col("append_ms") - pl.col("end_ms")
    frames = [
        history.features(name, at.begin_ms, at.until_ms).select("end_ms", after.alias("after")).unique().collect()
        for name in known
    ]
    rows = pl.concat(frames) if frames else pl.DataFrame()
    if rows.is_empty():
        return []
    notes, least = [], rows["after"].min()
    cut_ms = math.gcd(*rows["end_ms"].unique().to_list())
    if rows["end_ms"].n_unique() > FEW and cut_ms != width["width_ms"]:
        notes.append(f"the archive's windows are of {cut_ms / 1000:g} s, these settings ask for {settings.width_s} s")
    late_ms = width["lateness_ms"]
    if isinstance(least, int) and not late_ms <= least <= late_ms + 2 * SECOND_MS:
        notes.append(
            f"the archive's windows were closed {least / 1000:g} s after their end, these settings wait "
            f"{settings.lateness_s} s"
        )
    if late := rows.filter(pl.col("after") > late_ms + PATIENCE_MS)["end_ms"].n_unique():
        notes.append(f"{late} windows came late to the live service, which may have judged without them")
    return notes
