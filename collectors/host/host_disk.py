"""Local disks by the kernel's own files: the state of NVMe controllers, and disks that do not answer."""

import re
from collections.abc import Iterator, Sequence

from collectors.agent.source import Collected, Host, Seen
from collectors.formats.disk_files import Disks
from collectors.host.tree import Tree
from sickbay.messages import Event

INTERVAL_S = 10.0
NVME, BLOCK = "sys/class/nvme", "sys/class/block"
MOST_DISKS = 256
CONTROLLER = re.compile(r"nvme\d{1,4}$")
_WHOLE = re.compile(r"(?:(nvme\d{1,4})(?:c\d{1,4})?n\d{1,4}|([sv]d[a-z]{1,3}|xvd[a-z]{1,2}))$")


class HostDisk:
    """The collector `host_disk`."""

    name = "host_disk"
    asks_driver = False

    def __init__(self, host: Host) -> None:
        self.interval_s = max(INTERVAL_S, host.settings.sample_s)
        self._host, self._tree, self._disks = host, Tree(host.root), Disks()

    def collect(self, now_ms: int) -> Collected:
        """Events of disks that fail or hang."""
        controllers = [one for one in self._tree.names(NVME) if CONTROLLER.match(one)][:MOST_DISKS]
        events = [event for one in controllers for event in self._controller(one, now_ms)]
        for device in self._tree.names(BLOCK)[:MOST_DISKS]:
            if match := _WHOLE.match(device):
                stat = self._tree.read(f"{BLOCK}/{device}/stat")
                events += self._disks.requests(device, match[1] or match[2], stat, now_ms)
        seen = [Seen(event, now_ms, NVME, host=self._host.name) for event in events]
        absent = "" if self._tree.names(BLOCK) else "no disk"
        return Collected(seen, problem=self._tree.blind(), absent=absent)

    def close(self) -> None:
        """Nothing is held open."""

    def _controller(self, disk: str, now_ms: int) -> Iterator[Event]:
        if state := self._tree.read(f"{NVME}/{disk}/state"):
            yield from self._disks.controller(disk, state[:40], now_ms)


def collectors(host: Host) -> Sequence[HostDisk]:
    """One."""
    return (HostDisk(host),)
