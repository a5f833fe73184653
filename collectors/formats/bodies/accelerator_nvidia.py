"""NVIDIA's kernel driver: Xid and SXid lines of all driver branches, their forms without a code, and identities.

Only the kernel speaks here: a program that quotes such a line is not believed. Register dumps, call histories and the
second and third line of a switch error belong to the event before them and give no record.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from collectors.codes import nvidia, nvidia_text
from collectors.codes.table import Code
from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, Name, name, pci_address
from sickbay.messages import Action, Event, Identity, Severity

T = TypeVar("T")

MAX_TEXT = 1000  # characters of a message that are looked at
MAX_STATE = 256  # streams or switches remembered

_PCI = r"(?:PCI:)?(?P<pci>[0-9a-fA-F:.]{5,24}?)"
# All eras: with and without `PCI:`, with a function digit, with MIG ids or nothing readable in the brackets.
_XID = re.compile(
    r"(?:NVRM: |nvidia_dev_xid: )?Xid \((?P<where>[^()]{0,80})\): (?P<code>\d{1,18})\b"
    r"(?:,? ?pid='?(?P<pid>[^,']{0,40})'?)?(?:, ?name=(?P<process>[^,]{0,64}))?,? ?(?P<text>.*)"
)
_MIG = re.compile(r"GPU-(C?I):(\d{1,4})")
_INDEX = re.compile(r"\b(GPU\d{1,3})\b")
_CAUSE = re.compile(r"caused by previous Xid (\d{1,9})")
_SXID = re.compile(
    r"nvidia-nvswitch(?P<switch>\d{1,4}): SXid \((?P<where>[^()]{0,80})\): (?P<code>\d{1,18})\b,? ?(?P<text>.*)"
)
_SXID_TEXT = re.compile(r"(?:(?P<word>Fatal|Non-?[Ff]atal)\b,? ?)?(?:Link (?P<link>-?\d{1,4})\b)?")
_SXID_REST = ("Severity ", "Data ")  # second and third line of one switch error
_UUID = re.compile(
    rf"NVRM: GPU at {_PCI}: (?P<uuid>GPU-[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}})\b"
)
_BOARD_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: (?P<serial>[0-9A-Za-z]{4,40})\s*$")
_CARD_SERIAL = re.compile(rf"NVRM: GPU {_PCI}: GPU serial number is (?P<serial>[0-9A-Za-z]{{4,40}})\.?\s*$")
_OFF_BUS = re.compile(rf"NVRM: GPU (?:at )?{_PCI}:? (?:GPU )?has fallen off the bus")
_PROBED = re.compile(rf"NVRM: The NVIDIA GPU {_PCI}(?= |$)")
_INIT = re.compile(rf"NVRM: (?:GPU {_PCI}: )?(?:RmInitAdapter failed|rm_init_adapter(?:\(\d+\))? failed)(?P<rest>.*)")
_INIT_WHERE = re.compile(r"\((0x[0-9a-fA-F]+:[^()]{1,40})\)|minor number (\d{1,4})")
_THINNED = re.compile(
    rf"NVRM: Rate limiting GSP RPC error prints for GPU at {_PCI} \(printing 1 of every (?P<every>\d{{1,6}})\)"
)
_PIECES = re.compile(r"\n|#012")  # a record of several lines: as it is, or as rsyslog writes it


class _Notice(NamedTuple):
    """A line of the driver that only looks alarming, or speaks of software."""

    pattern: re.Pattern[str]
    code: str
    severity: Severity = Severity.INFO
    advice: Action | None = None


_NOTICES = (
    _Notice(re.compile(r"NVRM: (?P<gpu>GPU\d{1,3}) kbifCacheVFInfo\w{0,20}: "), "no virtual functions"),
    _Notice(re.compile(r"NVRM: knvlinkDiscoverPostRxDetLinks\w{0,20}: "), "link detection incomplete"),
    _Notice(re.compile(r"nvidia-peermem \w{1,60}:\d{1,6} ERROR detected invalid context"), "peer memory context gone"),
    _Notice(re.compile(r"NVRM: API mismatch: "), "driver version mismatch", Severity.WARNING, Action.FIX_SOFTWARE),
)


class Grammar:
    """Reads one input's lines; remembers who was named last where the driver says one thing in several lines."""

    def __init__(self) -> None:
        self._probed: dict[str, Name] = {}  # stream -> the card of an unfinished message at probe time
        self._board: dict[str, Identity] = {}  # stream -> the card whose serial number comes next
        self._switch_errors: set[tuple[str, str, int]] = set()  # (stream, switch, code) whose first line was seen
        self._readers: tuple[Callable[[str, Line], Iterator[Record] | None], ...] = (
            self._xid, self._sxid, self._identity, self._off_bus, self._init, self._thinned, self._notice,
        )  # fmt: skip

    def read(self, line: Line) -> Iterable[Record]:
        """Records of this line."""
        if line.origin not in ("", "kernel"):
            return
        for piece in _PIECES.split(line.body):
            text = piece.strip()[:MAX_TEXT].removeprefix("kernel: ")
            if not text.startswith(("NVRM: ", "nvidia", "Xid (")):
                continue
            for reader in self._readers:
                if (records := reader(text, line)) is not None:
                    yield from records
                    break

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is ever held back."""
        return ()

    def _xid(self, text: str, line: Line) -> Iterator[Record] | None:
        found = _XID.match(text)
        return iter((_xid_event(found),)) if found else None

    def _sxid(self, text: str, line: Line) -> Iterator[Record] | None:
        found = _SXID.match(text)
        if not found:
            return None
        key = (line.stream, found["switch"], int(found["code"]))
        rest = found["text"].startswith(_SXID_REST)
        if rest and key in self._switch_errors:
            return iter(())
        if len(self._switch_errors) >= MAX_STATE:
            self._switch_errors.clear()
        self._switch_errors.add(key)
        return iter((_sxid_event(found),))

    def _identity(self, text: str, line: Line) -> Iterator[Record] | None:
        if found := _UUID.match(text):
            address = pci_address(found["pci"])
            identity = Identity(pci=address or "", uuid=found["uuid"], boot_id=line.boot_id)
            _remember(self._board, line.stream, identity)
            return iter((identity,) if address else ())
        if found := _BOARD_SERIAL.match(text):
            board = self._board.pop(line.stream, None)
            return iter((replace(board, serial=found["serial"]),) if board and board.pci else ())
        if found := _CARD_SERIAL.match(text):
            address = pci_address(found["pci"])
            return iter((Identity(pci=address, serial=found["serial"], boot_id=line.boot_id),) if address else ())
        return None

    def _off_bus(self, text: str, line: Line) -> Iterator[Record] | None:
        component = None
        if found := _PROBED.match(text):
            component = _card(found["pci"])
            _remember(self._probed, line.stream, component)
        elif found := _OFF_BUS.match(text):
            component = _card(found["pci"])
        if "fallen off the bus" not in text:
            return iter(()) if component else None
        component = component or self._probed.get(line.stream) or _card("")
        self._probed.pop(line.stream, None)
        return iter((_event(nvidia.xid(79), "Xid 79", component, {"form": "text"}),))

    def _init(self, text: str, line: Line) -> Iterator[Record] | None:
        found = _INIT.match(text)
        if not found:
            return None
        where = _INIT_WHERE.search(found["rest"])
        attributes = {"where" if where[1] else "minor": where[1] or where[2]} if where else {}
        event = Event(
            component=_card(found["pci"] or ""),
            kind="accelerator.init_failed",
            code="RmInitAdapter failed",
            severity=Severity.FATAL,
            scope="device",
            attributes=attributes,
        )
        return iter((event,))

    def _thinned(self, text: str, line: Line) -> Iterator[Record] | None:
        found = _THINNED.match(text)
        if not found:
            return None
        return iter((_event(nvidia.xid(119), "Xid 119", _card(found["pci"]), {"printed_one_of": found["every"]}),))

    def _notice(self, text: str, line: Line) -> Iterator[Record] | None:
        for notice in _NOTICES:
            if found := notice.pattern.match(text):
                index = found.groupdict().get("gpu") or UNKNOWN
                return iter((_notice_event(notice, index),))
        return None


def _xid_event(found: re.Match[str]) -> Event:
    code, text = int(found["code"]), found["text"]
    row, attributes = nvidia_text.told(nvidia.xid(code), text)
    attributes |= {{"I": "mig", "CI": "mig_compute"}[key]: value for key, value in _MIG.findall(found["where"])}
    if cause := _CAUSE.search(text):
        attributes["caused_by"] = f"Xid {cause[1]}"
    component = _card(found["where"].split(" ")[0], text)
    event = _event(row, f"Xid {code}", component, attributes, _process(found["process"], found["pid"]))
    far_end = attributes.get("remote_pci")
    return replace(event, peer=_card(far_end)) if far_end else event


def _process(command: str | None, pid: str | None) -> str:
    known = [(word or "").strip().strip("'") for word in (command, pid)]
    command, pid = ("" if word.startswith("<") else word for word in known)
    return f"{command}[{pid}]" if pid else command or ""


def _event(row: Code, code: str, component: Name, attributes: dict[str, str], process: str = "") -> Event:
    return Event(
        component=component,
        kind=row.kind,
        code=code,
        severity=row.severity,
        blame=row.blame,
        scope=row.scope,
        advice=row.advice,
        process=process,
        attributes=attributes | ({"when": row.when} if row.when else {}),
    )


def _sxid_event(found: re.Match[str]) -> Event:
    code, text = int(found["code"]), found["text"]
    told = _SXID_TEXT.match(text)
    word = (told["word"] or "").lower() if told else ""
    attributes = {"switch": found["switch"]}
    if told and told["link"]:
        attributes["link"] = told["link"]
    if word:
        attributes["word"] = word.replace("-", "")
    if text.rstrip().endswith("(First)"):
        attributes["first"] = "yes"
    address = pci_address(found["where"].removeprefix("PCI:"))
    virtual = address is None or not address.strip("0:")  # inside a virtual machine the address may be all zeros
    component = name(Kind.FABRIC, UNKNOWN, f"nvidia-nvswitch{found['switch']}" if virtual else address or UNKNOWN)
    return _event(nvidia_text.worded(nvidia.sxid(code), word), f"SXid {code}", component, attributes)


def _notice_event(notice: _Notice, index: str) -> Event:
    return Event(
        component=name(Kind.ACCELERATOR, UNKNOWN, index),
        kind="accelerator.driver_notice",
        code=notice.code,
        severity=notice.severity,
        advice=notice.advice,
    )


def _card(address: str, text: str = "") -> Name:
    """The card at a PCI address; where a scrubber took the address away, as the text calls it."""
    place = pci_address(address.removeprefix("PCI:"))
    if place is None:
        index = _INDEX.search(text)
        place = index[1] if index else UNKNOWN
    return name(Kind.ACCELERATOR, UNKNOWN, place)


def _remember(state: dict[str, T], stream: str, value: T) -> None:
    if len(state) >= MAX_STATE:
        state.clear()
    state[stream] = value


GRAMMAR = Grammar

LITERALS: tuple[str, ...] = (
    "Xid", "fallen off the bus", "The NVIDIA GPU ", "GPU at PCI:", "NVRM: GPU at ", "GPU Board Serial Number",
    "GPU serial number is", "installed in this system", "RmInitAdapter failed", "rm_init_adapter",
    "GSP RPC error prints", "kbifCacheVFInfo", "knvlinkDiscoverPostRxDetLinks", "nvidia-peermem", "NVRM: API mismatch",
)  # fmt: skip


def _of(kind: str, component: str, code: str, **fields: object) -> dict[str, object]:
    return {"type": "event", "component": component, "kind": kind, "code": code, **fields}


_B1 = "accelerator:?/0000:b1:00"
SAMPLES: tuple[Sample, ...] = (
    Sample(
        "NVRM: Xid (0000:b1:00): 31, Ch 0000000c, engmask 00000101, intr 10000000",
        (_of("accelerator.page_fault", _B1, "Xid 31", process=""),),
    ),
    Sample(
        "NVRM: Xid (PCI:0000:b1:00): 31, pid=7313, Ch 0000000c, intr 10000000. MMU Fault: ENGINE GRAPHICS"
        " GPCCLIENT_T1_1 faulted @ 0x7e11_40a3f000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
        (_of("accelerator.page_fault", _B1, "Xid 31", process="[7313]", blame="application"),),
    ),
    Sample(
        "NVRM: Xid (PCI:0000:b1:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on"
        " (GPC 3, TPC 2, SM 1): Out Of Range Address",
        (_of("accelerator.program_error", _B1, "Xid 13", process=""),),
    ),
    Sample(
        "NVRM: Xid (PCI:0000:b1:00): 45, pid=7313, name=nvc:[driver] 2, channel 0x0000000d caused by previous Xid 94",
        (_of("accelerator.channel_closed", _B1, "Xid 45", process="nvc:[driver] 2[7313]"),),
    ),
    Sample(
        "NVRM: Xid (PCI:0000:b1:00 GPU-I:03 GPU-CI:01): 94, pid=7313, name=python3, Contained: SM (0x2)."
        " RST: No, D-RST: Yes",
        (_of("accelerator.memory_contained", _B1, "Xid 94", advice="reset_device"),),
    ),
    Sample(
        "NVRM: Xid (PCI:00010000:e1:00.0): 79, GPU has fallen off the bus.",
        (_of("accelerator.off_bus", "accelerator:?/10000:e1:00", "Xid 79", advice="reboot_host"),),
    ),
    Sample("Xid (PCI:0000:b1:00.0): 43, Ch 0000000c", (_of("accelerator.channel_closed", _B1, "Xid 43"),)),
    Sample("NVRM: Xid (PCI:0000:b1:00): 1207", (_of("accelerator.unknown_code", _B1, "Xid 1207", severity="warning"),)),
    Sample(
        "NVRM: Xid (PCI:...): 137, TLW_RX interrupt hit on link 6 on GPU2: PRIV Error",
        (_of("accelerator.link_nonfatal", "accelerator:?/GPU2", "Xid 137"),),
    ),
    Sample(
        "NVRM: Xid (PCI:0000:b1:00): 149, NETIR_LINK_DOWN Fatal XC0 i1 Link 09 (0x00400011 0x0 0x0 0x0 0x0 0x0 0x0)",
        (_of("accelerator.test_message", _B1, "Xid 149", severity="info", advice=None),),
    ),
    Sample(
        "NVRM: Xid (PCI:0000:b1:00): 145, RLW_REMAP Nonfatal XC1 i0 Link -1 (0x00000082 0x00000004 0x0 0x0 0x0 0x0)",
        (_of("accelerator.link_peer_error", _B1, "Xid 145", advice=None),),
    ),
    Sample(
        "NVRM: Xid (PCI:0000:b1:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
        (_of("accelerator.recovery_action", _B1, "Xid 154", advice="reset_device", severity="error"),),
    ),
    Sample(
        "NVRM: Xid (PCI:0000:b1:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
        (_of("accelerator.recovery_action", _B1, "Xid 154", advice="ignore", severity="info"),),
    ),
    Sample(
        "NVRM: GPU at PCI:0000:b1:00: GPU-7a1b2c3d-0000-4000-8000-0000000000c4\n"
        "NVRM: GPU Board Serial Number: 1569000000021",
        (
            {"type": "identity", "pci": "0000:b1:00", "uuid": "GPU-7a1b2c3d-0000-4000-8000-0000000000c4"},
            {"type": "identity", "pci": "0000:b1:00", "serial": "1569000000021"},
        ),
    ),
    Sample(
        "NVRM: GPU 0000:b1:00.0: GPU has fallen off the bus.\n"
        "NVRM: GPU 0000:b1:00.0: GPU serial number is 1569000000021.",
        (
            _of("accelerator.off_bus", _B1, "Xid 79"),
            {"type": "identity", "pci": "0000:b1:00", "serial": "1569000000021"},
        ),
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
        "NVRM: GPU2 kbifCacheVFInfo_GB100: Unable to read NV_PF0_INITIAL_AND_TOTAL_VFS",
        (_of("accelerator.driver_notice", "accelerator:?/GPU2", "no virtual functions", severity="info"),),
    ),
    Sample(
        "nvidia-peermem nv_get_p2p_free_callback:131 ERROR detected invalid context, skipping further processing",
        (_of("accelerator.driver_notice", "accelerator:?/?", "peer memory context gone", severity="info"),),
    ),
    Sample(
        "nvidia-nvswitch1: SXid (PCI:0000:9c:00.0): 20034, Fatal, Link 18 LTSSM Fault Up (First)\n"
        "nvidia-nvswitch1: SXid (PCI:0000:9c:00.0): 20034, Severity 5 Engine instance 18 Sub-engine instance 00\n"
        "nvidia-nvswitch1: SXid (PCI:0000:9c:00.0): 20034, Data {0x00000001, 0x00000001, 0x00000000, 0x00000000}",
        (_of("fabric.switch_fatal", "fabric:?/0000:9c:00", "SXid 20034"),),
    ),
    Sample(
        "nvidia-nvswitch1: SXid (PCI:0000:00:00.0): 19049, Fatal, Link 03 TX NCISOC corrected ECC limit",
        (_of("fabric.switch_fatal", "fabric:?/nvidia-nvswitch1", "SXid 19049", advice="reset_device"),),
    ),
    Sample(
        "nvidia-nvswitch1: SXid (PCI:0000:9c:00.0): 11001, Non-fatal, Link 03 ingress command decode error",
        (_of("fabric.switch_nonfatal", "fabric:?/0000:9c:00", "SXid 11001", severity="warning", advice="watch"),),
    ),
)
