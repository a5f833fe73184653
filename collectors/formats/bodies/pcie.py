"""PCIe: advanced error reports, firmware-first records, containment, hot plug, reduced bandwidth.

The component is the function that reports (or, in a root port's summary, the one it names); the link to its parent is
as much a suspect. Words changed over the years: Corrected became Correctable, `received:` became `received from`.
"""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from collectors.formats import apei
from collectors.formats.bodies import Sample
from collectors.formats.rates import Rates
from collectors.formats.reading import Line, Record
from collectors.formats.speaking import ADDRESS, kernel_speaks, told
from sickbay.components import UNKNOWN, Kind, Name, name, pci_address
from sickbay.messages import Event, Severity

LITERALS = (
    "AER: ", "PCIe Bus Error", "DPC: containment", "pciehp", "available PCIe bandwidth", "reset; giving up",
    "device inaccessible", "config space inaccessible", "(First)", *apei.LITERALS,
)  # fmt: skip

_SUMMARY = re.compile(
    rf"^pcieport (?P<port>{ADDRESS}): AER: (?P<multiple>Multiple )?(?P<word>Correct|Uncorrect)(?:ed|able)"
    rf"(?: \((?P<fatality>Fatal|Non-Fatal)\))? error (?:message )?received(?::| from) "
    rf"(?:id=(?P<id>[0-9a-fA-F]{{4}})|(?P<source>{ADDRESS}))"
)
_DETAIL = re.compile(
    rf"^\S{{1,40}} (?P<device>{ADDRESS}): (?:AER: )?PCIe Bus Error: severity=(?P<word>Correct|Uncorrect)(?:ed|able)"
    r"(?: \((?P<fatality>Fatal|Non-Fatal)\))?, type=(?P<layer>[A-Za-z ]{1,30})"
    r"(?:, (?:id=[0-9a-fA-F]{4})?\((?P<agent>[A-Za-z ]{1,30})\))?"
)
_BIT = re.compile(
    rf"^\S{{1,40}} (?P<device>{ADDRESS}): (?:AER: )? {{1,3}}\[ ?\d{{1,2}}\] "
    r"(?P<bit>[A-Za-z][\w ]{1,24}?) {1,30}\(First\)"
)
_NOT_RECOVERED = re.compile(rf"^\S{{1,40}} (?P<device>{ADDRESS}): AER: device recovery failed")
_CONTAINED = re.compile(
    rf"^pcieport (?P<device>{ADDRESS}): (?:AER: )?DPC: containment event, "
    rf"status:(?P<status>0x[0-9a-f]{{1,8}})(?: source:(?P<source>0x[0-9a-f]{{1,8}}))?"
)
_HOT_PLUG = re.compile(
    rf"^(?:pcieport|pciehp) (?P<device>{ADDRESS})(?::pcie\d{{1,4}})?: (?:pciehp: )?"
    r"[Ss]lot\((?P<slot>[\w-]{1,20})\): (?P<what>.{1,80})"
)
_LOST = re.compile(
    rf"^\S{{1,40}} (?P<device>{ADDRESS}): "
    r"(?:not ready \d{1,9}ms after (?:bus|hot|FLR|slot)[\w ]{0,20}reset; giving up"
    r"|Unable to change power state from \w{2,8} to D0, device inaccessible"
    r"|can't change power state from \w{2,8} to D0 \(config space inaccessible\))"
)
_BANDWIDTH = re.compile(
    rf"^(?:(?P<driver>\S{{1,40}}) )?(?P<device>{ADDRESS}): \d{{1,5}}\.\d{{1,3}} Gb/s available PCIe bandwidth, "
    rf"limited by (?P<speed>\d{{1,3}}(?:\.\d)?) GT/s (?:PCIe )?x(?P<width>\d{{1,2}}) link at (?P<at>{ADDRESS}) "
    r"\(capable of \d{1,5}\.\d{1,3} Gb/s with (?P<full_speed>\d{1,3}(?:\.\d)?) GT/s "
    r"(?:PCIe )?x(?P<full_width>\d{1,2}) link\)"
)
# What a driver drives; the bus itself (`pci`, `pcieport`) tells nothing of the device.
_DEVICES = {
    "nvidia": "accelerator", "amdgpu": "accelerator", "habanalabs": "accelerator", "mlx5_core": "nic", "bnxt_en": "nic",
    "ice": "nic", "i40e": "nic", "ixgbe": "nic", "igb": "nic", "cxgb4": "nic", "qede": "nic", "hns3": "nic",
    "hinic": "nic", "nvme": "disk", "megaraid_sas": "disk", "mpt3sas": "disk",
}  # fmt: skip
_BY_HAND = ("button press", "Attention button")
_GONE = ("Link Down", "Card not present")
_DETAIL_LINES = 40  # a detail this far behind its error belongs to another one
# DCGM's limit of replays on a sixteen-lane link of generation 4: a bit error rate of 1e-12.
_OFTEN, _OFTEN_S = 16, 60
_MAX_PORTS = 256  # functions remembered for what came before
_FIRMWARE_KINDS = {
    "corrected": "pcie.corrected", "info": "pcie.corrected", "recoverable": "pcie.uncorrected", "fatal": "pcie.fatal",
}  # fmt: skip


class GRAMMAR:
    """Holds an error until the details it announces have come, so that one error is one event."""

    def __init__(self) -> None:
        self._held: tuple[Event, Line] | None = None
        self._non_fatal: set[str] = set()  # functions and ports whose last uncorrected error was not fatal
        self._by_hand: set[str] = set()  # slots switched off with their button
        self._groups = apei.Groups()
        self._rates = Rates(_OFTEN, _OFTEN_S)

    def read(self, line: Line) -> Iterator[Record | tuple[Record, Line]]:
        """The errors that this line tells or completes."""
        if not kernel_speaks(line):
            return
        is_row, section = self._groups.read(line)
        if section is not None:
            yield from _firmware_error(section)
        if self._held is not None and line.number - self._held[1].number > _DETAIL_LINES:
            yield from self._release()
        if is_row or self._detailed(line.body):
            return
        if match := _SUMMARY.match(line.body) or _DETAIL.match(line.body):
            yield from self._release()
            self._held = (self._error(match), line)
        else:
            for record in self._other(line.body):
                yield from self._release()
                yield record

    def end(self) -> Iterator[tuple[Record, Line]]:
        """The error and the record that waited for more."""
        yield from self._release()
        for section in self._groups.end():
            yield from _firmware_error(section)

    def _release(self) -> Iterator[tuple[Record, Line]]:
        held, self._held = self._held, None
        if held is None:
            return
        yield held
        event, line = held
        if event.kind == "pcie.corrected" and (count := self._rates.reached(event.component, line)):
            yield told("pcie.corrected_rate", event.component, code="corrected errors often", count=count), line

    def _detailed(self, body: str) -> bool:
        """Whether the line belongs to the error that is held."""
        if self._held is None:
            return False
        event, line = self._held
        if (match := _DETAIL.match(body)) and "layer" not in event.attributes:
            more = _details(match)
        elif match := _BIT.match(body):
            more = {"bit": match["bit"].strip()}
        else:
            return False
        if event.component != _function(match["device"]):
            return False
        self._held = (replace(event, attributes=event.attributes | more), line)
        return True

    def _error(self, match: re.Match[str]) -> Event:
        groups = match.groupdict()
        kind = "pcie.corrected"
        if match["word"] == "Uncorrect":
            kind = "pcie.fatal" if match["fatality"] == "Fatal" else "pcie.uncorrected"
        if "port" not in groups:
            device, attributes = match["device"], _details(match)
        else:
            device = match["source"] or _requester(match["port"], match["id"])
            attributes = {"root_port": match["port"].lower()} | ({"multiple": "yes"} if match["multiple"] else {})
        for address in filter(None, (device, groups.get("port"))):
            self._note_fatality(address.lower(), kind)
        return told(kind, _function(device), attributes=attributes)

    def _note_fatality(self, address: str, kind: str) -> None:
        if kind == "pcie.fatal":
            self._non_fatal.discard(address)
        elif kind == "pcie.uncorrected" and len(self._non_fatal) < _MAX_PORTS:
            self._non_fatal.add(address)

    def _other(self, body: str) -> Iterator[Record]:
        if match := _CONTAINED.match(body):
            yield told("pcie.containment", _function(match["device"]), attributes={"status": match["status"]})
        elif match := _NOT_RECOVERED.match(body):
            # Drivers without a recovery callback say this after every non-fatal error and work on.
            if match["device"].lower() not in self._non_fatal:
                yield told("pcie.recovery_failed", _function(match["device"]))
        elif match := _LOST.match(body):
            yield told("pcie.recovery_failed", _function(match["device"]), attributes={"lost": "yes"})
        elif match := _HOT_PLUG.match(body):
            yield from self._hot_plug(match)
        elif match := _BANDWIDTH.match(body):
            yield from _reduced(match)

    def _hot_plug(self, match: re.Match[str]) -> Iterator[Record]:
        slot = match["device"].lower()
        if any(words in match["what"] for words in _BY_HAND):
            if len(self._by_hand) < _MAX_PORTS:
                self._by_hand.add(slot)
        elif match["what"].startswith(_GONE) and slot not in self._by_hand:
            yield told("pcie.slot_down", _function(slot), attributes={"slot": match["slot"]})
        elif match["what"].startswith(("Link Up", "Card present")):
            self._by_hand.discard(slot)


def _function(address: str) -> Name:
    return name(Kind.PCIE, UNKNOWN, pci_address(address, function=True) or address)


def _details(match: re.Match[str]) -> dict[str, str]:
    return {"layer": match["layer"].strip()} | ({"agent": match["agent"]} if match["agent"] else {})


def _requester(port: str, requester: str) -> str:
    """The address in an old summary's `id=3b00`: bus, then five bits of device and three of function."""
    number = int(requester, 16)
    return f"{port.rpartition(':')[0].rpartition(':')[0]}:{number >> 8:02x}:{number >> 3 & 31:02x}.{number & 7}"


def _reduced(match: re.Match[str]) -> Iterator[Record]:
    """A link below what the card can do, which may be the slot's own design: its peers decide."""
    width, full_width = int(match["width"]), int(match["full_width"])
    speed, full_speed = float(match["speed"]), float(match["full_speed"])
    if width < full_width or speed < full_speed:
        yield told(
            "pcie.degraded",
            _function(match["device"]),
            peer=_function(match["at"]),
            severity=Severity.ERROR if width < full_width else Severity.WARNING,
            attributes={
                "width": str(width),
                "full_width": str(full_width),
                "speed_gts": match["speed"],
                "full_speed_gts": match["full_speed"],
                **({"device": device} if (device := _DEVICES.get(match["driver"] or "", "")) else {}),
            },
        )


def _firmware_error(section: apei.Section) -> Iterator[tuple[Record, Line]]:
    kind = _FIRMWARE_KINDS.get(section.severity)
    if section.kind != "PCIe error" or kind is None:
        return
    address = section.fields.get("device_id", "").partition(",")[0]
    function = pci_address(address, function=True)
    component = name(Kind.PCIE, UNKNOWN, function) if function else name(Kind.PCIE, UNKNOWN)
    attributes = apei.attributes(section)
    if port := section.fields.get("port_type"):
        attributes["port_type"] = port
    yield told(kind, component, code=f"APEI {section.severity} PCIe error", attributes=attributes), section.line


def _expect(kind: str, address: str, **fields: object) -> dict[str, object]:
    return {"type": "event", "kind": kind, "component": f"pcie:?/{address}", **fields}


_FIRMWARE = """\
{{{n}}}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 4
{{{n}}}[Hardware Error]: event severity: {severity}
{{{n}}}[Hardware Error]:  Error 0, type: {severity}
{{{n}}}[Hardware Error]:   section_type: PCIe error
{{{n}}}[Hardware Error]:   port_type: 4, root port
{{{n}}}[Hardware Error]:   version: 3.0
{{{n}}}[Hardware Error]:   command: 0x0407, status: 0x0010
{{{n}}}[Hardware Error]:   device_id: {address}
{{{n}}}[Hardware Error]:   slot: 12
{{{n}}}[Hardware Error]:   secondary_bus: 0x41
{{{n}}}[Hardware Error]:   vendor_id: 0x1022, device_id: 0x1453
{{{n}}}[Hardware Error]:   class_code: 060400"""

SAMPLES = (
    Sample(
        "BERT: Error records from previous boot:\n[Hardware Error]: event severity: fatal\n"
        "[Hardware Error]:  Error 0, type: fatal\n[Hardware Error]:   section_type: PCIe error\n"
        "[Hardware Error]:   device_id: 0000:40:01.1",
        (
            _expect(
                "pcie.fatal",
                "0000:40:01.1",
                attributes={"reported_by": "firmware", "record": "before this boot", "cleared_by_boot": "yes"},
            ),
        ),
    ),
    Sample(
        "pcieport 0000:64:01.0: AER: Multiple Corrected error received: id=6500\n"
        "nvidia 0000:65:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, id=6500(Transmitter ID)",
        (_expect("pcie.corrected", "0000:65:00.0"),),
    ),
    Sample(
        "pcieport 0000:64:01.0: AER: Corrected error received: 0000:65:00.0\n"
        "nvidia 0000:65:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)\n"
        "nvidia 0000:65:00.0:   device [10de:2330] error status/mask=00000001/0000a000\n"
        "nvidia 0000:65:00.0:    [ 0] RxErr                  (First)",
        (
            _expect(
                "pcie.corrected",
                "0000:65:00.0",
                severity=Severity.INFO,
                attributes={
                    "root_port": "0000:64:01.0",
                    "layer": "Physical Layer",
                    "agent": "Receiver ID",
                    "bit": "RxErr",
                },
            ),
        ),
    ),
    Sample(
        "pcieport 0000:64:01.0: AER: Uncorrected (Non-Fatal) error received: 0000:65:00.0\n"
        "mlx5_core 0000:65:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction "
        "Layer, (Requester ID)\n"
        "mlx5_core 0000:65:00.0:    [14] CmpltTO                (First)\n"
        "mlx5_core 0000:65:00.0: AER: can't recover (no error_detected callback)\n"
        "pcieport 0000:64:01.0: AER: device recovery failed",
        (_expect("pcie.uncorrected", "0000:65:00.0"),),
    ),
    Sample(
        "pcieport 0000:64:01.0: AER: Uncorrectable (Fatal) error message received from 0000:65:00.0\n"
        "nvidia 0000:65:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)\n"
        "nvidia 0000:65:00.0:    [18] MalfTLP                (First)\n"
        "pcieport 0000:64:01.0: AER: device recovery failed",
        (
            _expect("pcie.fatal", "0000:65:00.0", severity=Severity.FATAL),
            _expect("pcie.recovery_failed", "0000:64:01.0"),
        ),
    ),
    Sample(
        "pcieport 0000:64:01.0: AER: Correctable error message received from 0000:65:00.0 (no details found",
        (_expect("pcie.corrected", "0000:65:00.0"),),
    ),
    Sample(
        "pcieport 10000:64:01.0: DPC: containment event, status:0x1f01 source:0x0000\n"
        "pcieport 10000:64:01.0: DPC: unmasked uncorrectable error detected",
        (_expect("pcie.containment", "10000:64:01.0", attributes={"status": "0x1f01"}),),
    ),
    Sample("pcieport 0000:64:01.0: pciehp: Slot(12): Link Down", (_expect("pcie.slot_down", "0000:64:01.0"),)),
    Sample("pciehp 0000:64:01.0:pcie004: Slot(12): Card not present", (_expect("pcie.slot_down", "0000:64:01.0"),)),
    Sample(
        "pcieport 0000:64:01.0: pciehp: Slot(7): Attention button pressed\n"
        "pcieport 0000:64:01.0: pciehp: Slot(7): Powering off due to button press\n"
        "pcieport 0000:64:01.0: pciehp: Slot(7): Link Down",
        (),
    ),
    Sample(
        "nvidia 0000:65:00.0: 126.016 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 link at 0000:64:01.0 "
        "(capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)",
        (
            _expect(
                "pcie.degraded",
                "0000:65:00.0",
                peer="pcie:?/0000:64:01.0",
                severity=Severity.ERROR,
                attributes={
                    "width": "8",
                    "full_width": "16",
                    "speed_gts": "16.0",
                    "full_speed_gts": "32.0",
                    "device": "accelerator",
                },
            ),
        ),
    ),
    Sample(
        "mlx5_core 0000:65:00.0: 252.048 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x16 "
        "link at 0000:64:01.0 "
        "(capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)",
        (_expect("pcie.degraded", "0000:65:00.0", severity=Severity.WARNING),),
    ),
    Sample("mlx5_core 0000:65:00.0: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)", ()),
    Sample(
        "nvme 0000:e1:00.0: not ready 65535ms after bus reset; giving up",
        (_expect("pcie.recovery_failed", "0000:e1:00.0"),),
    ),
    Sample(
        _FIRMWARE.format(n=41, severity="corrected", address="0000:40:03.1"),
        (_expect("pcie.corrected", "0000:40:03.1", severity=Severity.INFO, code="APEI corrected PCIe error"),),
    ),
    Sample(
        _FIRMWARE.format(n=1, severity="fatal", address="0000:40:03.1")
        + "\n"
        + _FIRMWARE.format(n=2, severity="recoverable", address="0000:80:01.0"),
        (_expect("pcie.fatal", "0000:40:03.1"), _expect("pcie.uncorrected", "0000:80:01.0")),
    ),
)
