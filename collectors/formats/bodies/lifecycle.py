"""A host's life: boots, orderly shutdowns, panics, oopses.

An orderly shutdown is a person or a scheduler, not a fault.
"""

import re
from collections.abc import Iterable, Iterator

from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from collectors.formats.speaking import kernel_speaks, told
from sickbay.components import UNKNOWN, Kind, name

LITERALS = (
    "Linux version ", "Reached target ", "Powering off.", "Rebooting.", "System is powering down",
    "System is rebooting", "reboot: ", "System is going down", "Kernel panic - not syncing", "BUG: unable to handle",
    "BUG: kernel NULL pointer", "Oops: ", "Oops [#", "kernel BUG at ", "Internal error: ", "Unable to handle kernel",
    "general protection fault", "shutting down for system",
)  # fmt: skip

_HOST = name(Kind.HOST, UNKNOWN)
_BOOT = re.compile(r"^Linux version (?P<version>\d[\w.+~-]{0,80}) \(")
_REBOOT = re.compile(r"^reboot: (?P<how>Restarting system|Power down|System halted|Power off not available)")
_PANIC = re.compile(r"^Kernel panic - not syncing: (?P<reason>.{0,200})")
_OOPS = re.compile(
    r"^(?:BUG: unable to handle (?P<fault>[\w ]{1,60}?)(?: at | for |,|:|$)"
    r"|BUG: (?P<null>kernel NULL pointer dereference)"
    r"|kernel BUG at (?P<at>[\w/.-]{1,120}:\d{1,6})!|Unable to handle kernel (?P<paging>[\w ]{1,60}?) at "
    r"|general protection fault(?P<protection>[\w ,-]{0,80}(?:0x[0-9a-f]{1,16})?): [0-9a-f]{4} \[#\d)"
)
_CONTINUED = re.compile(r"^(?:Oops: |Oops \[#|Internal error: Oops)")
_TARGET = re.compile(
    r"^Reached target (?:(?P<unit>shutdown|reboot|poweroff|halt|kexec)\.target - )?(?P<title>[\w -]{1,40})"
)
_TITLES = frozenset(
    ("Shutdown", "Power-Off", "Reboot", "Halt", "System Shutdown", "System Reboot", "System Power Off", "System Halt")
)
_WORDS = ("poweroff", "reboot", "halt", "kexec", "shutdown")
# What the service manager, its helpers and the older init say when told to go down: (speaker, words, how).
_ORDERLY = (
    ("systemd-shutdown", "Powering off.", "poweroff"),
    ("systemd-shutdown", "Rebooting.", "reboot"),
    ("systemd-logind", "System is powering down", "poweroff"),
    ("systemd-logind", "System is rebooting", "reboot"),
    ("shutdown", "shutting down for system reboot", "reboot"),
    ("shutdown", "shutting down for system halt", "halt"),
)


class GRAMMAR:
    """One event a boot, shutdown message, panic or oops."""

    def __init__(self) -> None:
        self._oops_open = False  # its second line is still to come

    def read(self, line: Line) -> Iterator[Record]:
        """What the kernel or the service manager says of the host's life."""
        if line.origin.startswith(("systemd", "shutdown")):
            yield from _orderly(line)
        elif kernel_speaks(line):
            yield from self._kernel(line.body)

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing stays open."""
        return ()

    def _kernel(self, body: str) -> Iterator[Record]:
        if match := _BOOT.match(body):
            yield told("host.boot", _HOST, attributes={"kernel": match["version"]})
        elif match := _REBOOT.match(body):
            how = {"Restarting system": "reboot", "System halted": "halt"}.get(match["how"], "poweroff")
            yield told("host.shutdown_orderly", _HOST, attributes={"how": how})
        elif match := _PANIC.match(body):
            yield told("host.panic", _HOST, attributes={"reason": match["reason"].strip()})
        elif match := _OOPS.match(body):
            self._oops_open = True
            yield told("host.oops", _HOST, attributes={"what": _what(match)})
        elif _CONTINUED.match(body):
            if not self._oops_open:
                yield told("host.oops", _HOST, attributes={"what": body[:80].rstrip()})
            self._oops_open = False


def _what(match: re.Match[str]) -> str:
    if match["protection"] is not None:
        return "general protection fault"
    return next(told for told in (match["fault"], match["null"], match["at"], match["paging"]) if told)


def _orderly(line: Line) -> Iterator[Record]:
    for speaker, words, how in _ORDERLY:
        if line.origin == speaker and line.body.startswith(words):
            yield told("host.shutdown_orderly", _HOST, attributes={"how": how})
            return
    match = _TARGET.match(line.body)
    if match is None or line.origin != "systemd" or line.pid != "1":
        return  # a user's own service manager says the same at every logout, with another process id
    title = match["title"].strip()
    if match["unit"] is None and title not in _TITLES:
        return
    said = (match["unit"] or title).lower().replace("power off", "poweroff").replace("power-off", "poweroff")
    yield told("host.shutdown_orderly", _HOST, attributes={"how": next(word for word in _WORDS if word in said)})


def _expect(kind: str, **fields: object) -> tuple[dict[str, object], ...]:
    return ({"type": "event", "kind": kind, "component": "host:?", **fields},)


SAMPLES = (
    Sample(
        "Linux version 6.8.0-1021-acme (buildd@lcy02) (gcc 13.2.0) #23-Ubuntu SMP PREEMPT_DYNAMIC Tue Jan 7 2025",
        _expect("host.boot", attributes={"kernel": "6.8.0-1021-acme"}),
    ),
    Sample("reboot: Restarting system", _expect("host.shutdown_orderly", attributes={"how": "reboot"})),
    Sample("reboot: Power down", _expect("host.shutdown_orderly", attributes={"how": "poweroff"})),
    Sample(
        "systemd[1]: Reached target shutdown.target - System Shutdown.",
        _expect("host.shutdown_orderly", attributes={"how": "shutdown"}),
    ),
    Sample("systemd[1]: Reached target Power-Off.", _expect("host.shutdown_orderly", attributes={"how": "poweroff"})),
    Sample("systemd-shutdown[1]: Rebooting.", _expect("host.shutdown_orderly", attributes={"how": "reboot"})),
    Sample("systemd[48122]: Reached target Shutdown.", ()),
    Sample("systemd[1]: Reached target Multi-User System.", ()),
    Sample(
        "Kernel panic - not syncing: Fatal machine check\n---[ end Kernel panic - not syncing: Fatal "
        "machine check ]---",
        _expect("host.panic", attributes={"reason": "Fatal machine check"}),
    ),
    Sample(
        "BUG: unable to handle page fault for address: ffffb1c2d3e4f000\n#PF: supervisor read access "
        "in kernel mode\nOops: 0000 [#1] PREEMPT SMP NOPTI",
        _expect("host.oops", attributes={"what": "page fault"}),
    ),
    Sample("BUG: kernel NULL pointer dereference, address: 0000000000000008", _expect("host.oops")),
    Sample("kernel BUG at mm/slub.c:305!", _expect("host.oops", attributes={"what": "mm/slub.c:305"})),
    Sample(
        "general protection fault, probably for non-canonical address 0xdead000000000108: 0000 [#1] SMP PTI",
        _expect("host.oops"),
    ),
    Sample("Unable to handle kernel paging request at virtual address ffff800012340000", _expect("host.oops")),
)
