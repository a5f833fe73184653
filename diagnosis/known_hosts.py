"""Which owners of ports are hosts: a name alone does not tell a host from a switch."""

from dataclasses import dataclass

from diagnosis.case import Case
from diagnosis.wide import wide
from sickbay.components import Kind, name

OF_HOSTS = ("host", "accelerator")  # tables that only hosts have rows in


@dataclass(frozen=True, slots=True)
class Hosts:
    """Hosts by what they measure, and by what runs there: the former are all of them, where there are any."""

    measured: frozenset[str]
    placed: frozenset[str]

    def __contains__(self, owner: object) -> bool:
        return owner in self.measured or owner in self.placed


def known_hosts(case: Case) -> Hosts:
    """All hosts that the case tells of."""
    measured = frozenset[str]().union(*(wide(case).owners(table) for table in OF_HOSTS))
    return Hosts(measured, frozenset(host for place in case.placements for host in place.hosts))


def is_switch(case: Case, owner: str, hosts: Hosts, at_ms: int | None = None) -> bool:
    """The topology says so, or hosts measure themselves and it is none of them."""
    if case.topology.at(at_ms).children(name(Kind.SWITCH, owner)):
        return True
    return bool(hosts.measured) and owner not in hosts
