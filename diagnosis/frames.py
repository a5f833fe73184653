"""Feature tables as detectors want them: every column there, missing is null, host, job, model beside the component."""

from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from diagnosis.case import Case
from sickbay import components
from sickbay.components import host_of
from sickbay.messages import Identity
from sickbay.placement import Placements


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
    return sorted_rows(frame.select("component", pl.col("end_ms").cast(pl.Int64), host, *values))


def sorted_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame by `component` and `end_ms`; as it is where it is sorted, which costs far less to see than to do."""
    part, end = pl.col("component"), pl.col("end_ms")
    before = part.shift(1)
    follows = (part > before) | ((part == before) & (end >= end.shift(1)))
    return frame if frame.select(follows.all()).item() else frame.sort("component", "end_ms")


def with_jobs(frame: pl.DataFrame, case: Case) -> pl.DataFrame:
    """The frame with `job`: the attempt on each component at the window's end; null where none or more than one ran,
    or where not all rows of the job are there.

    Where no placement is known at all, everything counts as one job named ``: peers can still be compared.
    """
    if not len(case.placements):
        return _of_whole_jobs(frame.with_columns(pl.lit("").alias("job")), case)
    components = frame["component"].unique().sort().to_list()
    placements = case.placements.of_hosts(_hosts(components))
    parts = [
        frame.filter(pl.col("end_ms").is_in(ends)).join(
            _jobs(placements, components, ends[0]), on="component", how="left"
        )
        for ends in _epochs(placements, frame["end_ms"].unique().sort().to_list())
    ]
    if not parts:
        return frame.with_columns(pl.lit("").alias("job"))
    return _of_whole_jobs(sorted_rows(pl.concat(parts)), case)


def _hosts(components: Iterable[str]) -> set[str]:
    return {host for one in components if (host := host_of(one))}


def _of_whole_jobs(frame: pl.DataFrame, case: Case) -> pl.DataFrame:
    if case.whole_jobs is None:
        return frame
    whole = pl.col("job").is_in(sorted(case.whole_jobs))
    return frame.with_columns(pl.when(whole).then(pl.col("job")).alias("job"))


def _epochs(placements: Placements, ends: list[int]) -> Iterator[list[int]]:
    """Ends of windows, split where another attempt begins or ends."""
    epoch: list[int] = []
    for end in ends:
        if epoch and placements.epoch(end - 1) != placements.epoch(epoch[0] - 1):
            yield epoch
            epoch = []
        epoch.append(end)
    if epoch:
        yield epoch


def _jobs(placements: Placements, components: list[str], end_ms: int) -> pl.DataFrame:
    view = placements.at(end_ms - 1)
    jobs = [place.job if (place := view.job_of(component)) else None for component in components]
    return pl.DataFrame({"component": components, "job": jobs}, schema={"component": pl.String, "job": pl.String})


def with_models(frame: pl.DataFrame, case: Case) -> pl.DataFrame:
    """The frame with `model`, as the inputs name it; null where they do not."""
    hosts = _hosts(frame["component"].unique())
    told = {name: one.model for one in case.identities if one.model and one.host in hosts for name in names_of(one)}
    known = {"component": list(told), "model": list(told.values())}
    schema = {"component": pl.String, "model": pl.String}
    return frame.join(pl.DataFrame(known, schema=schema), on="component", how="left", maintain_order="left")


def names_of(identity: Identity) -> list[components.Name]:
    """The accelerator names that a device may go by: an input that knows no address uses the next best."""
    told = dict.fromkeys(word for word in (identity.pci, identity.uuid, identity.index) if word)
    return [components.name(components.Kind.ACCELERATOR, identity.host, word) for word in told]


MOST_CHANGES = 8  # changes of placement on one host in one horizon that are looked behind


def with_last_jobs(frame: pl.DataFrame, case: Case) -> pl.DataFrame:
    """As `with_jobs`, but a component without a job at the end keeps the last one it had, until that one's end."""
    if not len(case.placements) or frame.height == 0:
        return with_jobs(frame, case)
    first, last = int(frame["end_ms"].min()), int(frame["end_ms"].max())  # type: ignore[arg-type]
    if case.wide:
        first, last = case.wide.span("accelerator") or (first, last)
    components = frame["component"].unique().sort().to_list()
    rows = list(last_jobs(case.placements.of_hosts(_hosts(components)), components, first, last))
    schema = {"component": pl.String, "job": pl.String, "until": pl.Int64}
    known = pl.DataFrame(rows, schema=schema, orient="row")
    joined = frame.join(known, on="component", how="left", maintain_order="left")
    ran = pl.col("end_ms") <= pl.col("until")
    return _of_whole_jobs(joined.with_columns(pl.when(ran).then(pl.col("job"))).drop("until"), case)


def last_jobs(
    placements: Placements, components: Iterable[str], first_ms: int, last_ms: int
) -> Iterator[tuple[str, str, int]]:
    """(component, its last job, until when) between two times; components without one are left out."""
    view, left = placements.at(last_ms - 1), list[str]()
    for component in components:
        if place := view.job_of(component):
            yield component, place.job, last_ms
        else:
            left.append(component)
    for component in left:
        own = placements.of_hosts(_hosts([component]))
        for moment in own.changes(first_ms, last_ms)[: -MOST_CHANGES - 1 : -1]:
            if place := own.at(moment - 1).job_of(component):
                yield component, place.job, moment
                break


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
