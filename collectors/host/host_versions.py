"""What the host runs: kernel, drivers, firmware and packages, each told when it changes, and that it was started."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from collectors.agent.source import Collected, Host, Seen
from collectors.formats import versions
from collectors.formats.versions import Known
from collectors.host import tool
from collectors.host.tree import Tree

INTERVAL_S = 60.0
PACKAGES = "var/lib/dpkg/status"
MOST_BYTES = 32 << 20  # of the list: some 5 MB for 2,000 packages
DATABASES = ("var/lib/rpm/rpmdb.sqlite", "var/lib/rpm/Packages", "usr/lib/sysimage/rpm/rpmdb.sqlite")  # of rpm
QUERY = ("-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n")
STAT = "proc/stat"
_BOOT = re.compile(r"^btime (\d{1,12})$", re.MULTILINE)


class HostVersions:
    """The collector `host_versions`."""

    name = "host_versions"
    asks_driver = False

    def __init__(self, host: Host, ask: tool.Ask = tool.ask) -> None:
        self.interval_s = max(INTERVAL_S, host.settings.sample_s)
        self._ask, self._refused = ask, ""
        self._host, self._tree = host, Tree(host.root)
        self._known = versions.remembered(host.places(self.name))
        self._list_ns: int | None = None  # when the list of packages was last written

    def collect(self, now_ms: int) -> Collected:
        """What changed since the last look, or since the last run."""
        packages = self._packages()
        boot = self._tree.read("proc/sys/kernel/random/boot_id")[:64] or self._known.boot
        after = Known(boot, versions.merged(self._known.versions, dict(self._told()), packages))
        changed = versions.changes(self._known, after, self._host.name, now_ms, self._boot_ms(now_ms))
        seen = [Seen(one, one.at_ms or now_ms, PACKAGES, host=self._host.name) for one in changed]
        self._known = after
        place = msgspec.json.encode(after) if after.versions else None
        return Collected(seen, place, problem=self._tree.blind() or self._refused)

    def close(self) -> None:
        """Nothing is held open."""

    def _told(self) -> Iterator[tuple[str, str]]:
        where = versions.where()
        for file, what in where.files.items():
            yield what, versions.version(self._tree.read(file))
        for module in where.modules:
            yield f"driver {module}", versions.version(self._tree.read(f"sys/module/{module}/version"))
        for folder, file in where.devices.items():
            for device in self._tree.names(folder)[:64]:
                yield f"firmware {device[:40]}", versions.version(self._tree.read(f"{folder}/{device}/{file}"))

    def _packages(self) -> dict[str, str] | None:
        """Those of interest; None where the list is as it was, or is not there."""
        written = self._tree.written_ns(PACKAGES)
        if written is None:
            return self._by_tool()
        if written == self._list_ns:
            return None
        rows = self._tree.rows(PACKAGES, MOST_BYTES)
        if rows is None:
            return None
        self._list_ns = written
        return versions.installed(rows, versions.where().packages)

    def _by_tool(self) -> dict[str, str] | None:
        """The same where rpm keeps the list, in a form that only it reads; asked when the list was written."""
        written = max((ns for path in DATABASES if (ns := self._tree.written_ns(path)) is not None), default=None)
        if written is None or written == self._list_ns:
            return None
        self._list_ns, self._refused = written, ""
        root = () if str(self._host.root) == "/" else ("--root", str(self._host.root))
        try:
            raw = self._ask(("rpm", *root, *QUERY), self._host.settings.timeout_s)
        except tool.ToolFailed as error:
            self._refused = str(error)
            return None
        return versions.listed(raw.decode("utf-8", "replace").split("\n"), versions.where().packages)

    def _boot_ms(self, now_ms: int) -> int | None:
        found = _BOOT.search(self._tree.read(STAT, 1 << 20))
        return min(now_ms, int(found[1]) * 1000) if found else None


def collectors(host: Host) -> Sequence[HostVersions]:
    """One."""
    return (HostVersions(host, tool.Careful(tool.ask)),)
