"""Ports that went down or dark because somebody wanted it: closed by a person at either end, or with their host."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from diagnosis.case import Case
from sickbay.components import Kind, Name, host_of, kind_of, name
from sickbay.messages import Event

CLOSED_MS = 5_000  # a port closed by a person, and the carrier that goes with it
SAME_MS = 2_000  # clock error between well-kept sources
START_MS = 300_000  # [house] a host and its drivers stop or start within five minutes
_HOSTS = frozenset({"host.boot", "host.shutdown_orderly"})


@dataclass(slots=True)
class Orders:
    """When ports were closed, and hosts went or came."""

    case: Case
    _closed: dict[Name, list[int]] = field(default_factory=lambda: defaultdict(list))
    _hosts: dict[Name, list[tuple[int, bool]]] = field(default_factory=lambda: defaultdict(list))  # time, it started

    def closed(self, component: Name, from_ms: int | None, to_ms: int | None = None) -> bool:
        """The port (or the module's port), or the other end of its link, was closed in that time."""
        if from_ms is None or not self._closed:
            return False
        port = Kind.PORT + ":" + component.partition(":")[2]
        ends = {port, self.case.topology.at(from_ms).other_end(port) or port}
        times = [at for end in ends for at in self._closed.get(end, ())]
        return _within(times, from_ms, from_ms if to_ms is None else to_ms, CLOSED_MS)

    def starting(self, component: Name, from_ms: int, to_ms: int) -> bool:
        """The component's host went down in order, or started, in that time."""
        told = self._hosts.get(name(Kind.HOST, host_of(component) or ""), [])
        return _within([at for at, _ in told], from_ms, to_ms, START_MS)

    def stopped(self, port: Name, at_ms: int) -> tuple[str, ...]:
        """Hosts at the ends of a link that went down in order as the carrier was lost, or up to five minutes before."""
        return tuple(
            host
            for host in self._owners(port, at_ms)
            if any(not start and -SAME_MS <= at_ms - at <= START_MS for at, start in self._of(host))
        )

    def started(self, port: Name, at_ms: int, up_ms: Iterable[int]) -> bool:
        """A carrier was lost as a host at either end started. Where that host started afterwards only, the carrier must
        have come back (`up_ms`): else somebody may have started it for the loss."""
        starts = [at for host in self._owners(port, at_ms) for at, start in self._of(host) if start]
        return any(
            0 <= at_ms - at < START_MS or (0 < at - at_ms <= START_MS and any(up >= at for up in up_ms))
            for at in starts
        )

    def _of(self, host: str) -> list[tuple[int, bool]]:
        return self._hosts.get(name(Kind.HOST, host), [])

    def _owners(self, port: Name, at_ms: int) -> list[str]:
        """Hosts at both ends; a switch that starts is no excuse for its ports."""
        if not self._hosts:
            return []
        view = self.case.topology.at(at_ms)
        owners = {host_of(end) or "" for end in (port, view.other_end(port) or port)}
        return [owner for owner in sorted(owners) if not view.children(name(Kind.SWITCH, owner))]


def orders(case: Case) -> Orders:
    """All of a case."""
    found = Orders(case)
    for event in case.events:
        _take(found, event)
    return found


def _take(found: Orders, event: Event) -> None:
    if event.at_ms is None:
        return
    if event.kind == "port.admin_down":
        found._closed[event.component].append(event.at_ms)
    elif event.kind in _HOSTS and kind_of(event.component) is Kind.HOST:
        found._hosts[event.component].append((event.at_ms, event.kind == "host.boot"))


def _within(times: Iterable[int], from_ms: int, to_ms: int, slack_ms: int) -> bool:
    return any(from_ms - slack_ms <= at <= to_ms + slack_ms for at in times)
