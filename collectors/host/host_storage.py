"""Clients of shared storage: what NFS and Lustre count, and connections that they lost. No mount is touched."""

from collections.abc import Iterator, Sequence

from collectors import rows
from collectors.agent.source import Collected, Host, Seen
from collectors.formats import storage_files
from collectors.host.tree import Tree
from sickbay.messages import Event
from sickbay.schema import Samples

INTERVAL_S = 10.0
MOST_BYTES = 4 << 20  # a hundred mounts tell a megabyte
# Process 1 has the host's mounts, where it may be looked at; the agent's own may be a container's.
MOUNTS = ("proc/1/mountstats", "proc/self/mountstats")
MODULE = "sys/module/lustre"
ROOTS = ("sys/kernel/debug/lustre", "sys/fs/lustre", "proc/fs/lustre")  # newer versions first
MOST_FOLDERS = 2048


class HostStorage:
    """The collector `host_storage`."""

    name = "host_storage"
    asks_driver = False

    def __init__(self, host: Host) -> None:
        self.interval_s = max(INTERVAL_S, host.settings.sample_s)
        self._host, self._tree, self._clients = host, Tree(host.root), storage_files.Clients()

    def collect(self, now_ms: int) -> Collected:
        """A row for each file system, and events of connections."""
        records: list[Samples | Event] = [*rows.samples("filesystem", storage_files.nfs(self._mounts()), now_ms)]
        imports = dict(self._texts(("osc", "mdc"), "import"))
        if imports:
            stats, waits = dict(self._texts(("llite",), "stats")), dict(self._texts(("osc", "mdc"), "stats"))
            records += rows.samples("filesystem", storage_files.lustre(stats, imports, waits), now_ms)
            records += [one for folder, text in imports.items() for one in self._clients.connection(folder, text)]
        seen = [Seen(record, now_ms, MOUNTS[0], host=self._host.name) for record in records]
        absent = "" if seen or imports else "no client of shared storage"
        return Collected(seen, problem=self._tree.blind(), absent=absent)

    def close(self) -> None:
        """Nothing is held open."""

    def _mounts(self) -> str:
        other = Tree(self._host.root)  # not everybody may look at process 1
        return other.read(MOUNTS[0], MOST_BYTES) or self._tree.read(MOUNTS[1], MOST_BYTES)

    def _texts(self, kinds: Sequence[str], file: str) -> Iterator[tuple[str, str]]:
        """Folder -> text of its file, from the first place that has it."""
        for kind in kinds:
            for folder in dict.fromkeys(one for root in self._roots() for one in self._tree.names(f"{root}/{kind}")):
                places = (f"{root}/{kind}/{folder}/{file}" for root in self._roots())
                if text := next(filter(None, map(self._tree.read, places)), ""):
                    yield folder, text

    def _roots(self) -> list[str]:
        """Where Lustre shows its files. The kernel's debugging files are closed to others than root: a trouble then."""
        return [root for root in ROOTS if self._tree.names(root)] if self._tree.exists(MODULE) else []


def collectors(host: Host) -> Sequence[HostStorage]:
    """One."""
    return (HostStorage(host),)
