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

from collectors.inputs.inputs import READ_ERRORS, Input, walk
from collectors.inputs.unpack import CHUNK

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


@pytest.mark.slow
@pytest.mark.parametrize("kind", PACKERS)
def test_compressed_files_are_read_by_content_not_by_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "misnamed.txt"
    path.write_bytes(PACKERS[kind](TEXT))
    assert contents(only(path)) == TEXT


@pytest.mark.slow
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


def archive_of(**files: bytes) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return raw.getvalue()


def test_archives_inside_archives_are_read_but_not_without_end(tmp_path: Path) -> None:
    raw = archive_of(messages=b"x")
    for depth in range(4):
        raw = archive_of(**{f"n{depth}": gzip.compress(raw)})
    (tmp_path / "deep").write_bytes(raw)
    assert "archives inside archives" in only(tmp_path / "deep").problem
    (tmp_path / "two").write_bytes(archive_of(inner=gzip.compress(archive_of(messages=b"x"))))
    assert {source.path: contents(source) for source in walk([tmp_path / "two"])} == {
        f"{tmp_path}/two!/inner!/messages": b"x"
    }


def test_a_cut_archive_gives_what_came_before_and_the_reason(tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(archive_of(a=b"1" * 600, b=b"2")[:1700])
    told = []
    for source in walk([tmp_path / "cut"]):
        told.append((source.path.rpartition("/")[2], source.problem))
        if source.open:
            assert contents(source) == b"1" * 600
    assert told == [("a", ""), ("cut", "the archive is cut")]


def test_a_member_is_gone_once_the_next_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(archive_of(a=b"1", b=b"2"))
    first, _ = list(walk([tmp_path / "t"]))
    with pytest.raises(ValueError, match="passed over"):
        contents(first)


def test_of_links_and_devices_in_archives_only_what_may_be_lost_is_told(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "t", "w") as archive:
        log = tarfile.TarInfo("pods/a/0.log")
        log.size = 1
        archive.addfile(log, io.BytesIO(b"x"))
        for name, kind, target in (
            ("containers/a.log", tarfile.SYMTYPE, "../pods/a/0.log"),
            ("same", tarfile.LNKTYPE, "pods/a/0.log"),
            ("zone", tarfile.SYMTYPE, "/usr/share/zone"),
            ("tty", tarfile.CHRTYPE, ""),
            ("folder", tarfile.DIRTYPE, ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            archive.addfile(member)
    told = {source.path.rpartition("!/")[2]: source.problem for source in walk([tmp_path / "t"])}
    assert set(told) == {"pods/a/0.log", "zone", "tty"}
    assert told["zone"]
    assert "special" in told["tty"]


@pytest.mark.slow
def test_a_thousand_folders_deep(tmp_path: Path) -> None:
    here = os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(1_000):
            os.mkdir("d")
            os.chdir("d")
        Path("log").write_bytes(b"x")
        assert contents(only(tmp_path)) == b"x"
        os.remove("log")
        for _ in range(1_000):  # from the bottom: what removes trees does not get so deep
            os.chdir("..")
            os.rmdir("d")
    finally:
        os.chdir(here)


def test_what_is_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "h1").mkdir()
    (tmp_path / "h2").mkdir()
    (tmp_path / "h1" / "a").write_bytes(b"1")
    os.link(tmp_path / "h1" / "a", tmp_path / "h2" / "a")  # two files: each folder may name another host
    (tmp_path / "h1" / "now").symlink_to("a")
    given = [tmp_path / "h1", Path(f"{tmp_path}/h1/"), tmp_path, tmp_path / "h1" / "a"]
    assert [Path(source.path).relative_to(tmp_path).as_posix() for source in walk(given)] == ["h1/a", "h2/a"]


def test_a_file_that_grows_is_read_to_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 100)
    source, got = only(path), b""
    assert source.open is not None
    for chunk in source.open():
        got += chunk
        with path.open("ab") as file:
            file.write(b"y" * 100)
    assert got == b"x" * 100


def test_a_pipe_in_the_place_of_a_file_does_not_stop_everything(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x")
    source = only(path)
    path.unlink()
    os.mkfifo(path)
    assert source.open is not None
    with pytest.raises(OSError, match="special"):
        list(source.open())


def test_odd_names_are_walked(tmp_path: Path) -> None:
    odd = [b"a\nb", b"\x1b[31m", b"bad\xff", b"x" * 250, "\u202e".encode(), b"[bold]", b"-rf"]
    for name in odd:
        with open(os.path.join(os.fsencode(tmp_path), name), "wb") as file:
            file.write(name)
    assert sorted(contents(source) for source in walk([tmp_path])) == sorted(odd)
    assert only(tmp_path / ("y" * 5_000)).problem
