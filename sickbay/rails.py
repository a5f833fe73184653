"""Rails: in a rail-optimised fabric the same network device of every host hangs on the same leaf switch.

Learned from the links alone: a leaf whose ports lead mostly to one device of its hosts is a leaf of that device's rail.
A port on a leaf of another rail is probably cabled wrongly: a word for people, no fault. Where leaves take all devices
of a host (top of rack), or a device spreads over leaves at will, there are no rails.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sickbay.components import Kind, Name, kind_of, parts_of
from sickbay.messages import Relation
from sickbay.topology import Topology

SHARE = 0.75  # [house] of a leaf's host links that must lead to one device: some wrong cables do not hide a rail
LEAST_HOSTS = 3  # behind a leaf: of two hosts one wrong cable is half
_PIECES = re.compile(r"(\d+)")


class Rails(NamedTuple):
    """`rail`: number of each host port, counted from 0 in the order of the devices' names; `odd`: port -> the rail of
    the leaf that it hangs on, where that is another's."""

    rail: Mapping[Name, int] = {}
    odd: Mapping[Name, int] = {}


def host_links(topology: Topology, at_ms: int | None = None) -> list[tuple[Name, Name]]:
    """(host port, switch) of every link between a host and a switch that is in force."""
    view, found = topology.at(at_ms), dict[tuple[Name, Name], None]()
    for edge in topology:
        for port in (edge.child, edge.parent) if edge.relation is Relation.LINK_END else ():
            switches = [one for one in view.parents(port, Relation.ATTACHED_TO) if kind_of(one) is Kind.SWITCH]
            if len(switches) == 1:
                found[port, switches[0]] = None
    return list(found)


def rails(links: Iterable[tuple[Name, Name]]) -> Rails:
    """The rails that these links (host port, switch) form; none where they form none."""
    ends = list(links)
    leaves: defaultdict[Name, list[Name]] = defaultdict(list)
    for port, leaf in ends:
        leaves[leaf].append(port)
    rail_of_leaf = {leaf: device for leaf, ports in leaves.items() if (device := _mostly(ports))}
    devices = sorted(set(rail_of_leaf.values()), key=_naturally)
    if len(devices) < 2:  # one device a host: nothing to tell apart
        return Rails()
    numbers = {device: number for number, device in enumerate(devices)}
    rail = {port: numbers[own] for port, _ in ends if (own := _device(port)) in numbers}
    odd = {
        port: numbers[rail_of_leaf[leaf]]
        for port, leaf in ends
        if leaf in rail_of_leaf and _device(port) in numbers and rail_of_leaf[leaf] != _device(port)
    }
    return Rails(rail, odd)


def _device(port: Name) -> str:
    """The device of a host's port, the same on every host: what stands behind the host."""
    return "/".join(parts_of(port)[1:])


def _mostly(ports: list[Name]) -> str | None:
    """The device that most ports of a leaf lead to, each on a host of its own."""
    hosts = {parts_of(port)[0] for port in ports}
    device, count = Counter(map(_device, ports)).most_common(1)[0]
    return device if len(hosts) >= LEAST_HOSTS and count >= SHARE * len(ports) else None


def _naturally(text: str) -> list[tuple[int, str]]:
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in _PIECES.split(text)]
