"""Routes in the horizon of live diagnosis: told once both cables and hosts are known, and ended with their cables."""

from sickbay import messages
from sickbay.app.diagnosing.horizon import Horizon
from sickbay.edges import log_key
from sickbay.log import Record
from sickbay.messages import AnyMessage, Edge, Placement, Relation, replace
from sickbay.topics import PLACEMENT, TOPOLOGY

NOW_MS = 1_760_000_000_000
UPLINK = Edge(child="port:leaf/9", parent="port:spine/1", relation=Relation.LINK_END, seen_ms=NOW_MS, source="lldp")
CABLES = [
    replace(UPLINK, child="port:h1/eth0", parent="port:leaf/1"),
    UPLINK,
    *[replace(UPLINK, child=f"port:{one}/0", parent=f"switch:{one}", relation="part_of") for one in ("leaf", "spine")],
]


def take(horizon: Horizon, topic: str, key: str, message: AnyMessage) -> None:
    horizon.take(Record(topic, 0, 0, NOW_MS, key.encode(), messages.encode(message)))


def over(horizon: Horizon, at_ms: int) -> tuple[str, ...]:
    topology = horizon.case(at_ms, frontier_ms=at_ms).topology
    return topology.at(at_ms).parents("switch:leaf", Relation.ROUTED_OVER)


def test_routes_come_with_hosts_and_go_with_cables() -> None:
    horizon = Horizon()
    for edge in CABLES:
        take(horizon, TOPOLOGY, log_key(edge), edge)
    assert over(horizon, NOW_MS) == (), "no host is known"
    take(horizon, PLACEMENT, "job:1", Placement(job="1", hosts=("h1",), state="running"))
    assert over(horizon, NOW_MS) == ("switch:spine",)
    gone = replace(UPLINK, to_ms=NOW_MS + 10, seen_ms=NOW_MS + 10)
    take(horizon, TOPOLOGY, log_key(gone), gone)
    assert over(horizon, NOW_MS + 20) == ()
    assert over(horizon, NOW_MS + 5) == ("switch:spine",)
    again = replace(UPLINK, from_ms=NOW_MS + 30, seen_ms=NOW_MS + 30)
    take(horizon, TOPOLOGY, log_key(again), again)
    assert over(horizon, NOW_MS + 40) == ("switch:spine",)
    assert over(horizon, NOW_MS + 20) == ()
