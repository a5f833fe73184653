"""What only the embedded log promises: one process per group, kills, damage, full disks, unfit places."""

import contextlib
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sickbay.log import (
    Closed,
    Fenced,
    LogBusy,
    LogDamaged,
    LogError,
    LogFull,
    LogInUse,
    Output,
    Position,
    Task,
    UnfitPlace,
    place,
)
from sickbay.log.failures import explained
from sickbay.log.place import check_place, filesystem_of
from sickbay.log.sqlite import SqliteLog
from sickbay.log.store import FILE
from tests.log.engines import TOPICS, Engine, drained

IN = Task("in", 0)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    opened = SqliteLog(tmp_path, TOPICS)
    yield opened
    opened.close()


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Another process, with the log's imports done."""
    start = "import sys; from pathlib import Path; from sickbay.log import *\n"
    start += "from sickbay.log.sqlite import SqliteLog; from tests.log.engines import TOPICS\n"
    start += "log = SqliteLog(Path(sys.argv[1]), TOPICS)\n"
    command = [sys.executable, "-c", start + code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


# --- one process per group


@pytest.mark.slow
def test_a_second_process_is_refused_until_the_first_is_dead(tmp_path: Path, log: SqliteLog) -> None:
    other = python("log.join('group', ['in'], 'm'); print('held', flush=True); import time; time.sleep(60)", tmp_path)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    with pytest.raises(LogInUse, match="another process"):
        log.join("group", ["in"], "m")
    log.join("another group", ["in"], "m").close()
    other.send_signal(signal.SIGKILL)
    other.communicate()
    assert drained(log.join("group", ["in"], "m")) == []


def test_a_second_log_of_the_same_process_is_refused_too(tmp_path: Path, log: SqliteLog) -> None:
    member = log.join("group", ["in"], "m")
    second = SqliteLog(tmp_path, TOPICS)
    with pytest.raises(LogInUse):
        second.join("group", ["in"], "m")
    member.close()
    second.join("group", ["in"], "m")
    second.close()


def test_a_process_whose_lock_file_was_removed_is_fenced_by_the_epoch(tmp_path: Path, log: SqliteLog) -> None:
    first = log.join("group", ["in"], "m")
    first.poll()
    for lock in tmp_path.glob("*.lock"):
        lock.unlink()
    second = SqliteLog(tmp_path, TOPICS)
    second.join("group", ["in"], "m")
    with pytest.raises(Fenced):
        first.commit([Output("out", b"k", b"x", 0)], {IN: Position(0)})
    assert log.reader().bounds(Task("out", 0)).end == 0
    second.close()


def test_a_closed_log_gives_its_groups_back(tmp_path: Path) -> None:
    first = SqliteLog(tmp_path, TOPICS)
    first.join("group", ["in"], "m")
    first.close()
    first.close()
    second = SqliteLog(tmp_path, TOPICS)
    second.join("group", ["in"], "other")
    second.close()


# --- durability


APPEND = """
appender, number = log.appender(), int(sys.argv[2])
while True:
    outcomes = [appender.append("in", b"%d" % n, b"%d" % n) for n in range(number, number + 20)]
    appender.flush()
    number += 20
    print(number, outcomes[-1].done(), flush=True)
"""

PROCESS = """
member = log.join("echo", ["in"], "m")
print("up", flush=True)
while True:
    batch = member.poll(limit=17, timeout_s=0.01)
    ends = {record.task: Position(record.offset + 1, "so far") for record in batch.records}
    if ends:
        member.commit([Output("out", record.key, record.value) for record in batch.records], ends)
"""


@pytest.mark.slow
def test_what_was_acknowledged_survives_kills_and_is_processed_once(tmp_path: Path, log: SqliteLog) -> None:
    chance = random.Random(7)
    acknowledged = 0
    for _ in range(8):
        appending, processing = python(APPEND, tmp_path, acknowledged), python(PROCESS, tmp_path)
        assert processing.stdout is not None
        assert appending.stdout is not None
        assert processing.stdout.readline() == "up\n"
        assert appending.stdout.readline().endswith("True\n")
        time.sleep(chance.random() * 0.3)
        appending.kill()
        processing.kill()
        last = appending.communicate()[0].rsplit("\n", 1)[0].rsplit("\n", 1)[-1]
        processing.communicate()
        acknowledged = int(last.split()[0]) if last else acknowledged
    engine = Engine(log, False)
    appended = [int(record.value or b"") for index in range(3) for record in engine.all("in", index)]
    assert set(range(acknowledged)) <= set(appended)
    final = log.join("echo", ["in"], "m")
    for record in drained(final, limit=500):
        final.commit([Output("out", record.key, record.value)], {record.task: Position(record.offset + 1)})
    echoed = [int(record.value or b"") for index in range(2) for record in engine.all("out", index)]
    assert sorted(echoed) == sorted(appended)
    assert acknowledged > 500


@pytest.mark.slow
def test_processes_append_side_by_side_without_loss(tmp_path: Path, log: SqliteLog) -> None:
    code = "a = log.appender()\nfor n in range(300): a.append('out', b'k', sys.argv[2].encode(), partition=0).result()"
    others = [python(code, tmp_path, name) for name in "ab"]
    for _ in range(100):
        log.appender().append("out", b"k", b"c", partition=0).result()
    assert [other.communicate()[1] for other in others] == ["", ""]
    records = Engine(log, False).all("out")
    assert [record.offset for record in records] == list(range(700))
    assert sum(record.value == b"a" for record in records) == 300


def test_a_reopened_log_is_as_it_was(tmp_path: Path) -> None:
    first = SqliteLog(tmp_path, TOPICS)
    first.appender().append("in", b"k", b"0", partition=0).result()
    first.close()
    second = SqliteLog(tmp_path, TOPICS)
    assert [record.value for record in Engine(second, False).all("in")] == [b"0"]
    second.close()


def test_the_strictest_topic_of_a_transaction_decides_its_sync(log: SqliteLog) -> None:
    assert log.store.sync_of(["fast"]) == "normal"
    assert log.store.sync_of(["fast", "in"]) == "full"
    assert log.store.sync_of([]) == "normal"


def test_a_reader_holds_nothing_while_it_works_on_what_it_read(tmp_path: Path, log: SqliteLog) -> None:
    log.appender().append("in", b"k", b"0", partition=0).result()
    assert len(drained(log.join("group", ["in"], "m"))) == 1
    other = sqlite3.connect(tmp_path / FILE)
    assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0  # 1 would be: blocked by a reader
    other.close()


def test_an_append_that_waits_too_long_says_so_and_can_be_repeated(
    tmp_path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sickbay.log.store.BUSY_S", 0.05)
    hasty = SqliteLog(tmp_path, TOPICS)
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    appender = hasty.appender()
    outcome = appender.append("in", b"k", b"0", partition=0)
    with pytest.raises(LogBusy, match="try again"):
        appender.flush()
    with pytest.raises(LogBusy):
        outcome.result()
    other.execute("ROLLBACK")
    other.close()
    assert appender.append("in", b"k", b"0", partition=0).result().offset == 0
    appender.flush()  # the error was told once
    hasty.close()


# --- full disks


def test_a_full_disk_is_told_loses_nothing_and_ends_when_there_is_room(tmp_path: Path) -> None:
    now = [1_700_000_000_000]
    log = SqliteLog(tmp_path, TOPICS, clock=lambda: now[0], max_bytes=1_000_000)
    appender = log.appender()
    appended = 0
    with contextlib.suppress(LogFull):
        while appended < 100:
            appender.append("fast", b"k", bytes(50_000), partition=0).result()
            appended += 1
    assert 10 < appended < 30
    with pytest.raises(LogFull, match="retention"):
        appender.flush()
    assert [record.offset for record in Engine(log, False).all("fast")] == list(range(appended))
    member = log.join("group", ["in"], "m")
    member.poll()
    with pytest.raises(LogFull):
        member.commit([Output("fast", b"k", bytes(100_000), 0)], {IN: Position(0, "no")})
    assert member.committed(IN) is None
    now[0] += 2000
    assert Engine(log, False).sweep_all() == appended
    assert appender.append("fast", b"k", bytes(50_000), partition=0).result().offset == appended
    log.close()


# --- damage


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    foreign = sqlite3.connect(tmp_path / FILE)
    foreign.execute("CREATE TABLE songs (name TEXT)")
    foreign.close()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(LogDamaged, match="something else"):
        SqliteLog(tmp_path, TOPICS)
    assert (tmp_path / FILE).read_bytes() == before


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(LogDamaged, match="name another directory"):
        SqliteLog(tmp_path, TOPICS)


def test_a_newer_version_is_told(tmp_path: Path) -> None:
    SqliteLog(tmp_path, TOPICS).close()
    newer = sqlite3.connect(tmp_path / FILE)
    newer.execute("PRAGMA user_version = 2")
    newer.close()
    with pytest.raises(LogDamaged, match="version 2"):
        SqliteLog(tmp_path, TOPICS)


def test_damaged_pages_are_an_error_and_never_a_wrong_record(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path, TOPICS, clock=lambda: 1_700_000_000_000)
    Engine(log, False).put("in", *(b"v%d" % number * 100 for number in range(300)))
    before = Engine(log, False).all("in")
    log.close()
    whole = (tmp_path / FILE).read_bytes()
    chance = random.Random(3)
    told = 0
    for trial in range(90):
        damaged = bytearray(whole)
        page = chance.randrange(1, len(whole) // 4096) * 4096
        at, size = (page, 8) if trial % 3 == 0 else (page + chance.randrange(4096), 1 + trial % 2)
        damaged[at : at + size] = chance.randbytes(size)
        (tmp_path / FILE).write_bytes(damaged)
        try:
            log = SqliteLog(tmp_path, TOPICS)
        except LogError:
            told += 1
            continue
        try:
            assert Engine(log, False).all("in") == before  # the damage was elsewhere
        except LogDamaged:
            told += 1
        finally:
            log.close()
    assert told > 30


# --- places


MOUNTS = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:30 / /home rw shared:2 - nfs4 server:/home rw
31 30 0:31 / /home/me/scratch rw - xfs /dev/sdb rw
32 22 0:32 / /mnt/with\040blank rw - fuse.sshfs host: rw
33 22 0:33 / /homework rw - ext4 /dev/sdc rw
not a line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/sickbay", "ext4"),
        ("/home/me/log", "nfs4"),
        ("/home", "nfs4"),
        ("/home/me/scratch/log", "xfs"),
        ("/homework/log", "ext4"),
        ("/mnt/with blank/log", "fuse.sshfs"),
    ],
)
def test_the_innermost_mount_tells_the_file_system(path: str, kind: str) -> None:
    assert filesystem_of(path, MOUNTS) == kind
    assert filesystem_of(path, "") is None


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "filesystem_of", lambda path, mountinfo: "nfs4")
    with pytest.raises(UnfitPlace, match="nfs4"):
        SqliteLog(tmp_path / "log", TOPICS)
    monkeypatch.undo()
    check_place(tmp_path)


def test_a_place_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for directory in (tmp_path / "file", tmp_path / "file" / "log"):
        with pytest.raises(UnfitPlace):
            SqliteLog(directory, TOPICS)


def test_other_errors_keep_their_words(tmp_path: Path) -> None:
    assert "strange" in str(explained(sqlite3.OperationalError("strange"), tmp_path))


def test_what_is_held_back_at_close_is_written(tmp_path: Path, log: SqliteLog) -> None:
    appender = log.appender()
    outcome = appender.append("in", b"k", b"0", partition=0)
    assert not outcome.done()
    appender.close()
    assert outcome.done()
    with pytest.raises(Closed):
        appender.append("in", b"k", b"1")


def test_a_file_that_is_removed_under_the_log_is_told(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log", TOPICS)
    appender, reader = log.appender(), log.reader()
    appender.append("in", b"k", b"v").result()
    (tmp_path / "log" / FILE).rename(tmp_path / "elsewhere")
    with pytest.raises(LogDamaged, match="was removed or replaced while it was in use"):
        reader.bounds(Task("in", 0))
    with pytest.raises(LogDamaged, match="start again on a new one"):
        appender.append("in", b"k", b"v").result()
    (tmp_path / "elsewhere").rename(tmp_path / "log" / FILE)
    assert appender.append("in", b"k", b"v").result().offset >= 0
    log.close()
