"""What a client of shared storage counts: NFS by /proc/*/mountstats, Lustre by its files under /sys/kernel/debug.

Reading them asks no server, so a mount that hangs does not hang its reader. A server is one file system here, as
kernels name it in their messages; the mounts of one are added up. A connection that rests (IDLE) is a good one.
Sources: Linux fs/nfs/super.c and net/sunrpc/stats.c; Lustre manual, "Monitoring a Lustre File System".
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from collectors.formats.events import event
from sickbay.components import UNKNOWN, Kind, Name, name
from sickbay.messages import Event

MOST_MOUNTS = 512
MOST_TARGETS = 8192  # a file system of 1,000 servers
_DEVICE = re.compile(
    r"^device (?P<server>\[[0-9a-fA-F:.]{2,45}\]|[^\s:/]{1,253}):\S{0,1000} "
    r"mounted on .{1,1000}? with fstype nfs4?(?: |$)"
)
_BYTES = re.compile(r"^[ \t]+bytes:((?:[ \t]+\d{1,20}){8})[ \t]*$")
_OPERATION = re.compile(r"^[ \t]+[A-Z][A-Z_0-9]{1,39}:((?: \d{1,20}){8,9})$")
_OTHER_DEVICE = re.compile(r"^device ")
_STAT = re.compile(
    r"^(?P<what>read_bytes|write_bytes) +\d{1,20} samples \[bytes\] \d{1,20} \d{1,20} (?P<sum>\d{1,20})", re.MULTILINE
)
_STATE = re.compile(r"^ {1,8}state: (?P<state>[A-Z_]{3,20})[ \t]*$", re.MULTILINE)
_WAIT = re.compile(
    r"^req_waittime +(?P<count>\d{1,20}) samples \[usecs?\] \d{1,20} \d{1,20} (?P<sum>\d{1,20})", re.MULTILINE
)
_TARGET = re.compile(r"(?P<target>(?P<name>[\w.-]{1,8})-(?:OST|MDT)[0-9a-f]{4})-(?:osc|mdc)(?:-|$)")
_MOUNT = re.compile(r"(?P<name>[\w.-]{1,8})-[0-9a-f]{8,16}$")
_GOOD = frozenset({"FULL", "IDLE"})
_LOST = {"DISCONN": "filesystem.connection_lost", "EVICTED": "filesystem.client_evicted"}


def nfs(text: str) -> dict[Name, dict[str, float]]:
    """Server -> columns of the file system table."""
    found: dict[Name, dict[str, float]] = {}
    cell: dict[str, float] | None = None
    for line in text.split("\n"):
        line = line[:2400]
        if match := _DEVICE.match(line):
            component = name(Kind.FILESYSTEM, UNKNOWN, match["server"].strip("[]"))
            cell = found.setdefault(component, {}) if component in found or len(found) < MOST_MOUNTS else None
        elif _OTHER_DEVICE.match(line):
            cell = None
        elif cell is not None:
            for column, value in _row(line):
                cell[column] = cell.get(column, 0.0) + value
    return {component: cell for component, cell in found.items() if cell}


def _row(line: str) -> Iterator[tuple[str, float]]:
    if match := _BYTES.match(line):  # normal read and write, direct read and write, server read and write, pages
        told = [float(number) for number in match[1].split()]
        yield "read_bytes_total", told[4]
        yield "write_bytes_total", told[5]
    elif match := _OPERATION.match(line):  # requests, transmissions, time-outs, sent, received, queue, answer, whole
        told = [float(number) for number in match[1].split()]
        yield "requests_total", told[0]
        yield "retransmits_total", max(0.0, told[1] - told[0])
        yield "timeouts_total", told[2]
        yield "request_milliseconds_total", told[7]


@dataclass(slots=True)
class Clients:
    """The clients of one host between looks: what each connection's state was."""

    _states: dict[str, str] = field(default_factory=dict)

    def connection(self, folder: str, text: str) -> Iterator[Event]:
        """An event where a connection was lost or is there again; `text` is its file `import`."""
        target, state = target_of(folder), state_of(text)
        if not target or not state or (folder not in self._states and len(self._states) >= MOST_TARGETS):
            return
        before, self._states[folder] = self._states.get(folder), state
        restored = state in _GOOD and before is not None and before not in _GOOD
        kind = "filesystem.connection_restored" if restored else _LOST.get(state, "")
        if kind and state != before:
            component = name(Kind.FILESYSTEM, UNKNOWN, target)
            yield event(kind, component, peer=name(Kind.STORAGE, target), code=state, message=f"{folder}: {state}")


def lustre(
    stats: Mapping[str, str], imports: Mapping[str, str], waits: Mapping[str, str]
) -> dict[Name, dict[str, float]]:
    """File system -> columns, from the texts of its files by folder: llite/*/stats, */import and osc/*/stats."""
    found: dict[Name, dict[str, float]] = {}
    for folder, text in stats.items():
        if match := _MOUNT.fullmatch(folder):
            for told in _STAT.finditer(text):
                _add(found, match["name"], f"{told['what']}_total", float(told["sum"]))
    for folder, text in waits.items():
        if (match := _TARGET.match(folder)) and (wait := _WAIT.search(text)):
            _add(found, match["name"], "requests_total", float(wait["count"]))
            _add(found, match["name"], "request_milliseconds_total", float(wait["sum"]) / 1000)
    states: dict[str, list[bool]] = {}
    for folder, text in imports.items():
        if (match := _TARGET.match(folder)) and (state := state_of(text)):
            states.setdefault(match["name"], []).append(state in _GOOD)
    for filesystem, up in states.items():
        _add(found, filesystem, "connected_ratio", sum(up) / len(up))
    return found


def _add(found: dict[Name, dict[str, float]], filesystem: str, column: str, value: float) -> None:
    cell = found.setdefault(name(Kind.FILESYSTEM, UNKNOWN, filesystem), {})
    cell[column] = cell.get(column, 0.0) + value


def target_of(folder: str) -> str:
    """The server's target that a client's folder is of, "" where it is none."""
    match = _TARGET.match(folder)
    return match["target"] if match else ""


def state_of(text: str) -> str:
    """The state of a connection, "" where none is told."""
    match = _STATE.search(text)
    return match["state"] if match else ""
