"""PyTorch's flight recorder: what each rank had posted in each group when it dumped, as pickle or JSON.

Yields `Progress` around the stall only: of each rank and group its newest collective with the counts of its status,
and those that had not completed (bounded). Send and receive have their own numbering, per pair of ranks: they are a
group of their own, `<group>:p2p`, whose numbers must not be compared. A group of the rank without any recorded
collective gives a record without number and state. Source: PyTorch FlightRecorder*.hpp, format
versions 2.1 to 2.x. Every value is hostile: nothing is walked deeper than it is read.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec

from collectors.formats import restricted_pickle
from collectors.formats.reading import Reading, Tally
from sickbay.messages import Progress

MAX_BYTES = 256 << 20  # of an input
MAX_DUMP_BYTES = 64 << 20  # of the dump of one rank; a full default recorder has a few MiB
MAX_OPEN = 64  # unfinished collectives kept of one rank and group
MAX_GROUPS = 4096  # of one rank
MAX_GROUP_RANKS = 65_536
MAX_TEXT = 120

_MARKS = (b"collective_seq_id", b"pg_config", b"pg_status", b"record_id", b"profiling_name", b"p2p_seq_id", b"seq_id")
_RANK_IN_NAME = re.compile(r"(?:rank_?|trace_)(\d{1,7})(?:\.(?:json|jsonl|pkl|pickle|txt))?$")
_STATES = {"scheduled": "entered", "started": "started", "completed": "completed"}
_COUNTS = ("enqueued", "started", "completed")
_P2P = ":p2p"
_PICKLE = b"\x80"

Object: TypeAlias = dict[Any, Any]


class _Entry(NamedTuple):
    """One recorded operation."""

    seq: int
    op: str
    size: str
    state: str
    at_ms: int | None
    timeout_ms: int | None


class _Group(NamedTuple):
    """The operations of one rank in one group."""

    id: str
    name: str
    status_id: str
    entries: list[_Entry]


def confidence(head: bytes, name: str) -> float:
    """Certain where a pickle or JSON object names two of the recorder's own keys."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start.startswith((_PICKLE, b"{", b"[")):
        return 0.0
    marks = sum(mark in head for mark in _MARKS)
    if marks >= 2 and (b"entries" in head or b"pg_config" in head or b"record_id" in head):
        return 0.95
    return 0.3 if start.startswith(_PICKLE) and _RANK_IN_NAME.search(name) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """Progress of every rank in the dump. `name` may end in the rank, where the content does not tell it."""
    named = _RANK_IN_NAME.search(name)
    rank = int(named[1]) if named else -1
    for dump, line in _dumps(chunks, tally):
        found = _progress(dump, rank)
        if found is None:
            tally.unparsed += 1
            continue
        for record in found:
            tally.records += 1
            yield Reading(record, line)


def _dumps(chunks: Iterable[bytes], tally: Tally) -> Iterator[tuple[Object, int]]:
    """The dumps with their line: one pickle, one JSON object, an array of them, or one a line."""
    stream = iter(chunks)
    raw = bytearray()
    while len(raw) < 4096 and (chunk := next(stream, None)) is not None:
        raw += chunk
    if raw.startswith(_PICKLE):
        yield from _pickled(raw, stream, tally)
        return
    number = 1
    for line in _lines(raw, stream, tally):
        if line.strip():
            for dump in _json(line, tally):
                yield dump, number
        number += line.count(b"\n") or 1


def _pickled(raw: bytearray, stream: Iterator[bytes], tally: Tally) -> Iterator[tuple[Object, int]]:
    for chunk in stream:
        raw += chunk
        if len(raw) > MAX_DUMP_BYTES:
            _refuse(tally, "flight recorder dump is larger than 64 MiB: not read")
            return
    try:
        found = restricted_pickle.loads(bytes(raw))
    except restricted_pickle.Refused as reason:
        _refuse(tally, f"flight recorder pickle not read: {reason}")
        return
    yield from ((dump, 1) for dump in _objects(found))


def _lines(raw: bytearray, stream: Iterator[bytes], tally: Tally) -> Iterator[bytes]:
    """Pieces that are JSON texts: lines where the first closes what it opens, else all there is."""
    total, by_line = len(raw), _one_a_line(raw)
    for chunk in stream:
        total += len(chunk)
        raw += chunk
        if len(raw) > MAX_DUMP_BYTES or total > MAX_BYTES:
            _refuse(tally, "flight recorder dump is larger than 64 MiB (256 MiB for several): rest not read")
            return
        if by_line is None and b"\n" in chunk:
            by_line = _one_a_line(raw)
        if by_line and b"\n" in chunk:
            end = raw.rindex(b"\n")
            yield from bytes(raw[:end]).split(b"\n")
            del raw[: end + 1]
    yield from bytes(raw).split(b"\n") if by_line else (bytes(raw),)


def _one_a_line(raw: bytearray) -> bool | None:
    """Whether the first line is an object of its own; None while it has no end."""
    end = raw.find(b"\n")
    return None if end < 0 else raw[:end].rstrip().endswith(b"}")


def _json(text: bytes, tally: Tally) -> Iterable[Object]:
    try:
        return _objects(msgspec.json.decode(text.removeprefix(b"\xef\xbb\xbf")))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        _refuse(tally, f"flight recorder JSON not read: {problem}")
        return ()


def _refuse(tally: Tally, why: str) -> None:
    tally.unparsed += 1
    tally.note(why)


def _objects(found: object) -> list[Object]:
    """The dumps in a value: itself, those in a list, or those under rank numbers."""
    if isinstance(found, list):
        return [each for each in found if isinstance(each, dict)]
    if not isinstance(found, dict):
        return []
    if found and all(isinstance(each, dict) and str(key).isdecimal() for key, each in found.items()):
        return [each | {"rank": each.get("rank", int(key))} for key, each in found.items() if len(str(key)) < 8]
    return [found]


def _progress(dump: Object, rank: int) -> list[Progress] | None:
    """Records of one dump, None where it is none."""
    entries = dump.get("entries", [])
    if not isinstance(entries, list) or not any(key in dump for key in ("entries", "pg_config", "pg_status")):
        return None
    told = _whole(dump.get("rank", dump.get("global_rank")), -1)
    number = told if 0 <= told < 10**7 else rank
    config, status = _object(dump.get("pg_config")), _object(dump.get("pg_status"))
    found: list[Progress] = []
    groups = _groups(entries, dump.get("entry_fields"))
    for group in groups.values():
        ranks = _ranks(_object(config.get(group.id.removesuffix(_P2P))).get("ranks"))
        found += _of_group(number, group, ranks, _object(status.get(group.status_id)))
    return found + [_empty(number, key, _object(row)) for key, row in _unused(config, groups)]


def _unused(config: Object, groups: dict[str, _Group]) -> list[tuple[str, object]]:
    """Groups of the rank in which the recorder holds no collective: it posted none, or all are overwritten."""
    return [(_text(key), row) for key, row in list(config.items())[:MAX_GROUPS] if _text(key) not in groups]


def _empty(rank: int, group: str, row: Object) -> Progress:
    return Progress(rank=rank, group=group, group_name=_text(row.get("desc")), group_ranks=_ranks(row.get("ranks")))


def _of_group(rank: int, group: _Group, ranks: tuple[int, ...], status: Object) -> Iterator[Progress]:
    """The newest operation with the group's counts, and the unfinished ones before it, oldest first."""
    entries = sorted({entry.seq: entry for entry in group.entries}.values())
    unfinished = [entry for entry in entries if entry.state != "completed"][:MAX_OPEN]
    apart = group.id.endswith(_P2P)  # the status counts both kinds: of no use for either alone
    counts = {} if apart else {key: _whole(status.get(f"last_{key}_collective"), -1) for key in _COUNTS}
    for entry in dict.fromkeys([*unfinished, entries[-1]]):
        last = entry is entries[-1]
        yield Progress(
            rank=rank,
            group=group.id,
            group_name=group.name,
            group_ranks=ranks,
            seq=entry.seq,
            op=entry.op,
            size=entry.size,
            state=entry.state,
            at_ms=entry.at_ms,
            timeout_ms=entry.timeout_ms,
            last_enqueued=counts.get("enqueued", -1) if last else -1,
            last_started=counts.get("started", -1) if last else -1,
            last_completed=counts.get("completed", -1) if last else -1,
        )


def _groups(entries: list[Any], fields: object) -> dict[str, _Group]:
    """Entries by group name: local ids differ between ranks."""
    groups: dict[str, _Group] = {}
    for row in entries:
        entry = _named(row, fields)
        pair = entry.get("process_group")
        if not isinstance(pair, list | tuple) or not pair or not isinstance(pair[0], str | int):
            continue
        operation, apart = _operation(entry)
        if operation is None:
            continue
        key = _text(pair[0]) + _P2P if apart else _text(pair[0])
        if key not in groups and len(groups) < MAX_GROUPS:
            title = _text(pair[1]) if len(pair) > 1 else ""
            groups[key] = _Group(key, title, _text(entry.get("pg_id")), [])
        if key in groups:
            groups[key].entries.append(operation)
    return groups


def _named(row: object, fields: object) -> Object:
    """An entry as an object: also one that a list of field names describes."""
    if isinstance(row, dict):
        return row
    if isinstance(row, list) and isinstance(fields, list):
        return {key: value for key, value in zip(fields, row, strict=False) if isinstance(key, str)}
    return {}


def _operation(entry: Object) -> tuple[_Entry | None, bool]:
    """The operation and whether it is a send or receive."""
    op = _text(entry.get("profiling_name")).rpartition("nccl:")[2]
    point_to_point = _whole(entry.get("p2p_seq_id"), 0)
    apart = entry.get("is_p2p") is True or (point_to_point > 0 and op.startswith(("send ", "recv ")))
    seq = point_to_point if apart else _whole(entry.get("collective_seq_id", entry.get("seq_id")), -1)
    state = _STATES.get(_text(entry.get("state")), "")
    if seq < 0 or not state:
        return None, apart
    if state != "completed" and entry.get("retired") is True:
        state = "waiting"
    created, timeout = _whole(entry.get("time_created_ns"), 0), _whole(entry.get("timeout_ms"), 0)
    at_ms = created // 1_000_000 if created > 10**17 else None  # nanoseconds since 1970, else no wall clock
    return _Entry(seq, op, _size(entry), state, at_ms, timeout if timeout > 0 else None), apart


def _size(entry: Object) -> str:
    """The shapes as text, to compare between ranks: input and, where told, output."""
    told = [_shapes(entry.get(key)) for key in ("input_sizes", "output_sizes")]
    return "/".join(filter(None, told))


def _shapes(value: object) -> str:
    if not isinstance(value, list):
        return ""
    shapes = [shape for shape in value[:8] if isinstance(shape, list)]
    return "+".join("x".join(str(side) for side in shape[:8] if _is_count(side)) or "1" for shape in shapes)[:MAX_TEXT]


def _ranks(value: object) -> tuple[int, ...]:
    """Members of a group: a list, or the text "[0, 1, 2]"."""
    if isinstance(value, str):
        pieces: list[Any] = [piece.strip() for piece in value.strip("[] ")[: 9 * MAX_GROUP_RANKS].split(",")]
        return tuple(int(piece) for piece in pieces if piece.isascii() and piece.isdecimal() and len(piece) < 8)
    members = value[:MAX_GROUP_RANKS] if isinstance(value, list) else []
    return tuple(member for member in members if _is_count(member) and member < 10**7)


def _object(value: object) -> Object:
    return value if isinstance(value, dict) else {}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _whole(value: object, default: int) -> int:
    """A whole number, also as text: JSON dumps print the status as strings."""
    if isinstance(value, str) and len(value) < 19 and value.removeprefix("-").isdecimal() and value.isascii():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 else default


def _text(value: object) -> str:
    """A short word; a number as its digits; nothing for anything else."""
    if isinstance(value, str):
        return value[:MAX_TEXT].encode("utf-8", "replace").decode()
    return str(value) if _is_count(value) else ""
