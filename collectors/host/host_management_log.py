"""What the host's own management controller writes into its log, by `ipmitool sel elist`, which only reads.

The log reaches back years and is dated by a clock of its own: what stands in it at the first look is history, and what
comes later is told with the time of the look.
"""

from collections.abc import Sequence

from collectors.agent.source import Collected, Host, Seen
from collectors.formats.management_log import MOST_STANDING, Entries, Entry, entry_of
from collectors.host import tool
from collectors.host.host_management import answered
from collectors.host.tree import Tree

INTERVAL_S = 30.0
LEAST_S = 20.0  # a controller may take so long
MOST_ENTRIES = 64  # that are asked for: no controller writes more in half a minute
COMMAND = ("ipmitool", "sel", "elist", "last", str(MOST_ENTRIES))
EMPTY = b"SEL has no entries"


class HostManagementLog:
    """The collector `host_management_log`."""

    name = "host_management_log"
    asks_driver = True

    def __init__(self, host: Host, ask: tool.Ask) -> None:
        self.interval_s = max(INTERVAL_S, host.settings.sample_s)
        self.limit_s = max(LEAST_S, host.settings.timeout_s)
        self._host, self._ask, self._tree = host, ask, Tree(host.root)
        self._entries = Entries(host.name)
        self._known: dict[Entry, None] | None = None  # None: no look yet

    def collect(self, now_ms: int) -> Collected:
        """Events of what was written since the last look."""
        raw = answered(self._tree, self._ask, COMMAND, self.limit_s)
        if isinstance(raw, Collected):
            return raw
        rows = raw.decode("utf-8", "replace").split("\n")[: 4 * MOST_ENTRIES]
        entries = [entry for row in rows if (entry := entry_of(row)) is not None]
        if not entries and EMPTY not in raw:
            return Collected(problem=f"{' '.join(COMMAND)}: no entry is told")
        return Collected([*self._news(entries, now_ms)])

    def close(self) -> None:
        """Nothing is held open."""

    def _news(self, entries: list[Entry], now_ms: int) -> Sequence[Seen]:
        first, known = self._known is None, self._known or {}
        fresh = [entry for entry in entries if entry not in known]
        self._known = dict(list((known | dict.fromkeys(entries)).items())[-MOST_STANDING:])
        told = [event for entry in fresh if (event := self._entries.event(entry)) is not None]  # history, for its ends
        path = " ".join(COMMAND[:3])
        return () if first else [Seen(event, now_ms, path, host=self._host.name) for event in told]


def collectors(host: Host) -> Sequence[HostManagementLog]:
    """One."""
    return (HostManagementLog(host, tool.Careful(tool.ask)),)
