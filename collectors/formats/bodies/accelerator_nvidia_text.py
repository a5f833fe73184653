"""What NVIDIA's kernel driver says without a code: cards lost or not started, firmware that is silent, set-up faults.

Only the kernel is believed. A lost card is told in many words; the plain ones count only where nothing names the card.
"""

import re
from collections.abc import Callable, Iterable

from collectors.codes import nvidia
from collectors.formats.bodies import Sample
from collectors.formats.nvidia_lines import PCI, card, coded, remember, texts
from collectors.formats.reading import Line, Record
from collectors.formats.speaking import told
from sickbay.clock import NO_STAMP
from sickbay.components import UNKNOWN, Kind, Name, name
from sickbay.messages import Action, Event, Severity
from sickbay.vocabulary import event_kinds

_OFF_BUS = re.compile(rf"NVRM: GPU (?:at )?{PCI}:? (?:GPU )?has fallen off the bus")
_PROBED = re.compile(rf"NVRM: The NVIDIA GPU {PCI}(?= |$)")
# Assertions and calls that fail with 0xf once the card is gone; memory management that gives up with it.
_LOST = re.compile(
    r"NVRM: (?:(?P<gpu>GPU\d{1,3}) )?\w{1,60}: "
    r".{0,200}?(?:NV_ERR_GPU_IS_LOST|\bGPU lost(?:,| from the bus)|requiring os reboot to recover)"
)
_INIT = re.compile(rf"NVRM: (?:GPU {PCI}: )?(?:RmInitAdapter failed|rm_init_adapter(?:\(\d+\))? failed)(?P<rest>.*)")
_INIT_WHERE = re.compile(r"\((0x[0-9a-fA-F]+:[^()]{1,40})\)|minor number (\d{1,4})")
_NO_SPACE = re.compile(rf"NVRM: (?P<bar>BAR\d) is 0M @ 0x0 \({PCI}\)")
_BOUND = re.compile(rf"NVRM: GPU {PCI} is already bound to (?P<driver>[\w-]{{1,40}})")
_NOT_PROBED = re.compile(
    r"nvidia(?: (?P<new>[0-9a-fA-F:.]{5,24}): probe with driver nvidia|: probe of (?P<old>[0-9a-fA-F:.]{5,24}))"
    r" failed with error (?P<error>-\d{1,5})"
)
_THINNED = re.compile(
    rf"NVRM: Rate limiting GSP RPC error prints for GPU at {PCI} \(printing 1 of every (?P<every>\d{{1,6}})\)"
)


class Grammar:
    """Reads one input's lines; remembers which card an unfinished message is about, and that one was lost."""

    def __init__(self) -> None:
        self._probed: dict[str, Name] = {}  # stream -> the card of an unfinished message at probe time
        self._lost = False  # some card of this input is known to be gone
        self._begun = Line("")  # the last line with an envelope: a message's further lines may have blanks in its place
        self._readers: tuple[Callable[[str, Line], Iterable[Record] | None], ...] = (
            self._off_bus, self._lost_card,
        )  # fmt: skip

    def read(self, line: Line) -> Iterable[tuple[Record, Line]]:
        """Records of this line, at the place of the line that it continues."""
        whole = self._whole(line)
        for text in texts(line):
            for reader in (*self._readers, *_STATELESS):
                if (records := reader(text, whole)) is not None:
                    yield from ((record, whole) for record in records)
                    break

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is ever held back."""
        return ()

    def _whole(self, line: Line) -> Line:
        """The line with host, time and stream of the one whose message it continues."""
        if line.body[:1] != " " or line.host or line.stamp != NO_STAMP:
            self._begun = line
            return line
        return self._begun._replace(body=line.body.strip(), number=line.number)

    def _off_bus(self, text: str, line: Line) -> Iterable[Record] | None:
        component = None
        if found := _PROBED.match(text):
            component = card(found["pci"])
            remember(self._probed, line.stream, component)
        elif found := _OFF_BUS.match(text):
            component = card(found["pci"])
        if "fallen off the bus" not in text:
            return () if component else None
        self._lost = True
        if "Xid (" in text:  # read as the code
            return ()
        component = component or self._probed.get(line.stream) or card("")
        self._probed.pop(line.stream, None)
        return (coded(nvidia.xid(79), "Xid 79", component, {"form": "text"}),)

    def _lost_card(self, text: str, line: Line) -> Iterable[Record] | None:
        found = _LOST.match(text)
        if not found:
            return None
        if self._lost:  # these words follow those that name the card
            return ()
        self._lost = True
        component = name(Kind.ACCELERATOR, UNKNOWN, found["gpu"] or UNKNOWN)
        return (coded(nvidia.xid(79), "GPU lost", component, {"form": "text"}),)


def _phrase(text: str, _: Line) -> Iterable[Record] | None:
    for phrase in nvidia.phrases():
        if found := phrase.found(text):
            kind = event_kinds()[phrase.kind]
            place = (found.groupdict().get("gpu") or UNKNOWN,) if kind.component is Kind.ACCELERATOR else ()
            component = name(kind.component, UNKNOWN, *place)
            return (told(phrase.kind, component, code=phrase.code),)
    return None


def _init(text: str, _: Line) -> Iterable[Record] | None:
    found = _INIT.match(text)
    if not found:
        return None
    where = _INIT_WHERE.search(found["rest"])
    attributes = {"where" if where[1] else "minor": where[1] or where[2]} if where else {}
    return (_not_started(card(found["pci"] or ""), "RmInitAdapter failed", Severity.FATAL, None, attributes),)


def _no_space(text: str, _: Line) -> Iterable[Record] | None:
    """Firmware or hypervisor gave the card no address space: nothing is wrong with the card."""
    found = _NO_SPACE.match(text)
    if not found:
        return None
    code = f"{found['bar']} unassigned"
    return (_not_started(card(found["pci"]), code, Severity.ERROR, Action.FIX_SOFTWARE, {}),)


def _bound(text: str, _: Line) -> Iterable[Record] | None:
    """Another driver has the card: on purpose where it is handed on to a virtual machine, else a set-up fault."""
    found = _BOUND.match(text)
    if not found:
        return None
    advice = Action.IGNORE if found["driver"].startswith("vfio") else Action.FIX_SOFTWARE
    severity = Severity.INFO if advice is Action.IGNORE else Severity.ERROR
    attributes = {"driver": found["driver"]}
    return (_not_started(card(found["pci"]), "bound to another driver", severity, advice, attributes),)


def _not_probed(text: str, _: Line) -> Iterable[Record] | None:
    """The driver does not take the card: the line before it tells why."""
    found = _NOT_PROBED.match(text)
    if not found:
        return None
    component = card(found["new"] or found["old"])
    return (_not_started(component, "probe failed", Severity.ERROR, Action.WATCH, {"error": found["error"]}),)


def _not_started(
    component: Name, code: str, severity: Severity, advice: Action | None, attributes: dict[str, str]
) -> Event:
    return Event(
        component=component,
        kind="accelerator.init_failed",
        code=code,
        severity=severity,
        scope="device",
        advice=advice,
        attributes=attributes,
    )


def _thinned(text: str, _: Line) -> Iterable[Record] | None:
    found = _THINNED.match(text)
    if not found:
        return None
    return (coded(nvidia.xid(119), "Xid 119", card(found["pci"]), {"printed_one_of": found["every"]}),)


_STATELESS: tuple[Callable[[str, Line], Iterable[Record] | None], ...] = (
    _phrase, _init, _no_space, _bound, _not_probed, _thinned,
)  # fmt: skip

GRAMMAR = Grammar

LITERALS: tuple[str, ...] = (
    "fallen off the bus", "The NVIDIA GPU ", "installed in this system", "This PCI I/O region", "GPU lost",
    "GPU_IS_LOST", "RmInitAdapter failed", "rm_init_adapter", " is 0M @ 0x0", "probe with driver nvidia",
    "nvidia: probe of ",
    "GSP RPC error prints", "kbifCacheVFInfo", "knvlinkDiscoverPostRxDetLinks", "nvidia-peermem", "NVRM: API mismatch",
    "eartbeat timed out", "EventPmuHalted", "RC watchdog", "requiring os reboot to recover", "is already bound to",
    "NVRM: No NVIDIA ",
)  # fmt: skip


def _of(kind: str, component: str, code: str, **fields: object) -> dict[str, object]:
    return {"type": "event", "component": component, "kind": kind, "code": code, **fields}


_B1 = "accelerator:?/0000:b1:00"
SAMPLES: tuple[Sample, ...] = (
    Sample(
        "NVRM: GPU 0000:b1:00.0: GPU has fallen off the bus.",
        (_of("accelerator.off_bus", _B1, "Xid 79"),),
    ),
    Sample(
        "NVRM: The NVIDIA GPU 0000:b1:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has\n"
        "NVRM: fallen off the bus and is not responding to commands.",
        (_of("accelerator.off_bus", _B1, "Xid 79"),),
    ),
    Sample(
        "NVRM: GPU 0000:b1:00.0: RmInitAdapter failed! (0x25:0xffff:1303)",
        (_of("accelerator.init_failed", _B1, "RmInitAdapter failed"),),
    ),
    Sample(
        "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:b1:00 (printing 1 of every 20)."
        "  The GPU likely needs to be reset.",
        (_of("accelerator.firmware_hang", _B1, "Xid 119"),),
    ),
    Sample(
        "NVRM: nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F)"
        " returned from rmStatus @ kernel_ce_gv100.c:106",
        (_of("accelerator.off_bus", "accelerator:?/?", "GPU lost", advice="reboot_host"),),
    ),
    Sample(
        "NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot to recover.",
        (_of("accelerator.off_bus", "accelerator:?/?", "GPU lost", advice="reboot_host"),),
    ),
    Sample(
        "NVRM: GPU 0000:b1:00.0 is already bound to nouveau.",
        (_of("accelerator.init_failed", _B1, "bound to another driver", advice="fix_software"),),
    ),
    Sample(
        "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:b1:00.0)\nnvidia: probe of 0000:b1:00.0 failed with error -1\n"
        "nvidia 0000:b2:00.0: probe with driver nvidia failed with error -1",
        (
            _of("accelerator.init_failed", _B1, "BAR1 unassigned", advice="fix_software"),
            _of("accelerator.init_failed", _B1, "probe failed", advice="watch"),
            _of("accelerator.init_failed", "accelerator:?/0000:b2:00", "probe failed", advice="watch"),
        ),
    ),
    *(
        Sample(phrase.sample, ({"type": "event", "kind": phrase.kind, "code": phrase.code},))
        for phrase in nvidia.phrases()
    ),
)
