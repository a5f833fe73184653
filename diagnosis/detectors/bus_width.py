"""Host links of accelerators that run narrower than card and slot allow: an absolute floor, whatever the past was.

A link that has been narrow since the boot never changes, so its own history cannot show it. Where the same slot is as
narrow on other hosts, or most cards of a model are, that is how the machines are built.
"""

from collections.abc import Iterable, Iterator, Mapping

import polars as pl

from diagnosis.boot_widths import place_of, slots_of, strength, told_widths, usual, widths_of
from diagnosis.case import Case
from diagnosis.detectors.explicit_code import build
from diagnosis.evidence import CERTAIN, GOOD, bucket_of, identity
from diagnosis.frames import table, with_models
from diagnosis.wide import wide
from sickbay.components import Name
from sickbay.messages import Evidence, Severity, replace

NAME, VERSION = "bus_width", "1"

LEAST_WINDOWS = 2  # a second look at the source
LEAST_PEERS = 4  # cards of the same model that must agree where no maximum is told
COLUMNS = ("bus_width_lanes", "bus_width_max_lanes")


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per narrow link and source: telemetry, and what the kernel told at boot."""
    frame = table(case, "accelerator", COLUMNS).filter(pl.col("bus_width_lanes") > 0)
    frame = frame.with_columns(pl.col("bus_width_max_lanes").replace(0.0, None).alias("told"))
    narrow, unlabelled = frame.filter(pl.col(COLUMNS[0]) < pl.col("told")), frame.filter(pl.col("told").is_null())
    spoken = any(event.kind == "pcie.degraded" for event in case.events)
    if not spoken and not narrow.height and not unlabelled.height:
        return  # so it is nearly always; what follows looks at every card of the cluster
    measured = wide(case).latest("accelerator", COLUMNS[0])
    seen = _not_by_design([*_narrow(narrow, frame, case, CERTAIN, "told")], measured, case)
    seen += _narrower_than_peers(unlabelled, measured, case)
    yield from seen
    if spoken:
        yield from _told_at_boot(case, measured, [one.component for one in seen])


def _not_by_design(seen: list[Evidence], measured: Mapping[Name, float], case: Case) -> list[Evidence]:
    """Without those whose slot is as narrow on other hosts, and without all where most cards of a host are narrow."""
    if not seen:
        return []
    slots = slots_of(case)
    widths = widths_of(case, measured, slots)
    kept = []
    for one in seen:
        place, lanes = place_of(one.component, slots), measured[one.component]
        beside = widths.beside(place)
        whole_host = len(beside) >= LEAST_PEERS - 1 and 2 * sum(other <= lanes for other in beside) >= len(beside)
        if not usual(widths.on_hosts(place), lanes) and not whole_host:
            kept.append(one)
    return kept


def _told_at_boot(case: Case, measured: Mapping[Name, float], narrow: Iterable[Name]) -> Iterator[Evidence]:
    told, widths = told_widths(case, measured, narrow)
    for one in sorted(told, key=lambda link: (link.component, link.slot)):
        if llr := strength(one, told, widths, measured):
            claim = build(
                [*one.events], "pcie_degraded", one.component,
                detector=NAME, version=VERSION, says="bus_narrow_told", llr=llr,
            )  # fmt: skip
            facts = claim.facts | {"lanes": str(one.lanes), "limit": str(one.limit)}
            job = _job_on(one.component, case, case.now_ms)  # a link that is narrow since the boot hurts today's job
            yield replace(claim, source_group=f"{one.component}|bus_width", facts=facts, job=job)


def _job_on(component: Name, case: Case, at_ms: int | None) -> str:
    place = case.placements.at(at_ms).job_of(component)
    return place.job if place else ""


def _narrower_than_peers(frame: pl.DataFrame, measured: Mapping[Name, float], case: Case) -> Iterator[Evidence]:
    """Cards of one model have one width; a minority below it is narrow. Across models nothing is compared."""
    if not (frame["bus_width_lanes"] < max(measured.values(), default=0.0)).any():
        return
    joined = with_models(frame, case).filter(pl.col("model").is_not_null())
    lanes = {"component": [*measured], "lanes": [*measured.values()]}
    known = with_models(pl.DataFrame(lanes), case)
    usual = known.group_by("model").agg(pl.col("lanes").median().alias("peers"), pl.len().alias("cards"))
    joined = joined.join(usual, on="model").filter(pl.col("cards") >= LEAST_PEERS)
    yield from _narrow(joined.filter(pl.col("bus_width_lanes") < pl.col("peers")), joined, case, GOOD, "peers")


def _narrow(narrow: pl.DataFrame, all_rows: pl.DataFrame, case: Case, llr: float, limit: str) -> Iterator[Evidence]:
    for rows in narrow.sort("component", "end_ms").partition_by("component", maintain_order=True):
        component, ends = rows["component"][0], rows["end_ms"].to_list()
        own = all_rows.filter(pl.col("component") == component)["end_ms"].to_list()
        alone = len(own) == 1 and len(ends) == 1  # a single reading of an instant: all there is to see
        if own[-1] != ends[-1] or (len(ends) < LEAST_WINDOWS and not alone):
            continue
        began = ends[0] if own[0] != ends[0] else None  # narrow from the first row on: since when is unknown
        yield _claim(component, rows, began, case, llr if not alone else min(llr, GOOD), limit)


def _claim(component: str, rows: pl.DataFrame, began: int | None, case: Case, llr: float, limit: str) -> Evidence:
    end = int(rows["end_ms"].max())  # type: ignore[arg-type]
    return Evidence(
        id=identity(NAME, VERSION, component, "pcie_degraded", bucket_of(began)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="pcie_degraded",
        llr=llr,
        onset_from_ms=None if began is None else began - case.window_ms,
        onset_to_ms=began,
        end_ms=end,
        window_end_ms=end,
        source_group=f"{component}|bus_width",
        severity=Severity.ERROR,
        job=_job_on(component, case, end - 1),
        says="bus_narrow" if began is not None else "bus_narrow_always",
        facts={"lanes": str(round(rows["bus_width_lanes"][-1])), "limit": str(round(rows[limit][-1]))},
    )
