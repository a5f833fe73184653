"""torchrun's error file: why one rank's program ended, as JSON written by the `record` decorator.

The root cause of a node is the file with the smallest timestamp; a file names no rank and no host.
"""

from collections.abc import Iterable, Iterator

import msgspec

from collectors.formats.bodies.collective import Collective
from collectors.formats.events import event, rank_name
from collectors.formats.reading import Line, Reading, Tally
from collectors.formats.text import clean_text
from sickbay.clock import Clock, Stamp
from sickbay.messages import MAX_MESSAGE, Blame, Event, Severity

MAX_BYTES = 4 << 20  # a traceback has kilobytes
_MARKS = (b'"extraInfo"', b'"py_callstack"')


def confidence(head: bytes, name: str) -> float:
    """Certain where the two keys of the writer stand in the first object."""
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") or b'"message"' not in head:
        return 0.0
    if all(mark in head for mark in _MARKS):
        return 0.95
    return 0.3 if name.endswith("error.json") else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """One `rank.exited` event, and what the exception's text says of a device."""
    raw = bytearray()
    for chunk in chunks:
        raw += chunk
        if len(raw) > MAX_BYTES:
            tally.note("error file is larger than 4 MiB: not read")
            tally.unparsed += 1
            return
    try:
        found = msgspec.json.decode(bytes(raw).removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        tally.unparsed += 1
        tally.note(f"error file is not JSON: {problem}")
        return
    for reading in _readings(found):
        tally.records += 1
        yield reading


def _readings(found: object) -> Iterator[Reading]:
    outer = found.get("message") if isinstance(found, dict) else None
    inner = outer if isinstance(outer, dict) else {"message": outer}
    text, extra = inner.get("message"), inner.get("extraInfo")
    if not isinstance(text, str):
        return
    clean = " ".join(clean_text(text[: 4 * MAX_MESSAGE]).split())[:MAX_MESSAGE]
    stamp = _stamp(extra.get("timestamp") if isinstance(extra, dict) else None)
    number = inner.get("errorCode")
    code = str(number) if isinstance(number, int) and abs(number) < 1000 else ""
    facts = {"exitcode": code, "exception": clean.partition(":")[0][:80]}
    ending = {"severity": Severity.WARNING, "blame": Blame.APPLICATION, "message": clean}
    device = [record for record in Collective().read(Line(body=clean)) if isinstance(record, Event)]
    if device:
        ending["blame"] = device[0].blame
    yield Reading(event("rank.exited", rank_name(-1), facts, code=f"exit {code}".rstrip(), **ending), 1, stamp)
    for record in device:
        yield Reading(msgspec.structs.replace(record, message=clean), 1, stamp)


def _stamp(told: object) -> Stamp:
    """Epoch seconds, as a string or a number; anything else is no time."""
    text = str(told) if isinstance(told, str | int) and not isinstance(told, bool) and len(str(told)[:20]) < 12 else ""
    return Stamp(Clock.ABSOLUTE, int(text) * 1000) if text.isdecimal() and text.isascii() else Stamp()
