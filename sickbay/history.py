"""What the archive holds, as lazy polars frames: for notebooks, reports and boards. Needs polars and deltalake only.

    history = History(Path("/var/lib/sickbay/archive"))
    history.events(since=datetime(2026, 3, 1, tzinfo=UTC)).filter(pl.col("host") == "n3").collect()

Every row has `time` (when what it speaks of happened, UTC), `append_ms`, `partition` and `offset`. A range of time is
`since` (inclusive) to `until` (exclusive), as a datetime or in milliseconds; only the files that may hold it are read.
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
import polars as pl

from sickbay.log.reading import Logged
from sickbay.messages import Incident, Message

M = TypeVar("M", bound=Message)

Moment: TypeAlias = datetime | int
AHEAD = timedelta(seconds=2)  # a row's time is at most so much after its append time, by which files are kept
SENT = ("sender", "incarnation", "sequence")


class NoArchive(Exception):
    """There is no archive, or not this table; the text says what to do."""


class History:
    """The archive below `path`. Raises NoArchive."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        if not self.tables:
            raise NoArchive(f"{self.path}: no archive here: name the folder of [archive] path, written by `sickbay up`")

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that are there."""
        return tuple(sorted(log.parent.name for log in self.path.glob("*/_delta_log")))

    def scan(self, table: str, since: Moment | None = None, until: Moment | None = None) -> pl.LazyFrame:
        """A table as it was written, row for row. Raises NoArchive."""
        if table not in self.tables:
            raise NoArchive(f"{self.path}: no table {table!r}; there are {', '.join(self.tables)}")
        try:
            frame = pl.scan_delta(str(self.path / table))
        except ImportError:
            raise NoArchive("reading an archive needs deltalake: pip install 'sickbay[archive]'") from None
        if since is not None:
            begin = _datetime(since)
            frame = frame.filter(pl.col("day") >= (begin - AHEAD).date(), pl.col("time") >= begin)
        return frame if until is None else frame.filter(pl.col("time") < _datetime(until))

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

    def features(self, table: str, since: Moment | None = None, until: Moment | None = None) -> pl.LazyFrame:
        """Window features of one telemetry table: a row per component and window; `time` is the window's end."""
        return self.scan(f"features_{table}", since, until)

    def telemetry(self, table: str, since: Moment | None = None, until: Moment | None = None) -> pl.LazyFrame:
        """Telemetry that came too late for windows, as it was measured; each value once."""
        rows = self.scan(f"telemetry_{table}", since, until).sort("partition", "offset")
        return rows.unique([*SENT, "component", "at_ms"], keep="first", maintain_order=True)

    def gaps(self) -> pl.LazyFrame:
        """What retention removed before the archive had it: offsets `from_offset` to `to_offset` (exclusive)."""
        return self.scan("gaps")

    def incident(self, id: str) -> Incident:
        """An incident in its newest state, with all its parts. Raises NoArchive where there is none of that id."""
        found = told(self.incidents().filter(pl.col("id") == id), Incident)
        if not found:
            raise NoArchive(f"{self.path}: no incident {id!r}; `sickbay incidents list` shows their ids")
        return found[0].message


def told(rows: pl.LazyFrame, kind: type[M]) -> list[Logged[M]]:
    """The messages in the rows' `record`, with all their parts, in the order of the rows; one that this version cannot
    read is left out."""
    found = []
    for append_ms, record in rows.select("append_ms", "record").collect().iter_rows():
        with suppress(ValueError):
            found.append(Logged(append_ms, msgspec.json.decode(record, type=kind)))
    return found


def _datetime(moment: Moment) -> datetime:
    if isinstance(moment, int):
        return datetime.fromtimestamp(moment / 1000, UTC)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _newest(frame: pl.LazyFrame) -> pl.LazyFrame:
    """The last row of each id, in the order of the log. These topics have one partition."""
    return frame.sort("partition", "offset").unique("id", keep="last", maintain_order=True)


def _once(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Rows without a sender stand for themselves; of those with the same sender's number the first stays."""
    own = pl.when(pl.col("sequence").is_null()).then(pl.struct("partition", "offset"))
    ordered = frame.sort("partition", "offset")
    return ordered.with_columns(_own=own).unique([*SENT, "_own"], keep="first", maintain_order=True).drop("_own")
