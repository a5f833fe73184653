"""Ports that went down or dark because somebody wanted it: closed by a person at either end, or with their host."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from diagnosis.case import Case
from sickbay.components import Kind, Name, host_of, kind_of, name
from sickbay.messages import Event

CLOSED_MS = 5_000  # a port closed by a person, and the carrier that goes with it
START_MS = 300_000  # [house] a host and its drivers stop or start within five minutes
_HOSTS = frozenset({"host.boot", "host.shutdown_orderly"})


@dataclass(slots=True)
class Orders:
    """When ports were closed, and hosts went or came."""

    case: Case
    _closed: dict[Name, list[int]] = field(default_factory=lambda: defaultdict(list))
    _hosts: dict[Name, list[int]] = field(default_factory=lambda: defaultdict(list))

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
        times = self._hosts.get(name(Kind.HOST, host_of(component) or ""), [])
        return _within(times, from_ms, to_ms, START_MS)


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
        found._hosts[event.component].append(event.at_ms)


def _within(times: Iterable[int], from_ms: int, to_ms: int, slack_ms: int) -> bool:
    return any(from_ms - slack_ms <= at <= to_ms + slack_ms for at in times)
