"""Tables of a switch's own commands (SONiC): `show interfaces counters fec-stats`, `show pfcwd stats`.

Columns lie under a line of dashes. Which switch it was stands only in the prompt, where that was saved with it.
Corrected errors are normal; the ratio after correction is the switch's estimate. Source: sonic-utilities.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from collectors.formats.events import event
from collectors.formats.port_findings import of_counters, of_error_ratio
from collectors.formats.reading import Reading, Tally
from collectors.formats.text import lines
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import MAX_MESSAGE, Action, Event, Severity

_PROMPT = re.compile(r"^(?:\w{1,32}@)?(?P<host>[A-Za-z][\w.-]{1,62}):[^#$>]{0,80}[#$>] ?(?:sudo )?(?:show|pfcwd) ")
_RULE = re.compile(r"^ *-{2,}(?: +-{2,})+ *$")
_FEC, _WATCHDOG = "FEC_UNCORR", "STORM DETECTED/RESTORED"
_NUMBER = re.compile(r"\d{1,20}")
_RATIO = re.compile(r"\d(?:\.\d{1,4})?[eE][-+]\d{1,3}")
_QUEUE = re.compile(r"(?P<port>[A-Za-z][\w/.-]{1,60}):(?P<queue>\d{1,2})")


@dataclass(frozen=True, slots=True)
class _Table:
    """Headings and where their columns lie."""

    heads: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]

    def row(self, text: str) -> dict[str, str]:
        """Cells of a row by heading; empty where a column's end falls into a word."""
        if any(end < len(text) and text[end] != " " for _, end in self.spans[:-1]):
            return {}
        return {head: text[start:end].strip() for head, (start, end) in zip(self.heads, self.spans, strict=True)}


def confidence(head: bytes, name: str) -> float:
    """High where one of the headings stands above a line of dashes."""
    rows = head.decode("utf-8", "replace").replace("\r", "").split("\n")[:2000]
    return 0.9 if any(_table(first, second) for first, second in pairwise(rows)) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """Ports whose correction fails, and ports at which a pause storm comes in."""
    switch, table, above = UNKNOWN, None, ""
    for number, row in lines(chunks, tally):
        if prompt := _PROMPT.match(row):
            switch, table = prompt["host"], None
        elif found := _table(above, row):
            table = found
        elif table is not None and row.strip():
            cells = table.row(row)
            tally.unparsed += not cells
            for record in _errors(switch, cells) if _FEC in table.heads else _storms(switch, cells):
                yield Reading(record, number)
        above = row


def _table(above: str, rule: str) -> _Table | None:
    if not _RULE.match(rule) or not (_FEC in above or _WATCHDOG in above):
        return None
    spans = tuple((match.start(), match.end()) for match in re.finditer("-+", rule))
    heads = tuple(re.split(" {2,}", above.strip()))
    return _Table(heads, spans) if len(heads) == len(spans) else None


def _errors(switch: str, cells: dict[str, str]) -> Iterator[Event]:
    port = name(Kind.PORT, switch, cells.get("IFACE", ""))
    ratios = {
        word: float(cells[head])
        for word, head in (("raw", "FEC_PRE_BER"), ("post", "FEC_POST_BER"))
        if _RATIO.fullmatch(cells.get(head, ""))
    }
    lost = cells.get(_FEC, "").replace(",", "")
    counted = {_FEC: int(lost)} if _NUMBER.fullmatch(lost) else {}
    ratio = of_error_ratio(port, ratios, cells)
    yield from [ratio] if ratio is not None else of_counters(port, counted)


def _storms(switch: str, cells: dict[str, str]) -> Iterator[Event]:
    match = _QUEUE.fullmatch(cells.get("QUEUE", ""))
    stormed = cells.get("STATUS", "") == "stormed"
    if not match or not (stormed or cells.get(_WATCHDOG, "0").partition("/")[0] not in ("0", "")):
        return
    told = {"queue": match["queue"], "status": cells.get("STATUS", ""), "storms": cells.get(_WATCHDOG, "")}
    severity = Severity.ERROR if stormed else Severity.WARNING
    message = " ".join(f"{key}={value}" for key, value in told.items())[:MAX_MESSAGE]
    port = name(Kind.PORT, switch, match["port"])
    yield event("port.pause_storm", port, told, severity=severity, advice=Action.WATCH, message=message)
