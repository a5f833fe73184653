"""Archives in one pass: what Python's own writer makes is read, what is damaged or hostile ends with a reason."""

import contextlib
import gzip
import io
import tarfile
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.inputs.tar import BLOCK, MAX_EXTENDED, is_header, members

Entry = tuple[str, bytes]
names = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/"), min_size=1, max_size=300)


def packed(
    *entries: Entry, form: int = tarfile.PAX_FORMAT, change: Callable[[tarfile.TarInfo], None] | None = None
) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=form) as archive:
        for name, data in entries:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if change:
                change(info)
            archive.addfile(info, io.BytesIO(data))
    return raw.getvalue()


def read(raw: bytes) -> list[Entry]:
    return [(one.name, one.content.read()) for one in members(io.BufferedReader(io.BytesIO(raw)))]


@pytest.mark.slow
@given(st.lists(st.tuples(names, st.binary(max_size=2_000)), max_size=6), st.sampled_from([0, 1, 2]))
def test_law_it_reads_what_pythons_writer_wrote(entries: list[Entry], form: int) -> None:
    try:
        raw = packed(*entries, form=form)
    except ValueError:  # the old format has no room for such a name
        return
    assert read(raw) == entries


@given(st.binary(max_size=3_000), st.binary(max_size=200), st.integers(0, 3_000))
def test_law_any_bytes_end_with_a_reason_or_not_at_all(data: bytes, noise: bytes, at: int) -> None:
    raw = bytearray(packed(("a", data), ("b", data)))
    raw[at : at + len(noise)] = noise
    for text in (bytes(raw), bytes(raw[:at]), noise):
        with contextlib.suppress(ValueError, EOFError):
            for one in members(io.BufferedReader(io.BytesIO(text))):
                assert len(one.content.read() or b"") <= len(text)


def test_a_header_is_told_by_its_checksum_not_by_a_word_in_it() -> None:
    old = bytearray(packed(("h17/messages", b"x"), form=tarfile.USTAR_FORMAT))
    assert is_header(bytes(old))
    text = (b"x" * 257 + b"ustar is a word that a log may hold").ljust(BLOCK, b"\n")
    assert not is_header(text)
    assert not is_header(bytes(BLOCK))
    old[257:265] = bytes(8)  # as written before there was a magic word
    old[148:156] = b" " * 8
    old[148:156] = b"%06o\0 " % sum(old[:BLOCK])
    assert read(bytes(old)) == [("h17/messages", b"x")]


def test_joined_archives_are_read_to_the_end() -> None:
    assert read(packed(("a", b"1")) + packed(("b", b"2"))) == [("a", b"1"), ("b", b"2")]


def test_junk_behind_a_member_is_told() -> None:
    raw = packed(("a", b"1"))[: 2 * BLOCK] + b"\x01" * BLOCK
    with pytest.raises(ValueError, match="damaged"):
        read(raw)


@pytest.mark.parametrize("size", [BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 100])
def test_a_cut_is_told(size: int) -> None:
    raw = packed(("a", b"1" * 600), ("b", b"2"))
    with pytest.raises(EOFError, match="cut"):
        read(raw[:size])


def test_names_of_megabytes_are_refused_before_they_are_read() -> None:
    def endless(info: tarfile.TarInfo) -> None:
        info.pax_headers = {"comment": "A" * (MAX_EXTENDED + 1)}

    with pytest.raises(ValueError, match="extended header"):
        read(packed(("a", b"1"), change=endless))


def test_of_a_sparse_member_the_data_are_read_and_the_holes_are_not() -> None:
    header = bytearray(packed(("big", b""), form=tarfile.GNU_FORMAT)[:BLOCK])
    header[124:136], header[156:157], header[482] = b"00000000004\0", b"S", 1
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    raw = bytes(header) + bytes(BLOCK) + b"log\n".ljust(BLOCK, b"\0") + bytes(2 * BLOCK)
    assert read(raw) == [("big", b"log\n")]


def test_numbers_beyond_octal_and_below_zero() -> None:
    header = bytearray(packed(("a", b"1"))[:BLOCK])
    for field, wrong in (
        (b"\x80" + bytes(10) + b"\x01", None),
        (b"\xff" * 12, "without numbers"),
        (b"-1".ljust(12), "without"),
    ):
        header[124:136] = field
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        raw = bytes(header) + b"1".ljust(BLOCK, b"\0") + bytes(2 * BLOCK)
        if wrong is None:
            assert read(raw) == [("a", b"1")]
        else:
            with pytest.raises(ValueError, match=wrong):
                read(raw)


def test_zeros_without_end_are_an_end() -> None:
    raw = gzip.compress(packed(("a", b"1")) + bytes(8 << 20))
    unpacked = cast(io.RawIOBase, gzip.GzipFile(fileobj=io.BytesIO(raw)))
    assert [one.name for one in members(io.BufferedReader(unpacked))] == ["a"]
