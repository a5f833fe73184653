"""Errors of the host's memory modules and machine checks, by the kernel's own counts."""

from collections.abc import Iterator, Sequence

from collectors import rows
from collectors.agent.source import Collected, Host, Seen
from collectors.formats import memory_files
from collectors.host.tree import Tree
from sickbay.components import Kind, name
from sickbay.messages import Event
from sickbay.schema import Samples

INTERVAL_S = 10.0
CHECKS_MS = 60_000  # /proc/interrupts of 256 processors is a megabyte
CONTROLLERS, INTERRUPTS = "sys/devices/system/edac/mc", "proc/interrupts"
MOST_INTERRUPTS = 16 << 20
_OF_CONTROLLER = ("ce_count", "ue_count")
_OF_MODULE = ("dimm_label", "dimm_ce_count", "dimm_ue_count")


class HostMemoryErrors:
    """The collector `host_memory_errors`."""

    name = "host_memory_errors"
    asks_driver = False

    def __init__(self, host: Host) -> None:
        self.interval_s = max(INTERVAL_S, host.settings.sample_s)
        self._host, self._tree, self._memory = host, Tree(host.root), memory_files.Memory()
        self._checked_ms: int | None = None

    def collect(self, now_ms: int) -> Collected:
        """A row for the host, and events of modules whose errors grew."""
        told = dict(self._controllers())
        cells = {name(Kind.HOST, self._host.name): memory_files.columns(told)}
        records: list[Samples | Event] = [*rows.samples("host", cells, now_ms), *self._memory.events(told, now_ms)]
        if self._checked_ms is None or not 0 <= now_ms - self._checked_ms < CHECKS_MS:
            self._checked_ms = now_ms
            records += self._memory.checks(self._tree.read(INTERRUPTS, MOST_INTERRUPTS))
        seen = [Seen(record, now_ms, CONTROLLERS, host=self._host.name) for record in records]
        absent = "" if told else "the kernel counts no memory errors here (no EDAC driver)"
        return Collected(seen, problem=self._tree.blind(), absent=absent)

    def close(self) -> None:
        """Nothing is held open."""

    def _controllers(self) -> Iterator[tuple[str, dict[str, str]]]:
        for place in self._tree.names(CONTROLLERS):
            if place.startswith("mc"):
                folder = f"{CONTROLLERS}/{place}"
                parts = [part for part in self._tree.names(folder) if part.startswith(("dimm", "rank"))]
                wanted = [*_OF_CONTROLLER, *(f"{part}/{file}" for part in parts for file in _OF_MODULE)]
                yield place, {file: text for file in wanted if (text := self._tree.read(f"{folder}/{file}"))}


def collectors(host: Host) -> Sequence[HostMemoryErrors]:
    """One."""
    return (HostMemoryErrors(host),)
