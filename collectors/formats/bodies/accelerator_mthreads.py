"""Moore Threads' kernel driver (MTGPU): recovered lockups of programs, and 32-bit error codes."""

import re
from collections.abc import Iterable

from collectors.codes import mthreads
from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, Name, name, pci_address
from sickbay.messages import Action, Blame, Event, Severity

MAX_TEXT = 1000  # characters of a line that are looked at

# What stands before the text: a PCI address, or a number of the driver's own that is no address. The vendor says only
# that MTGPU and XID stand in the line; the kernel puts its own `mtgpu ADDRESS: ` before what a driver says of a device.
_ADDRESS = r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
_SPEAKER = re.compile(
    rf"(?:mtgpu (?P<bus>{_ADDRESS}): +(?:\[?MTGPU\]?:? +)?|\[?MTGPU\]?:? *)"
    rf"(?:(?P<bare>{_ADDRESS}):? +|(?P<where>[0-9a-fA-F:.]{{1,24}}): *)?(?P<text>.*)"
)
_CODE = re.compile(r"\bXID[ :=]{1,3}(?P<code>0x[0-9a-fA-F]{1,8})\b")
_LINK = re.compile(r"\blink (\d{1,3})\b")
_FAULT = re.compile(r"\* MMU status \((?P<status>0x[0-9a-fA-F]{1,16}).{0,200}?Fault \((?P<fault>[^()]{1,60})\)")
_ACCESS = re.compile(r"\b(Reading from|Writing to) (0x[0-9a-fA-F]{1,16})")
_RECOVERY = re.compile(r"Recovery \d{1,6}: Core = (?P<core>\d{1,4}), PID = (?P<pid>\d{1,10})\b(?P<rest>.*)")
_VERDICT = re.compile(r"\b(Guilty|Innocent) (?:Lockup|Overrun)")


class Grammar:
    """Reads one input's lines; every record is told by one line."""

    def read(self, line: Line) -> Iterable[Record]:
        """Records of this line."""
        if line.origin not in ("", "kernel"):
            return
        found = _SPEAKER.match(line.body.lstrip()[:MAX_TEXT])
        if not found:
            return
        component, text = _card(found["where"] or found["bare"] or found["bus"] or ""), found["text"]
        if code := _CODE.search(text):
            yield _code_event(component, int(code["code"], 16), text)
        elif fault := _FAULT.match(text):
            yield _application("accelerator.page_fault", "MTGPU page fault", component, _fault_details(fault, text))
        elif recovery := _RECOVERY.match(text):
            verdict = _VERDICT.search(recovery["rest"])
            details = {"core": recovery["core"]} | ({"verdict": verdict[0].lower()} if verdict else {})
            process = f"[{recovery['pid']}]"
            yield _application("accelerator.lockup_recovered", "MTGPU recovery", component, details, process)

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is ever held back."""
        return ()


def _card(where: str) -> Name:
    """The card: by its PCI address, else as the driver numbers it."""
    address = pci_address(where)
    return name(Kind.ACCELERATOR, UNKNOWN, address or (f"MTGPU {where}" if where else UNKNOWN))


def _fault_details(fault: re.Match[str], text: str) -> dict[str, str]:
    access = _ACCESS.search(text)
    details = {"status": fault["status"], "fault": fault["fault"]}
    return details | ({"access": access[1].lower(), "address": access[2].lower()} if access else {})


def _code_event(component: Name, number: int, text: str) -> Event:
    row, link = mthreads.code(number), _LINK.search(text)
    return Event(
        component=component,
        kind=row.kind,
        code=f"MTGPU {number:#010x}",
        severity=row.severity,
        blame=row.blame,
        scope=row.scope,
        advice=row.advice,
        attributes={"link": link[1]} if link else {},
    )


def _application(kind: str, code: str, component: Name, attributes: dict[str, str], process: str = "") -> Event:
    return Event(
        component=component,
        kind=kind,
        code=code,
        severity=Severity.WARNING,
        blame=Blame.APPLICATION,
        scope="process",
        advice=Action.RESTART_JOB,
        process=process,
        attributes=attributes,
    )


GRAMMAR = Grammar

LITERALS: tuple[str, ...] = ("MTGPU", "mtgpu ")

SAMPLES: tuple[Sample, ...] = (
    Sample(
        "MTGPU:  312:       * MMU status (0x0415008200A01409 | 0x00000021): PC = 4, Writing to 0x8200A01400,"
        " MCU L1(IP0 Global), Fault (Page Table).\n"
        "MTGPU:  312:     PDE for index 201 = 0x0000000adba10000 and is not valid\n"
        "MTGPU:  312:   Recovery 7: Core = 0, PID = 9120, frame = 0, EventStatus = 0x0, Guilty Lockup\n"
        "MTGPU:  312:   Recovery 7: Core = 3, PID = 9120, frame = 0, HWRTD",
        (
            {"type": "event", "component": "accelerator:?/MTGPU_312", "kind": "accelerator.page_fault",
             "code": "MTGPU page fault", "advice": "restart_job"},
            {"type": "event", "component": "accelerator:?/MTGPU_312", "kind": "accelerator.lockup_recovered",
             "code": "MTGPU recovery", "process": "[9120]"},
            {"type": "event", "component": "accelerator:?/MTGPU_312", "kind": "accelerator.lockup_recovered",
             "code": "MTGPU recovery", "process": "[9120]"},
        ),
    ),
    Sample(
        "MTGPU 0000:5e:00.0: XID 0x07000001, MTLink Down, link 2",
        ({"type": "event", "component": "accelerator:?/0000:5e:00", "kind": "accelerator.link_fatal",
          "code": "MTGPU 0x07000001", "advice": "check_link"},),
    ),
    Sample(
        "MTGPU 0000:5e:00.0: XID 0x09000002, not published",
        ({"type": "event", "component": "accelerator:?/0000:5e:00", "kind": "accelerator.unknown_code",
          "code": "MTGPU 0x09000002", "advice": "watch"},),
    ),
    Sample(
        "mtgpu 0000:5e:00.0: [MTGPU] XID 0x07000003, MTLink unrecoverable error, link 1\n"
        "[MTGPU] 0000:6a:00.0 XID: 0x02000007, AXI error\n"
        "mtgpu 0000:3b:00.0: enabling device (0000 -> 0002)",
        (
            {"type": "event", "component": "accelerator:?/0000:5e:00", "code": "MTGPU 0x07000003"},
            {"type": "event", "component": "accelerator:?/0000:6a:00", "code": "MTGPU 0x02000007"},
        ),
    ),
)  # fmt: skip
