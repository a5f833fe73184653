"""Walking and opening: every part is read or has a reason, and nothing is held whole."""

import bz2
import gzip
import io
import lzma
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from collectors.inputs import CHUNK, READ_ERRORS, Input, walk

TEXT = b"".join(b"line %d of an ordinary log\n" % number for number in range(90_000))
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


def contents(source: Input) -> bytes:
    assert source.open is not None, source.problem
    return b"".join(source.open())


def only(path: Path) -> Input:
    (found,) = walk([path])
    return found


@pytest.mark.parametrize("kind", PACKERS)
def test_compressed_files_are_read_by_content_not_by_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "misnamed.txt"
    path.write_bytes(PACKERS[kind](TEXT))
    assert contents(only(path)) == TEXT


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_of_a_cut_file_all_that_came_before_the_cut_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "cut"
    packed = PACKERS[kind](os.urandom(4) + TEXT)
    path.write_bytes(packed[: len(packed) * 2 // 3])
    source, got = only(path), b""
    assert source.open is not None
    try:
        for chunk in source.open():
            got += chunk
    except READ_ERRORS:
        pass
    assert kind == "bz2" or got[4:100] == TEXT[:96]  # bzip2 gives whole blocks of 900 kB only


def test_members_of_archives_are_inputs_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in {"h17/dmesg": b"a\n", "h18/dmesg.gz": gzip.compress(TEXT)}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("h19/dmesg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    found = {source.path: contents(source) if source.open else source.problem for source in walk([path])}
    assert found == {
        f"{path}!/h17/dmesg": b"a\n",
        f"{path}!/h18/dmesg.gz": TEXT,
        f"{path}!/h19/dmesg": "a link inside an archive: not followed",
    }


def test_folders_are_walked_in_order_and_links_back_end_there(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two").write_bytes(b"2")
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b" / "again").symlink_to(tmp_path)
    (tmp_path / "pods").symlink_to(tmp_path / "b")
    assert [Path(source.path).relative_to(tmp_path).as_posix() for source in walk([tmp_path])] == ["a", "b/two"]


def test_what_cannot_be_read_has_a_reason(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "special" in only(tmp_path / "pipe").problem
    assert "No such file" in only(tmp_path / "absent").problem
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8b\x08\x00garbage that is no deflate stream")
    assert only(tmp_path / "bad.gz").problem or only(tmp_path / "bad.gz").open


def test_names_that_are_no_utf8_are_shown_and_still_open(tmp_path: Path) -> None:
    raw = os.path.join(os.fsencode(tmp_path), b"log-\xff")
    with open(raw, "wb") as file:
        file.write(b"x")
    (source,) = walk([tmp_path])
    assert source.path.endswith("log-\ufffd")
    assert contents(source) == b"x"


def test_chunks_stay_small(tmp_path: Path) -> None:
    path = tmp_path / "zeros.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
    source = only(path)
    assert source.open is not None
    sizes = [len(chunk) for chunk in source.open()]
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= CHUNK
