"""Packs: frames of many hosts in one record, as a relay of a rack or pod puts them into the log.

All numbers are little-endian. In order, without gaps:

    header    16 bytes  magic, members, zero, size of all, crc32c of all but itself
    lengths   uint32 per member
    members   whole frames (see `wire`), each with its own header, sum and signature

A pack proves nothing by itself: every member is let in, or not, as if it had come alone. Every size is checked against
the payload's own before anything is looked at.
"""

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise

import crc32c

from sickbay.wire import MAX_FRAME

MAGIC = b"SBP1"
MAX_MEMBERS = 256  # relays pack 16 to 32 hosts
MAX_PACK = MAX_FRAME  # bytes: what the telemetry topic takes
_HEADER = struct.Struct("<4sHHII")
_CRC = slice(12, 16)


class PackError(ValueError):
    """The payload is not a pack that could be trusted; the text says why."""


def is_pack(payload: bytes) -> bool:
    """Whether a record of the telemetry topic holds many frames."""
    return payload[:4] == MAGIC


def size_of(frames: Sequence[bytes]) -> int:
    """Bytes that a pack of these takes."""
    return _HEADER.size + sum(4 + len(frame) for frame in frames)


def pack(frames: Sequence[bytes]) -> bytes:
    """The frames as one record. Raises ValueError for none, too many or too large ones."""
    size = size_of(frames)
    if not frames or len(frames) > MAX_MEMBERS or size > MAX_PACK or not all(frames):
        raise ValueError(f"{len(frames)} frames of {size} bytes: a pack holds 1 to {MAX_MEMBERS}, {MAX_PACK} bytes")
    body = struct.pack(f"<{len(frames)}I", *map(len, frames)) + b"".join(frames)
    bare = _HEADER.pack(MAGIC, len(frames), 0, size, 0)
    return bare[: _CRC.start] + struct.pack("<I", _sum(bare, body)) + body


def unpack(payload: bytes) -> list[bytes]:
    """The frames in a pack, none of them looked into. Raises PackError that says why there are none."""
    if len(payload) < _HEADER.size or len(payload) > MAX_PACK:
        raise PackError(f"a pack of {len(payload)} bytes")
    magic, count, zero, size, crc = _HEADER.unpack_from(payload)
    if magic != MAGIC or zero or size != len(payload) or not 0 < count <= MAX_MEMBERS:
        raise PackError(f"a pack's header of {count} members in {size} bytes does not fit a payload of {len(payload)}")
    if _HEADER.size + 4 * count > size:
        raise PackError(f"{count} lengths do not fit")
    lengths = struct.unpack_from(f"<{count}I", payload, _HEADER.size)
    start = _HEADER.size + 4 * count
    if start + sum(lengths) != size or not all(lengths):
        raise PackError(f"members of {sum(lengths)} bytes in a pack of {size}")
    if _sum(payload, memoryview(payload)[_HEADER.size :]) != crc:
        raise PackError("its sum is wrong: it was damaged on its way")
    return [payload[at:end] for at, end in pairwise(accumulate(lengths, initial=start))]


def _sum(head: bytes, body: bytes | memoryview) -> int:
    return int(crc32c.crc32c(body, crc32c.crc32c(head[: _CRC.start])))
