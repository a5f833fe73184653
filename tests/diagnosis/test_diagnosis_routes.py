"""Row 17: a change of routes in a spine explains slow traffic of the hosts and leaves that route over it, no others."""

import pytest

from diagnosis.case import Case
from diagnosis.claims import Claim
from diagnosis.detectors import hosts_lost
from diagnosis.relations import Relations
from sickbay.messages import Edge, Evidence, Placement, Relation
from sickbay.routes import routes_among
from tests.diagnosis.kit import T0, case, event, placement

LEAVES = {"leaf1": ("h15", "h16", "h17"), "leaf2": ("h18", "h19", "h20")}


def cables() -> list[Edge]:
    ports = [(f"{host}/eth0", f"{leaf}/{host}") for leaf, hosts in LEAVES.items() for host in hosts]
    ports += [(f"{leaf}/{spine}", f"{spine}/{leaf}") for leaf in LEAVES for spine in ("s1", "s2")]
    ports.append(("other/eth0", "leaf3/1"))
    told = [
        Edge(child=f"port:{one}", parent=f"port:{other}", relation=Relation.LINK_END, source="lldp")
        for one, other in ports
    ]
    switches = [*LEAVES, "leaf3", "s1", "s2"]
    told += [Edge(child=f"port:{one}/0", parent=f"switch:{one}", relation=Relation.PART_OF) for one in switches]
    told.append(Edge(child="switch:s1", parent="rack:net", relation=Relation.PART_OF))
    return [*told, *routes_among(told, ("h15",))]


def claim(component: str, fault: str) -> Claim:
    one = Evidence(
        id=component, detector="test", version="1", component=component, fault=fault, llr=3.0,
        onset_from_ms=T0, onset_to_ms=T0, says="explicit",
    )  # fmt: skip
    return Claim(component, fault, (one,))


def night(*placements: Placement) -> Case:
    return case([], placements, cables())


@pytest.mark.parametrize(
    ("cause", "symptom", "surely"),
    [
        ("switch:s1", "switch:leaf1", 1.0),
        ("switch:s1", "port:leaf2/h18", 1.0),
        ("switch:s1", "port:h15/eth0", 1.0),
        ("switch:s1", "host:h18", 1.0),
        ("switch:s1", "job:4471", 1.0),
        ("switch:leaf1", "host:h15", 1.0),
        ("switch:leaf1", "host:h18", 0.0),
        ("switch:s1", "host:other", 0.0),
        ("switch:s1", "job:9", 0.0),
        ("switch:s1", "switch:s2", 0.0),
    ],
)
def test_what_routes_over_a_spine_is_slowed_by_it(cause: str, symptom: str, surely: float) -> None:
    known = night(placement("4471", ["h15", "h18"]), placement("9", ["other"]))
    related = Relations(known).related("routed_over", claim(cause, "route_changed"), claim(symptom, "congestion"))
    assert related == surely


def test_a_spine_holds_nothing_up_that_has_other_ways() -> None:
    relations = Relations(night())
    spine, host, other = (claim(part, "link_down") for part in ("switch:s1", "host:h15", "host:h18"))
    assert relations.related("attached_to", spine, host) == 0.0
    assert relations.related("same_domain", host, other) == 0.0, "the rack of a spine is no rack of theirs"


def test_hosts_that_are_lost_under_two_leaves_are_not_laid_to_a_spine() -> None:
    lost = [event("scheduler.host_down", f"host:{host}", 1) for hosts in LEAVES.values() for host in hosts]
    told = {one.component for one in hosts_lost.claims(case(lost, edges=cables()))}
    assert not {part for part in told if part.startswith("switch:s")}
