"""A small kit to compose nights: clusters, telemetry with faults in it, and what must and must not come out."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import polars as pl

from diagnosis.case import Case
from sickbay.messages import Edge, Event, Placement, Progress, RankPlace, Relation
from sickbay.placement import Placements
from sickbay.topology import Topology
from sickbay.vocabulary import event_kinds

HOSTS = [f"h{number}" for number in range(15, 21)]
T0 = 1_760_000_000_000  # an onset; a multiple of the window
WINDOW = 10_000

Row = dict[str, Any]
Change = Callable[[str, int, Row], Row | None]


def card(host: str, index: int) -> str:
    return f"accelerator:{host}/0000:{index:02x}:00"


def event(kind: str, component: str, at_s: float | None = 0.0, **fields: Any) -> Event:
    row = event_kinds()[kind]
    at_ms = None if at_s is None else T0 + round(at_s * 1000)
    given: dict[str, Any] = {
        "severity": row.severity, "blame": row.blame, "path": "kernel.log", "line": 1 + int((at_s or 0) * 10) % 100_000,
        "code": kind, "message": kind,
    }  # fmt: skip
    return Event(component=component, kind=kind, at_ms=at_ms, **(given | fields))


def placement(job: str, hosts: Iterable[str], cards: int = 8, attempt: int = 0, **fields: Any) -> Placement:
    names = list(hosts)
    ranks = tuple(
        RankPlace(rank=place * cards + index, host=host, component=card(host, index))
        for place, host in enumerate(names)
        for index in range(cards)
    )
    return Placement(job=job, attempt=attempt, hosts=tuple(names), ranks=ranks, state="running", **fields)


def accelerators(
    hosts: Iterable[str], change: Change | None = None, cards: int = 8, from_s: int = -120, to_s: int = 60
) -> pl.DataFrame:
    """Windows of a training job; `change(component, end_s, row)` puts the fault in, None takes the row away."""
    rows = []
    for host in hosts:
        for index in range(cards):
            component = card(host, index)
            for end_s in range(from_s, to_s + 1, WINDOW // 1000):
                wobble = (hash_of(component) + end_s) % 7
                row: Row | None = {
                    "component": component, "end_ms": T0 + end_s * 1000, "n": 10, "utilisation_ratio": 1.0,
                    "matrix_active_ratio": 0.5 + wobble / 1000, "power_watts": 600.0 + wobble,
                    "temperature_celsius": 60.0 + wobble / 3, "clock_megahertz": 1755.0, "throttle_mask": 0.0,
                    "power_limit_watts": 700.0, "bus_width_lanes": 16.0, "bus_width_max_lanes": 16.0,
                    "thermal_violation_nanoseconds_total__increase": 0.0,
                }  # fmt: skip
                row = change(component, end_s, row) if change and row else row
                if row:
                    rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def hash_of(text: str) -> int:
    return sum(map(ord, text.rpartition("/")[2]))


def hosts_up(hosts: Iterable[str], from_s: int = -120, to_s: int = 60) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"component": f"host:{host}", "end_ms": T0 + end * 1000, "n": 10, "up": 1.0}
            for host in hosts
            for end in range(from_s, to_s + 1, WINDOW // 1000)
        ]
    )


def stalled_after(at_s: int, row: Row, end_s: int) -> Row:
    """What a card shows that spins in a collective."""
    if end_s <= at_s:
        return row
    return row | {
        "matrix_active_ratio": 0.0,
        "power_watts": 200.0,
        "temperature_celsius": 45.0,
        "clock_megahertz": 1980.0,
    }


def leaf(name: str, hosts: Iterable[str], rail: str = "eth3") -> list[Edge]:
    """Links from one port of each host to the ports of one switch."""
    edges = []
    for place, host in enumerate(hosts):
        own, far = f"port:{host}/{rail}", f"port:{name}/Ethernet{place}"
        edges += [
            Edge(child=own, parent=f"host:{host}", relation=Relation.PART_OF),
            Edge(child=far, parent=f"switch:{name}", relation=Relation.PART_OF),
            Edge(child=own, parent=far, relation=Relation.LINK_END),
        ]
    return edges


def case(
    events: Iterable[Event] = (),
    placements: Iterable[Placement] = (),
    edges: Iterable[Edge] = (),
    features: Mapping[str, pl.DataFrame] | None = None,
    **fields: Any,
) -> Case:
    ordered = sorted(events, key=lambda one: (one.at_ms is None, one.at_ms or 0, one.path, one.line))
    return Case(
        events=tuple(ordered), placements=Placements(placements), topology=Topology(edges),
        features=dict(features or {}), window_ms=WINDOW, **fields,
    )  # fmt: skip


def progress(rank: int, seq: int = 100, at_s: float | None = 600.0, **fields: Any) -> Progress:
    given: dict[str, Any] = {
        "job": "4471", "group": "0", "op": "ALLREDUCE", "state": "waiting", "timeout_ms": 600_000,
        "path": "job.log", "line": rank + 1,
    }  # fmt: skip
    return Progress(rank=rank, seq=seq, at_ms=None if at_s is None else T0 + round(at_s * 1000), **(given | fields))
