"""Health logs of NVMe disks by `nvme smart-log`, which only reads: what a disk says that it did not say before."""

from collections.abc import Iterator, Sequence

from collectors.agent.source import Collected, Host, Seen
from collectors.formats.disk_files import Disks, smart_log
from collectors.host import tool
from collectors.host.host_disk import CONTROLLER, MOST_DISKS, NVME
from collectors.host.tree import Tree
from sickbay.messages import Event

INTERVAL_S = 10.0
HEALTH_MS = 600_000  # of one disk; the disks take turns


class DiskHealth:
    """The collector `disk_health`."""

    name = "disk_health"
    asks_driver = True

    def __init__(self, host: Host, ask: tool.Ask) -> None:
        self.interval_s = max(INTERVAL_S, host.settings.sample_s)
        self._host, self._ask, self._tree, self._disks = host, ask, Tree(host.root), Disks()
        self._asked_ms: dict[str, int] = {}
        self._troubles: dict[str, str] = {}
        self._missing = ""

    def collect(self, now_ms: int) -> Collected:
        """The log of at most one disk."""
        disks = [one for one in self._tree.names(NVME) if CONTROLLER.match(one)][:MOST_DISKS]
        if not disks:
            return Collected(problem=self._tree.blind(), absent="no NVMe disk")
        self._troubles = {disk: why for disk, why in self._troubles.items() if disk in disks}
        asked = next((one for one in disks if now_ms - self._asked_ms.get(one, 0) >= HEALTH_MS), None)
        events = list(self._health(asked, now_ms)) if asked else []
        seen = [Seen(event, now_ms, NVME, host=self._host.name) for event in events]
        troubles = "; ".join(f"{disk}: {why}" for disk, why in list(self._troubles.items())[:3])
        return Collected(seen, problem=self._tree.blind() or troubles, absent=self._missing)

    def close(self) -> None:
        """Nothing is held open."""

    def _health(self, disk: str, now_ms: int) -> Iterator[Event]:
        """The tool is optional: without it the kernel's word has to do. What it says against one disk is a trouble."""
        self._asked_ms[disk] = now_ms
        self._troubles.pop(disk, None)
        try:
            raw = self._ask(("nvme", "smart-log", "-o", "json", f"/dev/{disk}"), self._host.settings.timeout_s)
        except tool.ToolMissing:
            self._missing = "nvme (nvme-cli) is not installed: disks tell no health log"
            return
        except tool.ToolFailed as error:
            if tool.is_refused(error):  # the kernel's word has to do here too
                self._missing = "no right to ask disks for their health log (CAP_SYS_ADMIN)"
            else:
                self._missing, self._troubles[disk] = "", str(error)
            return
        self._missing = ""
        yield from self._disks.health(disk, smart_log(raw.decode("utf-8", "replace")))


def collectors(host: Host) -> Sequence[DiskHealth]:
    """One: a host without such disks is asked nothing."""
    return (DiskHealth(host, tool.Careful(tool.ask)),)
