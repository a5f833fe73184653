"""Packs of frames: what goes in comes out, and nothing hostile comes out as anything else than an error."""

import random
import struct
from contextlib import suppress

import crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay import packs, wire
from sickbay.layouts import Schemas
from sickbay.schema import Samples

FRAMES = st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=40)


def frame(host: str, sequence: int = 1) -> bytes:
    values = {"temperature_celsius": np.array([40.0, 41.0])}
    rows = Samples("accelerator", [f"accelerator:{host}/0", f"accelerator:{host}/1"], np.array([1000, 2000]), values)
    return wire.encode(host, [rows], sequence=sequence, incarnation=1, sent_ms=3000)


@given(FRAMES)
def test_what_goes_in_comes_out(frames: list[bytes]) -> None:
    packed = packs.pack(frames)
    assert packs.is_pack(packed)
    assert len(packed) == packs.size_of(frames)
    assert packs.unpack(packed) == frames


@given(st.binary(max_size=400))
def test_any_bytes_are_a_pack_or_an_error(payload: bytes) -> None:
    for told in (payload, packs.MAGIC + payload):
        try:
            members = packs.unpack(told)
        except packs.PackError:
            continue
        assert packs.pack(members) == told


@pytest.mark.slow
def test_a_hundred_thousand_mutations_abort_nothing() -> None:
    draw, schemas = random.Random(5), Schemas()
    whole = packs.pack([frame(f"n{place}") for place in range(16)])
    for _ in range(100_000):
        told = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            told[draw.randrange(64 if draw.random() < 0.5 else len(told))] = draw.randrange(256)
        told = told[: draw.randrange(len(told))] if draw.random() < 0.2 else told
        if len(told) >= 16 and draw.random() < 0.5:  # the sum is no secret: whoever damages can make it right
            told[12:16] = struct.pack("<I", crc32c.crc32c(bytes(told[16:]), crc32c.crc32c(bytes(told[:12]))))
        try:
            members = packs.unpack(bytes(told))
        except packs.PackError:
            continue
        assert len(members) <= packs.MAX_MEMBERS
        assert sum(map(len, members)) < len(told)
        for member in members[:1]:
            with suppress(ValueError):  # nothing else is raised
                wire.decode(member, schemas)


@pytest.mark.parametrize("frames", [[], [b""], [b"x"] * 257, [b"x" * packs.MAX_PACK]])
def test_what_no_pack_holds_is_refused(frames: list[bytes]) -> None:
    with pytest.raises(ValueError, match="a pack holds"):
        packs.pack(frames)
