"""Where the records of switches go in the log, and what a later run must remember of them."""

from collections.abc import Iterable, Sequence

from collectors.agent.naming import identity_key
from collectors.cluster.poll import Outgoing
from collectors.cluster.switch_links import SOURCE
from collectors.cluster.switch_state import Record, Switch
from sickbay.components import parts_of
from sickbay.edges import log_key
from sickbay.messages import AnyMessage, Change, Edge, Event, Identity, Relation, replace
from sickbay.topics import CHANGES, EVENTS, TOPOLOGY


def outgoing(record: Record, switch: str, now_ms: int | None = None) -> Outgoing:
    """The record with its topic and key; events are kept under the switch that told them."""
    if isinstance(record, Event):
        return Outgoing(EVENTS, switch, replace(record, seen_ms=now_ms))
    if isinstance(record, Change):
        return Outgoing(CHANGES, record.target, record)
    if isinstance(record, Identity):
        return Outgoing(TOPOLOGY, identity_key(record), record)
    return Outgoing(TOPOLOGY, log_key(record), record)


def names_of(switches: Iterable[Switch]) -> dict[str, str]:
    """What switches call themselves -> how the settings name them; a name that two bear names neither."""
    told: dict[str, str] = {}
    twice: set[str] = set()
    for switch in switches:
        for word in {switch.system, switch.system.partition(".")[0]} - {""}:
            twice |= {word} if told.get(word, switch.name) != switch.name else set()
            told[word] = switch.name
    own = {switch.name: switch.name for switch in switches}
    return {word: name for word, name in told.items() if word not in twice} | own


def remember(switches: Sequence[Switch], told: Iterable[AnyMessage]) -> None:
    """Take up the links that an earlier run told and did not end."""
    newest = {
        (one.child, one.parent): one
        for one in told
        if isinstance(one, Edge) and one.source == SOURCE and one.relation is Relation.LINK_END
    }
    known = {switch.name: switch for switch in switches}
    for edge in newest.values():
        for end in (edge.child, edge.parent):
            owner, *port = parts_of(end)
            if edge.to_ms is None and owner in known:
                known[owner].links["/".join(port)] = edge
