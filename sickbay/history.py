"""What the archive holds, as lazy polars frames: for notebooks, reports and boards. Needs polars and deltalake only.

    history = History("/var/lib/sickbay/archive")  # or History(place("s3://bucket/sickbay", endpoint="http://..."))
    history.events(since=datetime(2026, 3, 1, tzinfo=UTC)).filter(pl.col("host") == "n3").collect()

Every row has `time` (when what it speaks of happened, UTC), and as long as it is what one record told also `append_ms`,
`partition` and `offset`. A range of time is `since` (inclusive) to `until` (exclusive), as a datetime or in
milliseconds; only the files that may hold it are read. Telemetry is there at full rate for a time, then as one-minute
rows; `telemetry_over` gives the best there is. What is asked most after a night is in `sickbay.post_mortem`.

Other engines read the same files: `files` names them (the columns `day` and `hour` stand in their paths).
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec
import polars as pl

from sickbay.archive_place import Place, coarse, place, telemetry
from sickbay.components import Kind
from sickbay.log.reading import Logged
from sickbay.messages import Incident, Message
from sickbay.step_rows import by_step
from sickbay.wide_features import widened

if TYPE_CHECKING:
    from deltalake import DeltaTable

M = TypeVar("M", bound=Message)

Moment: TypeAlias = datetime | int
AHEAD = timedelta(seconds=2)  # a row's time is at most so much after its append time, by which files are kept
SENT = ("sender", "incarnation", "sequence")
MINUTE = timedelta(minutes=1)
STRAY = 24  # the hour under which telemetry lies that came days late
KEYS = ("component", "time", "step_ms")
PLACE = ("day", "time", "component", "end_ms")
OWN = frozenset(
    {"day", "hour", "time", "partition", "offset", "append_ms", "topic", "key", "component", "at_ms", *SENT}
)  # of a row of telemetry: the rest are values
MADE = "sickbay/minutes/0"  # the position of one-minute tables: the hour (since 1970) from which on there are none yet


class NoArchive(Exception):
    """There is no archive, or not this table; the text says what to do."""


class History:
    """The archive at `path`, a folder or a `Place`. Raises NoArchive."""

    def __init__(self, path: Place | Path | str) -> None:
        self.place = place(path)
        self.path = self.place.root
        if not self.place.is_there():
            raise NoArchive(f"{self.path}: no archive here: name the folder of [archive] path, written by `sickbay up`")

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that are there."""
        return self.place.tables()

    def scan(self, table: str, since: Moment | None = None, until: Moment | None = None) -> pl.LazyFrame:
        """A table as it was written, row for row. Raises NoArchive."""
        frame = pl.scan_delta(self._opened(table))
        if since is not None:
            begin = moment(since)
            frame = frame.filter(pl.col("day") >= (begin - AHEAD).date(), pl.col("time") >= begin)
        return frame if until is None else frame.filter(pl.col("time") < moment(until))

    def files(self, table: str) -> list[str]:
        """The parquet files that the table consists of now. Raises NoArchive."""
        return self._opened(table).file_uris()

    def _opened(self, table: str) -> "DeltaTable":
        if not self.place.holds(table):
            raise NoArchive(f"{self.path}: no table {table!r}; there are {', '.join(self.tables)}")
        try:
            from deltalake import DeltaTable
        except ImportError:
            raise NoArchive("reading an archive needs deltalake: pip install 'sickbay[archive]'") from None
        return DeltaTable(self.place.table(table), storage_options=self.place.asked())

    def events(self, since: Moment | None = None, until: Moment | None = None) -> pl.LazyFrame:
        """Events; one that its agent sent twice is there once."""
        return _once(self.scan("events", since, until))

    def steps(self, since: Moment | None = None, until: Moment | None = None) -> pl.LazyFrame:
        """Steps of training jobs; one that was sent twice is there once."""
        return _once(self.scan("steps", since, until))

    def evidence(self, since: Moment | None = None, until: Moment | None = None) -> pl.LazyFrame:
        """Evidence: the newest state of each claim."""
        return _newest(self.scan("evidence", since, until))

    def incidents(self, since: Moment | None = None, until: Moment | None = None) -> pl.LazyFrame:
        """The newest state of each incident; with `until`, as it stood then."""
        return _newest(self.scan("incidents", since, until))

    def actions(self, since: Moment | None = None, until: Moment | None = None) -> pl.LazyFrame:
        """The newest state of each action of the ledger; with `until`, as it stood then."""
        return _newest(self.scan("actions", since, until))

    def outcomes(self, since: Moment | None = None, until: Moment | None = None) -> pl.LazyFrame:
        """Outcomes of tests and repairs."""
        return _newest(self.scan("outcomes", since, until))

    def step_series(self, job: str, since: Moment | None = None, until: Moment | None = None) -> pl.LazyFrame:
        """One row per step of a job, out of what its ranks told: see `step_rows.by_step`."""
        return by_step(self.steps(since, until).filter(pl.col("job") == job))

    def features(self, table: str, since: Moment | None = None, until: Moment | None = None) -> pl.LazyFrame:
        """Window features of one telemetry table: a row per component and window; `time` is the window's end."""
        return self.scan(f"features_{table}", since, until)

    def wide_features(
        self, table: str, since: Moment | None = None, until: Moment | None = None, width: timedelta = MINUTE
    ) -> pl.LazyFrame:
        """The same in wider windows, whole ones only, made from those of 10 s (see `wide_features.widened`): for hours
        and days. `time` is the wide window's end."""
        span = width // timedelta(milliseconds=1)
        first = None if since is None else -(-_ms(since) // span) * span
        last = None if until is None else (_ms(until) - 1) // span * span
        rows = self.features(table, None if first is None else first - span + 1, None if last is None else last + 1)
        time = pl.from_epoch("end_ms", "ms").dt.cast_time_unit("us").dt.replace_time_zone("UTC")
        return widened(rows, span).select("component", time.alias("time"), pl.exclude("component"))

    def telemetry(
        self, table: str, since: Moment | None = None, until: Moment | None = None, where: pl.Expr | None = None
    ) -> pl.LazyFrame:
        """Telemetry at full rate, as it was measured, each value once; what came too late for windows too. `where`
        chooses components (see `of_host`), so that little is read."""
        rows = self._full(table, since, until).filter(pl.lit(True) if where is None else where)
        return rows.sort("partition", "offset").unique([*SENT, "component", "at_ms"], keep="first", maintain_order=True)

    def minutes(self, table: str, since: Moment | None = None, until: Moment | None = None) -> pl.LazyFrame:
        """One-minute rows of telemetry that is no longer kept at full rate: `n`, of a gauge `x`, `x__min`, `x__max`, of
        a counter `x__increase`; `time` is the minute's end."""
        return self.scan(coarse(table), since, until)

    def telemetry_over(
        self,
        table: str,
        since: Moment | None = None,
        until: Moment | None = None,
        where: pl.Expr | None = None,
    ) -> pl.LazyFrame:
        """The best there is of each moment, in one shape: gauges `x`, `x__min`, `x__max`, counters `x__increase` since
        the row before; `step_ms` 60000 where only minutes are left, else 0. `where` chooses components (see `of_host`):
        only then little is read."""
        chosen = pl.lit(True) if where is None else where
        full = self._full(table, since, until).filter(chosen)
        if (made := self.minutes_until(table)) is None:
            return _stepped(full)
        kept = full.filter(pl.col("time") >= made)
        old = self.minutes(table, since, until).filter(chosen, pl.col("time") <= made)
        shape = old.collect_schema()
        minutes = old.with_columns(pl.lit(60_000, pl.Int64).alias("step_ms"))
        return pl.concat([minutes, _stepped(kept)], how="diagonal").select(*KEYS, *(n for n in shape if n not in PLACE))

    def _full(self, table: str, since: Moment | None, until: Moment | None) -> pl.LazyFrame:
        rows = self.scan(telemetry(table), since, until)
        if until is None or "hour" not in rows.collect_schema():
            return rows
        end = moment(until)  # strays lie where they came, all else where it was measured
        here = (pl.col("day") < end.date()) | ((pl.col("day") == end.date()) & (pl.col("hour") <= end.hour))
        return rows.filter(here | (pl.col("hour") == STRAY))

    def minutes_until(self, table: str) -> datetime | None:
        """Until when there are one-minute rows in the place of full ones; None where there are none."""
        if not self.place.holds(coarse(table)):
            return None
        hour = self._opened(coarse(table)).transaction_version(MADE)
        return None if hour is None else datetime.fromtimestamp(hour * 3600, UTC)

    def gaps(self) -> pl.LazyFrame:
        """What retention removed before the archive had it: offsets `from_offset` to `to_offset` (exclusive)."""
        return self.scan("gaps")

    def incident(self, id: str) -> Incident:
        """An incident in its newest state, with all its parts. Raises NoArchive where there is none of that id."""
        found = told(self.incidents().filter(pl.col("id") == id), Incident)
        if not found:
            raise NoArchive(f"{self.path}: no incident {id!r}; `sickbay incidents list` shows their ids")
        return found[0].message


def of_host(host: str, kind: str) -> pl.Expr:
    """Rows of a host's components of one kind: a range of names, so that most of each file is passed over."""
    if kind == Kind.HOST:
        return pl.col("component") == f"host:{host}"
    return pl.col("component").is_between(pl.lit(f"{kind}:{host}/"), pl.lit(f"{kind}:{host}0"), closed="left")


def _stepped(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Rows at full rate in the shape of `telemetry_over`."""
    types = {name: dtype for name, dtype in rows.collect_schema().items() if name not in OWN}
    counters = [name for name, dtype in types.items() if dtype == pl.Int64]
    gauges = [name for name in types if name not in counters]
    once = rows.sort("component", "time").unique(["component", "time"], keep="first", maintain_order=True)
    return once.select(
        "component",
        "time",
        pl.lit(0, pl.Int64).alias("step_ms"),
        *(pl.col(name).cast(pl.Float32).alias(f"{name}{kind}") for name in gauges for kind in ("", "__min", "__max")),
        *(_increase(name).alias(f"{name}__increase") for name in counters),
    )


def _increase(name: str) -> pl.Expr:
    """Since the row before; missing where it fell, as a counter that starts anew does."""
    grown = pl.col(name).diff().over("component")
    return pl.when(grown >= 0).then(grown).cast(pl.Float32)


def told(rows: pl.LazyFrame, kind: type[M]) -> list[Logged[M]]:
    """The messages in the rows' `record`, with all their parts, in the order of the rows; one that this version cannot
    read is left out."""
    found = []
    for append_ms, record in rows.select("append_ms", "record").collect().iter_rows():
        with suppress(ValueError):
            found.append(Logged(append_ms, msgspec.json.decode(record, type=kind)))
    return found


def moment(at: Moment) -> datetime:
    """A moment as a datetime in UTC."""
    if isinstance(at, int):
        return datetime.fromtimestamp(at / 1000, UTC)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _ms(at: Moment) -> int:
    return (moment(at) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _newest(frame: pl.LazyFrame) -> pl.LazyFrame:
    """The last row of each id, in the order of the log. These topics have one partition."""
    return frame.sort("partition", "offset").unique("id", keep="last", maintain_order=True)


def _once(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Rows without a sender stand for themselves; of those with the same sender's number the first stays."""
    own = pl.when(pl.col("sequence").is_null()).then(pl.struct("partition", "offset"))
    ordered = frame.sort("partition", "offset")
    return ordered.with_columns(_own=own).unique([*SENT, "_own"], keep="first", maintain_order=True).drop("_own")
