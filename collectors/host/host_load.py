"""How the host itself fares, by /proc: load, memory, waiting tasks, pressure, boot time."""

from collections.abc import Sequence

from collectors import rows
from collectors.agent.source import Collected, Host, Seen
from collectors.formats import host_files
from collectors.host.tree import Tree
from sickbay.components import Kind, name

INTERVAL_S = 5.0  # two looks in a window: /proc/stat of 256 processors costs the kernel a millisecond
MOST_BYTES = 1 << 20  # /proc/stat of a big host has some 100 kB


class HostLoad:
    """The collector `host_load`."""

    name = "host_load"
    asks_driver = False

    def __init__(self, host: Host) -> None:
        self.interval_s = max(INTERVAL_S, host.settings.sample_s)
        self._host, self._tree = host, Tree(host.root)

    def collect(self, now_ms: int) -> Collected:
        """One row; none where no file tells anything."""
        told = host_files.columns({file: self._tree.read(f"proc/{file}", MOST_BYTES) for file in host_files.FILES})
        cells = {name(Kind.HOST, self._host.name): told | {"up": 1.0}} if told else {}
        seen = [Seen(one, now_ms, "proc", host=self._host.name) for one in rows.samples("host", cells, now_ms)]
        return Collected(seen, problem=self._tree.blind())

    def close(self) -> None:
        """Nothing is held open."""


def collectors(host: Host) -> Sequence[HostLoad]:
    """One."""
    return (HostLoad(host),)
