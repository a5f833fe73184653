"""AMD's kernel driver (amdgpu): RAS errors, page faults, hangs and resets, and what its runtime prints on a hang.

A page fault takes several lines, and those of several cards interleave: one event per card and fault, told at the first
line that names the process or, without one, at the line after the first.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from collectors.codes import amd
from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from sickbay.clock import Clock
from sickbay.components import UNKNOWN, Kind, Name, name, pci_address
from sickbay.messages import Action, Blame, Event, Severity
from sickbay.vocabulary import event_kinds

MAX_TEXT = 1000  # characters of a line that are looked at
MAX_CARDS = 64  # page faults open at a time
FAULT_S = 5.0  # lines of one page fault come together

_CARD = re.compile(r"amdgpu (?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]): (?:amdgpu: ?)?(?P<text>.*)")
_NO_CARD = re.compile(
    r"(?:\[drm(?::\w{1,60}(?: \[amdgpu\])?)?\]|amdgpu:|kfd kfd: amdgpu:) ?(?:\*ERROR\* )?(?P<text>.*)"
)
_RUNTIME = re.compile(r"(?P<what>HW Exception|Memory access fault) by GPU node-(?P<node>\d{1,4})\b")

# "correctable" is part of "uncorrectable": the word is matched whole.
_RAS = re.compile(
    r"\b(?P<count>\d{1,12}) (?:new )?(?P<what>uncorrectable|correctable|deferred) hardware errors? detected"
    r" (?:in total )?in (?P<block>\w{1,20}) block"
)
_FAULT_HEAD = re.compile(r"\[(?P<hub>\w{2,20})\] (?:no-retry |retry )?page fault \(")
_FAULT_PART = re.compile(
    r"in page starting at address|cookie node_id |for process |(?:GC|MM)?VM_L2_PROTECTION_FAULT_STATUS ?:"
)
_FAULT_VALUES = {
    "address": re.compile(r"starting at address (0x[0-9a-fA-F]{1,16})"),
    "status": re.compile(r"PROTECTION_FAULT_STATUS ?: ?(0x[0-9a-fA-F]{1,16})"),
    "die": re.compile(r"fault from die ([\w.]{1,20})"),
}
_PROCESS = re.compile(r"process (?P<name>.{0,40}?) pid (?P<pid>\d{1,10})")
_RING = re.compile(r"ring (?P<ring>[\w.]{1,40}) timeout\b")


Told: TypeAlias = Record | tuple[Record, Line]


class _Fault(NamedTuple):
    """A page fault whose lines are still coming."""

    began: Line
    seen: frozenset[str]
    waits: Event | None  # not yet told


class Grammar:
    """Reads one input's lines; remembers the last page fault of each card."""

    def __init__(self) -> None:
        self._faults: dict[Name, _Fault] = {}
        self._readers: tuple[Callable[[str, Name, Line], Iterator[Told] | None], ...] = (
            self._page_fault, _ras, _ring, _ruled,
        )  # fmt: skip

    def read(self, line: Line) -> Iterable[Told]:
        """Records of this line."""
        text = line.body.lstrip()[:MAX_TEXT]
        if found := _RUNTIME.search(text):  # the runtime writes to the program's own output
            yield _runtime_event(found)
            return
        if line.origin not in ("", "kernel"):
            return
        if found := _CARD.match(text):
            component = name(Kind.ACCELERATOR, UNKNOWN, pci_address(found["pci"]) or UNKNOWN)
        elif found := _NO_CARD.match(text):
            component = name(Kind.ACCELERATOR, UNKNOWN, UNKNOWN)
        else:
            return
        for reader in self._readers:
            if (records := reader(found["text"], component, line)) is not None:
                yield from records
                return

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Page faults of which only the first line came."""
        return [(fault.waits, fault.began) for fault in self._faults.values() if fault.waits is not None]

    def _page_fault(self, text: str, component: Name, line: Line) -> Iterator[Told] | None:
        head = _FAULT_HEAD.search(text)
        part = None if head else _FAULT_PART.search(text)
        if head:
            return self._begun(head[0], text, component, line)
        if part is None:
            return None
        fault = self._faults.get(component)
        if fault is None or not _same_fault(fault, part[0], line):
            return self._begun(part[0], text, component, line)
        self._faults[component] = _Fault(fault.began, fault.seen | {part[0]}, None)
        return iter(((_told(fault.waits, text), fault.began),) if fault.waits else ())

    def _begun(self, part: str, text: str, component: Name, line: Line) -> Iterator[Told]:
        if component in self._faults or len(self._faults) >= MAX_CARDS:
            oldest = self._faults.pop(component if component in self._faults else next(iter(self._faults)))
            if oldest.waits:
                yield oldest.waits, oldest.began
        event = _told(_fault_event(component), text)
        waits = event if part.startswith("[") and not event.process else None  # the next line names the process
        self._faults[component] = _Fault(line, frozenset((part,)), waits)
        if waits is None:
            yield event


def _same_fault(fault: _Fault, part: str, line: Line) -> bool:
    """Whether a line belongs to the fault: it says something new, and not much later."""
    return part not in fault.seen and not _far(fault.began, line)


def _far(one: Line, other: Line) -> bool:
    if one.boot_s is not None and other.boot_s is not None:
        return abs(other.boot_s - one.boot_s) > FAULT_S
    same = one.stamp.clock is other.stamp.clock and one.stamp.clock is not Clock.NONE
    return same and abs(other.stamp.ms - one.stamp.ms) > FAULT_S * 1000


def _fault_event(component: Name) -> Event:
    return Event(
        component=component,
        kind="accelerator.page_fault",
        code="page fault",
        severity=Severity.WARNING,
        blame=Blame.APPLICATION,
        scope="process",
        advice=Action.RESTART_JOB,
    )


def _told(event: Event, text: str) -> Event:
    """The event with what this line adds."""
    values = {key: found[1] for key, pattern in _FAULT_VALUES.items() if (found := pattern.search(text))}
    return replace(event, process=event.process or _process(text), attributes=event.attributes | values)


def _process(text: str) -> str:
    found = _PROCESS.search(text)
    return f"{found['name']}[{found['pid']}]" if found and found["pid"] != "0" else ""


def _ras(text: str, component: Name, line: Line) -> Iterator[Told] | None:
    found = _RAS.search(text)
    if not found:
        return None
    if int(found["count"]) == 0:
        return iter(())
    what, block = found["what"], found["block"].lower()
    kind, advice = {
        "uncorrectable": (amd.uncorrectable_kind(block), Action.RESET_DEVICE),
        "deferred": ("accelerator.memory_contained", None),
        "correctable": ("accelerator.memory_corrected", None),
    }[what]
    return iter((_event(kind, f"RAS {what} {block}", component, advice, {"errors": found["count"], "block": block}),))


def _ring(text: str, component: Name, line: Line) -> Iterator[Told] | None:
    found = _RING.search(text)
    if not found:
        return None
    ring = {"ring": found["ring"]}
    if "soft recovered" in text:
        return iter((_event("accelerator.lockup_recovered", "ring timeout recovered", component, None, ring),))
    return iter((_event("accelerator.context_timeout", "ring timeout", component, None, ring, Severity.ERROR),))


def _ruled(text: str, component: Name, line: Line) -> Iterator[Told] | None:
    for rule in amd.rules():
        if rule.found(text):
            return iter((_event(rule.kind, rule.code, component, rule.advice, {}, rule.severity),))
    return None


def _runtime_event(found: re.Match[str]) -> Event:
    component = name(Kind.ACCELERATOR, UNKNOWN, f"node-{found['node']}")
    if found["what"] == "HW Exception":
        return _event("accelerator.context_timeout", "HW Exception", component, None, {}, Severity.ERROR)
    return _fault_event(component)


def _event(
    kind: str,
    code: str,
    component: Name,
    advice: Action | None,
    attributes: dict[str, str],
    severity: Severity | None = None,
) -> Event:
    default = event_kinds()[kind]
    return Event(
        component=component,
        kind=kind,
        code=code,
        severity=severity or default.severity,
        blame=default.blame,
        scope="device",
        advice=advice,
        attributes=attributes,
    )


GRAMMAR = Grammar

LITERALS: tuple[str, ...] = (
    "hardware error", "page fault (", "in page starting at address", "cookie node_id", " for process ",
    "L2_PROTECTION_FAULT_STATUS", "oison is c", "GPU reset", "VRAM is lost", " timeout, signaled seq",
    "timeout, but soft recovered", "reaches threshold value", "RAS records", "GPU will not be initialized",
    "Fatal error during GPU init", "device lost from bus", "qcm fence wait loop", "The cp might be in",
    "GPU is throttled", "by GPU node-", "GPU Recovery Failed", "GPU recovery failed", "ASIC reset failed",
    "over temperature range", "Critical Temperature Fault", " CTF!",
    "device wedged", "SMU: ", "MES failed to respon", " PCS ",
)  # fmt: skip


def _of(kind: str, component: str, code: str, **fields: object) -> dict[str, object]:
    return {"type": "event", "component": component, "kind": kind, "code": code, **fields}


_D5, _D6 = "accelerator:?/0000:d5:00", "accelerator:?/0000:d6:00"
SAMPLES: tuple[Sample, ...] = (
    Sample(
        "amdgpu 0000:d5:00.0: amdgpu: {11} socket: 1, die: 0, 2 new"
        " uncorrectable hardware errors detected in umc block",
        (_of("accelerator.memory_uncorrectable", _D5, "RAS uncorrectable umc", advice="reset_device"),),
    ),
    Sample(
        "amdgpu 0000:d5:00.0: amdgpu: socket: 1, die: 0 1 uncorrectable hardware errors detected in gfx block",
        (_of("accelerator.internal_fault", _D5, "RAS uncorrectable gfx"),),
    ),
    Sample(
        "amdgpu 0000:d5:00.0: amdgpu: {12} 35 correctable hardware errors detected in total in umc block,"
        " no user action is needed",
        (_of("accelerator.memory_corrected", _D5, "RAS correctable umc", severity="info", advice=None),),
    ),
    Sample("amdgpu 0000:d5:00.0: amdgpu: 0 uncorrectable hardware errors detected in total in umc block", ()),
    Sample(
        "amdgpu 0000:d5:00.0: amdgpu: poison is consumed by client 12, kick off gpu reset flow",
        (_of("accelerator.memory_contained", _D5, "RAS poison consumed"),),
    ),
    Sample(
        "amdgpu 0000:d5:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
        (_of("accelerator.internal_fault", _D5, "RAS ATHUB interrupt", severity="fatal"),),
    ),
    Sample(
        "amdgpu 0000:d5:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:3 pasid:32771, for process"
        " python3 pid 6204 thread python3 pid 6204)\n"
        "amdgpu 0000:d6:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:3 pasid:32772)\n"
        "amdgpu 0000:d5:00.0: amdgpu:   in page starting at address 0x00007e30cc0fe000 from IH client 0x1b (UTCL2)\n"
        "amdgpu 0000:d6:00.0: amdgpu:  for process vllm worker pid 6205 thread vllm worker pid 6205)\n"
        "amdgpu 0000:d5:00.0: amdgpu: VM_L2_PROTECTION_FAULT_STATUS:0x00501030\n"
        "amdgpu 0000:d6:00.0: amdgpu: VM_L2_PROTECTION_FAULT_STATUS:0x00501031",
        (
            _of("accelerator.page_fault", _D5, "page fault", process="python3[6204]", advice="restart_job"),
            _of("accelerator.page_fault", _D6, "page fault", process="vllm worker[6205]"),
        ),
    ),
    Sample(
        "amdgpu 0000:d5:00.0: amdgpu: GPU reset begin!. Source:  2",
        (_of("accelerator.reset_begun", _D5, "GPU reset begun"),),
    ),
    Sample(
        "amdgpu 0000:d5:00.0: amdgpu: GPU reset(4) succeeded!", (_of("accelerator.reset_done", _D5, "GPU reset done"),)
    ),
    Sample(
        "amdgpu 0000:d5:00.0: amdgpu: GPU reset(4) failed with error -62",
        (_of("accelerator.reset_failed", _D5, "GPU reset failed", severity="fatal"),),
    ),
    Sample(
        "amdgpu 0000:d5:00.0: amdgpu: ring comp_1.2.0 timeout, signaled seq=88121, emitted seq=88123",
        (_of("accelerator.context_timeout", _D5, "ring timeout"),),
    ),
    Sample(
        "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=12, emitted seq=14",
        (_of("accelerator.context_timeout", "accelerator:?/?", "ring timeout"),),
    ),
    Sample(
        "amdgpu 0000:d5:00.0: amdgpu: ring gfx_0.0.0 timeout, but soft recovered",
        (_of("accelerator.lockup_recovered", _D5, "ring timeout recovered"),),
    ),
    Sample(
        "amdgpu: qcm fence wait loop timeout expired",
        (_of("accelerator.engine_hang", "accelerator:?/?", "compute queue stuck"),),
    ),
    Sample(
        "amdgpu 0000:d5:00.0: amdgpu: Saved bad pages 260 reaches threshold value 256",
        (_of("accelerator.memory_repair_failed", _D5, "RAS bad page threshold"),),
    ),
    Sample(
        "amdgpu 0000:d5:00.0: amdgpu: Fatal error during GPU init",
        (_of("accelerator.init_failed", _D5, "init failed"),),
    ),
    Sample(
        "amdgpu 0000:d5:00.0: amdgpu: ERROR: GPU over temperature range(SW CTF) detected!\n"
        "amdgpu 0000:d5:00.0: amdgpu: ERROR: System is going to shutdown due to GPU SW CTF!",
        (_of("accelerator.thermal_slowdown", _D5, "critical temperature", severity="fatal", advice="drain_host"),) * 2,
    ),
    Sample(
        "amdgpu 0000:d5:00.0: MES failed to respond to msg=RESET\n"
        "amdgpu 0000:d5:00.0: [drm] device wedged, but recovered through reset",
        (
            _of("accelerator.context_timeout", _D5, "scheduler firmware silent"),
            _of("accelerator.reset_done", _D5, "GPU reset done"),
        ),
    ),
    Sample(
        "HW Exception by GPU node-3 (Agent handle: 0x55aa00c0ffee) reason :GPU Hang",
        (_of("accelerator.context_timeout", "accelerator:?/node-3", "HW Exception"),),
    ),
)
