"""A growing file is read whole and once: split anywhere, rotated, truncated, with junk, resumed where it stopped."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.formats.text import MAX_LINE
from collectors.host.growing import FIRST_LOOK, Growing, Resume, resume_of


def text_of(growing: Growing) -> bytes:
    found = b""
    while True:
        found += b"".join(lines.text for lines in growing.read())
        if growing.at_end:
            return found


@settings(max_examples=40)
@given(st.lists(st.binary(max_size=40).map(lambda raw: raw.replace(b"\r", b"\n")), max_size=12))
def test_written_in_any_pieces_it_gives_the_same_whole_lines(pieces: list[bytes]) -> None:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"growing-{os.getpid()}.log"
    path.write_bytes(b"")
    growing, found, number = Growing(path, whole=True), b"", 1
    try:
        for piece in pieces:
            with path.open("ab") as file:
                file.write(piece)
            for lines in growing.read():
                assert lines.numbered
                assert lines.first == number
                number += lines.text.count(b"\n")
                found += lines.text
    finally:
        growing.close()
        path.unlink()
    whole = b"".join(pieces)
    assert found == whole[: whole.rfind(b"\n") + 1]


def test_a_line_is_given_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntw")
    growing = Growing(path, whole=True)
    assert text_of(growing) == b"one\n"
    with path.open("ab") as file:
        file.write(b"o\n")
    assert text_of(growing) == b"two\n"


def test_a_progress_bar_that_never_ends_its_line_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"step 1\rstep 2\rste")
    assert text_of(Growing(path, whole=True)) == b"step 1\rstep 2\r"


def test_renamed_and_made_anew_nothing_is_lost_or_told_twice(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\n")
    growing = Growing(path, whole=True)
    assert text_of(growing) == b"a\n"
    old = path.open("ab", buffering=0)
    path.rename(tmp_path / "log.1")
    old.write(b"b\n")  # the logger goes on with the old file until it is told
    assert text_of(growing) == b"b\n"
    path.touch()
    old.write(b"c\nd")
    assert text_of(growing) == b"c\n"
    old.close()
    path.write_bytes(b"e\n")
    assert text_of(growing) == b"d\ne\n"


def test_copied_and_truncated_it_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first\nsecond\n")
    growing = Growing(path, whole=True)
    assert text_of(growing) == b"first\nsecond\n"
    path.write_bytes(b"x\n")
    assert text_of(growing) == b"x\n"


def test_truncated_and_grown_beyond_where_it_was_it_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first\n")
    growing = Growing(path, whole=True)
    assert text_of(growing) == b"first\n"
    path.write_bytes(b"another\nand another\n")
    assert text_of(growing) == b"another\nand another\n"


def test_a_line_without_end_is_dropped_and_counted_and_the_next_one_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\n" + b"x" * (5 * MAX_LINE))
    growing = Growing(path, whole=True)
    assert text_of(growing) == b"a\n"
    with path.open("ab") as file:
        file.write(b"y" * MAX_LINE + b"\nb\n")
    assert text_of(growing) == b"b\n"
    assert growing.cut == 1


def test_a_second_run_reads_on_where_the_first_stopped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\nb\nhal")
    first = Growing(path, whole=True)
    assert text_of(first) == b"a\nb\n"
    place = first.place
    first.close()
    with path.open("ab") as file:
        file.write(b"f\nc\n")
    second = Growing(path, Resume(place, place))
    assert [(lines.text, lines.first) for lines in second.read()] == [(b"half\nc\n", 3)]


def test_a_second_run_finishes_the_rotated_file_first(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\n")
    first = Growing(path, whole=True)
    assert text_of(first) == b"a\n"
    place = first.place
    first.close()
    with path.open("ab") as file:
        file.write(b"b\n")
    path.rename(tmp_path / "log.1")
    path.write_bytes(b"c\n")
    assert text_of(Growing(path, Resume(place, place))) == b"b\nc\n"


@pytest.mark.parametrize("place", [b"", b"{}", b"[1]", b'{"device":1}', b"\xff"])
def test_a_damaged_place_is_none(tmp_path: Path, place: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\n")
    assert resume_of(place) is None
    assert text_of(Growing(path, Resume(place, place))) == b"a\n"


def test_a_first_look_goes_back_a_little_only(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"line\n" * FIRST_LOOK)
    found = list(Growing(path).read())
    assert sum(len(lines.text) for lines in found) <= FIRST_LOOK
    assert not any(lines.numbered for lines in found)


def test_a_folder_or_a_pipe_is_no_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "absent"):
        with pytest.raises(OSError, match=r"no file|No such"):
            list(Growing(path).read())
