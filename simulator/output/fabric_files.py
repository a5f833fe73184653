"""The tiers above the leaves of a planned fabric, as `ibnetdiscover` and a site's list of cables tell them."""

from collections.abc import Collection

from simulator.parts.cluster import Cluster
from simulator.parts.fabrics import Trunk

FIRST = 0x1A00  # of the numbers of switches; leaves come first


def unread(cluster: Cluster) -> list[Trunk]:
    """Links that no counters are kept of: those of spines and cores, and of the twins of leaves, on Ethernet."""
    if not cluster.switches or cluster.cards[0].fabric != "ethernet":
        return []
    leaves = {*cluster.leaves}
    return [one for one in cluster.switches.trunks if one.lower not in leaves]


def trunks(cluster: Cluster, missed: Collection[str]) -> dict[str, list[str]]:
    """Lines of the ports that lead to other switches, by switch; what a sweep missed is in none."""
    found: dict[str, list[str]] = {}
    numbers = _numbers(cluster)
    for one in cluster.switches.trunks if cluster.switches else ():
        if one.lower in missed or one.upper in missed:
            continue
        found.setdefault(one.lower, []).append(_line(one.lower_port, one.upper, one.upper_port, numbers))
        found.setdefault(one.upper, []).append(_line(one.upper_port, one.lower, one.lower_port, numbers))
    return found


def block(cluster: Cluster, switch: str, ports: list[str]) -> str:
    """The block of a switch that no host hangs on."""
    number = _numbers(cluster)[switch]
    own = _guid(number)
    head = f"vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x{own}\nswitchguid=0x{own}({own})\n"
    name = f'Switch\t65 "S-{own}"\t\t# "{switch}" enhanced port 0 lid {_lid(number)} lmc 0\n'
    return head + name + "\n".join(ports) + "\n"


def _line(port: str, other: str, other_port: str, numbers: dict[str, int]) -> str:
    number = numbers[other]
    return f'[{port}]\t"S-{_guid(number)}"[{other_port}]\t\t# "{other}" lid {_lid(number)} 4xNDR'


def _numbers(cluster: Cluster) -> dict[str, int]:
    names = cluster.switches.names if cluster.switches else ()
    return {switch: FIRST + row for row, switch in enumerate(names)}


def _guid(number: int) -> str:
    return f"b0cf0e0300{number:06x}"


def _lid(number: int) -> int:
    return number - FIRST + 2
