"""Bytes to clean lines: what comes out, what is cut, and that memory stays small."""

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.reading import Tally
from collectors.formats.text import MAX_LINE, blocks, clean, lines


def read(*chunks: bytes) -> list[tuple[int, str]]:
    return list(lines(chunks, Tally()))


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x1b[32m[1.5] \x1b[0m\x1b[33mNVRM: \x1b[0m\x1b[1mXid\x1b[0m 48", "[1.5] NVRM: Xid 48"),
        (b"\x1b[38;5;196mred\x1b[m \x1b[2Kcleared", "red cleared"),
        (b"\x1b]0;window title\x07text", "text"),
        (b"\x1b]8;;http://a.example/\x1b\\link\x1b]8;;\x1b\\ text", "link text"),
        (b"\x1bPq#0;2;0;0;0\x1b\\sixel gone", "sixel gone"),
        (b"\x1b(B\x1b=plain\x1b7", "plain"),
        (b"cut off \x1b", "cut off"),
        (b"cut off \x1b[3", "cut off [3"),
        (b"#033[31mescaped#033[0m by a daemon", "escaped by a daemon"),
        (b"^[[31mshown^[[0m by cat", "shown by cat"),
        (b'{"log": "a \\u003cb\\u003E \\u0026 c"}', '{"log": "a <b> & c"}'),
        (b'{"log": "a \\\\u003c \\u0022 \\u4e2d"}', '{"log": "a \\\\u003c \\u0022 \\u4e2d"}'),
        (b"a\x00b\x07c\x08", "abc"),
        (b"NV\x00RM", "NVRM"),
        (b"kept\ttab", "kept\ttab"),
        ("evil \u202eesrever\u202c text\u200b".encode(), "evil esrever text"),
        (b"latin \xe9t\xe9", "latin \ufffdt\ufffd"),
        ("中文 stays".encode(), "中文 stays"),
        ("中文".encode("gbk") + b" NVRM: Xid", "\ufffd\ufffd\ufffd\ufffd NVRM: Xid"),
    ],
)
def test_a_line_is_shown_as_a_person_would_read_it(raw: bytes, text: str) -> None:
    assert read(raw) == [(1, text)]


def test_line_ends_of_all_systems_keep_the_numbers_of_an_editor() -> None:
    assert read(b"one\r\ntwo\n\r\nfour\n\nsix") == [(1, "one"), (2, "two"), (4, "four"), (6, "six")]
    assert read(b"10%\r20%\r30% done\nnext") == [(1, "10%"), (1, "20%"), (1, "30% done"), (2, "next")]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_with_its_mark_is_read_in_any_chunking(encoding: str) -> None:
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b"\xfe\xff"
    raw = mark + "NVRM: Xid 79\r\nzweite Zeile ü\n".encode(encoding)
    for size in (1, 3, 7, 1000):
        assert read(*(raw[at : at + size] for at in range(0, len(raw), size))) == [
            (1, "NVRM: Xid 79"),
            (2, "zweite Zeile ü"),
        ]


def test_the_mark_of_utf8_is_dropped() -> None:
    assert read(b"\xef\xbb\xbf[1.000001] a") == [(1, "[1.000001] a")]


def test_a_line_over_the_limit_is_cut_counted_and_does_not_shift_the_others() -> None:
    tally = Tally()
    raw = b"first\n" + b"x" * (3 * MAX_LINE) + b"\nthird\n" + b"y" * (MAX_LINE + 1) + b"\nfifth"
    for size in (1 << 10, 100_003, 1 << 22):
        tally = Tally()
        found = dict(lines((raw[at : at + size] for at in range(0, len(raw), size)), tally))
        assert list(found) == [1, 2, 3, 4, 5]
        assert (len(found[2]), len(found[4])) == (MAX_LINE, MAX_LINE)
        assert (found[1], found[3], found[5]) == ("first", "third", "fifth")
        assert tally.cut == 2


def test_a_line_of_a_hundred_megabytes_is_not_held() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"begin "
        for _ in range(1600):
            yield b"z" * 65_536
        yield b"\nend\n"

    tally = Tally()
    tracemalloc.start()
    found = [(number, len(text)) for number, text in lines(chunks(), tally)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [(1, MAX_LINE), (2, 3)]
    assert tally.cut == 1
    assert peak < 8 << 20


@given(
    st.lists(st.binary(max_size=60) | st.sampled_from([b"\n", b"\r\n", b"\x1b[1m", b"\xff", b"{"]), max_size=40),
    st.integers(1, 50),
)
def test_chunks_do_not_matter(parts: list[bytes], size: int) -> None:
    raw = b"".join(parts)
    assert read(raw) == read(*(raw[at : at + size] for at in range(0, len(raw), size)))


@given(
    st.lists(st.sampled_from([b"ab", b"\n", b"\xc3\xa9", b"longer piece"]), max_size=80),
    st.integers(1, 40),
    st.integers(1, 64),
)
def test_the_size_of_blocks_does_not_matter(parts: list[bytes], size: int, chunk: int) -> None:
    raw = b"".join(parts)
    cut = list(blocks((raw[at : at + chunk] for at in range(0, len(raw), chunk)), Tally(), size))
    assert b"".join(block.text for block in cut) == raw
    assert all(block.first == 1 + raw[: raw.index(block.text)].count(b"\n") for block in cut[:1])
    assert all(block.text.endswith(b"\n") for block in cut[:-1])


@given(st.binary(max_size=400))
def test_a_clean_block_is_valid_keeps_its_lines_and_stays_clean(raw: bytes) -> None:
    out = clean(raw)
    assert out.count(b"\n") == raw.count(b"\n")
    assert "\x1b" not in out.decode()
    assert all(character in "\t\n\r" or character.isprintable() or ord(character) > 0x9F for character in out.decode())


def test_blocks_begin_at_the_number_they_say() -> None:
    raw = b"".join(b"line %d\n" % number for number in range(1, 5001))
    found = list(blocks([raw], Tally(), size=1000))
    assert len(found) > 10
    for block in found:
        assert block.text.startswith(b"line %d\n" % block.first)
