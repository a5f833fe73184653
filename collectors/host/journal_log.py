"""What daemons of the host write into the system's journal: fabric manager, scheduler, container runtime, shutdowns.

The kernel's own messages come by `kernel_log`; of the journal only those speakers are read that a grammar knows.
"""

from collections.abc import Sequence
from pathlib import Path

from collectors.agent.source import Collected, Host
from collectors.host.journal_follow import Journal, folders, readable
from collectors.host.kernel_log import KernelLog

# Identifiers of speakers that grammars of formats/bodies know; `journalctl -t` selects by them, which costs nothing.
SPEAKERS = (
    "nv-fabricmanager", "nvidia-fabricmanager", "nvidia-fabricmanager-start.sh", "nvidia-persistenced", "nv-hostengine",
    "slurmd", "slurmstepd", "slurmctld", "kubelet", "containerd", "dockerd", "systemd", "systemd-logind",
    "systemd-shutdown", "shutdown", "chronyd", "ntpd", "ptp4l", "phc2sys", "systemd-timesyncd", "rasdaemon", "mcelog",
    "systemd-journald", "rsyslogd", "earlyoom", "systemd-oomd", "opensm", "nvlsm", "puppet-agent", "chef-client",
)  # fmt: skip
INTERVAL_S = 0.5


class JournalLog(KernelLog):
    """The collector `journal_log`."""

    name = "journal_log"
    look_s = INTERVAL_S

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._shown, self._path = "journal", Path("journal")

    def collect(self, now_ms: int) -> Collected:
        """New messages of daemons as events."""
        if not folders(self._host.root):
            return Collected(absent="no journal of the system")
        if not readable(self._host.root):
            return Collected(problem="the journal cannot be read: add the agent's user to the group systemd-journal")
        return super().collect(now_ms)

    def _opened(self) -> Journal:
        matches = [word for speaker in SPEAKERS for word in ("-t", speaker)]
        return Journal(self._host.root, matches, self._resume)


def collectors(host: Host) -> Sequence[JournalLog]:
    """One, unless the settings ask for none."""
    return (JournalLog(host),) if host.settings.journal else ()
