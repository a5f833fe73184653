"""What stays dark, off, warm or down for longer than its past is remembered stays an open incident until it is well."""

from collections.abc import Callable

import polars as pl
import pytest

from diagnosis.engine import advance
from sickbay.messages import Edge, Incident, Relation
from tests.diagnosis.kit import T0, WINDOW, case, leaf

MINUTE, HORIZON = 60_000, 30
EDGES = [*leaf("leaf", ["h1", "h2"]), Edge(child="host:h1", parent="pdu:p1", relation=Relation.POWERED_BY)]
EDGES += [Edge(child="host:h1", parent="cdu:c1", relation=Relation.COOLED_BY)]

Told = Callable[[bool], dict[str, float]]
PARTS: dict[str, tuple[str, Told]] = {
    "optic:h1/eth3": ("optic", lambda bad: {"rx_power_dbm": -6.0 if bad else -1.9, "tx_power_dbm": 0.8}),
    "pdu:p1": ("pdu", lambda bad: {"power_watts": 0.0 if bad else 9_000.0}),
    "cdu:c1": (
        "cdu",
        lambda bad: {
            "flow_litres_per_minute": 250.0 if bad else 400.0, "supply_temperature_celsius": 30.0 if bad else 25.0,
            "return_temperature_celsius": 44.0 if bad else 35.0,
        },
    ),
    "port:h1/eth3": ("port", lambda bad: {"up": 0.0 if bad else 1.0}),
}  # fmt: skip


def live(component: str, until: int, well_from: int = 10_000, silent_from: int = 10_000) -> list[Incident]:
    """Incidents after a look each six minutes with half an hour of memory; it breaks at minute 20."""
    table, told = PARTS[component]
    known: tuple[Incident, ...] = ()
    for now in range(10, until, 6):
        minutes = range(max(0, now - HORIZON), min(now, silent_from))
        rows = [
            {"component": component, "end_ms": T0 + minute * MINUTE + second * 1000, **told(20 <= minute < well_from)}
            for minute in minutes
            for second in range(0, 60, WINDOW // 1000)
        ]
        frame = pl.DataFrame(rows) if rows else pl.DataFrame(schema={"component": pl.String, "end_ms": pl.Int64})
        known = advance(known, case(features={table: frame}, edges=EDGES, now_ms=T0 + now * MINUTE))
    return list(known)


@pytest.mark.parametrize("component", PARTS)
def test_it_stays_open_while_it_is_read_as_bad(component: str) -> None:
    (incident,) = live(component, 120)
    assert (incident.state, incident.component) == ("open", component)


@pytest.mark.slow
@pytest.mark.parametrize("component", PARTS)
def test_it_closes_once_it_is_well_or_is_not_read_any_more(component: str) -> None:
    assert {one.state for one in live(component, 120, well_from=70)} == {"closed"}
    assert {one.state for one in live(component, 120, silent_from=60)} == {"closed"}
