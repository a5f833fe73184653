"""Losses that belong to somebody's order, and falls of light that are older than most of what is remembered."""

import polars as pl

from diagnosis.detectors import link_down, optic_power
from diagnosis.engine import diagnose
from sickbay.messages import Edge, Event, Relation, Verdict
from tests.diagnosis.kit import T0, case, event, leaf

HOSTS = [f"h{number}" for number in range(1, 9)]


def named(events: list[Event], edges: list[Edge]) -> list[str]:
    return [one.component for one in link_down.claims(case(events, [], edges))]


def test_what_a_switch_tells_of_hosts_that_went_down_in_order_is_no_loss() -> None:
    edges = leaf("leaf", HOSTS)
    power = [Edge(child=f"host:{host}", parent="pdu:p1", relation=Relation.POWERED_BY) for host in HOSTS[:4]]
    stops = [event("host.shutdown_orderly", f"host:{host}", place / 10) for place, host in enumerate(HOSTS[:4])]
    told = [event("port.down", f"port:leaf/Ethernet{place}", 3 + place / 10) for place in range(4)]
    own = [event("port.down", f"port:{host}/eth3", 3 + place / 10) for place, host in enumerate(HOSTS[:4])]
    assert named([*stops, *told], [*edges, *power]) == []
    assert {one.verdict for one in diagnose(case([*stops, *own], [], [*edges, *power]))} == {Verdict.MAINTENANCE}
    assert named(told, [*edges, *power]) != []


def test_a_carrier_that_comes_back_with_its_host_was_lost_with_it() -> None:
    boot = event("host.boot", "host:h1", 120.0)
    down, up = event("port.down", "port:leaf/Ethernet0", 0.0), event("port.up", "port:leaf/Ethernet0", 140.0)
    assert named([down, boot, up], leaf("leaf", HOSTS)) == []
    assert named([down, boot], leaf("leaf", HOSTS)) == ["port:leaf/Ethernet0"]  # started for the loss, and still lost
    flap = event("port.down", "port:leaf/Ethernet0", 130.0)
    assert named([boot, flap, up], leaf("leaf", HOSTS)) == []


def test_a_switch_that_starts_is_no_excuse_for_its_ports() -> None:
    boot = event("host.boot", "host:leaf", 180.0)
    downs = [event("port.down", f"port:{host}/eth3", place / 100) for place, host in enumerate(HOSTS)]
    ups = [event("port.up", f"port:{host}/eth3", 200.0) for host in HOSTS]
    (incident,) = diagnose(case([*downs, boot, *ups], [], leaf("leaf", HOSTS)))
    assert (incident.component, incident.verdict) == ("switch:leaf", Verdict.SHARED)


def test_many_ports_of_one_switch_in_one_moment_are_one_question_without_a_topology() -> None:
    downs = [event("port.down", f"port:core-1/Ethernet{port}", port / 100) for port in range(32)]
    (incident,) = diagnose(case(downs))
    assert incident.component == "switch:?"
    few = [event("port.down", f"port:core-1/Ethernet{port}", port / 100) for port in range(3)]
    assert {one.component for one in diagnose(case(few))} == {f"port:core-1/Ethernet{port}" for port in range(3)}


def test_a_leaf_that_speaks_on_while_its_hosts_are_silent_is_not_down() -> None:
    downs = [event("port.down", f"port:leaf/Ethernet{place}", place / 100) for place in range(8)]
    spoke = event("switch.environment", "switch:leaf", 40.0)
    assert "switch:leaf" not in named([*downs, spoke], leaf("leaf", HOSTS))
    assert "switch:leaf" in named(downs, leaf("leaf", HOSTS))
    alive = event("port.up", "port:h3/eth3", 300.0)
    assert "switch:leaf" in named([*downs, spoke, alive], leaf("leaf", HOSTS))


def test_light_that_fell_long_ago_is_still_low() -> None:
    ends = range(40)  # of which the first four lie before the fall
    rows = [
        {"component": "optic:h1/eth3", "end_ms": T0 + 60_000 * end, "rx_power_dbm": -1.9 if end < 4 else -4.4}
        for end in ends
    ]
    frame = pl.DataFrame(rows).with_columns(
        pl.lit(0.8).alias("tx_power_dbm"), pl.lit(None, dtype=pl.Float64).alias("rx_power_alarm_dbm")
    )
    (claim,) = optic_power.claims(case(features={"optic": frame}, edges=leaf("leaf", HOSTS)))
    assert (claim.component, claim.says) == ("optic:h1/eth3", "light_fell")
