"""Fabric discovery of the subnet's own tools: `ibnetdiscover` (blocks, `-p` lists) and `iblinkinfo`.

Names come from node descriptions, which people set: they carry blanks, defaults of the maker, and stay behind when a
host is renamed. A description that two nodes share names neither of them. Aggregation nodes look like hosts and sit
inside switches; they are left out, or they would join switches that share nothing.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.formats.reading import Reading, Tally
from collectors.formats.text import lines
from sickbay.components import Kind, Name, name
from sickbay.messages import Edge, Relation

MAX_ENDS = 1_500_000  # ports of one sweep: a three-tier fabric of 100,000 end ports has 600,000
LEAF_SHARE = 0.4  # of a leaf's used ports this many lead to hosts (half, by design); a spine's few lead to managers

_GUID = r"(?:0x)?([0-9a-fA-F]{8,16})"
# Switch  41 "S-b83fd2030062a980"  # "MF0;leaf01:MQM8700/U1" enhanced port 0 lid 5 lmc 0
_NODE = re.compile(rf'^(Switch|Ca|Rt)\s+\d+\s+"[SHR]-{_GUID}"\s+#\s*"(.*)"')
# [19] "H-…"[1](…)  # "worker20 mlx5_3" lid 88 4xHDR       [1](…) "S-…"[19]  # lid 88 lmc 0 "leaf01" lid 5 4xHDR
_PORT = re.compile(
    r'^\[(\d{1,3})\](?:\([0-9a-fA-F]{1,16}\))?(?:\[ext \d{1,3}\])?\s+"([SHR])-'
    + _GUID
    + r'"\[(\d{1,3})\][^#"]{0,80}(?:#(.*))?$'
)
_QUOTED = re.compile(r'"(.*)"')
# CA    88  1 0xb83fd20300da1138 4x HDR - SW    51 79 0x946dae0300630bf6 ( 'worker20 mlx5_3' - 'leaf01 ' )
_LISTED = re.compile(
    rf"^(CA|SW|RT|\?\?\?)\s+\d{{1,6}}\s+(\d{{1,3}})\s+{_GUID}\s+\S{{1,8}}\s+\S{{1,8}}\s+(?:-\s+(.*)|'(.*)')$"
)
_PEER = re.compile(rf"^(CA|SW|RT|\?\?\?)\s+\d{{1,6}}\s+(\d{{1,3}})\s+{_GUID}\s+\( '(.*)' \)$")
_HEADING = re.compile(r"^(Switch|CA|RT):(?:\s+(0x[0-9a-fA-F]{8,16}))?\s+(.*):$")
_ARROW = re.compile(
    r"^\s*(?:0x[0-9a-fA-F]{8,16}\s+)?(\d{1,6})\s+(\d{1,3})\[[^\]]{0,8}\]\s+==\(([^()]{0,80})\)==>"
    r'\s+(?:(\d{1,6})\s+(\d{1,3})\[[^\]]{0,8}\]\s+"(.*)"|\[)'
)
_KIND = {"Switch": "S", "SW": "S", "S": "S", "Ca": "H", "CA": "H", "H": "H"}
_HOST = re.compile(r"^(\S{1,253})(?:\s+(HCA-\d{1,3}|[A-Za-z][A-Za-z0-9]{0,30}(?:_[A-Za-z0-9_]{1,30})?))?$")
_CHASSIS = re.compile(r"^MF0;([^;:]{1,253}):([^/]{0,64})/(\S{1,64})$")
_DEFAULT = re.compile(r"Mellanox Technologies|^Quantum|^Infiniscale|^SwitchX|^MT\d{4,5}\b|^ConnectX", re.IGNORECASE)
_INSIDE = "Aggregation Node"


class Node(NamedTuple):
    """A switch or an adapter, as one sweep told it."""

    kind: str  # S, H, or R for what is neither
    description: str
    guid: str = ""


class End(NamedTuple):
    """A port of a node."""

    node: str
    port: int


@dataclass(slots=True)
class Fabric:
    """What one sweep saw. Nodes by GUID, or by LID where the tool tells no other."""

    nodes: dict[str, Node] = field(default_factory=dict)
    ends: dict[End, int] = field(default_factory=dict)  # with the line first seen in
    links: dict[tuple[End, End], int] = field(default_factory=dict)

    def node(self, guid: str, kind: str, description: str) -> str:
        """Take a node, return its key. What is known of it stands; a missing description is filled in."""
        key = f"0x{guid.lower().rjust(16, '0')}"
        known = self.nodes.get(key)
        if (known is None and len(self.nodes) < MAX_ENDS) or (known is not None and not known.description):
            self.nodes[key] = Node(kind, " ".join(description.split())[:300], key)
        return key

    def join(self, end: End, other: End | None, line: int) -> None:
        """Take a port, and the port at the other end of its link where there is one."""
        if len(self.ends) >= MAX_ENDS:
            return
        self.ends.setdefault(end, line)
        if other is not None and other != end:
            self.ends.setdefault(other, line)
            self.links.setdefault((min(end, other), max(end, other)), line)


def confidence(head: bytes, name: str) -> float:
    """High where lines of the subnet's tools make up the text."""
    rows = [row for row in head.decode("utf-8", "replace").replace("\r", "").split("\n") if row.strip()][:400]
    fitting = sum(any(form.match(row) for form in (_NODE, _PORT, _LISTED, _HEADING, _ARROW)) for row in rows)
    plain = sum(bool(re.match(r"(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid)=0x|#", row)) for row in rows)
    if not fitting:
        return 0.0
    return 0.95 if fitting + plain >= 0.6 * len(rows) else 0.5 if fitting >= 0.2 * len(rows) else 0.2


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """Edges: ports of switches, links between ports, leaf switches to the next tier."""
    fabric = Fabric()
    current: Node | str = ""  # the node whose block is read: its GUID, or what its heading told
    for number, row in lines(chunks, tally):
        current = _take(fabric, current, row, number, tally)
    if len(fabric.ends) >= MAX_ENDS:
        tally.note(f"more than {MAX_ENDS} ports: the rest was left out")
    yield from edges(fabric, tally)


def _take(fabric: Fabric, current: Node | str, row: str, number: int, tally: Tally) -> Node | str:
    """Reads one line, returns the node of the block that it stands in."""
    if match := _NODE.match(row):
        return fabric.node(match[2], _KIND.get(match[1], "R"), match[3])
    if match := _HEADING.match(row):
        return Node(_KIND.get(match[1], "R"), " ".join(match[3].split())[:300], match[2] or "")
    if row.startswith("["):
        _block_port(fabric, current, row, number, tally)
    elif row.startswith(("CA", "SW", "RT", "???")):
        _listed(fabric, row, number, tally)
    elif isinstance(current, Node) and (match := _ARROW.match(row)):
        _arrow(fabric, current, match, number)
    return current


def _block_port(fabric: Fabric, current: Node | str, row: str, number: int, tally: Tally) -> None:
    match = _PORT.match(row)
    if not match or not isinstance(current, str) or not current:
        tally.unparsed += 1
        return
    own, kind, guid, port, remark = match.groups()
    quoted = _QUOTED.search(remark or "")
    peer = fabric.node(guid, _KIND.get(kind, "R"), quoted[1] if quoted else "")
    fabric.join(End(current, int(own)), End(peer, int(port)), number)


def _listed(fabric: Fabric, row: str, number: int, tally: Tally) -> None:
    match = _LISTED.match(row)
    if not match:
        tally.unparsed += 1
        return
    kind, port, guid, peer, description = match.groups()
    if peer is None:
        fabric.join(End(fabric.node(guid, _KIND.get(kind, "R"), description), int(port)), None, number)
        return
    far = _PEER.match(peer)
    descriptions = far[4].split("' - '") if far else []
    if far is None or len(descriptions) != 2:
        tally.unparsed += 1
        return
    near = End(fabric.node(guid, _KIND.get(kind, "R"), descriptions[0]), int(port))
    fabric.join(near, End(fabric.node(far[3], _KIND.get(far[1], "R"), descriptions[1]), int(far[2])), number)


def _arrow(fabric: Fabric, current: Node, match: re.Match[str], number: int) -> None:
    """A line of iblinkinfo: nodes are joined by LID, as it tells no GUID of the other end."""
    lid, port, _, peer_lid, peer_port, _ = match.groups()
    near = End(f"lid{int(lid)}", int(port))
    if len(fabric.nodes) < MAX_ENDS:
        fabric.nodes[near.node] = current
    fabric.join(near, End(f"lid{int(peer_lid)}", int(peer_port)) if peer_lid else None, number)


def port_names(fabric: Fabric, switches: dict[str, Name]) -> dict[End, Name]:
    """The ports' names as descriptions tell them; a name may be there twice, a port without one is left out."""
    return {end: port for end in fabric.ends if (port := _port_name(fabric, end, switches))}


class Names(NamedTuple):
    """What the parts of a sweep are called: switches by their node's key, ports by their end."""

    switches: dict[str, Name]
    ports: dict[End, Name]


def edges(fabric: Fabric, tally: Tally, names: Names | None = None) -> Iterator[Reading]:
    """What the fabric's parts hang on. `names`: where the caller knows better than the descriptions."""
    switches = switch_names(fabric) if names is None else names.switches
    ports = port_names(fabric, switches) if names is None else names.ports
    shared = {port for port, count in Counter(ports.values()).items() if count > 1}
    if shared:
        tally.note(f"{len(shared)} ports have a name that another has too: stale descriptions, left out")
    for switch in dict.fromkeys(switches.values()):
        if "/" in switch:
            yield Reading(Edge(child=switch, parent=switch.partition("/")[0], relation=Relation.PART_OF))
    for end, line in fabric.ends.items():
        if end.node in switches and end in ports:
            yield Reading(Edge(child=ports[end], parent=switches[end.node], relation=Relation.PART_OF), line)
    for (end, other), line in fabric.links.items():
        if end in ports and other in ports and not shared & {ports[end], ports[other]}:
            ends = sorted((end, other), key=lambda one: (one.node in switches, ports[one]))  # the host's end first
            edge = Edge(child=ports[ends[0]], parent=ports[ends[1]], relation=Relation.LINK_END)
            yield Reading(edge, line)
    yield from _tiers(fabric, switches)


def _tiers(fabric: Fabric, switches: dict[str, Name]) -> Iterator[Reading]:
    """Leaf switches hang on the switches above them. Further up a core cannot be told from a leaf without hosts."""
    used: defaultdict[str, int] = defaultdict(int)
    hosts: defaultdict[str, int] = defaultdict(int)
    for end, other in fabric.links:
        for near, far in ((end, other), (other, end)):
            used[near.node] += 1
            node = fabric.nodes.get(far.node)
            hosts[near.node] += node is not None and node.kind == "H" and _INSIDE not in node.description
    leafs = {node for node in switches if hosts[node] and hosts[node] >= LEAF_SHARE * used[node]}
    pairs: dict[tuple[Name, Name], int] = {}
    for (end, other), line in fabric.links.items():
        for leaf, above in ((end.node, other.node), (other.node, end.node)):
            if leaf in leafs and above in switches and not hosts[above]:
                pairs.setdefault((switches[leaf], switches[above]), line)
    for (child, parent), line in pairs.items():
        if child == parent:  # a description that is another's GUID
            continue
        yield Reading(Edge(child=child, parent=parent, relation=Relation.ATTACHED_TO), line)


def switch_names(fabric: Fabric) -> dict[str, Name]:
    """The switches' names: their descriptions where no other has the same, else their GUIDs."""
    told = {key: _switch(node.description) for key, node in fabric.nodes.items() if node.kind == "S"}
    count = Counter(told.values())
    named = {key: text if count[text] == 1 else "" for key, text in told.items()}
    return {
        key: name(Kind.SWITCH, *(text or fabric.nodes[key].guid).split("/"))
        for key, text in named.items()
        if text or fabric.nodes[key].guid
    }


def _switch(description: str) -> str:
    """`MF0;leaf01:MQM8700/U1` is leaf01; a chip of a chassis (`/L3/U1`) is a part of it."""
    if match := _CHASSIS.match(description):
        return match[1] if match[3] == "U1" else f"{match[1]}/{match[3]}"
    return "" if _DEFAULT.search(description) else description.replace("/", "_")


def described_port(description: str, guid: str, port: str) -> Name:
    """The port of a node that a tool tells by description and GUID: a switch's, or that of a host's adapter."""
    text = " ".join(description.split())
    match = _HOST.match(text)
    if match and match[2] and not _DEFAULT.search(text):
        return name(Kind.PORT, match[1].replace("/", "_"), match[2], port)
    return name(Kind.PORT, *(_switch(text) or guid).split("/"), port)


def _port_name(fabric: Fabric, end: End, switches: dict[str, Name]) -> Name | None:
    if end.node in switches:
        return name(Kind.PORT, *switches[end.node].partition(":")[2].split("/"), str(end.port))
    node = fabric.nodes.get(end.node)
    if node is None or node.kind != "H" or _INSIDE in node.description or _DEFAULT.search(node.description):
        return None
    match = _HOST.match(node.description)
    if not match or match[1].lower() == "localhost":
        return None
    return name(Kind.PORT, match[1].replace("/", "_"), match[2] or end.node, str(end.port))
