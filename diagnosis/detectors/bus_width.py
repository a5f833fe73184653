"""Host links of accelerators that run narrower than card and slot allow: an absolute floor, whatever the past was.

A link that has been narrow since the boot never changes, so its own history cannot show it.
"""

from collections.abc import Iterable, Iterator

import polars as pl

from diagnosis.case import Case
from diagnosis.evidence import CERTAIN, GOOD, bucket_of, identity
from diagnosis.frames import table
from sickbay.components import Kind, Name, name
from sickbay.messages import Evidence, Identity, Severity

NAME, VERSION = "bus_width", "1"

LEAST_WINDOWS = 2  # a second look at the source
LEAST_PEERS = 4  # cards of the same model that must agree where no maximum is told
COLUMNS = ("bus_width_lanes", "bus_width_max_lanes")


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per narrow link."""
    frame = table(case, "accelerator", COLUMNS).filter(pl.col("bus_width_lanes") > 0)
    if frame.height == 0:
        return
    frame = frame.with_columns(pl.col("bus_width_max_lanes").replace(0.0, None).alias("told"))
    yield from _narrow(frame.filter(pl.col("bus_width_lanes") < pl.col("told")), frame, case, CERTAIN, "told")
    untold = frame.filter(pl.col("told").is_null())
    yield from _narrower_than_peers(untold, case)


def _narrower_than_peers(frame: pl.DataFrame, case: Case) -> Iterator[Evidence]:
    """Cards of one model have one width; a minority below it is narrow. Across models nothing is compared."""
    models = {_component(identity): identity.model for identity in case.identities if identity.model}
    names = pl.Series("component", list(models), dtype=pl.String)
    known = pl.DataFrame({"component": names, "model": pl.Series("model", list(models.values()), dtype=pl.String)})
    joined = frame.join(known, on="component", how="left").filter(pl.col("model").is_not_null())
    usual = joined.group_by("model").agg(
        pl.col("bus_width_lanes").median().alias("peers"), pl.col("component").n_unique().alias("cards")
    )
    joined = joined.join(usual, on="model").filter(pl.col("cards") >= LEAST_PEERS)
    yield from _narrow(joined.filter(pl.col("bus_width_lanes") < pl.col("peers")), joined, case, GOOD, "peers")


def _component(identity: Identity) -> Name:
    return name(Kind.ACCELERATOR, identity.host, identity.pci or identity.uuid or identity.index)


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
        says="bus_narrow" if began is not None else "bus_narrow_always",
        facts={"lanes": str(round(rows["bus_width_lanes"][-1])), "limit": str(round(rows[limit][-1]))},
    )
