"""Local disks: the state of NVMe controllers, disks that do not answer, and health logs where nvme-cli is there."""

import re
from collections.abc import Callable, Iterator, Sequence

from collectors import tool
from collectors.formats.disk_files import Disks, smart_log
from collectors.source import Collected, Host, Seen
from collectors.tree import Tree
from sickbay.messages import Event

INTERVAL_S = 10.0
HEALTH_MS = 600_000  # of one disk
NVME, BLOCK = "sys/class/nvme", "sys/class/block"
MOST_DISKS = 256
_CONTROLLER = re.compile(r"nvme\d{1,4}$")
_WHOLE = re.compile(r"(?:(nvme\d{1,4})(?:c\d{1,4})?n\d{1,4}|([sv]d[a-z]{1,3}|xvd[a-z]{1,2}))$")

Ask = Callable[[Sequence[str], float], bytes]


class HostDisk:
    """The collector `host_disk`."""

    name = "host_disk"

    def __init__(self, host: Host, ask: Ask = tool.ask) -> None:
        self.interval_s = max(INTERVAL_S, host.settings.sample_s)
        self._host, self._ask, self._tree, self._disks = host, ask, Tree(host.root), Disks()
        self._asked_ms: dict[str, int] = {}

    def collect(self, now_ms: int) -> Collected:
        """Events of disks that fail or hang."""
        controllers = [one for one in self._tree.names(NVME) if _CONTROLLER.match(one)][:MOST_DISKS]
        events = [event for one in controllers for event in self._controller(one, now_ms)]
        for device in self._tree.names(BLOCK)[:MOST_DISKS]:
            if match := _WHOLE.match(device):
                stat = self._tree.read(f"{BLOCK}/{device}/stat")
                events += self._disks.requests(device, match[1] or match[2], stat, now_ms)
        asked = next((one for one in controllers if now_ms - self._asked_ms.get(one, 0) >= HEALTH_MS), None)
        events += self._health(asked, now_ms) if asked else ()
        seen = [Seen(event, now_ms, NVME, host=self._host.name) for event in events]
        return Collected(seen, problem=self._tree.blind())

    def close(self) -> None:
        """Nothing is held open."""

    def _controller(self, disk: str, now_ms: int) -> Iterator[Event]:
        if state := self._tree.read(f"{NVME}/{disk}/state"):
            yield from self._disks.controller(disk, state[:40], now_ms)

    def _health(self, disk: str, now_ms: int) -> Iterator[Event]:
        """The tool is optional: where it is missing or refuses, the kernel's word has to do."""
        self._asked_ms[disk] = now_ms
        try:
            raw = self._ask(("nvme", "smart-log", "-o", "json", f"/dev/{disk}"), self._host.settings.timeout_s)
        except tool.ToolFailed:
            return
        yield from self._disks.health(disk, smart_log(raw.decode("utf-8", "replace")))


def collectors(host: Host) -> Sequence[HostDisk]:
    """One."""
    return (HostDisk(host, tool.ask),)
