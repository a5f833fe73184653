"""Frames: what goes in comes out, and nothing that was damaged or forged is read as something else."""

import contextlib
import os
import random
import struct
import tracemalloc
from typing import Any

import crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay import wire
from sickbay.frames import Frame, Matrix, joined, matrix_of, samples_of, strange
from sickbay.layouts import Layout, Schemas, UnknownLayout, layout_of
from sickbay.schema import TABLES, Samples
from sickbay.wire import FrameError, decode, encode

AT = 1_700_000_000_000
KEY = b"a secret of this host, 32 bytes."
MUTATIONS = int(os.environ.get("SICKBAY_MUTATIONS", "1000000"))


def samples(table: str, devices: int, seconds: int, *, columns: int | None = None, seed: int = 0) -> Samples:
    """Rows of plausible numbers, one in ten missing."""
    rng = np.random.default_rng(seed)
    rows = devices * seconds
    values = {}
    for column in TABLES[table].columns[:columns]:
        whole = column.type == "counter"
        column_values = rng.integers(0, 2**40, rows) if whole else rng.normal(100, 30, rows).astype(np.float32)
        values[column.name] = np.where(rng.random(rows) < 0.1, np.nan, column_values.astype(np.float64))
    names = [f"{TABLES[table].component}:node-1/{device}" for device in range(devices)] * seconds
    return Samples(table, names, AT + 1000 * np.repeat(np.arange(seconds), devices), values)


def frame(*tables: Samples | Matrix, host: str = "node-1", **more: Any) -> bytes:
    fields: dict[str, Any] = {"sequence": 7, "incarnation": 2**63 + 5, "sent_ms": AT + 5000, "clock_offset_ms": -12}
    return encode(host, tables or (samples("accelerator", 2, 2), samples("host", 1, 2)), **(fields | more))


def same(one: Samples, other: Samples) -> None:
    assert (one.table, one.component, one.at_ms.tolist()) == (other.table, other.component, other.at_ms.tolist())
    assert set(one.values) == set(other.values)
    for name, values in one.values.items():
        np.testing.assert_array_equal(values, other.values[name], name)


def repaired(payload: bytes) -> bytes:
    """The payload as a sender without a key could have made it: size and checksum corrected."""
    if len(payload) < 48:
        return payload
    head = payload[:8] + struct.pack("<I", len(payload))
    return head + struct.pack("<I", crc32c.crc32c(payload[16:], crc32c.crc32c(head))) + payload[16:]


# --- round trips


def test_a_frame_tells_what_was_put_in() -> None:
    tables = [samples("accelerator", 8, 5), samples("port", 8, 5), samples("optic", 3, 1), samples("host", 1, 5)]
    read = decode(frame(*tables), Schemas())
    assert (read.host, read.sequence, read.incarnation) == ("node-1", 7, 2**63 + 5)
    assert (read.sent_ms, read.clock_offset_ms, read.verified) == (AT + 5000, -12, False)
    for before, after in zip(tables, read.tables, strict=True):
        same(before, samples_of(after))


@pytest.mark.parametrize("offset", [None, 0, 2**31 - 1, -(2**31) + 1])
def test_an_unknown_clock_offset_is_not_zero(offset: int | None) -> None:
    assert decode(frame(clock_offset_ms=offset), Schemas()).clock_offset_ms == offset


def test_an_absurd_clock_offset_is_bounded_not_wrapped() -> None:
    assert decode(frame(clock_offset_ms=10**15), Schemas()).clock_offset_ms == 2**31 - 1


def test_a_frame_may_be_empty_and_a_table_may_have_no_rows() -> None:
    assert decode(encode("h", [], sequence=0, incarnation=0, sent_ms=0), Schemas()).tables == ()
    empty = decode(frame(samples("port", 0, 0)), Schemas()).tables[0]
    assert (len(empty.at_ms), empty.gauges.shape) == (0, (0, 2))


_names = st.lists(
    st.from_regex(r"(accelerator|port|nic):[a-z主机0-9~./:-]{1,20}", fullmatch=True),
    min_size=1,
    max_size=5,
    unique=True,
)


@st.composite
def tables(draw: st.DrawFn) -> Samples:
    table = TABLES[draw(st.sampled_from(sorted(TABLES)))]
    names = draw(_names)
    rows = draw(st.lists(st.sampled_from(names), max_size=8))
    chosen = draw(st.lists(st.sampled_from(table.columns), unique=True, max_size=6))
    gauges = st.floats(width=32, allow_infinity=False)
    counters = st.just(float("nan")) | st.integers(0, 2**53).map(float)
    values = {
        column.name: np.array([draw(gauges if column.type == "gauge" else counters) for _ in rows], np.float64)
        for column in chosen
    }
    return Samples(table.name, rows, np.array([draw(st.integers(0, 4 * 10**12)) for _ in rows], np.int64), values)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(
    told=st.lists(tables(), max_size=3),
    host=st.from_regex(r"[a-z主.~/_-]{1,30}", fullmatch=True),
    sequence=st.integers(0, 2**64 - 1),
    key=st.none() | st.binary(min_size=1, max_size=40),
)
def test_every_frame_comes_back_as_it_was(told: list[Samples], host: str, sequence: int, key: bytes | None) -> None:
    schemas = Schemas()
    matrices = [matrix_of(table) for table in told]
    for matrix in matrices:
        schemas.learn(matrix.layout)
    payload = frame(*(matrices or [matrix_of(samples("host", 1, 1))]), host=host, sequence=sequence, key=key)
    read = decode(payload, schemas, key=key)
    assert (read.host, read.sequence, read.verified) == (host, sequence, key is not None)
    for before, after in zip(told, read.tables, strict=False):
        same(before, samples_of(after))
    for twin, after in zip(naive(payload), read.tables, strict=True):
        assert twin[:3] == (after.layout.id, [after.names[place] for place in after.device], after.at_ms.tolist())
        np.testing.assert_array_equal(twin[3], after.counters.ravel())
        np.testing.assert_array_equal(twin[4], after.gauges.ravel())


def naive(payload: bytes) -> list[tuple[int, list[str], list[int], list[int], list[float]]]:
    """The slow twin: number by number, as the table in wire.py says."""
    at = 48 + -(-struct.unpack_from("<H", payload, 6)[0] // 8) * 8
    heads = [struct.unpack_from("<QIIHHHH", payload, at + 24 * table) for table in range(payload[5])]
    at += 24 * len(heads)

    def take(code: str, count: int) -> list[Any]:
        nonlocal at
        values = list(struct.unpack_from(f"<{count}{code}", payload, at))
        at += struct.calcsize(f"<{count}{code}")
        return values

    times = [take("q", head[1]) for head in heads]
    counters = [take("q", head[1] * head[5]) for head in heads]
    gauges = [take("f", head[1] * head[4]) for head in heads]
    device = [take("H", head[1]) for head in heads]
    names = [b"".join(take("c", head[2])).decode().split("\n") for head in heads]
    return [
        (head[0], [names[i][place] for place in device[i]], times[i], counters[i], gauges[i])
        for i, head in enumerate(heads)
    ]


def test_a_golden_frame_is_read_the_same_for_ever() -> None:
    table = Samples(
        "host", ["host:n1"], np.array([AT]), {"up": np.array([1.0]), "out_of_memory_kills_total": np.array([3.0])}
    )
    payload = encode("n1", [table], sequence=1, incarnation=2, sent_ms=AT, clock_offset_ms=None)
    assert payload.hex() == GOLDEN
    schemas = Schemas()
    schemas.learn(layout_of(TABLES["host"], ["up", "out_of_memory_kills_total"]))
    same(samples_of(decode(bytes.fromhex(GOLDEN), schemas).tables[0]), table)


GOLDEN = (
    "53424631000102006d000000ac65c270010000000000000002000000000000000068e5cf8b0100000000008000000000"
    "6e31000000000000dc35be01c8b224a8010000000700000001000100010000000068e5cf8b0100000300000000000000"
    "0000803f0000686f73743a6e31"
)


# --- what is no value stays none


def test_infinite_gauges_and_impossible_counters_are_missing() -> None:
    table = Samples(
        "host",
        ["host:a"] * 4,
        np.full(4, AT),
        {
            "load_1m": np.array([np.inf, -np.inf, 1e300, 2.0]),
            "out_of_memory_kills_total": np.array([-5.0, 2.0**63, np.inf, 2.0]),
        },
    )
    matrix = matrix_of(table)
    np.testing.assert_array_equal(matrix.gauges[:, 0], [np.nan, np.nan, np.nan, 2.0])
    assert matrix.counters[:, 0].tolist() == [-1, -1, -1, 2]


def test_large_counters_keep_each_increment() -> None:
    layout = layout_of(TABLES["host"], ["out_of_memory_kills_total"])
    counts = np.array([[2**62], [2**62 + 1]], np.int64)
    matrix = Matrix(layout, ("host:a",), np.zeros(2, np.uint16), np.full(2, AT), np.empty((2, 0), np.float32), counts)
    schemas = Schemas()
    schemas.learn(layout)
    assert decode(frame(matrix), schemas).tables[0].counters.tolist() == counts.tolist()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"host": ""}, "cannot be a host"),
        ({"host": "a b"}, "cannot be a host"),
        ({"host": "a\nb"}, "cannot be a host"),
        ({"host": "n" * 241}, "cannot be a host"),
        ({"sent_ms": -1}, "no time"),
    ],
)
def test_the_sender_is_told_what_a_frame_cannot_hold(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        frame(**change)


@pytest.mark.parametrize("name", ["host", "thing:a", "host:a b", "host:a\nb", "host:" + "a" * 240, ""])
def test_a_name_that_is_no_component_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"component"):
        frame(Samples("host", [name], np.array([AT]), {"up": np.ones(1)}))


def test_too_much_at_once_is_refused() -> None:
    with pytest.raises(ValueError, match="rows"):
        frame(samples("host", 1, wire.MAX_ROWS + 1, columns=1))
    with pytest.raises(ValueError, match="components"):
        frame(samples("host", 8193, 1, columns=1))
    with pytest.raises(ValueError, match="bytes"):
        frame(samples("accelerator", 30, 900))
    with pytest.raises(ValueError, match="tables"):
        frame(*[samples("host", 1, 1, columns=1)] * 65)


# --- signatures


def test_only_the_holder_of_the_key_is_believed() -> None:
    signed, unsigned = frame(key=KEY), frame()
    assert decode(signed, Schemas(), key=KEY).verified
    assert not decode(signed, Schemas()).verified
    with pytest.raises(FrameError, match="signature"):
        decode(signed, Schemas(), key=b"another")
    with pytest.raises(FrameError, match="unsigned"):
        decode(unsigned, Schemas(), key=KEY)


def test_each_host_has_its_own_key() -> None:
    keys = {"node-1": KEY, "node-2": b"other"}
    assert decode(frame(key=KEY), Schemas(), key=keys.get).host == "node-1"
    with pytest.raises(FrameError, match="signature"):
        decode(frame(key=KEY, host="node-2"), Schemas(), key=keys.get)
    with pytest.raises(FrameError, match="no key"):
        decode(frame(key=KEY, host="node-3"), Schemas(), key=keys.get)
    assert wire.host_of(frame(host="node-3")) == "node-3"


# --- evolution


def test_a_reader_without_the_layout_asks_for_it() -> None:
    payload = frame(samples("host", 1, 1, columns=2))
    with pytest.raises(UnknownLayout, match=r"sickbay\.schemas\.v1"):
        decode(payload, Schemas())


def test_columns_of_other_versions_are_permuted_dropped_and_filled() -> None:
    theirs = Layout("host", ("load_1m", "brand_new_ratio", "up"), ("brand_new_total", "out_of_memory_kills_total"))
    gauges = np.array([[2.5, 9.0, 1.0]], np.float32)
    counters = np.array([[9, 4]], np.int64)
    matrix = Matrix(theirs, ("host:a",), np.zeros(1, np.uint16), np.array([AT]), gauges, counters)
    schemas = Schemas()
    schemas.learn(theirs)
    assert schemas.alignment(theirs).dropped == ("brand_new_ratio", "brand_new_total")
    whole = joined([decode(frame(matrix), schemas), decode(frame(samples("host", 1, 1)), schemas)], "host", schemas)
    own = layout_of(TABLES["host"])
    assert whole.layout == own
    row = dict(zip(own.gauges, whole.gauges[0].tolist(), strict=True))
    assert (row["load_1m"], row["up"], np.isnan(row["tasks_blocked"])) == (2.5, 1.0, True)
    assert dict(zip(own.counters, whole.counters[0].tolist(), strict=True)) == {
        "boot_time_seconds": -1, "corrected_memory_errors_total": -1, "uncorrected_memory_errors_total": -1,
        "out_of_memory_kills_total": 4,
    }  # fmt: skip
    assert set(samples_of(decode(frame(matrix), schemas).tables[0]).values) == {
        "up",
        "load_1m",
        "out_of_memory_kills_total",
    }


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(told=st.lists(st.tuples(tables(), st.sampled_from(["a", "b"])), max_size=6))
def test_joining_frames_keeps_every_row_of_the_table(told: list[tuple[Samples, str]]) -> None:
    schemas = Schemas()
    frames = []
    for table, host in told:
        matrix = matrix_of(table)
        schemas.learn(matrix.layout)
        frames.append(decode(frame(matrix, host=host), schemas))
    for own in TABLES.values():
        parts = [part for part, _ in told if part.table == own.name]
        whole = joined(frames, own.name, schemas)
        assert not strange(whole)
        assert [whole.names[place] for place in whole.device] == [name for part in parts for name in part.component]
        assert whole.at_ms.tolist() == [at for part in parts for at in part.at_ms.tolist()]
        values = samples_of(whole).values
        for column in own.names:
            none = [part.values.get(column, np.full(len(part.component), np.nan)) for part in parts]
            np.testing.assert_array_equal(values[column], np.concatenate([np.empty(0), *none]))


# --- damage and forgery


# (offset, size) of the header's fields and of those of two tables behind a host of up to 8 bytes
FIELDS = [(0, 4), (4, 1), (5, 1), (6, 2), (8, 4), (12, 4), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 1)]
FIELDS += [
    (56 + 24 * t + at, size) for t in (0, 1) for at, size in ((0, 8), (8, 4), (12, 4), (16, 2), (18, 2), (20, 2))
]
BOUNDARY = [
    0,
    1,
    2,
    127,
    128,
    255,
    2**15 - 1,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**53,
    2**63 - 1,
    2**63,
    2**64 - 1,
]


class Mutator:
    """Damages a frame in one of the ways that wires, disks and enemies do."""

    def __init__(self, frames: list[bytes], seed: int) -> None:
        self.frames, self.random = frames, random.Random(seed)
        self.ways = [self.flip, self.flip, self.cut, self.extend, self.splice, self.edit, self.edit, self.shuffle]

    def __call__(self, frame: bytes) -> bytes:
        return self.random.choice(self.ways)(frame)

    def place(self, frame: bytes) -> int:
        return int(self.random.random() * len(frame))

    def flip(self, frame: bytes) -> bytes:
        damaged = bytearray(frame)
        for _ in range(self.random.choice((1, 1, 2, 5))):
            damaged[self.place(frame)] ^= 1 << self.random.getrandbits(3)
        return bytes(damaged)

    def cut(self, frame: bytes) -> bytes:
        start = self.place(frame)
        return frame[:start] + frame[self.random.choice((len(frame), start + 1, self.place(frame))) :]

    def extend(self, frame: bytes) -> bytes:
        at = self.random.choice((len(frame), self.place(frame)))
        return frame[:at] + self.random.randbytes(1 + self.random.getrandbits(4)) + frame[at:]

    def splice(self, frame: bytes) -> bytes:
        other = self.random.choice(self.frames)
        at = self.place(frame)
        return frame[:at] + other[at:] if self.random.random() < 0.5 else frame[:at] + other[self.place(other) :]

    def edit(self, frame: bytes) -> bytes:
        at, size = self.random.choice(FIELDS)
        old = int.from_bytes(frame[at : at + size], "little")
        new = self.random.choice((*BOUNDARY, old + 1, old - 1, self.random.getrandbits(8 * size)))
        return frame[:at] + (new % (1 << 8 * size)).to_bytes(size, "little") + frame[at + size :]

    def shuffle(self, frame: bytes) -> bytes:
        one, two = sorted((self.place(frame), self.place(frame)))
        size = self.random.choice((1, 2, 4, 8))
        return frame[:one] + frame[two : two + size] + frame[one + size :]


def frames_to_damage(key: bytes | None = None) -> tuple[list[bytes], Schemas]:
    schemas = Schemas()
    some = [
        [samples("host", 1, 1, columns=3)],
        [samples("host", 2, 2), samples("optic", 3, 1)],
        [samples("accelerator", 2, 1), samples("port", 2, 2, columns=4)],
        [samples("optic", 2, 2), samples("host", 2, 1, seed=3)],
    ]
    for part in (part for parts in some for part in parts):
        schemas.learn(matrix_of(part).layout)
    return [frame(*parts, key=key, sequence=i) for i, parts in enumerate(some)], schemas


def again(read: Frame) -> bytes:
    """The one payload that means `read`."""
    return encode(
        read.host,
        read.tables,
        sequence=read.sequence,
        incarnation=read.incarnation,
        sent_ms=read.sent_ms,
        clock_offset_ms=read.clock_offset_ms,
    )


def damage(count: int, seed: int) -> tuple[int, int]:
    """How many damaged frames were refused, and how many, with a repaired checksum, mean something well-formed."""
    plain, schemas = frames_to_damage()
    signed, _ = frames_to_damage(KEY)
    originals = {*plain, *signed}
    mutate = Mutator(plain, seed)
    refused = meant = 0
    for number in range(count):
        way = number % 8
        original = (signed if way == 0 else plain)[number // 8 % len(plain)]
        payload = mutate(original)
        if payload in originals:
            continue  # nothing was damaged
        if way < 4:
            payload = repaired(payload)
        try:
            read = decode(payload, schemas, key=KEY if way == 0 else None)
        except (FrameError, UnknownLayout):
            refused += 1
            continue
        assert 0 < way < 4, f"a damaged frame was accepted: {payload.hex()} from {original.hex()}"
        assert again(read) == payload, f"not what it says: {payload.hex()}"
        meant += 1
    return refused, meant


def test_damaged_frames_are_refused() -> None:
    refused, meant = damage(20_000, seed=1)
    assert refused > 15_000
    assert meant > 500  # repaired ones do pass: the test reaches beyond the checksum


@pytest.mark.slow
def test_a_million_damaged_frames_are_refused() -> None:
    refused, meant = damage(MUTATIONS, seed=2)
    assert refused + meant > 0.9 * MUTATIONS


def test_random_bytes_are_refused() -> None:
    noise = random.Random(5)
    for _ in range(3000):
        with pytest.raises(FrameError):
            decode(repaired(wire.MAGIC + noise.randbytes(noise.randrange(300))), Schemas())


def test_hostile_sizes_allocate_no_more_than_a_small_multiple_of_what_was_received() -> None:
    plain, schemas = frames_to_damage()
    mutate = Mutator(plain, seed=4)
    decode(plain[0], schemas)
    tracemalloc.start()
    for number in range(2000):
        payload = repaired(mutate(plain[number % len(plain)]))
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        with contextlib.suppress(ValueError):
            decode(payload, schemas)
        assert tracemalloc.get_traced_memory()[1] - before < 20 * len(payload) + 20_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("at", "code", "value", "says"),
    [
        (0, "4s", b"PAR1", "another version"),
        (4, "B", 2, "flags of another version"),
        (44, "I", 1, "flags of another version"),
        (5, "B", 65, "65 tables"),
        (5, "B", 3, "3 tables do not fit"),
        (6, "H", 0, "a host of 0"),
        (6, "H", 60_000, "a host of 60000"),
        (6, "H", 5, "a host of 5"),
        (32, "q", -1, "sent at -1"),
        (56 + 8, "I", 2**32 - 1, "tables of"),
        (56 + 16, "H", 9, "9 told"),
        (56 + 22, "H", 1, "a table of"),
        (80, "q", -1, "1970 to 9999"),
        (80, "q", 2**62, "1970 to 9999"),
        (88, "q", -2, "below -1"),
        (96, "f", float("inf"), "infinite"),
        (100, "H", 1, "not in the dictionary"),
        (102, "s", b"H", "no component"),
        (106, "s", b"\xff", "UTF-8"),
        (106, "s", b"\x1b", "no component"),
        (48, "s", b" ", "blanks"),
        (48, "s", b"\xc3", "UTF-8"),
    ],
)
def test_a_refusal_says_why(at: int, code: str, value: Any, says: str) -> None:
    table = Samples("host", ["host:n1"], np.array([AT]), {"up": np.ones(1), "out_of_memory_kills_total": np.ones(1)})
    schemas = Schemas()
    schemas.learn(matrix_of(table).layout)
    payload = bytearray(frame(table))
    struct.pack_into(f"<{code}", payload, at, value)
    with pytest.raises(FrameError, match=says):
        decode(repaired(bytes(payload)), schemas)


def test_a_header_must_match_its_layout() -> None:
    table = Samples("host", ["host:n1"], np.array([AT]), {"up": np.ones(1), "load_1m": np.ones(1)})
    schemas = Schemas()
    schemas.learn(matrix_of(table).layout)
    payload = bytearray(frame(table))
    struct.pack_into("<HH", payload, 56 + 18, 0, 1)  # two gauges become one counter of the same size
    with pytest.raises(FrameError, match="not those of host"):
        decode(repaired(bytes(payload)), schemas)


def test_payloads_of_the_wrong_size_are_refused() -> None:
    for payload, says in (
        (b"", "less than a header"),
        (frame() + b"x", "has"),
        (bytes(wire.MAX_FRAME + 1), "more than"),
    ):
        with pytest.raises(FrameError, match=says):
            decode(payload, Schemas())
