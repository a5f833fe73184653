"""Links that lose symbols, recover again and again, or need ever more correction, by the port's own counters.

Corrected bits are normal. What counts is their share of all bits against the port's own past; errors are counted at the
receiver, so that this alone accuses neither end.
"""

from collections.abc import Iterable, Iterator

import polars as pl

from diagnosis.by_order import orders
from diagnosis.case import Case
from diagnosis.evidence import CERTAIN, FAIR, GOOD, bucket_of, identity
from diagnosis.frames import table
from sickbay.components import Name, link
from sickbay.messages import Action, Evidence, Severity, replace

NAME, VERSION = "link_errors", "1"

PER_SECOND = 1.0  # [house] uncorrected symbol errors or received errors a second that matter
LEAST_WINDOWS = 3  # with 10 s windows the 30 s of two soft families: rate and persistence
CORRECTED = 1e-5  # [house] share of corrected bits from which on a link is watched; its limit is 2.4e-4 (IEEE 802.3)
TIMES = 10.0  # [house] its own past
RATIO = ("corrected_bits_total__increase", "received_bits_total__increase")
BACK = ("up", "received_bits_total__increase")  # what shows that a link carries
OF_MODULE = "errors_before_correction_ratio"
COLUMNS = ("symbol_errors_total__increase", "rx_errors_total__increase", "link_downed_total__increase")


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per port and finding: it lost its link, or it loses symbols for 30 s."""
    yield from _correction(case)
    frame, known = table(case, "port", (*COLUMNS, *BACK)), orders(case)
    if frame.height == 0:
        return
    symbols, received, downed = (pl.col(column).fill_null(0.0) for column in COLUMNS)
    least = PER_SECOND * case.window_ms / 1000
    bad = frame.with_columns((symbols + received).alias("errors"), downed.alias("downs"))
    for rows in bad.filter(pl.col("downs") > 0).partition_by("component", maintain_order=True):
        if known.closed(rows["component"][0], int(rows["end_ms"][0]) - case.window_ms, int(rows["end_ms"][0])):
            continue
        flaps = float(rows["downs"].sum()) > 1 or _is_back(bad, rows)
        yield _claim(rows, "link_flap" if flaps else "link_down", "link_downed", CERTAIN, "downs", case)
    for rows in bad.filter(pl.col("errors") >= least).partition_by("component", maintain_order=True):
        if rows.height >= LEAST_WINDOWS:
            yield _claim(rows, "link_errors", "link_loses_symbols", GOOD, "errors", case)


def _is_back(frame: pl.DataFrame, downs: pl.DataFrame) -> bool:
    """The port carries again after its last loss."""
    last = int(downs["end_ms"].max())  # type: ignore[arg-type]
    later = frame.filter((pl.col("component") == downs["component"][0]) & (pl.col("end_ms") > last))
    return bool(later.select(((pl.col(BACK[0]) >= 1) | (pl.col(BACK[1]) > 0)).any()).item())


def _correction(case: Case) -> Iterator[Evidence]:
    """One claim per receiver that corrects ten times what it did, for three windows to the last.

    Where both ends of a link do, it is one claim about what they share: the cable.
    """
    worse = dict(_worse(case))
    view = case.topology.at(None)
    for port, (rows, usual) in worse.items():
        far = view.other_end(port)
        if far not in worse:
            yield _corrects(port, rows, usual, "corrects_more", case)
        elif port < far:
            ends = link(port.partition(":")[2], far.partition(":")[2])
            yield _corrects(ends, rows, usual, "both_ends_correct_more", case)


def _worse(case: Case) -> Iterator[tuple[Name, tuple[pl.DataFrame, float]]]:
    """Ports with their bad windows, and what was usual there."""
    frame = table(case, "port", RATIO).filter(pl.col(RATIO[1]) > 0)
    ratios = frame.with_columns((pl.col(RATIO[0]) / pl.col(RATIO[1])).alias("ratio")).filter(pl.col("ratio") <= 1)
    modules = table(case, "optic", (OF_MODULE,)).rename({OF_MODULE: "ratio"}).filter(pl.col("ratio").is_not_null())
    ports = modules.with_columns(pl.col("component").str.replace("^optic:", "port:"))
    told = [one.select("component", "end_ms", "ratio") for one in (ratios, ports) if one.height]
    if not told:
        return
    known = pl.concat(told).unique(["component", "end_ms"], keep="first")  # the port's own word goes first
    known = known.sort("component", "end_ms")
    high_now = known.filter(pl.col("ratio").last().over("component") >= CORRECTED)  # few of tens of thousands
    for rows in high_now.partition_by("component", maintain_order=True):
        usual = float(rows["ratio"].quantile(0.25) or 0.0)
        least = max(CORRECTED, TIMES * usual)
        high = rows["ratio"].to_list()
        if rows.height >= 2 * LEAST_WINDOWS and all(one >= least for one in high[-LEAST_WINDOWS:]):
            first = len(high) - next((i for i, one in enumerate(reversed(high)) if one < least), len(high))
            yield rows["component"][0], (rows[first:], usual)


def _corrects(component: Name, rows: pl.DataFrame, usual: float, says: str, case: Case) -> Evidence:
    ratio = {"errors": f"{max(rows['ratio'].to_list()):.0e}", "usual": f"{usual:.0e}"}
    own = rows.with_columns(pl.lit(component).alias("component"))
    claim = _claim(own, "link_errors", says, FAIR, "ratio", case)
    told: Evidence = replace(
        claim, advice=Action.WATCH, facts=claim.facts | ratio, source_group=f"{component}|correction"
    )
    return told


def _claim(rows: pl.DataFrame, fault: str, says: str, llr: float, column: str, case: Case) -> Evidence:
    component, first, last = rows["component"][0], int(rows["end_ms"][0]), int(rows["end_ms"][-1])
    return Evidence(
        id=identity(NAME, VERSION, component, fault, bucket_of(first)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault=fault,
        llr=llr,
        onset_from_ms=first - case.window_ms,
        onset_to_ms=first,
        end_ms=last,
        window_end_ms=last,
        source_group=f"{component}|{fault}|counters",
        severity=Severity.ERROR if fault != "link_errors" else Severity.WARNING,
        says=says,
        facts={"errors": str(round(float(rows[column].sum()))), "seconds": str(rows.height * case.window_ms // 1000)},
    )
