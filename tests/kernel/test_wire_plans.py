"""What a reader keeps from a sender's frames changes nothing of what it reads in the next ones."""

import struct

import crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay import wire
from sickbay.frames import Frame
from sickbay.layouts import MAX_PLANS, Plan, Schemas, layout_of
from sickbay.schema import TABLES, Samples

AT = 1_790_000_000_000


def frame(host: str, cards: int, ports: int, rows: int, sequence: int = 1, first: int = 0) -> bytes:
    tables = []
    for table, column, kind, count in (
        ("accelerator", "power_watts", "accelerator", cards), ("port", "rx_errors_total", "port", ports),
    ):  # fmt: skip
        names = [f"{kind}:{host}/{place + first}" for place in range(count)] * rows
        at_ms = np.repeat(AT + 1000 * np.arange(rows), count)
        tables.append(Samples(table, names, at_ms, {column: np.arange(count * rows, dtype=float) + sequence}))
    return wire.encode(host, tables, sequence=sequence, incarnation=3, sent_ms=AT)


def read(payload: bytes, schemas: Schemas) -> object:
    try:
        return plain(wire.decode(payload, schemas))
    except ValueError as error:
        return str(error)


def plain(frame: Frame) -> tuple[object, ...]:
    tables = [
        (one.layout, one.names, one.device.tolist(), one.at_ms.tolist(), one.gauges.tobytes(), one.counters.tobytes())
        for one in frame.tables
    ]
    return frame.host, frame.sequence, frame.first_ms, frame.last_ms, tables


LAYOUTS = [layout_of(TABLES["accelerator"], ["power_watts"]), layout_of(TABLES["port"], ["rx_errors_total"])]


def knowing() -> Schemas:
    schemas = Schemas()
    for layout in LAYOUTS:
        schemas.learn(layout)
    return schemas


shape = st.builds(frame, st.sampled_from(["h1", "h2"]), st.integers(0, 3), st.integers(0, 3), st.integers(1, 3),
                  st.integers(1, 3), st.integers(0, 1))  # fmt: skip
change = st.tuples(st.integers(0, 10_000), st.integers(1, 255))


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(st.tuples(shape, st.lists(change, max_size=2)), min_size=1, max_size=6))
def test_frames_read_one_after_the_other_are_read_as_if_each_were_the_first(
    told: list[tuple[bytes, list[tuple[int, int]]]],
) -> None:
    """Also damaged ones that carry a right sum, as whoever is let in can make."""
    warm = knowing()
    for payload, changes in told:
        hurt = bytearray(payload)
        for place, bits in changes:
            hurt[place % len(hurt)] ^= bits
        crc = crc32c.crc32c(bytes(hurt[16:]), crc32c.crc32c(bytes(hurt[:12])))
        hurt[12:16] = struct.pack("<I", crc)
        assert read(bytes(hurt), warm) == read(bytes(hurt), knowing())


def test_the_same_names_are_the_same_tuple_from_frame_to_frame() -> None:
    schemas = knowing()
    first, second = (wire.decode(frame("h1", 2, 2, 3, sequence), schemas) for sequence in (1, 2))
    assert all(one.names is other.names for one, other in zip(first.tables, second.tables, strict=True))
    assert (first.first_ms, first.last_ms) == (AT, AT + 2000)
    assert len(schemas.plans) == 1


def test_shapes_are_forgotten_when_there_are_too_many() -> None:
    schemas = Schemas()
    plan = Plan("h", (), (), (), (), (0, 0, 0, 0), 0)
    for number in range(MAX_PLANS + 1):
        schemas.keep_plan(str(number).encode(), plan)
    assert len(schemas.plans) == 1
