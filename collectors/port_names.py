"""One name for each port, module and adapter of a host, whatever its sources call it: a join by what hosts tell.

A port has an RDMA name (`mlx5_0/1`), an interface (`eth2`), an address on the bus and a GUID; an identity of the kind
`port` tells which of them are one: `index`, `name`, `pci`, `uuid` (`0x…/1`, the GUID and the port). The RDMA name
stands for the port where it has one, else the interface; the bus address stands for the adapter. Modules are called as
their ports are.

A wrong join blames a healthy part, so all that is told of a host is looked at together: names that hang together by
any row are one port only if they hold at most one name of each sort. Bonds, several interfaces on one address and
what an earlier boot called its devices come out as two of one sort: then all of them keep their own names.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sickbay.components import UNKNOWN, Kind, Name, name, part
from sickbay.messages import Edge, Event, Identity, replace

MAX_ROWS = 4096  # of one host: no host has more
_ADAPTER, _PORTS = str(Kind.NIC), frozenset({str(Kind.PORT), str(Kind.OPTIC)})
_KINDS = frozenset({*_PORTS, _ADAPTER})

Token = tuple[str, str]  # its sort (rdma, interface, address, guid) and what is told


@dataclass(frozen=True, slots=True)
class HostNames:
    """One host's names -> the one that stands for them, where that is another."""

    ports: dict[str, str] = field(default_factory=dict)
    adapters: dict[str, str] = field(default_factory=dict)
    guids: dict[str, str] = field(default_factory=dict)  # of ports, which sweeps of the fabric may know alone


class PortNames:
    """All hosts' ports. A host's names are joined anew when a name is asked for after something new was told."""

    def __init__(self, identities: Iterable[Identity] = ()) -> None:
        self._rows: dict[str, dict[object, Identity]] = {}
        self._joined: dict[str, HostNames] = {}
        self._homes: dict[str, str] = {}  # GUID -> the name of its port below `port:`, "" once two hosts claim it
        self._fresh: set[str] = set()  # hosts that were told something since
        for one in identities:
            self.learn(one, one)

    def learn(self, one: Identity, key: object) -> None:
        """Take an identity; of two under one key the newer."""
        host = part(one.host)
        if one.kind not in (Kind.PORT, Kind.NIC) or host in ("", UNKNOWN):
            return
        rows = self._rows.setdefault(host, {})
        if rows.get(key) != one and (key in rows or len(rows) < MAX_ROWS):
            rows[key] = one
            self._fresh.add(host)

    def forget(self, one: Identity, key: object) -> None:
        """Let go of what was told under a key."""
        host = part(one.host)
        if self._rows.get(host, {}).pop(key, None) is not None:
            self._fresh.add(host)

    def settle(self) -> bool:
        """Join what was told since. True where it changes any name."""
        changed = False
        for host in self._fresh:
            now = joined(self._rows[host].values())
            before = self._joined.get(host, HostNames())
            self._joined[host] = now
            if now != before:
                changed = True
                self._move(host, before.guids, now.guids)
        self._fresh.clear()
        return changed

    def _move(self, host: str, before: dict[str, str], now: dict[str, str]) -> None:
        for guid in before:
            if self._homes.get(guid) == f"{host}/{before[guid]}":
                del self._homes[guid]
        for guid, stands in now.items():
            home = f"{host}/{stands}"
            if self._homes.setdefault(guid, home) != home:
                self._homes[guid] = ""

    def canonical(self, component: Name) -> Name:
        """The name that stands for the component; any other name as it is."""
        kind, _, rest = component.partition(":")
        if kind not in _KINDS:
            return component
        host, _, token = rest.partition("/")
        if self._fresh:
            self.settle()
        if (names := self._joined.get(host)) is None:
            home = self._homes.get(rest) if kind != _ADAPTER else None
            return f"{kind}:{home}" if home else component
        stands = (names.adapters if kind == _ADAPTER else names.ports).get(token)
        return component if stands is None else f"{kind}:{host}/{stands}"

    def edge(self, edge: Edge) -> Edge:
        """The edge under these names."""
        child, parent = self.canonical(edge.child), self.canonical(edge.parent)
        same = child == edge.child and parent == edge.parent
        return edge if same else replace(edge, child=child, parent=parent)

    def event(self, event: Event) -> Event:
        """The event under these names."""
        component, peer = self.canonical(event.component), self.canonical(event.peer) if event.peer else ""
        same = component == event.component and peer == event.peer
        return event if same else replace(event, component=component, peer=peer)

    def module(self, one: Identity) -> Identity:
        """The identity of a module under the name of its port; any other as it is."""
        if one.kind != Kind.OPTIC or not one.name:
            return one
        token = self.canonical(name(Kind.PORT, one.host, *one.name.split("/"))).partition("/")[2]
        return one if token == one.name else replace(one, name=token)


def joined(rows: Iterable[Identity]) -> HostNames:
    """The names of one host."""
    told = list(rows)
    ports, guids = _ports(told)
    return HostNames(ports, _adapters(told), guids)


def _ports(rows: list[Identity]) -> tuple[dict[str, str], dict[str, str]]:
    """Other names -> the one that stands for a port, and those of them that are GUIDs."""
    found: dict[str, str] = {}
    guids: dict[str, str] = {}
    devices: dict[str, set[str]] = {}
    interfaces = {part(row.name) for row in rows}
    for group in _groups(filter(None, map(_port_tokens, rows))):
        sorts = dict(group)
        for sort, token in group:
            if sort == "rdma":
                devices.setdefault(token.partition("/")[0], set()).add(token)
        stands = sorts.get("rdma") or sorts.get("interface")
        if len(sorts) == len(group) and stands:
            found |= {token: stands for _, token in group if token != stands}
            guids |= {token: stands for sort, token in group if sort == "guid"}
    for device, ports in devices.items():  # `mlx5_0` alone, of a device with one port
        if len(ports) == 1 and device not in interfaces:
            found.setdefault(device, *ports)
    return found, guids


def _port_tokens(row: Identity) -> list[Token]:
    """What a row says of one port. An adapter's row names its address and interface only."""
    own = row.kind == Kind.PORT
    told = (
        ("rdma", row.index if own and "/" in row.index else ""),
        ("interface", row.name),
        ("address", row.pci),
        ("guid", row.uuid if own else ""),
    )
    return [(sort, part(token)) for sort, token in told if token]


def _groups(rows: Iterable[list[Token]]) -> Iterator[list[Token]]:
    """Tokens that hang together by rows, each once."""
    above: dict[Token, Token] = {}

    def root(token: Token) -> Token:
        while (up := above.setdefault(token, token)) != token:
            above[token] = token = above[up]
        return token

    for first, *others in rows:
        root(first)
        for token in others:
            above[root(token)] = root(first)
    groups: dict[Token, list[Token]] = {}
    for token in list(above):
        groups.setdefault(root(token), []).append(token)
    yield from groups.values()


def _adapters(rows: list[Identity]) -> dict[str, str]:
    """Other names of an adapter -> its address, where all that is told of the name leads to one address."""
    told: dict[str, set[str]] = {}
    for row in rows:
        device = row.index.partition("/")[0] if row.kind == Kind.PORT else row.index
        for token in (device, row.name) if row.pci else ():
            told.setdefault(part(token), set()).add(part(row.pci))
    return {token: next(iter(addresses)) for token, addresses in told.items() if token and len(addresses) == 1}
