"""NVIDIA's kernel driver: Xid and SXid lines of all driver branches, and identities.

Only the kernel speaks here: a program that quotes such a line is not believed. Register dumps, call histories and the
second and third line of a switch error belong to the event before them and give no record. What the driver says
without a code is read by `accelerator_nvidia_text`.
"""

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from collectors.codes import nvidia, nvidia_text
from collectors.formats.bodies import Sample
from collectors.formats.nvidia_lines import PCI, card, coded, remember, texts
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, name, pci_address
from sickbay.messages import Event, Identity

# All eras: with and without `PCI:`, with a function digit, with MIG ids or nothing readable in the brackets.
_XID = re.compile(
    r"(?:NVRM: |nvidia_dev_xid: )?Xid \((?P<where>[^()]{0,80})\): (?P<code>\d{1,18})\b"
    r"(?:,? ?pid='?(?P<pid>[^,']{0,40})'?)?(?:, ?name=(?P<process>[^,]{0,64}))?,? ?(?P<text>.*)"
)
_MIG = re.compile(r"GPU-(C?I):(\d{1,4})")
_CAUSE = re.compile(r"caused by previous Xid (\d{1,9})")
_ANSWERS_NOT = re.compile(r"RPC response from (GPU\d{1,3}) GSP")  # the driver's own number for the card
_SXID = re.compile(
    r"nvidia-nvswitch(?P<switch>\d{1,4}): SXid \((?P<where>[^()]{0,80})\): (?P<code>\d{1,18})\b,? ?(?P<text>.*)"
)
_SXID_TEXT = re.compile(r"(?:(?P<word>Fatal|Non-?[Ff]atal)\b,? ?)?(?:Link (?P<link>-?\d{1,4})\b)?")
_SXID_REST = ("Severity ", "Data ")  # second and third line of one switch error
_UUID = re.compile(rf"NVRM: GPU at {PCI}: (?P<uuid>GPU-[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}})\b")
_BOARD_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: (?P<serial>[0-9A-Za-z]{4,40})\s*$")
_CARD_SERIAL = re.compile(rf"NVRM: GPU {PCI}: GPU serial number is (?P<serial>[0-9A-Za-z]{{4,40}})\.?\s*$")


class Grammar:
    """Reads one input's lines; remembers who was named last where the driver says one thing in several lines."""

    def __init__(self) -> None:
        self._board: dict[str, Identity] = {}  # stream -> the card whose serial number comes next
        self._switch_errors: dict[str, bool] = {}  # stream, switch and code whose first line was seen
        self._told: dict[str, bool] = {}  # card and code that were seen, card and number that were joined

    def read(self, line: Line) -> Iterable[Record]:
        """Records of this line."""
        for text in texts(line):
            for reader in (self._xid, self._sxid, self._identity):
                if (records := reader(text, line)) is not None:
                    yield from records
                    break

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is ever held back."""
        return ()

    def _xid(self, text: str, line: Line) -> Iterable[Record] | None:
        found = _XID.match(text)
        if not found:
            return None
        event = _xid_event(found)
        self._once(event.component, event.code)
        return (*self._cause(event), event, *self._numbered(event, found["text"]))

    def _once(self, *parts: str) -> bool:
        """Whether this is the first time; what was forgotten is told again."""
        key = "\x1f".join(parts)
        new = key not in self._told
        remember(self._told, key, True)
        return new

    def _cause(self, event: Event) -> Iterator[Record]:
        """The error that the driver names as the cause of a closed channel, where its own line was not seen."""
        cause = event.attributes.get("caused_by", "")
        if cause and self._once(event.component, cause):
            row = nvidia_text.without_text(nvidia.xid(int(cause.removeprefix("Xid "))))
            yield coded(row, cause, event.component, {"told_by": event.code}, event.process)

    def _numbered(self, event: Event, text: str) -> Iterator[Record]:
        """The card's number in the lines of the driver that give no address."""
        found, place = _ANSWERS_NOT.search(text), event.component.partition("/")[2]
        if found and pci_address(place) and self._once(place, found[1]):
            yield Identity(pci=place, name=found[1])

    def _sxid(self, text: str, line: Line) -> Iterable[Record] | None:
        found = _SXID.match(text)
        if not found:
            return None
        key = f"{line.stream}\x1f{found['switch']}\x1f{int(found['code'])}"
        if found["text"].startswith(_SXID_REST) and key in self._switch_errors:
            return ()
        remember(self._switch_errors, key, True)
        return (_sxid_event(found),)

    def _identity(self, text: str, line: Line) -> Iterable[Record] | None:
        if found := _UUID.match(text):
            address = pci_address(found["pci"])
            identity = Identity(pci=address or "", uuid=found["uuid"], boot_id=line.boot_id)
            remember(self._board, line.stream, identity)
            return (identity,) if address else ()
        if found := _BOARD_SERIAL.match(text):
            board = self._board.pop(line.stream, None)
            return (replace(board, serial=found["serial"]),) if board and board.pci else ()
        if found := _CARD_SERIAL.match(text):
            address = pci_address(found["pci"])
            return (Identity(pci=address, serial=found["serial"], boot_id=line.boot_id),) if address else ()
        return None


def _xid_event(found: re.Match[str]) -> Event:
    code, text = int(found["code"]), found["text"]
    row, attributes = nvidia_text.told(nvidia.xid(code), text)
    attributes |= {{"I": "mig", "CI": "mig_compute"}[key]: value for key, value in _MIG.findall(found["where"])}
    if cause := _CAUSE.search(text):
        attributes["caused_by"] = f"Xid {cause[1]}"
    component = card(found["where"].split(" ")[0], text)
    event = coded(row, f"Xid {code}", component, attributes, _process(found["process"], found["pid"]))
    far_end = attributes.get("remote_pci")
    return replace(event, peer=card(far_end)) if far_end else event


def _process(command: str | None, pid: str | None) -> str:
    known = [(word or "").strip().strip("'") for word in (command, pid)]
    command, pid = ("" if word.startswith("<") else word for word in known)
    return f"{command}[{pid}]" if pid else command or ""


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
    return coded(nvidia_text.worded(nvidia.sxid(code), word), f"SXid {code}", component, attributes)


GRAMMAR = Grammar

LITERALS: tuple[str, ...] = ("Xid", "GPU at PCI:", "NVRM: GPU at ", "GPU Board Serial Number", "GPU serial number is")


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
        (
            _of("accelerator.memory_contained", _B1, "Xid 94", process="nvc:[driver] 2[7313]"),
            _of("accelerator.channel_closed", _B1, "Xid 45", process="nvc:[driver] 2[7313]"),
        ),
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
    Sample("Xid (PCI:0000:b1:00.0): 43, Ch 0000000c", (_of("accelerator.program_error", _B1, "Xid 43"),)),
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
    Sample(
        "[gpu-health] [CRITICAL] GPU-7a1b2c3d-0000-4000-8000-0000000000c4: XID: NVRM: Xid (PCI:0000:b1:00): 95,"
        " pid=7313, name=python3, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No",
        (_of("accelerator.memory_uncorrectable", _B1, "Xid 95", advice="reset_device"),),
    ),
    Sample(
        "NVRM: Xid (PCI:0000:b1:00): 119, pid=7313, name=python3, Timeout after 45s of waiting for RPC response from"
        " GPU3 GSP! Expected function 76 (GSP_RM_CONTROL) sequence 812 (0x20802096 0x8).",
        (
            _of("accelerator.firmware_hang", _B1, "Xid 119", advice="reset_device"),
            {"type": "identity", "pci": "0000:b1:00", "name": "GPU3"},
        ),
    ),
    Sample(
        "NVRM: GPU 0000:b1:00.0: GPU serial number is 1569000000021.",
        ({"type": "identity", "pci": "0000:b1:00", "serial": "1569000000021"},),
    ),
)
