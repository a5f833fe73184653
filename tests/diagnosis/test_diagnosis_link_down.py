"""Which part lost its carriers: the most specific one whose members are all gone, never one with healthy members."""

import polars as pl
import pytest

from diagnosis.detectors import link_down
from diagnosis.engine import diagnose
from sickbay.messages import Edge, Evidence, Relation
from tests.diagnosis.kit import T0, case, event, leaf

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


def uplinks() -> list[Edge]:
    """What a sweep tells of one leaf: its hosts, and a cable to each of two spines."""
    ends = [(f"port:{host}/mlx5_0/1", f"port:leaf/{place}") for place, host in enumerate(HOSTS, 1)]
    ends += [(f"port:leaf/{30 + spine}", f"port:spine{spine}/1") for spine in (1, 2)]
    own = [end for pair in ends for end in pair if not end.startswith("port:h")]
    parts_of = [Edge(child=one, parent=f"switch:{one[5:].split('/')[0]}", relation=Relation.PART_OF) for one in own]
    return [*parts_of, *(Edge(child=a, parent=b, relation=Relation.LINK_END) for a, b in ends)]


def dark_hosts(lost: int, *, read_s: tuple[int, ...], hosts_live: bool = False, uplink: bool = False) -> list[str]:
    """Parts that are named where both ends of hosts' links went down, and the leaf was read at these times."""
    downs = [f"port:{host}/mlx5_0/1" for host in HOSTS[:lost]] + [f"port:leaf/{place + 1}" for place in range(lost)]
    downs += ["port:leaf/31", "port:spine1/1"] if uplink else []
    events = [event("port.down", port, 0.0, line=place) for place, port in enumerate(downs)]
    switch = pl.DataFrame({"component": ["switch:leaf"] * len(read_s), "end_ms": [T0 + s * 1000 for s in read_s]})
    # management controllers live on where their hosts are dead
    told = {"load_1m": [1.0] * lost} if hosts_live else {"management_up": [1.0] * lost, "powered": [0.0] * lost}
    host = pl.DataFrame(
        {"component": [f"host:{one}" for one in HOSTS[:lost]], "end_ms": [T0 + 60_000] * lost, **told}
    )  # fmt: skip
    features = {"switch": switch.with_columns(up=pl.lit(1.0)), "host": host}
    found = link_down.claims(case(events, [], uplinks(), features))
    return [one.component for one in found if not one.component.startswith("port:")]


@pytest.mark.parametrize("lost", [4, 8])
def test_hosts_that_go_dark_under_a_leaf_that_works_on_are_no_dead_leaf(lost: int) -> None:
    assert dark_hosts(lost, read_s=(30, 60)) == ["switch:?"]


def test_a_leaf_is_cleared_only_by_what_a_dead_one_could_not_do() -> None:
    assert dark_hosts(8, read_s=()) == ["switch:leaf"]
    assert dark_hosts(8, read_s=(300,)) == ["switch:leaf"]  # back from a restart
    assert dark_hosts(8, read_s=(30, 60), hosts_live=True) == ["switch:leaf"]  # the hosts are well, their ports are not
    assert dark_hosts(8, read_s=(30, 60), uplink=True) == ["switch:leaf"]
