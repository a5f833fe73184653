"""A port's state as its tools print it: `ibstat`, `ibstatus`, `ibv_devinfo`, `mlxlink` (text and JSON), `rdma link`.

Which interface is which RDMA port is told by `rdma link` and `ibdev2netdev`; not of bonds, which are no port, nor of
VLANs, which share theirs.

`mlxlink` names no device in its answer: the command tells it, where it was saved too. Sources: rdma-core ibstat.c,
ibstatus, devinfo.c; the open mstflint source (titles, JSON) and the vendor's list of diagnostic codes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import msgspec

from collectors.formats.events import event
from collectors.formats.optic_findings import Module, findings, limits, numbers
from collectors.formats.port_findings import of_error_ratio, of_state
from collectors.formats.reading import Reading, Tally
from collectors.formats.text import clean_text, lines
from sickbay.components import UNKNOWN, Kind, Name, name, pci_address
from sickbay.messages import Action, Event, Identity, Severity

MAX_JSON = 4 << 20
MAX_PORTS = 20_000  # of one text
MAX_FACTS = 400  # of one port
MAX_ROW = 600  # characters of a line that tells a pair of names
_COMMAND = re.compile(r"(?:^|[\s;/])(?:mlxlink|mstlink)\b.{0,80}?(?:-d|--device) (?P<device>[\w./:-]{1,80})")
_ADAPTER = re.compile(r"^(?:CA '|hca_id:\s{1,8}|Infiniband device ')(?P<device>[\w.-]{1,64})(?:'| |$)")
_STATUS_PORT = re.compile(r"' port (?P<port>\d{1,3}) status:$")
_PORT = re.compile(r"^\s+(?:Port (?P<a>\d{1,3}):|port:\s+(?P<b>\d{1,3}))$")
_SECTION = re.compile(r"^(?P<title>[A-Z][A-Za-z/() ]{3,60}?)(?: #)?$")
_RDMA = re.compile(
    r"^(?:\d{1,4}(?:/\d{1,4})?: )?link (?P<device>[\w.-]{1,64})/(?P<port>\d{1,3}) (?:.{0,200} )?"
    r"state (?P<state>[A-Z_]{3,20}) physical_state (?P<physical>[A-Z_]{3,30})\b"
)
_NETDEV = re.compile(r" netdev (?P<name>[\w.-]{1,32})(?: |$)")
# mlx5_0 port 1 ==> ib0 (Up)      0000:08:00.0 mlx5_0 (MT4115 - MT1612X07121) fw 12.17.2020 port 1 (ACTIVE) ==> ib0 (Up)
_PAIRED = re.compile(
    r"^(?:(?P<pci>[0-9a-fA-F:.]{7,16}) )?(?P<device>[\w.-]{1,64}) (?:\([^=]{1,200} )?port (?P<port>\d{1,3}) "
    r"(?:\(\w{1,20}\) )?==> (?P<name>[\w.-]{1,32}) \((?:Up|Down)\)$"
)
_SETTINGS = re.compile(r"^Settings for (?P<port>[\w.-]{1,32}):")
_LANES = re.compile(r"(?P<now>\d{1,2})[xX] \((?P<most>\d{1,2})[xX]\)")
_PAIR = re.compile(r"^\s*(?P<key>[A-Za-z][^:]{1,70}?)\s*:\s+(?P<value>\S.{0,300})$")
_SIGNS = re.compile(
    r"^(?:(?:\d{1,4}(?:/\d{1,4})?: )?link \S{1,70} .{0,200}physical_state|Settings for \S{1,32}:$|PCIe Operational"
    r"|\S{1,80} .{0,260}port \d{1,3} .{0,24}==> \S{1,32} \((?:Up|Down)\)$"
    r"|CA '[\w.-]+'$|hca_id:\s|Infiniband device '|Operational Info\b|Troubleshooting Info\b|Module Info\b"
    r"|Physical Counters and BER Info\b)"
)
_JSON = re.compile(rb'"(?:Operational Info|Physical Counters and BER Info|Troubleshooting Info|Module Info)"\s{0,9}:')
_RATIO = re.compile(r"\d{1,4}(?:\.\d{1,4})?[eE][-+]?\d{1,3}|0")
_RATIOS = {"Raw Physical BER": "raw", "Effective Physical BER": "effective", "Symbol BER": "symbol"}
_FLAGS = ("Tx Fault", "Rx LOS", "Rx CDR LOL", "Tx LOS", "Tx CDR LOL", "Module FW Fault", "DataPath FW Fault")
_KEYS = ("state", "phys state", "physical state", "link detected")
_STARTS = ("Rx Power Current", "Temperature [C]", "Link Width Active")
_FINE = ("no issue", "n/a", "")


@dataclass(slots=True)
class _Port:
    """One port's block: what its keys said, and the line it began at."""

    device: str
    number: str = ""
    line: int = 0
    facts: dict[str, str] = field(default_factory=dict)
    interface: str = ""
    pci: str = ""

    @property
    def name(self) -> Name:
        return name(Kind.PORT, UNKNOWN, self.device, *([self.number] if self.number else []))


def confidence(head: bytes, name: str) -> float:
    """High where blocks of one of the tools begin in the text."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return 0.95 if _JSON.search(head) else 0.0
    rows = [row for row in head.decode("utf-8", "replace").replace("\r", "").split("\n") if row.strip()][:200]
    signs = sum(bool(_SIGNS.match(row)) for row in rows)
    fitting = sum(bool(_PAIR.match(row) or _PORT.match(row) or _SIGNS.match(row) or row[0] == "-") for row in rows)
    return 0.9 if signs and fitting >= 0.6 * len(rows) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """State, error ratios and module of each port."""
    stream = iter(chunks)
    head = next(stream, b"")
    ports = _json_ports if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else _text_ports
    found = list(islice(ports(chain((head,), stream), tally), MAX_PORTS))
    shared = Counter(port.device for port in found)
    for port in found:
        for identity in _identities(port):
            yield Reading(identity, port.line)
        spare = shared[port.device] > 1
        for found_event in _events(port, spare=spare):
            yield Reading(found_event, port.line)


def _text_ports(chunks: Iterable[bytes], tally: Tally) -> Iterator[_Port]:
    device, port = UNKNOWN, _Port(UNKNOWN)
    for number, row in lines(chunks, tally):
        if command := _COMMAND.search(row):
            device = command["device"].removeprefix("/dev/mst/")
        elif adapter := _ADAPTER.match(row):
            yield from [port] if _told(port) else []
            one = _STATUS_PORT.search(row)
            device = adapter["device"]
            port = _Port(device, one["port"] if one else "", number)
        elif link := _RDMA.match(row):
            facts = {"state": link["state"], "physical state": link["physical"].replace("_", "")}
            netdev = _NETDEV.search(row[:MAX_ROW])
            yield _Port(link["device"], link["port"], number, facts, netdev["name"] if netdev else "")
        elif names := _PAIRED.match(row[:MAX_ROW]):
            yield _Port(names["device"], names["port"], number, {}, names["name"], names["pci"] or "")
        elif settings := _SETTINGS.match(row):
            yield from [port] if _told(port) else []
            port = _Port(settings["port"], "", number)
        elif (numbered := _PORT.match(row)) and device != UNKNOWN:
            yield from [port] if _told(port) else []
            port = _Port(device, numbered["a"] or numbered["b"], number)
        elif row.startswith(("Operational Info", "PCIe Operational")):
            yield from [port] if _told(port) else []
            port = _Port(device, "", number)
        elif pair := _PAIR.match(row):
            if len(port.facts) < MAX_FACTS:
                port.facts.setdefault(pair["key"].strip(), pair["value"].strip())
        elif row.strip() and not (_SECTION.match(row) or row.startswith(("-", "\t"))):
            tally.unparsed += 1
    yield from [port] if _told(port) else []


def _identities(port: _Port) -> Iterator[Identity]:
    """Its names, where they are of this port alone."""
    one = f"{port.device} {port.interface}"
    if port.interface and "bond" not in one and "." not in port.interface:
        yield Identity(kind=Kind.PORT, index=f"{port.device}/{port.number}", name=port.interface)
    if address := pci_address(port.pci, function=True):
        yield Identity(kind=Kind.NIC, index=port.device, pci=address)


def _told(port: _Port) -> bool:
    return any(key.lower() in _KEYS or key in _RATIOS or key.startswith(_STARTS) for key in port.facts)


def _json_ports(chunks: Iterable[bytes], tally: Tally) -> Iterator[_Port]:
    held = bytearray()
    for chunk in chunks:
        held += chunk
        if len(held) > MAX_JSON:
            break
    try:
        output = msgspec.json.decode(bytes(held).decode("utf-8", "replace"))["result"]["output"]
        sections = [section for section in output.values() if isinstance(section, dict)]
    except (msgspec.DecodeError, RecursionError, KeyError, TypeError, AttributeError):
        tally.unparsed += 1
        tally.note("JSON of a port without a whole result: not read")
        return
    pairs = [(key, _flat(value)) for section in sections for key, value in section.items()]
    yield _Port(UNKNOWN, "", 1, dict(pairs[:MAX_FACTS]))


def _flat(value: Any) -> str:
    """A value as the text form prints it: lanes between commas, in either of the JSON's two spellings."""
    if isinstance(value, dict):
        value = value.get("values", [])
    words = value if isinstance(value, list) else [value]
    return clean_text(",".join(str(word) for word in words[:64])[:300])


def _events(port: _Port, *, spare: bool) -> Iterator[Event]:
    facts = {key.partition(" [")[0]: value for key, value in port.facts.items()}
    opcode = facts.get("Status Opcode", "0")
    advice = facts.get("Recommendation", "") if opcode not in ("0", "N/A") else ""
    lower = {key.lower(): value for key, value in facts.items()}
    physical = lower.get("physical state", lower.get("phys state", ""))
    logical = lower.get("state", {"yes": "active", "no": "down"}.get(lower.get("link detected", ""), ""))
    state = of_state(port.name, logical, physical, advice, spare=spare)
    yield from _bus(port, facts.get("Link Width Active (Enabled)", ""))
    if state is not None:
        yield state
    if state is None or state.kind == "port.up":
        if (ratio := _ratio(port, facts, advice)) is not None:
            yield ratio
        yield from findings(_module(port, facts))


def _bus(port: _Port, width: str) -> Iterator[Event]:
    """The bus below the adapter: narrower than enabled may be the slot's own width, so it is told, not judged."""
    match = _LANES.search(width)
    if match and int(match["now"]) < int(match["most"]):
        below = Kind.PCIE + ":" + port.name.partition(":")[2]
        facts = {"width": match["now"], "full_width": match["most"]}
        doubt: dict[str, Any] = {"severity": Severity.WARNING, "advice": Action.WATCH}
        yield event("pcie.degraded", below, facts, message=width, **doubt)


def _ratio(port: _Port, facts: Mapping[str, str], advice: str) -> Event | None:
    """Error ratios since the last clear; the tool's own word that the signal is bad counts like one above its limit."""
    shown = {key: facts[key] for key in (*_RATIOS, "Recommendation", "Link Down Counter") if key in facts}
    ratios = {_RATIOS[key]: float(text) for key, text in facts.items() if key in _RATIOS and _RATIO.fullmatch(text)}
    if advice.strip().rstrip(".").lower() not in _FINE and "bad signal" in advice.lower():
        ratios["told"] = 1.0
    return of_error_ratio(port.name, ratios, shown)


def _module(port: _Port, facts: Mapping[str, str]) -> Module:
    optic = Kind.OPTIC + ":" + port.name.partition(":")[2]
    cable = f"{facts.get('Cable Type', '')} {facts.get('Cable Technology', '')}".lower()
    module = Module(optic, port.line, copper="copper" in cable or "passive" in cable)
    raw = {key.partition(" [")[0]: value for key, value in port.facts.items()}
    module.receive = numbers(raw.get("Rx Power Current", ""))
    module.send = numbers(raw.get("Tx Power Current", ""))
    light, heat = limits(raw.get("Rx Power Current", "")), limits(raw.get("Temperature", ""))
    module.receive_low = light[0] if light else None
    module.temperature = numbers(raw.get("Temperature", "")).get(1)
    module.temperature_high = heat[1] if heat else None
    for flag in _FLAGS:
        lanes = [lane for lane, value in numbers(raw.get(flag, "")).items() if value]
        if lanes:
            module.alarms.append(f"{flag} {','.join(map(str, lanes))}")
    return module
