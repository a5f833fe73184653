"""Machine checks as the tools print them that decode them: mcelog's records, rasdaemon's and ras-mc-ctl's lines.

Only the bank and its status word are read; the words round them are the tools' own guess at what they mean.
"""

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from collectors.formats.bodies import Sample
from collectors.formats.bodies.machine_check import bank_record
from collectors.formats.reading import Line, Record

LITERALS = (" BANK ", " MCGSTATUS ", "mcgstatus=")

_BANK = re.compile(r"^(?:mcelog: )?CPU (?P<cpu>\d{1,5}) BANK (?P<bank>\d{1,3})\b")
_STATUS = re.compile(r"^(?:mcelog: )?STATUS (?P<status>[0-9a-f]{1,16}) MCGSTATUS \w")
_STORED = re.compile(r"\bbank=(?P<bank>0x[0-9a-f]{1,4}|\d{1,3})\b")
_STORED_STATUS = re.compile(r"\bstatus=(?P<status>0x[0-9a-f]{1,16})\b")
_STORED_CPU = re.compile(r"\b(?:CPU |cpu=)(?P<cpu>0x[0-9a-f]{1,4}|\d{1,5})\b")


class GRAMMAR:
    """One event a record: a bank's line is kept until its status comes."""

    def __init__(self) -> None:
        self._bank: re.Match[str] | None = None

    def read(self, line: Line) -> Iterator[Record]:
        """The machine check that this line completes."""
        body = line.body.lstrip()
        if match := _BANK.match(body):
            self._bank = match
        elif (match := _STATUS.match(body)) and self._bank:
            bank, self._bank = self._bank, None
            record = bank_record(bank["cpu"], bank["bank"], match["status"])
            yield replace(record, message=f"{bank.string.rstrip()} {body}")
        elif "mcgstatus=" in body:
            yield from _stored(body[:2000])

    def end(self) -> Iterable[tuple[Record, Line]]:
        """A bank without its status says nothing."""
        return ()


def _stored(body: str) -> Iterator[Record]:
    bank, status, cpu = _STORED.search(body), _STORED_STATUS.search(body), _STORED_CPU.search(body)
    if bank and status:
        number = str(int(cpu["cpu"], 0)) if cpu else ""
        yield bank_record(number, str(int(bank["bank"], 0)), status["status"].removeprefix("0x"))


def _expect(kind: str, component: str, **fields: object) -> tuple[dict[str, object], ...]:
    return ({"type": "event", "kind": kind, "component": component, **fields},)


SAMPLES = (
    Sample(
        "Hardware event. This is not a software error.\nMCE 0\nCPU 12 BANK 3 \nTIME 1741666642\n"
        "MCG status:\nMCi status:\nUncorrected error\nProcessor context corrupt\n"
        "STATUS ba00000000000405 MCGSTATUS 0\nMCGCAP 1000c18 APICID 42 SOCKETID 1",
        _expect("cpu.uncorrected", "cpu:?/12", code="MCE bank 3"),
    ),
    Sample(
        "7 2025-03-11 04:17:22 +0000 error: Corrected error, no action required., CPU 5, bank Unified Memory "
        "Controller (bank=18), mcg mcgstatus=0, mci CECC, memory_channel=1,csrow=0, mcgcap=0x0000011c, "
        "status=0x9c2040000000011b, addr=0x2a8f11c40, misc=0xd01b0fff01000000, "
        "walltime=0x67cfb912, cpuid=0x00870f10, bank=0x00000012",
        _expect("cpu.corrected", "cpu:?/5", code="MCE bank 18"),
    ),
    Sample("MCE 1\nSTATUS 9400000000000005 MCGSTATUS 0", ()),
)
