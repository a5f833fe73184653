"""A carrier's loss whose order is known later: the incident that it made is over, and only that one."""

from dataclasses import replace
from typing import Any

from diagnosis.case import Case
from diagnosis.engine import advance
from sickbay.messages import Edge, Event, Incident, Relation
from sickbay.topology import Topology
from sickbay.vocabulary import event_kinds

NOW = 1_796_000_000_000
CABLE = Edge(child="port:h1/eth2", parent="port:leaf1/Ethernet4", relation=Relation.LINK_END, from_ms=1)
CASE = Case(now_ms=NOW + 1000, topology=Topology([CABLE]))


def told(kind: str, component: str, at_ms: int = NOW, **fields: Any) -> Event:
    row = event_kinds()[kind]
    host = component.partition(":")[2].partition("/")[0]
    return Event(component=component, kind=kind, at_ms=at_ms, severity=row.severity, host=host, **fields)


DOWN = told("port.down", "port:h1/eth2")
OTHER = told("port.down", "port:h7/eth0", NOW + 60_000)
CLOSED = told("port.admin_down", "port:leaf1/Ethernet4", NOW + 400)


def after(*looks: tuple[Event, ...]) -> dict[str, str]:
    """Component and state of the incidents after these looks, each with all events told so far."""
    found: tuple[Incident, ...] = ()
    for place, events in enumerate(looks):
        found = advance(found, replace(CASE, events=events, now_ms=NOW + 60_000 + 10_000 * place))
    return {one.component: one.state for one in found}


def test_an_order_that_comes_later_ends_the_incident() -> None:
    assert after((DOWN,)) == {"port:h1/eth2": "open"}
    assert after((DOWN,), (DOWN, CLOSED)) == {"port:h1/eth2": "closed"}
    assert after((DOWN,), (DOWN, CLOSED), (DOWN, CLOSED)) == {"port:h1/eth2": "closed"}


def test_other_losses_stand() -> None:
    looks = ((DOWN, OTHER), (DOWN, OTHER, CLOSED))
    assert after(*looks) == {"port:h1/eth2": "closed", "port:h7/eth0": "open"}
    late = told("port.admin_down", "port:leaf1/Ethernet4", NOW + 120_000)  # closed for the repair
    assert after((DOWN,), (DOWN, late)) == {"port:h1/eth2": "open"}


def test_a_loss_that_has_slid_out_of_the_horizon_is_not_withdrawn() -> None:
    assert after((DOWN,), ()) == {"port:h1/eth2": "open"}


def test_both_ends_of_one_link_are_one_loss_and_no_switch() -> None:
    hangs = [
        Edge(child="port:h1/eth2", parent="host:h1", relation=Relation.PART_OF, from_ms=1),
        Edge(child="port:leaf1/Ethernet4", parent="switch:leaf1", relation=Relation.PART_OF, from_ms=1),
    ]
    far = told("port.down", "port:leaf1/Ethernet4", NOW + 30)
    case = replace(CASE, topology=Topology([CABLE, *hangs]), events=(DOWN, far), now_ms=NOW + 5_000)
    (one,) = advance((), case)
    assert (one.component, one.fault) == ("port:h1/eth2", "link_down")
    assert {claim.component for claim in one.evidence} == {"port:h1/eth2", "port:leaf1/Ethernet4"}
