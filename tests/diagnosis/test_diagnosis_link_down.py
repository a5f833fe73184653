"""Which part lost its carriers: the most specific one whose members are all gone, never one with healthy members."""

import pytest

from diagnosis.detectors import link_down
from diagnosis.engine import diagnose
from sickbay.messages import Edge, Evidence, Relation
from tests.diagnosis.kit import case, event, leaf

HOSTS = [f"h{number}" for number in range(100, 108)]
RAILS = range(4)


def rails() -> list[Edge]:
    """Port i of every host goes to leaf i; all leaves go to both spines."""
    links = [
        Edge(child=f"port:{host}/eth{rail}", parent=f"port:leaf-{rail}/Ethernet{place}", relation=Relation.LINK_END)
        for rail in RAILS
        for place, host in enumerate(HOSTS)
    ]
    ports = [
        Edge(child=f"port:leaf-{rail}/Ethernet{place}", parent=f"switch:leaf-{rail}", relation=Relation.PART_OF)
        for rail in RAILS
        for place in range(len(HOSTS))
    ]
    return [*links, *ports, *above([f"leaf-{rail}" for rail in RAILS])]


def above(leaves: list[str]) -> list[Edge]:
    return [Edge(child=f"switch:{one}", parent="switch:spine", relation=Relation.ATTACHED_TO) for one in leaves]


def scheduler_only() -> list[Edge]:
    """What topology.conf tells: hosts on leaves, leaves on a spine."""
    half = len(HOSTS) // 2
    leaves = {"leaf-1": HOSTS[:half], "leaf-2": HOSTS[half:]}
    hosts = [
        Edge(child=f"host:{host}", parent=f"switch:{one}", relation=Relation.ATTACHED_TO)
        for one, members in leaves.items()
        for host in members
    ]
    return [*hosts, *above(list(leaves))]


def parts(ports: list[str], topology: list[Edge]) -> list[Evidence]:
    downs = [event("port.down", port, place / 100) for place, port in enumerate(ports)]
    found = link_down.claims(case(downs, [], topology))
    return [one for one in found if not one.component.startswith("port:")]


@pytest.mark.parametrize("side", ["host", "switch"])
def test_a_leaf_of_one_rail_is_named_and_no_other(side: str) -> None:
    ports = [
        f"port:{host}/eth2" if side == "host" else f"port:leaf-2/Ethernet{place}" for place, host in enumerate(HOSTS)
    ]
    (claim,) = parts(ports, rails())
    assert (claim.component, claim.fault, claim.says) == ("switch:leaf-2", "switch_down", "carriers_lost")


def test_a_host_that_reboots_on_all_rails_takes_no_leaf_with_it() -> None:
    claims = parts([f"port:h100/eth{rail}" for rail in RAILS], rails())
    assert [one.component for one in claims if one.says == "carriers_lost"] == []


def test_the_leaf_and_not_the_spine_where_only_the_scheduler_tells() -> None:
    ports = [f"port:{host}/{port}" for host in HOSTS[4:] for port in ("ens1", "ens2")]
    (claim,) = parts(ports, scheduler_only())
    assert (claim.component, claim.facts["share"]) == ("switch:leaf-2", "100")


def test_all_leaves_at_once_are_what_they_share() -> None:
    (claim,) = parts([f"port:{host}/ens1" for host in HOSTS], scheduler_only())
    assert claim.component == "switch:spine"


def test_two_of_many_clear_the_leaf() -> None:
    hosts = [f"h{number}" for number in range(200, 264)]
    (claim,) = parts(["port:leaf-07/Ethernet3", "port:leaf-07/Ethernet9"], leaf("leaf-07", hosts))
    assert (claim.component, claim.says) == ("switch:leaf-07", "siblings_well")
    assert claim.llr < 0


def test_two_ports_of_a_switch_that_nobody_else_knows_are_no_switch() -> None:
    known = [Edge(child=f"port:sw/{port}", parent="switch:sw", relation=Relation.PART_OF) for port in range(8)]
    assert parts(["port:sw/1", "port:sw/2"], known) == []
    (claim,) = parts([f"port:sw/{port}" for port in range(8)], known)
    assert claim.component == "switch:sw"


def test_many_carriers_in_one_moment_are_one_question_without_a_topology() -> None:
    together = [event("port.down", f"port:{host}/eth0", place / 100) for place, host in enumerate(HOSTS)]
    (incident,) = diagnose(case(together, [], []))
    assert (incident.verdict, incident.component, incident.action) == ("shared", "switch:?", "watch")
    assert len(incident.dependants) >= len(HOSTS)
    few = [event("port.down", f"port:{host}/eth0", place / 100) for place, host in enumerate(HOSTS[:3])]
    assert {one.component for one in diagnose(case(few, [], []))} == {f"port:{host}/eth0" for host in HOSTS[:3]}
