"""Carriers lost in telemetry: down is told only after it was up, and for two windows."""

import polars as pl

from diagnosis.carriers import hosts_seen, lost_in_telemetry
from diagnosis.case import Case

WINDOW = 10_000


def case(**rows: list[float | None]) -> Case:
    frame = pl.DataFrame(
        [
            {"component": f"port:{host}/eth0", "end_ms": WINDOW * (place + 1), "up": up}
            for host, ups in rows.items()
            for place, up in enumerate(ups)
        ],
        schema={"component": pl.String, "end_ms": pl.Int64, "up": pl.Float64},
    )
    return Case(features={"port": frame}, window_ms=WINDOW)


def lost(**rows: list[float | None]) -> list[tuple[str, int | None]]:
    return [(event.component, event.at_ms) for event in lost_in_telemetry(case(**rows))]


#  up   up   mixed  down   down            the last window that was wholly up ends at 20 s
def test_a_port_that_goes_down_and_stays_down_is_lost() -> None:
    assert lost(h1=[1, 1, 0.4, 0, 0], h2=[1, 1, 1, 1, 1]) == [("port:h1/eth0", 2 * WINDOW)]
    assert lost(h1=[1, 0, 0, 0]) == [("port:h1/eth0", WINDOW)]


def test_unused_blind_and_blinking_ports_are_not() -> None:
    assert lost(h1=[0, 0, 0, 0]) == []
    assert lost(h1=[1, 1, None, None]) == []
    assert lost(h1=[1, 0.5, 1, 1]) == []
    assert lost(h1=[1, 1, 0]) == []


def test_hosts_seen_are_those_that_said_anything() -> None:
    assert hosts_seen(case(h1=[1], h2=[0])) == {"h1", "h2"}
