"""What is asked most after a night, of an archive: each answer a frame, read from the files that may hold it only.

    history = History("/var/lib/sickbay/archive")
    post_mortem.hits(history, "4711")                        what hit the ranks of a job
    post_mortem.host_day(history, "n12", date(2026, 3, 11))  all that is known of a host's day
    post_mortem.flaps(history, since, until)                 which links went down most
    post_mortem.power_before(history, hosts, at)             what the accelerators drew before a hang
    post_mortem.changes_before(history, hosts, at)           who touched these hosts before
    post_mortem.drift(history, "optic", "rx_power_dbm", since, until)  what left its own course, or runs off slowly

Times are of UTC, as datetimes or in milliseconds.
"""

from collections.abc import Collection, Iterable
from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl

from sickbay import own_history
from sickbay.archive_place import telemetry
from sickbay.components import Kind, Name
from sickbay.history import History, Moment, NoArchive, moment, of_host, told
from sickbay.messages import Placement, Relation
from sickbay.schema import TABLES

MARGIN = timedelta(minutes=5)  # around an attempt: what killed it may be told later
MINUTE = timedelta(minutes=1)
WEEK = timedelta(days=7)


def hits(history: History, job: str, attempt: int | None = None) -> pl.DataFrame:
    """Events of the hosts, devices and ranks of a job's attempts while they ran, the oldest first: `attempt`, `time`,
    `host`, `ranks` (of that device, else of that host), and what the event says. Raises NoArchive for no such job."""
    found = attempts(history, job)
    if attempt is not None:
        found = [one for one in found if one.attempt == attempt]
    if not found:
        raise NoArchive(f"{history.path}: no placement of job {job!r}; its name is the scheduler's number")
    return pl.concat([_hits(history, one) for one in found]).sort("time", "component")


def attempts(history: History, job: str) -> list[Placement]:
    """The newest word on each attempt of a job."""
    rows = history.scan("placements").filter(pl.col("job") == job).sort("offset")
    newest = {one.message.attempt: one.message for one in told(rows, Placement)}
    return [newest[number] for number in sorted(newest)]


def _hits(history: History, placement: Placement) -> pl.DataFrame:
    since = None if placement.from_ms is None else moment(placement.from_ms) - MARGIN
    until = None if placement.to_ms is None else moment(placement.to_ms) + MARGIN
    ranks = _ranks(placement)
    host = pl.coalesce(pl.col("host").replace("", None), "sender", _host())
    of_job = pl.col("job").is_in([placement.job, f"job:{placement.job}"]) | pl.col("component").str.starts_with(
        f"rank:{placement.job}/"
    )
    events = history.events(since, until).with_columns(host.alias("host"))
    mine = events.filter(pl.col("host").is_in(ranks["host"].unique().to_list()) | of_job).collect()
    by_device = ranks.filter(pl.col("component") != "").group_by("component").agg(pl.col("rank").alias("of_device"))
    by_host = ranks.group_by("host").agg(pl.col("rank").alias("of_host"))
    placed = mine.join(by_device, on="component", how="left").join(by_host, on="host", how="left")
    return placed.select(
        pl.lit(placement.attempt, pl.Int64).alias("attempt"), "time", "host",
        pl.coalesce("of_device", "of_host").alias("ranks"), "component", "kind", "code", "severity", "message",
    )  # fmt: skip


def _ranks(placement: Placement) -> pl.DataFrame:
    rows = [(one.rank, one.host, one.component) for one in placement.ranks]
    known = {one.host for one in placement.ranks}
    rows += [(None, host, "") for host in placement.hosts if host not in known]  # type: ignore[misc]
    return pl.DataFrame(rows, schema={"rank": pl.Int64, "host": pl.String, "component": pl.String}, orient="row").sort(
        "rank"
    )


def host_day(history: History, host: str, day: date) -> dict[str, pl.DataFrame]:
    """All that is known of a host's day (UTC): by telemetry table one row per component and minute, as far as there are
    any, and its `events`, `changes`, `actions` and `incidents`."""
    since = datetime(day.year, day.month, day.day, tzinfo=UTC)
    until = since + timedelta(days=1)
    found = {
        name: by_minute(history.telemetry_over(name, since, until, of_host(host, table.component))).collect()
        for name, table in TABLES.items()
        if history.place.holds(telemetry(name)) and Kind(table.component) not in (Kind.PDU, Kind.CDU, Kind.SWITCH)
    }
    of = (_host() == host) | (pl.col("component") == f"host:{host}")
    events = history.events(since, until).filter(of | (pl.col("host") == host) | (pl.col("sender") == host))
    found |= {
        "events": events.sort("time").collect(),
        "changes": history.scan("changes", since, until).filter(_host("target") == host).sort("time").collect(),
        "actions": history.scan("actions", since, until)
        .filter((_host("target") == host) | (pl.col("target") == host)).sort("time").collect(),
        "incidents": history.incidents(until=until).filter(of, pl.col("time") >= since).sort("time").collect(),
    }  # fmt: skip
    return {name: frame for name, frame in found.items() if frame.height}


def by_minute(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Rows of `History.telemetry_over` as one row per component and minute; `time` is the minute's end."""
    end = pl.when(pl.col("step_ms") == 0).then(pl.col("time").dt.truncate("1m") + MINUTE).otherwise("time")
    values = [name for name in rows.collect_schema() if name not in ("component", "time", "step_ms")]
    return (
        rows.group_by("component", end.alias("time")).agg(_of_minute(name) for name in values).sort("component", "time")
    )


def _of_minute(name: str) -> pl.Expr:
    value = pl.col(name)
    if name.endswith("__increase"):
        return pl.when(value.count() > 0).then(value.sum())
    if name.endswith("__min"):
        return value.min()
    return value.max() if name.endswith("__max") else value.mean()


def flaps(history: History, since: Moment, until: Moment, top: int = 20) -> pl.DataFrame:
    """The ports whose link went down most, as their counters say: `downs`, `carrier_changes`, `first`, `last` (ends of
    the windows in which it did), and the port at the `other_end` where the topology knew it."""
    rows = history.features("port", since, until)
    told_columns = rows.collect_schema()
    downs, carrier = (
        pl.col(name) if name in told_columns else pl.lit(None, pl.Float32)
        for name in ("link_downed_total__increase", "carrier_changes_total__increase")
    )
    went = rows.select("component", "time", downs.alias("downs"), carrier.alias("carrier_changes")).filter(
        (pl.col("downs") > 0) | (pl.col("carrier_changes") > 0)
    )
    by_port = went.group_by("component").agg(
        pl.col("downs", "carrier_changes").sum(),
        pl.col("time").min().alias("first"),
        pl.col("time").max().alias("last"),
    )
    most = by_port.sort("downs", "carrier_changes", "component", descending=[True, True, False]).head(top).collect()
    return most.join(_other_ends(history), on="component", how="left")


def _other_ends(history: History) -> pl.DataFrame:
    """By port the other end of its link, by the newest word on it."""
    edges = history.scan("edges").filter(pl.col("relation") == Relation.LINK_END.value)
    ends = edges.select("offset", pl.col("child").alias("component"), pl.col("parent").alias("other_end"))
    both = pl.concat([ends, ends.select("offset", component="other_end", other_end="component")])
    newest = both.sort("offset").unique("component", keep="last", maintain_order=True)
    return newest.select("component", "other_end").collect()


def power_before(
    history: History, hosts: Collection[str], at: Moment, before: timedelta = timedelta(minutes=10)
) -> pl.DataFrame:
    """What the accelerators of some hosts drew up to a moment, by minute: mean, least and most watts, and how active
    their matrix units were; the hosts' own power where their management controllers told it."""
    until = moment(at)
    frames = [
        _power(history, table, kind, hosts, until - before, until)
        for table, kind in (("accelerator", Kind.ACCELERATOR), ("host", Kind.HOST))
        if history.place.holds(telemetry(table))
    ]
    return pl.concat(frames, how="diagonal").sort("component", "time")


def _power(
    history: History, table: str, kind: Kind, hosts: Collection[str], since: datetime, until: datetime
) -> pl.DataFrame:
    rows = history.telemetry_over(table, since, until, _any_of(hosts, kind))
    names = [
        name
        for name in ("power_watts", "power_watts__min", "power_watts__max", "matrix_active_ratio")
        if name in rows.collect_schema()
    ]
    told_rows = by_minute(rows.select("component", "time", "step_ms", *names)).collect()
    return told_rows.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in names)) if names else told_rows


def drift(
    history: History,
    table: str,
    column: str,
    since: Moment,
    until: Moment,
    where: pl.Expr | None = None,
    *,
    floor: float = 0.0,
) -> pl.DataFrame:
    """How one feature of each component ran against its own past, by windows of a minute, those that left it furthest
    first: `latest` and `at`, its `difference` from the median of the windows before, the same as a `deviation` in
    robust standard deviations (of `floor` at least), `earlier` windows, and the `slope_per_hour` of all of them."""
    wide = history.wide_features(table, since, until).filter(pl.lit(True) if where is None else where)
    rows = wide.select("component", "end_ms", "time", column).drop_nulls().collect()
    names, ends = rows["component"].unique().sort(), rows["end_ms"].unique().sort()
    values = np.full((len(ends), len(names)), np.nan)
    values[ends.search_sorted(rows["end_ms"]), names.search_sorted(rows["component"])] = rows[column]
    latest = rows.group_by("component").agg(pl.col(column, "time").last()).sort("component")
    run = own_history.change(own_history.newest_last(values), floor=floor)
    found = latest.select(
        "component", pl.col(column).alias("latest"), pl.col("time").alias("at"),
        pl.Series("difference", run.difference).fill_nan(None),
        pl.Series("deviation", run.deviation).fill_nan(None),
        pl.Series("earlier", run.earlier),
        pl.Series("slope_per_hour", 3600 * own_history.slope(values, ends.to_numpy())).fill_nan(None),
    )  # fmt: skip
    return found.sort(pl.col("deviation").abs(), "component", descending=[True, False], nulls_last=True)


def changes_before(history: History, hosts: Collection[str], at: Moment, before: timedelta = WEEK) -> pl.DataFrame:
    """Who touched these hosts, their parts, or the whole cluster before a moment, the newest first."""
    until = moment(at)
    rows = history.scan("changes", until - before, until)
    mine = _host("target").is_in(list(hosts)) | pl.col("target").str.starts_with(f"{Kind.CLUSTER.value}:")
    told_rows = rows.filter(mine).sort("time", "offset", descending=True)
    return told_rows.select("time", "target", "what", "who", "old", "new", "message").collect()


def _any_of(hosts: Iterable[Name], kind: Kind) -> pl.Expr:
    """Rows of some hosts: by a range where they are one or few, so that most of each file is passed over."""
    some = sorted(hosts)
    if len(some) <= 8:
        wanted = pl.lit(False)
        for host in some:
            wanted = wanted | of_host(host, kind)
        return wanted
    first, last = min(f"{kind}:{host}/" for host in some), max(f"{kind}:{host}0" for host in some)
    here = _host().is_in(some)
    return here if kind is Kind.HOST else here & pl.col("component").is_between(pl.lit(first), pl.lit(last))


def _host(column: str = "component") -> pl.Expr:
    """The host in a component's name."""
    return pl.col(column).str.extract(r"^[a-z_]+:([^/]+)")
