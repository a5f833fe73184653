"""Frames encoded once and then kept up to date in place: what thousands of agents send, for the price of a checksum.

A sender that encodes every frame anew costs as much as the pipeline that it is to load. Here each host's frame is
encoded once (by `wire`), and for the next interval its times, numbers, counters and gauges are changed where they
stand, whole arrays of hosts at a time. What comes out is what `wire.encode` would have made of those values (tested).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import crc32c
import numpy as np
from numpy.typing import NDArray

from sickbay.layouts import layout_of
from sickbay.schema import TABLES
from simulator.telemetry import BEGIN_S, COLUMNS, Fleet

# Places in a frame's header, see `wire`.
_HEADER, _TABLE, _CRC, _SEQUENCE, _SENT = 48, 24, slice(12, 16), slice(16, 24), slice(32, 40)
_COUNT, _HOST_SIZE = 5, slice(6, 8)
_SIGNED_AT = 4
CYCLE = 4  # noises after which gauges are what they were
_RATES_OVER_S = 3_600


def patched(frame: bytes, *, sequence: int, sent_ms: int, shift_ms: int) -> bytes:
    """The same host's frame of a later interval: all rows `shift_ms` later, values as they were. Not of signed ones."""
    buffer = np.frombuffer(bytearray(frame), np.uint8).reshape(1, -1)
    frames = Frames(buffer)
    frames.times += shift_ms
    frames.sequence[:], frames.sent_ms[:] = sequence, sent_ms
    seal(buffer.data.cast("B"))
    return buffer.tobytes()


def seal(whole: memoryview) -> None:
    """Write the checksum of a frame, or of a relay's pack, into it: both keep it at the same place of their heads."""
    crc = crc32c.crc32c(whole[_CRC.stop :], crc32c.crc32c(whole[: _CRC.start]))
    struct.pack_into("<I", whole, _CRC.start, crc)


class Frames:
    """Frames of one size and shape as views of a buffer, uint8 [..., size], in which they may lie apart.

    `times` int64 [..., rows of all tables], `counters` int64 and `gauges` float32 [..., values], `sequence` and
    `sent_ms` [..., 1]. Whoever changes a frame must `seal` it.
    """

    def __init__(self, buffer: NDArray[np.uint8]) -> None:
        one = _first(buffer)
        if one[_SIGNED_AT]:
            raise ValueError("a signed frame cannot be changed in place")
        name = int.from_bytes(one[_HOST_SIZE], "little")
        first = _HEADER + name + -name % 8
        shapes = [struct.unpack_from("<QIIHHHH", one, first + _TABLE * at) for at in range(one[_COUNT])]
        at = first + _TABLE * len(shapes)

        def views(kind: str, size: int) -> Any:
            nonlocal at
            at += size
            return buffer[..., at - size : at].view(kind)

        self.times: NDArray[np.int64] = views("<i8", sum(8 * rows for _, rows, *_ in shapes))
        self.counters: NDArray[np.int64] = views("<i8", sum(8 * rows * c for _, rows, _, _, _, c, _ in shapes))
        self.gauges: NDArray[np.float32] = views("<f4", sum(4 * rows * g for _, rows, _, _, g, _, _ in shapes))
        self.sequence: NDArray[np.uint64] = buffer[..., _SEQUENCE].view("<u8")
        self.sent_ms: NDArray[np.int64] = buffer[..., _SENT].view("<i8")


def _first(buffer: NDArray[np.uint8]) -> bytes:
    while buffer.ndim > 1:
        buffer = buffer[0]
    return buffer.tobytes()


@dataclass(frozen=True, slots=True)
class Growth:
    """What changes in all frames from one interval to the next: `counters` int64 [values]; `gauges` float32
    [CYCLE, hosts, values], of which each follows the other and all together are nothing."""

    counters: NDArray[np.int64]
    gauges: NDArray[np.float32]

    def apply(self, frames: Frames, which: slice, interval: int) -> None:
        """On to the next interval; `interval` counts them."""
        gauges = frames.gauges[which]
        count = gauges.size // gauges.shape[-1]
        frames.counters[which] += self.counters
        gauges += self.gauges[interval % CYCLE, :count].reshape(gauges.shape)


def growth(fleet: Fleet, seconds: int, interval_s: float, together: int) -> Growth:
    """For frames of `seconds` rows a part that are sent every `interval_s`, at most `together` hosts at a time."""
    rates, spreads = list[NDArray[np.float64]](), list[NDArray[np.float64]]()
    rows = range(min(fleet.hosts, 64))
    for table in COLUMNS:
        early, late = (fleet.block(table, rows, BEGIN_S + at) for at in (0, _RATES_OVER_S))
        parts = early.gauges.shape[2]
        rate = (late.counters - early.counters).mean(axis=(0, 1, 2)) / _RATES_OVER_S * interval_s
        spread = early.gauges.astype(np.float64).std(axis=(0, 1, 2)) * (np.ptp(early.gauges, axis=(0, 1, 2)) > 0)
        rates.append(np.tile(rate, seconds * parts))
        spreads.append(np.tile(spread, seconds * parts))
    scale = np.concatenate(spreads) / 3
    noise = np.random.default_rng([fleet.seed, 99]).standard_normal((CYCLE, together, len(scale))).astype(np.float32)
    noise = noise.clip(-1.5, 1.5) * scale.astype(np.float32)
    return Growth(np.round(np.concatenate(rates)).astype(np.int64), np.roll(noise, -1, axis=0) - noise)


def values_in(seconds: int, tables: Sequence[str] = tuple(COLUMNS)) -> int:
    """Values that a host's frame of so many seconds holds."""
    layouts = [(layout_of(TABLES[table]), 1 if table == "host" else 8) for table in tables]
    return sum((len(one.gauges) + len(one.counters)) * parts * seconds for one, parts in layouts)
