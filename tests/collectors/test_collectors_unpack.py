"""Compressed files: whole, cut, joined, padded, followed by junk, and those that expand without end."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from collectors.inputs import unpack
from collectors.inputs.unpack import UNPACK_ERRORS, Frames, packed, unpacked

TEXT = b"".join(b"line %d of an ordinary log\n" % number for number in range(20_000))
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def all_of(raw: bytes, read: int = 1 << 40) -> tuple[bytes, str]:
    got = b""
    try:
        stream = unpacked(io.BufferedReader(io.BytesIO(raw)), lambda: read)
        while chunk := stream.read1(1 << 16):
            got += chunk
    except UNPACK_ERRORS as error:
        return got, str(error) or type(error).__name__
    return got, ""


@pytest.mark.parametrize("kind", PACKERS)
def test_a_cut_is_told_and_what_came_before_is_kept(kind: str) -> None:
    raw = PACKERS[kind](TEXT)
    got, problem = all_of(raw[: len(raw) - 20])
    assert problem
    assert TEXT.startswith(got)
    assert got or kind == "bzip2"  # it gives whole blocks of 900 kB


@pytest.mark.parametrize("kind", PACKERS)
def test_joined_streams_are_one_text(kind: str) -> None:
    assert all_of(PACKERS[kind](TEXT) * 3) == (TEXT * 3, "")


@pytest.mark.parametrize("kind", PACKERS)
def test_junk_behind_the_end_costs_nothing_that_came_before(kind: str) -> None:
    got, problem = all_of(PACKERS[kind](TEXT) + b"junk and more junk")
    assert (got, bool(problem)) == (TEXT, True)


@pytest.mark.parametrize("kind", ["gzip", "xz", "bzip2"])
def test_padding_is_no_junk(kind: str) -> None:
    assert all_of(PACKERS[kind](TEXT) + bytes(512)) == (TEXT, "")


def test_a_text_that_begins_like_a_mark_is_a_text() -> None:
    assert packed(b"BZh9 is how a file of bzip2 begins") == ""
    assert packed(b"") == ""
    assert all_of(b"BZh") == (b"BZh", "")


def test_a_dictionary_of_a_gigabyte_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}]
    raw = bytearray(lzma.compress(b"x", filters=filters, check=lzma.CHECK_NONE))
    at = raw.index(bytes([lzma.FILTER_LZMA2, 1])) + 2
    raw[at] = 40  # the largest: 4 GiB - 1; the header's own checksum has to follow
    header = raw[12 : 12 + (raw[12] + 1) * 4]
    header[-4:] = zlib.crc32(bytes(header[:-4])).to_bytes(4, "little")
    raw[12 : 12 + len(header)] = header
    assert "emory" in all_of(bytes(raw))[1]


def test_a_bomb_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "FREE_BYTES", 1 << 20)
    raw = gzip.compress(bytes(16 << 20))
    got, problem = all_of(raw, read=len(raw))
    assert "fold" in problem
    assert len(got) <= (1 << 20) + unpack.MAX_RATIO * len(raw)


@given(st.lists(st.binary(max_size=400), max_size=4), st.data())
def test_law_a_zstd_stream_is_whole_at_its_frames_ends_only(parts: list[bytes], data: st.DataObject) -> None:
    frames = [zstandard.ZstdCompressor(write_checksum=data.draw(st.booleans())).compress(part) for part in parts]
    raw = b"".join(frames)
    ends = {sum(map(len, frames[:count])) for count in range(len(frames) + 1)}
    cut, step = data.draw(st.integers(0, len(raw))), data.draw(st.integers(1, 50))
    seen = Frames()
    for at in range(0, cut, step):
        seen.feed(raw[at : min(cut, at + step)])
    assert seen.whole == (cut in ends)
