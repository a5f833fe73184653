"""Modules and drivers of fabric ports by `ethtool`: light, heat and bias every minute, statistics twice a minute.

Ports take turns, one question at a time: a module's memory is read over a slow bus. Only ports with an RDMA device, or
of 25 Gb/s and more, are asked. A port that never answered has nothing to tell; one that did and does not is a trouble.
A module's alarm flags are latched and go out when anybody reads them: nothing here rests on them, only on readings.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from collectors import rows
from collectors.agent.source import Collected, Host, Seen
from collectors.formats import optic_readings, port_statistics
from collectors.formats.reading import Record
from collectors.host import tool
from collectors.host.adapters import IPOIB, NET, RDMA, adapters
from collectors.host.tree import Tree
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Identity

MODULE_MS, STATISTICS_MS = 60_000, 30_000
LOOK_AROUND_MS = 60_000
LEAST_MEGABITS = 25_000
MOST_PORTS = 64


@dataclass(slots=True)
class Turn:
    """One question that is asked again and again."""

    interface: str
    part: str  # the port's name below the host
    option: str  # -m or -S
    every_ms: int
    due_ms: int
    answered: bool = False
    trouble: str = ""


@dataclass(slots=True)
class OpticEthtool:
    """The collector `optic_ethtool`."""

    host: Host
    ask: tool.Ask = tool.ask
    name: str = "optic_ethtool"
    asks_driver: bool = True
    interval_s: float = 1.0
    _turns: dict[tuple[str, str], Turn] = field(default_factory=dict)
    _looked_ms: int | None = None
    _missing: str = ""

    def collect(self, now_ms: int) -> Collected:
        """The answer to at most one question that is due."""
        if self._looked_ms is None or not 0 <= now_ms - self._looked_ms < LOOK_AROUND_MS:
            self._looked_ms, self._missing = now_ms, ""
            self._turns = self._turns_of(now_ms)
            for turn in self._turns.values():  # the clock may have been set back
                turn.due_ms = min(turn.due_ms, now_ms + turn.every_ms)
        seen: list[Seen] = []
        due = min(self._turns.values(), key=lambda turn: (turn.due_ms, turn.interface, turn.option), default=None)
        if due is not None and due.due_ms <= now_ms and not self._missing:
            due.due_ms = now_ms + due.every_ms
            path = f"ethtool {due.option} {due.interface}"
            seen = [Seen(record, now_ms, path, host=self.host.name) for record in self._answer(due, now_ms)]
        return Collected(seen, problem=self._problem(), absent="" if self._turns else "no port of a fabric")

    def close(self) -> None:
        """Nothing is held open."""

    def _problem(self) -> str:
        return self._missing or "; ".join(turn.trouble for turn in self._turns.values() if turn.trouble)[:300]

    def _turns_of(self, now_ms: int) -> dict[tuple[str, str], Turn]:
        asked = [
            (interface, part, option, every_ms)
            for interface, part, transport in look_around(Tree(self.host.root))
            for option, every_ms in (("-m", MODULE_MS), ("-S", STATISTICS_MS))
            if option == "-m" or not transport
        ]
        # Spread over their periods, so that no second holds two of them.
        return {
            (one[0], one[2]): self._turns.get((one[0], one[2]))
            or Turn(*one, due_ms=now_ms + one[3] * place // len(asked))
            for place, one in enumerate(asked)
        }

    def _answer(self, turn: Turn, now_ms: int) -> Iterator[Record]:
        try:
            raw = self.ask(("ethtool", turn.option, turn.interface), self.host.settings.timeout_s)
        except tool.ToolMissing as error:
            self._missing = str(error)
            return
        except tool.ToolFailed as error:
            lost = turn.answered or tool.is_refused(error) or "no whole answer" in str(error)
            turn.trouble = str(error) if lost else ""
            return
        turn.answered, turn.trouble = True, ""
        text = raw.decode("utf-8", "replace")
        yield from _module(text, turn, now_ms) if turn.option == "-m" else _counted(text, turn, now_ms)


def _module(text: str, turn: Turn, now_ms: int) -> Iterator[Record]:
    module = optic_readings.read(text)
    if module is None:
        return
    if module.serial or module.model:
        yield Identity(kind=Kind.OPTIC, name=turn.part, serial=module.serial, model=module.model)
    cells = {name(Kind.OPTIC, UNKNOWN, *turn.part.split("/")): optic_readings.columns(module)}
    yield from rows.samples("optic", cells, now_ms)


def _counted(text: str, turn: Turn, now_ms: int) -> Iterator[Record]:
    port = name(Kind.PORT, UNKNOWN, *turn.part.split("/"))
    yield from (reading.record for reading in port_statistics.read(text, port, now_ms))


def look_around(tree: Tree) -> Iterator[tuple[str, str, bool]]:
    """(interface, name of its port, whether the fabric is InfiniBand) of each port that is asked."""
    here = adapters(tree)
    devices = {interface: device for device in here.ports for interface in tree.names(f"{RDMA}/{device}/device/net")}
    found = 0
    for interface in here.interfaces:
        device, port = devices.get(interface, ""), here.twins.get(interface, interface)
        speed = tree.read(f"{NET}/{interface}/speed")
        fast = speed.isdigit() and len(speed) < 9 and int(speed) >= LEAST_MEGABITS
        if found < MOST_PORTS and (device or fast):
            found += 1
            yield interface, port, tree.read(f"{NET}/{interface}/type") == IPOIB


def collectors(host: Host) -> Sequence[OpticEthtool]:
    """One: a host without fabric ports is asked nothing."""
    return (OpticEthtool(host, tool.Careful(tool.ask)),)
