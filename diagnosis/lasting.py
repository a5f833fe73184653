"""Known claims about levels that stay where they fell, longer than the past is remembered that told the fall.

A dark module is as dark after an hour; only what it sent before is forgotten by then, and no detector would claim it
anew. The claim itself tells what was before: while the newest reading is still beyond that, it goes on. What is not
read any more is unknown, and its claim ages.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

import polars as pl

from diagnosis.carriers import DOWN
from diagnosis.case import Case
from diagnosis.detectors import cooling_lost, optic_power, power_lost
from diagnosis.frames import table
from sickbay.components import Kind, Name, kind_of
from sickbay.messages import Evidence, Incident, replace

Row = Mapping[str, float | None]


def lasting(kept: Iterable[Evidence], case: Case) -> Iterator[Evidence]:
    """The claims, those that still stand with the end of the newest window that tells so."""
    newest = cache(lambda kind: _newest(case, kind))
    for one in kept:
        rule = _RULES.get(one.detector)
        part = rule and _part(one)
        row = newest(kind_of(part)).get(part) if part else None
        if rule and row and rule(one, row) and int(row["end_ms"] or 0) > (one.window_end_ms or 0):
            renewed: Evidence = replace(one, window_end_ms=int(row["end_ms"] or 0))
            yield renewed
        else:
            yield one


def parts_of(incidents: Iterable[Incident]) -> frozenset[Name]:
    """Parts whose readings are asked for to tell whether what open incidents rest on goes on."""
    claims = (
        one for incident in incidents if incident.state == "open" for one in (*incident.evidence, *incident.against)
    )
    return frozenset(part for one in claims if one.detector in _RULES and (part := _part(one)))


def _part(one: Evidence) -> Name | None:
    """Whose readings tell: of light that is lost between two ends the receiver's."""
    part = one.facts.get("towards", one.component)
    return part if kind_of(part) in _TABLES else None


def _newest(case: Case, kind: Kind) -> dict[Name, Row]:
    """The newest value of each column, and when the newest of all was told."""
    told, columns = _TABLES[kind]
    frame = table(case, told, columns)
    last = [pl.col(column).drop_nulls().last() for column in columns]
    rows = frame.group_by("component").agg(pl.col("end_ms").max(), *last) if frame.height else frame
    return {row["component"]: row for row in rows.iter_rows(named=True)}


def _dim(one: Evidence, row: Row) -> bool:
    level = row["tx_power_dbm" if one.says.startswith("laser") else "rx_power_dbm"]
    before = _fact(one, "before")
    return level is not None and before is not None and level <= before - optic_power.FALL_DB


def _off(one: Evidence, row: Row) -> bool:
    told = [(row[column], nothing) for column, nothing, _ in power_lost.SIGNS if row[column] is not None]
    return bool(told) and all(value is not None and value <= nothing for value, nothing in told)


def _warm(one: Evidence, row: Row) -> bool:
    """A leak that is wet, or every family that was told is still beyond what it was."""
    flow, supply = _fact(one, "flow_before"), _fact(one, "supply_before")
    if flow is None and supply is None:
        return (row[cooling_lost.LEAK] or 0) >= 0.5
    now_flow, now_supply = row[cooling_lost.FLOW], row[cooling_lost.SUPPLY]
    less = flow is None or (now_flow is not None and now_flow <= flow * (1 - cooling_lost.FALL))
    warmer = supply is None or (now_supply is not None and now_supply >= supply + cooling_lost.RISE_CELSIUS)
    return less and warmer


def _down(one: Evidence, row: Row) -> bool:
    return one.fault == "link_down" and row["up"] is not None and row["up"] <= DOWN


def _fact(one: Evidence, key: str) -> float | None:
    try:
        return float(one.facts[key])
    except (KeyError, ValueError):
        return None


_TABLES = {
    Kind.OPTIC: ("optic", ("rx_power_dbm", "tx_power_dbm")),
    Kind.PDU: ("pdu", tuple(column for column, _, _ in power_lost.SIGNS)),
    Kind.CDU: ("cdu", (cooling_lost.FLOW, cooling_lost.SUPPLY, cooling_lost.LEAK)),
    Kind.PORT: ("port", ("up",)),
}
_RULES: dict[str, Callable[[Evidence, Row], bool]] = {
    optic_power.NAME: _dim, power_lost.NAME: _off, cooling_lost.NAME: _warm, "link_down": _down,
}  # fmt: skip
