"""The frame: one host's telemetry of one interval, all tables in one message: packed matrices behind a checked header.

All numbers are little-endian. In order, without gaps:

    header    48 bytes  magic, flags, tables, host size, size of all, crc32c, sequence, incarnation, sent, clock offset
    host      utf-8, zeros up to a multiple of 8
    tables    24 bytes each: layout id, rows, size of the dictionary, names, gauges, counters
    int64     per table: at_ms [rows]
    int64     per table: counters [rows, counters], missing -1
    float32   per table: gauges [rows, gauges], missing NaN
    uint16    per table: device [rows], the row's place in the dictionary
    strings   per table: the dictionary, component names joined by newlines
    mac       16 bytes where the frame is signed: HMAC-SHA256 of all before it, truncated

Decoding checks every size against the payload's own before it looks at anything, and then maps the matrices without
copying: nothing in a payload can abort it, or make it allocate more than a small multiple of what was received.
"""

import hmac
import struct
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias

import crc32c
import numpy as np
from numpy.typing import NDArray

from sickbay.components import Name
from sickbay.frames import MAX_MS, MAX_NAMES, UNCLEAN, Frame, Matrix, matrix_of, strange, strange_names, strange_values
from sickbay.layouts import MAX_TAIL, Plan, Schemas
from sickbay.schema import Samples

MAGIC = b"SBF1"
MAX_FRAME = 4 << 20  # bytes: what the telemetry topic takes
MAX_TABLES = 64
MAX_ROWS = 65_536  # per table: 5 s at 1 Hz are some 100
MAX_HOST = 240  # bytes
MAC_BYTES = 16

_HEADER = struct.Struct("<4sBBHIIQQqiI")
_TABLE = struct.Struct("<QIIHHHH")
_CRC = slice(12, 16)  # where the header keeps it: that field is left out of the sum
_SHAPE = slice(4, 12)  # of the header: flags, tables, size of the host, size of all
_SIGNED, _FLAGS_AT = 1, 4  # the bit, and the byte of the header that it is in
_NO_OFFSET = -(2**31)

Key: TypeAlias = bytes | Callable[[str], bytes | None]


class FrameError(ValueError):
    """The payload is not a frame that could be trusted; the text says why."""


def encode(
    host: str,
    tables: Sequence[Samples | Matrix],
    *,
    sequence: int,
    incarnation: int,
    sent_ms: int,
    clock_offset_ms: int | None = None,
    key: bytes | None = None,
) -> bytes:
    """A frame. Raises ValueError for what a frame cannot hold: then send fewer rows at once, or correct the names.

    Whoever reads it must know the layouts of its tables: send each new `Matrix.layout` to the schemas topic before.
    """
    matrices = [table if isinstance(table, Matrix) else matrix_of(table) for table in tables]
    name = host.encode()
    _check_sender(host, name, matrices, sent_ms)
    dictionaries = [_dictionary(matrix) for matrix in matrices]
    body = b"".join(
        [
            name + bytes(-len(name) % 8),
            *map(_described, matrices, dictionaries),
            *(np.ascontiguousarray(m.at_ms, "<i8").tobytes() for m in matrices),
            *(np.ascontiguousarray(m.counters, "<i8").tobytes() for m in matrices),
            *(np.ascontiguousarray(m.gauges, "<f4").tobytes() for m in matrices),
            *(np.ascontiguousarray(m.device, "<u2").tobytes() for m in matrices),
            *dictionaries,
        ]
    )
    size = _HEADER.size + len(body) + (MAC_BYTES if key else 0)
    _limit(size, MAX_FRAME, "bytes")
    offset = _NO_OFFSET if clock_offset_ms is None else max(-(2**31) + 1, min(2**31 - 1, clock_offset_ms))
    counts = (_SIGNED if key else 0, len(matrices), len(name), size)
    bare = _HEADER.pack(MAGIC, *counts, 0, sequence, incarnation, sent_ms, offset, 0)
    crc = crc32c.crc32c(body, crc32c.crc32c(bare[_CRC.stop :], crc32c.crc32c(bare[: _CRC.start])))
    frame = bare[: _CRC.start] + struct.pack("<I", crc) + bare[_CRC.stop :] + body
    return frame + _mac(key, frame) if key else frame


def _check_sender(host: str, name: bytes, matrices: Sequence[Matrix], sent_ms: int) -> None:
    if not name or len(name) > MAX_HOST or UNCLEAN.search(host):
        raise ValueError(f"{host[:MAX_HOST]!r} cannot be a host: 1 to {MAX_HOST} bytes without blanks")
    _limit(len(matrices), MAX_TABLES, "tables")
    if not 0 <= sent_ms <= MAX_MS:
        raise ValueError(f"sent_ms {sent_ms} is no time")
    for matrix in matrices:
        _limit(len(matrix.at_ms), MAX_ROWS, f"rows in {matrix.layout.table}")
        if reason := strange(matrix):
            raise ValueError(f"{matrix.layout.table}: {reason}")


def _described(matrix: Matrix, dictionary: bytes) -> bytes:
    columns = len(matrix.layout.gauges), len(matrix.layout.counters)
    return _TABLE.pack(matrix.layout.id, len(matrix.at_ms), len(dictionary), len(matrix.names), *columns, 0)


def _dictionary(matrix: Matrix) -> bytes:
    return "\n".join(matrix.names).encode()


def _mac(key: bytes, frame: bytes | memoryview) -> bytes:
    return hmac.digest(key, frame, "sha256")[:MAC_BYTES]


def _limit(count: int, most: int, what: str) -> None:
    if count > most:
        raise ValueError(f"{count} {what}, a frame holds at most {most}: send fewer at once")


def emptied(payload: bytes, key: bytes | None = None) -> bytes:
    """The frame without its tables: its number stands for it where it was to be, while it goes elsewhere itself.

    Raises FrameError.
    """
    head = _head(payload)
    host, _ = _host(payload, head)
    offset = None if head.offset == _NO_OFFSET else head.offset
    numbered = {"sequence": head.sequence, "incarnation": head.incarnation, "sent_ms": head.sent_ms}
    return encode(host, (), **numbered, clock_offset_ms=offset, key=key)


class _Head(NamedTuple):
    magic: bytes
    flags: int
    tables: int
    host_size: int
    size: int
    crc: int
    sequence: int
    incarnation: int
    sent_ms: int
    offset: int
    zero: int


class _Shape(NamedTuple):
    layout_id: int
    rows: int
    dictionary: int
    names: int
    gauges: int
    counters: int
    zero: int


def decode(payload: bytes, schemas: Schemas, *, key: Key | None = None) -> Frame:
    """The frame in `payload`; its matrices are views of it. With a `key` (or one per host) unsigned frames are refused.

    Raises FrameError that says why, and layouts.UnknownLayout where the schemas topic must be read first.
    """
    head = _head(payload)
    start = _HEADER.size + head.host_size + -head.host_size % 8
    shape = payload[_SHAPE] + payload[_HEADER.size : start + head.tables * _TABLE.size]
    plan = schemas.plans.get(shape)
    host = plan.host if plan else _host(payload, head)[0]
    end = head.size - (MAC_BYTES if head.flags & _SIGNED else 0)
    view = memoryview(payload)
    _check_sum(view, head, end)
    verified = key is not None and _check_mac(payload, view, head, host, end, key)
    if plan is None:
        plan = _plan(payload, head, host, start, end, schemas)
        schemas.keep_plan(shape, plan)
    tables, span = _tables(payload, plan, schemas)
    offset = None if head.offset == _NO_OFFSET else head.offset
    return Frame(host, head.sequence, head.incarnation, head.sent_ms, offset, verified, tables, *span)


def host_of(payload: bytes) -> str:
    """The host that a frame says it is from, unchecked: to choose a partition or a key. Raises FrameError."""
    return _host(payload, _head(payload))[0]


def is_emptied(payload: bytes) -> bool:
    """Whether a frame has no tables: see `emptied`. Raises FrameError."""
    return not _head(payload).tables


def is_signed(payload: bytes) -> bool:
    """Whether a frame says that it is signed, unchecked; no frame says so."""
    return len(payload) > _FLAGS_AT and bool(payload[_FLAGS_AT] & _SIGNED)


def _head(payload: bytes) -> _Head:
    if len(payload) < _HEADER.size:
        raise FrameError(f"{len(payload)} bytes are less than a header")
    if len(payload) > MAX_FRAME:
        raise FrameError(f"{len(payload)} bytes are more than a frame may have")
    head = _Head._make(_HEADER.unpack_from(payload))
    if head.magic != MAGIC:
        raise FrameError(f"starts with {head.magic!r}, not {MAGIC!r}: no frame, or one of another version")
    if head.size != len(payload):
        raise FrameError(f"says it has {head.size} bytes, has {len(payload)}")
    if head.flags & ~_SIGNED or head.zero:
        raise FrameError("uses flags of another version")
    if not 0 <= head.sent_ms <= MAX_MS or head.tables > MAX_TABLES:
        raise FrameError(f"{head.tables} tables sent at {head.sent_ms}")
    return head


def _host(payload: bytes, head: _Head) -> tuple[str, int]:
    """The host and where it ends."""
    start, padded = _HEADER.size, head.host_size + -head.host_size % 8
    raw = payload[start : start + padded]
    if not 0 < head.host_size <= MAX_HOST or len(raw) < padded or raw[head.host_size :].strip(b"\x00"):
        raise FrameError(f"a host of {head.host_size} bytes does not fit")
    host = _text(raw[: head.host_size])
    if UNCLEAN.search(host):
        raise FrameError("the host has blanks or control characters")
    return host, start + padded


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise FrameError(f"a name is not UTF-8: {error.reason}") from None


def _check_sum(view: memoryview, head: _Head, end: int) -> None:
    crc = crc32c.crc32c(view[_CRC.stop : end], crc32c.crc32c(view[: _CRC.start]))
    if crc != head.crc:
        raise FrameError(f"checksum {crc:08x}, the header says {head.crc:08x}: damaged on the way")


def _check_mac(payload: bytes, view: memoryview, head: _Head, host: str, end: int, key: Key) -> bool:
    secret = key if isinstance(key, bytes) else key(host)
    if not secret:
        raise FrameError(f"no key is known for host {host!r}")
    if not head.flags & _SIGNED:
        raise FrameError(f"host {host!r} sent an unsigned frame")
    if not hmac.compare_digest(_mac(secret, view[:end]), payload[end:]):
        raise FrameError(f"the signature is not that of host {host!r}")
    return True


def _shapes(payload: bytes, head: _Head, at: int, end: int) -> tuple[list[_Shape], int]:
    """The tables' shapes and where the matrices start: what they say must add up to the payload exactly."""
    stop = at + head.tables * _TABLE.size
    if stop > end:
        raise FrameError(f"{head.tables} tables do not fit")
    shapes = [_Shape._make(_TABLE.unpack_from(payload, place)) for place in range(at, stop, _TABLE.size)]
    size = stop + sum(s.rows * (10 + 8 * s.counters + 4 * s.gauges) + s.dictionary for s in shapes)
    if size != end:
        raise FrameError(f"tables of {size} bytes in a frame of {end}")
    for shape in shapes:
        if shape.rows > MAX_ROWS or shape.names > MAX_NAMES or shape.zero:
            raise FrameError(f"a table of {shape.rows} rows and {shape.names} components")
    return shapes, stop


def _plan(payload: bytes, head: _Head, host: str, at: int, end: int, schemas: Schemas) -> Plan:
    """How a frame of this shape is read. Raises FrameError, and UnknownLayout."""
    shapes, at = _shapes(payload, head, at, end)
    layouts = tuple(schemas.layout(shape.layout_id) for shape in shapes)
    for shape, layout in zip(shapes, layouts, strict=True):
        if (shape.gauges, shape.counters) != (len(layout.gauges), len(layout.counters)):
            raise FrameError(f"{shape.gauges} gauges and {shape.counters} counters are not those of {layout.table}")
    rows = tuple(shape.rows for shape in shapes)
    counters = at + 8 * sum(rows)
    gauges = counters + 8 * sum(shape.rows * shape.counters for shape in shapes)
    tail = gauges + 4 * sum(shape.rows * shape.gauges for shape in shapes)
    names, dictionaries = tuple(shape.names for shape in shapes), tuple(shape.dictionary for shape in shapes)
    return Plan(host, layouts, rows, names, dictionaries, (at, counters, gauges, tail), end)


def _tables(payload: bytes, plan: Plan, schemas: Schemas) -> tuple[tuple[Matrix, ...], tuple[int, int]]:
    """All matrices as views, and the first and last time of their rows. Each kind of number lies in one piece, so that
    one look checks it for all tables."""
    at, wide_at, tall_at = plan.at[0], plan.at[2], plan.at[1]
    times = np.frombuffer(payload, "<i8", (tall_at - at) // 8, at)
    counters = np.frombuffer(payload, "<i8", (wide_at - tall_at) // 8, tall_at)
    gauges = np.frombuffer(payload, "<f4", (plan.at[3] - wide_at) // 4, wide_at)
    span = (int(np.minimum.reduce(times)), int(np.maximum.reduce(times))) if len(times) else (0, -1)
    if reason := strange_values(span, counters, gauges):
        raise FrameError(reason)
    devices, names = _tail(payload, plan, schemas)
    found = [
        Matrix(
            place.layout,
            own,
            device,
            np.ndarray(place.rows, "<i8", payload, place.times_at),
            np.ndarray(place.wide, "<f4", payload, place.wide_at),
            np.ndarray(place.tall, "<i8", payload, place.tall_at),
        )
        for place, own, device in zip(plan.places, names, devices, strict=True)
    ]
    return tuple(found), span


def _tail(
    payload: bytes, plan: Plan, schemas: Schemas
) -> tuple[tuple[NDArray[np.uint16], ...], tuple[tuple[Name, ...], ...]]:
    """The devices and names of each table: those of the sender's frame before, where they are the same bytes."""
    tail = payload[plan.at[3] : plan.end]
    if plan.tail == tail and plan.names:
        return plan.devices, plan.names
    device = np.frombuffer(tail, "<u2", sum(plan.rows))
    devices, names = tuple(_pieces(device, plan.rows)), list[tuple[Name, ...]]()
    for place, dictionary in enumerate(_pieces(tail, plan.dictionaries, device.nbytes)):
        names.append(_names(dictionary, schemas))
        if len(names[-1]) != plan.told[place]:
            raise FrameError(f"{len(names[-1])} names in the dictionary, {plan.told[place]} told")
        if plan.rows[place] and int(devices[place].max()) >= len(names[-1]):
            raise FrameError("a row speaks of a component that is not in the dictionary")
    if len(tail) <= MAX_TAIL:
        plan.tail, plan.devices, plan.names = tail, devices, tuple(names)
    return devices, tuple(names)


def _pieces(whole: Any, sizes: Sequence[int], at: int = 0) -> list[Any]:
    """Consecutive slices of these sizes."""
    ends = list(accumulate(sizes, initial=at))
    return [whole[start:end] for start, end in pairwise(ends)]


def _names(dictionary: bytes, schemas: Schemas) -> tuple[Name, ...]:
    """The names in a dictionary, checked once: a host sends the same ones in every frame."""
    names = schemas.dictionaries.get(dictionary)
    if names is None:
        names = tuple(_text(dictionary).split("\n")) if dictionary else ()
        if reason := strange_names(names):
            raise FrameError(reason)
        schemas.keep_dictionary(dictionary, names)
    return names
