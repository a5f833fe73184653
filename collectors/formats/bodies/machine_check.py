"""Machine checks, memory controllers (EDAC), poisoned pages and firmware records of processors and memory.

The words are from the kernel's mce, EDAC and memory-failure code. Bit 61 of a bank's status says uncorrected; the words
CE and UE do in EDAC lines. A count in an EDAC line is what came since its last poll.
"""

import re
from collections.abc import Iterator

from collectors.formats import apei
from collectors.formats.bodies import Sample
from collectors.formats.rates import Rates
from collectors.formats.reading import Line, Record
from collectors.formats.speaking import kernel_speaks, process, told
from sickbay.components import UNKNOWN, Kind, Name, name
from sickbay.messages import Event, Severity

LITERALS = (
    "Machine Check", "EDAC ", "_STATUS[", "Memory failure: ", "hardware memory error", "temperature above threshold",
    *apei.LITERALS,
)  # fmt: skip

_UNCORRECTED = 1 << 61  # Intel SDM vol. 3B, IA32_MCi_STATUS.UC; the same bit in AMD's MCA_STATUS
_CONTEXT_CORRUPT = 1 << 57
_MAX_COUNT = 1_000_000
_OFTEN, _OFTEN_S = 10, 86_400  # corrected errors of one module: mcelog.conf, [dimm] ce-error-threshold = 10 / 24h

_BANK = re.compile(
    r"^(?:mce: )?(?:\[Hardware Error\]: )?CPU (?P<cpu>\d{1,5}): Machine Check(?: Exception| Event)?: "
    r"(?P<global>[0-9a-f]{1,8}) Bank (?P<bank>\d{1,3}): (?P<status>[0-9a-f]{1,16})$"
)
_AMD = re.compile(
    r"^(?:mce: )?\[Hardware Error\]: CPU:(?P<cpu>\d{1,5}) \([0-9a-f:]{1,20}\) "
    r"MC(?P<bank>\d{1,3})_STATUS\[(?P<flags>[\w|-]{1,80})\]: (?P<status>0x[0-9a-f]{1,16})"
)
_EDAC = re.compile(
    r"^EDAC (?:[a-z][\w-]{0,20} )?MC(?P<controller>\d{1,3}): (?:(?P<count>\d{1,9}) )?(?P<word>CE|UE) "
    r"(?:(?P<what>[a-z][\w ]{0,60}?) )?on (?P<label>[^(]{1,120}?) ?(?:\(|$)"
)
_POISONED = re.compile(
    r"^Memory failure: (?P<page>0x[0-9a-f]{1,16}): recovery action for (?P<what>.{1,80}?): "
    r"(?P<result>Recovered|Delayed|Ignored|Failed)"
)
_KILLING = re.compile(
    r"^Memory failure: (?P<page>0x[0-9a-f]{1,16}): Killing (?P<name>.{1,32}?):(?P<pid>\d{1,10}) due to "
    r"hardware memory corruption"
)
_CONSUMED = re.compile(r"^mce: Uncorrected hardware memory error in user-access at (?P<address>[0-9a-f]{1,16})")
_HOT = re.compile(
    r"^(?:mce: )?CPU(?P<cpu>\d{1,5}): (?P<what>Core|Package) temperature above threshold, cpu clock "
    r"throttled(?: \(total events = (?P<total>\d{1,12})\))?"
)


class GRAMMAR:
    """Corrected and uncorrected errors of processors and memory, one event a line or record."""

    def __init__(self) -> None:
        self._groups = apei.Groups()
        self._rates = Rates(_OFTEN, _OFTEN_S)

    def read(self, line: Line) -> Iterator[Record | tuple[Record, Line]]:
        """The errors that this line tells, and the firmware record that it ends."""
        if not kernel_speaks(line):
            return
        is_row, section = self._groups.read(line)
        if section is not None:
            yield from _firmware_error(section)
        if is_row:
            return
        for pattern, tell in _TELLS:
            if match := pattern.match(line.body):
                record = tell(match)
                yield record
                if record.kind == "dimm.corrected" and (
                    count := self._rates.reached(record.component, line, record.count)
                ):
                    yield told("dimm.corrected_rate", record.component, code="corrected errors often", count=count)
                return

    def end(self) -> Iterator[tuple[Record, Line]]:
        """The firmware record that was open."""
        for section in self._groups.end():
            yield from _firmware_error(section)


def _cpu(number: str) -> Name:
    return name(Kind.CPU, UNKNOWN, number)


def _dimm(label: str = "") -> Name:
    return name(Kind.DIMM, UNKNOWN, label) if label else name(Kind.DIMM, UNKNOWN)


def bank_record(cpu: str, bank: str, status_word: str) -> Event:
    """The error in a bank by its status word (hexadecimal); `cpu` may be empty."""
    status = int(status_word, 16)
    what = "uncorrected" if status & _UNCORRECTED else "corrected"
    attributes = {"bank": bank, "status": status_word} | ({"cpu": cpu} if cpu else {})
    if status & _CONTEXT_CORRUPT:
        attributes["context_corrupt"] = "yes"
    if status & 0xEF80 == 0x80:  # compound code 0000 0000 1MMM CCCC: the memory controller; which module is not told
        return told(f"dimm.{what}", _dimm(), code=f"MCE bank {bank}", attributes=attributes)
    component = _cpu(cpu) if cpu else name(Kind.CPU, UNKNOWN)
    return told(f"cpu.{what}", component, code=f"MCE bank {bank}", attributes=attributes)


def _bank(match: re.Match[str]) -> Event:
    return bank_record(match["cpu"], match["bank"], match["status"])


def _amd(match: re.Match[str]) -> Event:
    flags = match["flags"].split("|")
    deferred = "Deferred" in flags  # found but not used by anybody yet
    wrong = bool(int(match["status"], 16) & _UNCORRECTED) or deferred
    return told(
        "cpu.uncorrected" if wrong else "cpu.corrected",
        _cpu(match["cpu"]),
        code=f"MCE bank {match['bank']}",
        attributes={"bank": match["bank"], "status": match["status"]},
        **({"severity": Severity.WARNING} if deferred else {}),
    )


def _edac(match: re.Match[str]) -> Event:
    label = match["label"].strip()
    known = label and not label.startswith(("any memory", "unknown memory", "unknown label"))
    return told(
        "dimm.corrected" if match["word"] == "CE" else "dimm.uncorrected",
        _dimm(label if known else f"mc{match['controller']}"),
        code=f"EDAC {match['word']}",
        count=min(_MAX_COUNT, max(1, int(match["count"] or 1))),
        attributes={"controller": match["controller"]},
    )


def _poisoned(match: re.Match[str]) -> Event:
    kind = "dimm.page_recovered" if match["result"] in ("Recovered", "Delayed") else "dimm.uncorrected"
    return told(kind, _dimm(), attributes={"page": match["page"], "result": match["result"]})


def _killing(match: re.Match[str]) -> Event:
    who = process(match["name"], match["pid"])
    return told("dimm.uncorrected", _dimm(), process=who, attributes={"page": match["page"]})


def _consumed(match: re.Match[str]) -> Event:
    return told("dimm.uncorrected", _dimm(), attributes={"address": match["address"]})


def _hot(match: re.Match[str]) -> Event:
    attributes = {"sensor": match["what"].lower()} | ({"total": match["total"]} if match["total"] else {})
    return told("cpu.throttled", _cpu(match["cpu"]), attributes=attributes)


_TELLS = (
    (_BANK, _bank), (_AMD, _amd), (_EDAC, _edac), (_POISONED, _poisoned), (_KILLING, _killing),
    (_CONSUMED, _consumed), (_HOT, _hot),
)  # fmt: skip


def _firmware_error(section: apei.Section) -> Iterator[tuple[Record, Line]]:
    if section.severity not in ("corrected", "info", "recoverable", "fatal"):
        return
    what = "corrected" if section.severity in ("corrected", "info") else "uncorrected"
    attributes = apei.attributes(section)
    if section.kind == "memory error":
        label = section.fields.get("DIMM_location", "")
        label = "" if label.startswith("not present") else label
        yield (
            told(f"dimm.{what}", _dimm(label), code=f"APEI {section.severity} memory error", attributes=attributes),
            section.line,
        )
    elif "processor error" in section.kind:
        component = name(Kind.CPU, UNKNOWN)
        yield (
            told(f"cpu.{what}", component, code=f"APEI {section.severity} processor error", attributes=attributes),
            section.line,
        )


def _expect(kind: str, component: str, **fields: object) -> tuple[dict[str, object], ...]:
    return ({"type": "event", "kind": kind, "component": component, **fields},)


_MEMORY_RECORD = """\
{9}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 1
{9}[Hardware Error]: It has been corrected by h/w and requires no further action
{9}[Hardware Error]: event severity: corrected
{9}[Hardware Error]:  Error 0, type: corrected
{9}[Hardware Error]:   section_type: memory error
{9}[Hardware Error]:   error_status: Storage error in DRAM memory (0x0000000000000400)
{9}[Hardware Error]:   node:0 card:3 module:0 rank:1 bank:2 row:4101 column:64
{9}[Hardware Error]:   error_type: 2, single-bit ECC
{9}[Hardware Error]:   DIMM location: CPU1 DIMM_A3"""

SAMPLES = (
    Sample(
        "mce: [Hardware Error]: CPU 8: Machine Check: 0 Bank 12: dc00004000010092",
        _expect("dimm.corrected", "dimm:?", severity=Severity.INFO),
    ),
    Sample(
        "mce: [Hardware Error]: CPU 70: Machine Check Exception: 5 Bank 1: bf80000000000134",
        _expect("cpu.uncorrected", "cpu:?/70", severity=Severity.FATAL, code="MCE bank 1"),
    ),
    Sample("[Hardware Error]: CPU 3: Machine Check: 0 Bank 0: 9000004000010005", _expect("cpu.corrected", "cpu:?/3")),
    Sample(
        "[Hardware Error]: Corrected error, no action required.\n"
        "[Hardware Error]: CPU:66 (19:11:1) MC18_STATUS[Over|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-]: 0xdc2041000000011b",
        _expect("cpu.corrected", "cpu:?/66", code="MCE bank 18"),
    ),
    Sample(
        "[Hardware Error]: Uncorrected, software containable error.\n"
        "mce: [Hardware Error]: CPU:2 (19:11:1) MC0_STATUS[-|UE|MiscV|AddrV|-|TCC|SyndV|UECC|-|Poison|-"
        "]: 0xbc800800060c0859",
        _expect("cpu.uncorrected", "cpu:?/2"),
    ),
    Sample(
        "EDAC MC2: 3 CE memory scrubbing error on CPU_SrcID#1_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 "
        "page:0x5a0b1 offset:0x40 grain:32 syndrome:0x0)",
        _expect("dimm.corrected", "dimm:?/CPU_SrcID#1_MC#0_Chan#1_DIMM#0", count=3, code="EDAC CE"),
    ),
    Sample(
        "EDAC MC0: 1 UE memory read error on DIMM_B1 (channel:0 slot:0 page:0x11 offset:0x0 grain:32)",
        _expect("dimm.uncorrected", "dimm:?/DIMM_B1", code="EDAC UE", severity=Severity.FATAL),
    ),
    Sample(
        "EDAC MC1: 262 CE memory read error on DIMM_C2 (channel:1 slot:0 page:0x20 offset:0x940 - OVERFLOW area:DRAM)",
        (
            {"type": "event", "kind": "dimm.corrected", "component": "dimm:?/DIMM_C2", "count": 262},
            {"type": "event", "kind": "dimm.corrected_rate", "component": "dimm:?/DIMM_C2", "count": 262},
        ),
    ),
    Sample("EDAC amd64 MC1: 1 CE on any memory (csrow:2 channel:1)", _expect("dimm.corrected", "dimm:?/mc1")),
    Sample(
        "Memory failure: 0x5a0b11: recovery action for clean LRU page: Recovered",
        _expect("dimm.page_recovered", "dimm:?", severity=Severity.WARNING),
    ),
    Sample(
        "Memory failure: 0x5a0b11: recovery action for reserved kernel page: Ignored",
        _expect("dimm.uncorrected", "dimm:?"),
    ),
    Sample(
        "Memory failure: 0x5a0b11: Killing trainer:5150 due to hardware memory corruption",
        _expect("dimm.uncorrected", "dimm:?", process="trainer[5150]"),
    ),
    Sample("mce: Uncorrected hardware memory error in user-access at 2a8f11c40", _expect("dimm.uncorrected", "dimm:?")),
    Sample(
        "mce: CPU41: Package temperature above threshold, cpu clock throttled (total events = 7)",
        _expect("cpu.throttled", "cpu:?/41"),
    ),
    Sample(_MEMORY_RECORD, _expect("dimm.corrected", "dimm:?/CPU1_DIMM_A3", severity=Severity.INFO)),
)
