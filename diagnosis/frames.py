"""Feature tables as detectors want them: every column there, missing is null, host, job, model beside the component."""

from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from diagnosis.case import Case
from sickbay import components
from sickbay.messages import Identity


def table(case: Case, name: str, columns: Sequence[str]) -> pl.DataFrame:
    """`component`, `end_ms`, `host` and the columns asked for (float64), sorted; empty where nothing was told."""
    frame = case.features.get(name)
    if frame is None or frame.height == 0:
        schema: dict[str, pl.DataType] = {"component": pl.String(), "end_ms": pl.Int64(), "host": pl.String()}
        return pl.DataFrame(schema=schema | {column: pl.Float64() for column in columns})
    values = [
        (pl.col(column).cast(pl.Float64).fill_nan(None) if column in frame.columns else pl.lit(None, pl.Float64)).alias(
            column
        )
        for column in columns
    ]
    host = pl.col("component").str.extract(r"^[a-z]+:([^/]+)").alias("host")
    return frame.select("component", pl.col("end_ms").cast(pl.Int64), host, *values).sort("component", "end_ms")


def with_jobs(frame: pl.DataFrame, case: Case) -> pl.DataFrame:
    """The frame with `job`: the attempt on each component at the window's end; null where none or more than one ran.

    Where no placement is known at all, everything counts as one job named ``: peers can still be compared.
    """
    if not len(case.placements):
        return frame.with_columns(pl.lit("").alias("job"))
    components = frame["component"].unique().sort().to_list()
    parts = [
        frame.filter(pl.col("end_ms").is_in(ends)).join(_jobs(case, components, ends[0]), on="component", how="left")
        for ends in _epochs(case, frame["end_ms"].unique().sort().to_list())
    ]
    return pl.concat(parts).sort("component", "end_ms") if parts else frame.with_columns(pl.lit("").alias("job"))


def _epochs(case: Case, ends: list[int]) -> Iterator[list[int]]:
    """Ends of windows, split where another attempt begins or ends."""
    epoch: list[int] = []
    for end in ends:
        if epoch and case.placements.at(end - 1) is not case.placements.at(epoch[0] - 1):
            yield epoch
            epoch = []
        epoch.append(end)
    if epoch:
        yield epoch


def _jobs(case: Case, components: list[str], end_ms: int) -> pl.DataFrame:
    view = case.placements.at(end_ms - 1)
    jobs = [place.job if (place := view.job_of(component)) else None for component in components]
    return pl.DataFrame({"component": components, "job": jobs}, schema={"component": pl.String, "job": pl.String})


def with_models(frame: pl.DataFrame, case: Case) -> pl.DataFrame:
    """The frame with `model`, as the inputs name it; null where they do not."""
    told = {name: one.model for one in case.identities if one.model for name in names_of(one)}
    known = {"component": list(told), "model": list(told.values())}
    schema = {"component": pl.String, "model": pl.String}
    return frame.join(pl.DataFrame(known, schema=schema), on="component", how="left").sort("component", "end_ms")


def names_of(identity: Identity) -> list[components.Name]:
    """The accelerator names that a device may go by: an input that knows no address uses the next best."""
    told = dict.fromkeys(word for word in (identity.pci, identity.uuid, identity.index) if word)
    return [components.name(components.Kind.ACCELERATOR, identity.host, word) for word in told]


MOST_CHANGES = 8  # changes of placement in one horizon that are looked behind


def with_last_jobs(frame: pl.DataFrame, case: Case) -> pl.DataFrame:
    """As `with_jobs`, but a component without a job at the end keeps the last one it had, until that one's end."""
    if not len(case.placements) or frame.height == 0:
        return with_jobs(frame, case)
    first, last = int(frame["end_ms"].min()), int(frame["end_ms"].max())  # type: ignore[arg-type]
    changes = {at for place in case.placements for at in (place.from_ms, place.to_ms) if at is not None}
    moments = [last, *sorted((at for at in changes if first < at < last), reverse=True)[:MOST_CHANGES]]
    left, rows = frame["component"].unique().sort().to_list(), []
    for moment in moments:
        view = case.placements.at(moment - 1)
        found = {component: place.job for component in left if (place := view.job_of(component))}
        rows += [(component, job, moment) for component, job in found.items()]
        left = [component for component in left if component not in found]
    schema = {"component": pl.String, "job": pl.String, "until": pl.Int64}
    known = pl.DataFrame(rows, schema=schema, orient="row")
    joined = frame.join(known, on="component", how="left")
    ran = pl.col("end_ms") <= pl.col("until")
    return joined.with_columns(pl.when(ran).then(pl.col("job"))).drop("until").sort("component", "end_ms")


def job_name(job: str) -> str:
    """`job:…`, of an unknown job `job:?`."""
    return components.name(components.Kind.JOB, job or components.UNKNOWN)


def runs(ends: Iterable[int], window_ms: int) -> list[tuple[int, int]]:
    """(first, last) of stretches of windows that follow each other without a gap: a gap is no agreement."""
    found: list[tuple[int, int]] = []
    for end in sorted(ends):
        if found and end - found[-1][1] <= 1.5 * window_ms:
            found[-1] = (found[-1][0], end)
        else:
            found.append((end, end))
    return found
