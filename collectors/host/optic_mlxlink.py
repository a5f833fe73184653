"""Error ratios of InfiniBand ports by `mlxlink`, which no file and no other tool of a host tells; reads only.

Devices take turns, one question at a time, each once a minute. Without the tool the subnet's own counters have to do.
The option that clears counters (`--pc`) is never given.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from collectors import rows
from collectors.agent.source import Collected, Host, Seen
from collectors.formats import link_readings
from collectors.formats.reading import Record
from collectors.host import tool
from collectors.host.adapters import RDMA
from collectors.host.tree import Tree
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Identity

EVERY_MS, LOOK_AROUND_MS = 60_000, 60_000
MOST_DEVICES = 64
DRIVER = "mlx5_core"
MISSING = "mlxlink (mft or mstflint) is not installed: ports tell no error ratio"


@dataclass(slots=True)
class OpticMlxlink:
    """The collector `optic_mlxlink`."""

    host: Host
    ask: tool.Ask
    name: str = "optic_mlxlink"
    asks_driver: bool = True
    interval_s: float = 1.0
    _due_ms: dict[tuple[str, str], int] = field(default_factory=dict)  # (device, port) -> when to ask
    _lit: set[str] = field(default_factory=set)  # devices whose module another tool reads
    _troubles: dict[str, str] = field(default_factory=dict)
    _answered: set[str] = field(default_factory=set)
    _looked_ms: int | None = None
    _missing: bool = False

    def collect(self, now_ms: int) -> Collected:
        """The answer of at most one device that is due."""
        if self._looked_ms is None or not 0 <= now_ms - self._looked_ms < LOOK_AROUND_MS:
            self._looked_ms, self._missing = now_ms, False
            self._look_around(now_ms)
        if not self._due_ms:
            return Collected(absent="no adapter that the tool knows")
        device, port = min(self._due_ms, key=lambda one: (self._due_ms[one], one))
        if self._missing or self._due_ms[device, port] > now_ms:
            return Collected(problem=self._problem(), absent=MISSING if self._missing else "")
        self._due_ms[device, port] = now_ms + EVERY_MS
        command = ("mlxlink", "-d", device, "-p", port, "-m", "-c", "--json")
        records = list(self._answer(command, device, port, now_ms))
        seen = [Seen(one, now_ms, " ".join(command), host=self.host.name) for one in records]
        return Collected(seen, problem=self._problem(), absent=MISSING if self._missing else "")

    def close(self) -> None:
        """Nothing is held open."""

    def _problem(self) -> str:
        return "; ".join(self._troubles.values())[:300]

    def _look_around(self, now_ms: int) -> None:
        tree = Tree(self.host.root)
        found = list(_ports(tree))[:MOST_DEVICES]
        self._lit = {device for device, _ in found if tree.names(f"{RDMA}/{device}/device/net")}
        spread = EVERY_MS // max(1, len(found))
        self._due_ms = {  # never further off than a turn: the clock may have been set back
            one: min(self._due_ms.get(one, now_ms + place * spread), now_ms + EVERY_MS)
            for place, one in enumerate(found)
        }
        self._troubles = {device: why for device, why in self._troubles.items() if (device, "1") in self._due_ms}

    def _answer(self, command: Sequence[str], device: str, port: str, now_ms: int) -> Iterator[Record]:
        try:
            raw = self.ask(command, self.host.settings.timeout_s)
            if why := link_readings.refusal(raw):
                raise tool.ToolFailed(f"{' '.join(command)}: {why}")
        except tool.ToolMissing:
            self._missing = True
            return
        except tool.ToolFailed as error:
            if device in self._answered or tool.is_refused(error) or "no whole answer" in str(error):
                self._troubles[device] = str(error)
            return
        self._answered.add(device)
        self._troubles.pop(device, None)
        optic, module = link_readings.read(raw)
        if device in self._lit:  # `ethtool -m` reads the same module through the interface
            optic = {key: value for key, value in optic.items() if key == "errors_before_correction_ratio"}
        elif module is not None and (module.serial or module.model):
            yield Identity(kind=Kind.OPTIC, name=f"{device}/{port}", serial=module.serial, model=module.model)
        yield from rows.samples("optic", {name(Kind.OPTIC, UNKNOWN, device, port): optic}, now_ms)


def _ports(tree: Tree) -> Iterator[tuple[str, str]]:
    """InfiniBand ports of adapters that the tool reads; Ethernet ones tell theirs by their statistics."""
    for device in tree.names(RDMA):
        driver = (tree.leads_to(f"{RDMA}/{device}/device/driver") or [""])[-1]
        if driver != DRIVER or tree.exists(f"{RDMA}/{device}/device/physfn"):
            continue
        for port in tree.names(f"{RDMA}/{device}/ports"):
            if tree.read(f"{RDMA}/{device}/ports/{port}/link_layer") == "InfiniBand":
                yield device, port


def collectors(host: Host) -> Sequence[OpticMlxlink]:
    """One: a host without such adapters is asked nothing."""
    return (OpticMlxlink(host, tool.Careful(tool.ask)),)
