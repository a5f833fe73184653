"""The spool: numbered before it is sent, kept until there is an outcome, bounded, and whole after any kill."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.agent.spool import OVERHEAD, Draft, Entry, Fact, Rank, Spool
from collectors.agent.spool_file import SpoolError
from collectors.agent.spools import Spools

BIG = 64 << 20


def draft(topic: str = "t", rank: Rank = Rank.EVENTS, size: int = 0) -> Draft:
    return Draft(topic, b"n1", rank, lambda incarnation, sequence: b"%d:%d" % (incarnation, sequence) + b"x" * size)


def take(spool: Spool, limit: int = 1000, live_after_ms: int = 0) -> list[Entry]:
    return spool.take(limit, 1 << 30, live_after_ms)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path / "spool", "n1", BIG)
    yield made
    made.close()


def test_numbers_count_per_topic_and_stand_in_the_payload(spool: Spool) -> None:
    spool.add([draft("a"), draft("b"), draft("a")], 1)
    found = [(entry.topic, entry.sequence, entry.payload) for entry in take(spool)]
    assert found == [
        (topic, number, b"%d:%d" % (spool.incarnation, number)) for topic, number in (("a", 1), ("b", 1), ("a", 2))
    ]


def test_a_restart_sends_again_what_had_no_outcome_under_the_same_number(tmp_path: Path) -> None:
    first = Spool(tmp_path, "n1", BIG)
    first.add([draft() for _ in range(5)], 1, facts=[Fact("s", b"k", b"v")], places={"kernel_log": b"here"})
    taken = take(first)
    first.settle(taken[:2], taken[2:])
    first.close()
    second = Spool(tmp_path, "n1", BIG)
    assert second.incarnation == first.incarnation
    assert take(second) == taken[2:]
    assert second.facts() == [Fact("s", b"k", b"v")]
    assert second.place("kernel_log") == b"here"
    second.add([draft()], 2)
    assert [entry.sequence for entry in take(second)] == [6]
    second.close()


def test_live_entries_go_before_a_backlog_and_events_before_telemetry(spool: Spool) -> None:
    spool.add([draft("frames", Rank.TELEMETRY), draft("events")], 1_000)
    spool.add([draft("frames", Rank.TELEMETRY), draft("events")], 60_000)
    found = [(entry.topic, entry.sequence) for entry in take(spool, live_after_ms=30_000)]
    assert found == [("events", 2), ("frames", 2), ("events", 1), ("frames", 1)]


def test_what_is_being_sent_is_not_taken_twice_and_comes_back_when_it_failed(spool: Spool) -> None:
    spool.add([draft() for _ in range(4)], 1)
    first = take(spool, 3)
    assert [entry.sequence for entry in take(spool)] == [4]
    spool.settle([first[0]], first[1:])
    assert [entry.sequence for entry in take(spool)] == [2, 3]


def test_over_the_limit_the_oldest_telemetry_goes_first_and_every_drop_is_counted(tmp_path: Path) -> None:
    entry = 50_000
    spool = Spool(tmp_path, "n1", 10 * (entry + OVERHEAD))
    for number in range(8):
        spool.add([draft("frames", Rank.TELEMETRY, entry - 20), draft("events", Rank.EVENTS, entry - 20)], number)
    assert spool.held.bytes <= 10 * (entry + OVERHEAD)
    (dropped,) = spool.dropped()
    assert (dropped.topic, dropped.first) == ("frames", 1)
    assert dropped.lost == dropped.last - dropped.first + 1
    found = take(spool)
    assert [one.sequence for one in found if one.topic == "events"] == list(range(1, 9))
    assert [one.sequence for one in found if one.topic == "frames"] == list(range(dropped.last + 1, 9))
    spool.forget([dropped])
    assert spool.dropped() == []
    spool.close()


def test_events_are_given_up_when_there_is_nothing_else(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "n1", 1 << 20)
    for number in range(40):
        spool.add([draft("events", Rank.EVENTS, 100_000)], number)
    (dropped,) = spool.dropped()
    kept = [entry.sequence for entry in take(spool)]
    assert dropped.topic == "events"
    assert kept == list(range(dropped.last + 1, 41))
    assert (tmp_path / "spool.sqlite").stat().st_size < 2 << 20
    spool.close()


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["add", "take", "deliver", "fail", "reopen"]), max_size=30), st.randoms())
def test_nothing_is_lost_or_renumbered_whatever_happens(steps: list[str], rng: random.Random) -> None:
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"spool-{os.getpid()}-{rng.random()}"
    spool = Spool(folder, "n1", BIG)
    added, delivered, flying = 0, set[int](), list[Entry]()
    try:
        for at, step in enumerate(steps):
            if step == "add":
                spool.add([draft()], at)
                added += 1
            elif step == "take":
                flying += spool.take(rng.randint(1, 3), 1 << 20, at - 2)
            elif step == "reopen":
                spool.close()
                spool, flying = Spool(folder, "n1", BIG), []
            elif flying:
                entry = flying.pop(rng.randrange(len(flying)))
                spool.settle([entry] if step == "deliver" else [], [] if step == "deliver" else [entry])
                delivered |= {entry.sequence} if step == "deliver" else set()
        spool.settle([], flying)
        left = {entry.sequence for entry in take(spool)}
        assert left == set(range(1, added + 1)) - delivered
        assert spool.held.entries == len(left)
    finally:
        spool.close()
        subprocess.run(["rm", "-r", str(folder)], check=True)


def test_a_second_agent_is_refused(spool: Spool, tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match="in use by another agent"):
        Spool(tmp_path / "spool", "n1", BIG)


def test_the_spool_of_another_host_is_refused(tmp_path: Path) -> None:
    Spool(tmp_path, "n1", BIG).close()
    with pytest.raises(SpoolError, match="belongs to host n1"):
        Spool(tmp_path, "n2", BIG)


@pytest.mark.parametrize("damage", [b"", b"no database at all, but long enough to look at", None])
def test_a_damaged_file_is_put_aside_and_a_new_incarnation_begins(tmp_path: Path, damage: bytes | None) -> None:
    first = Spool(tmp_path, "n1", BIG)
    first.add([draft("t", size=5000) for _ in range(50)], 1)
    first.close()
    path = tmp_path / "spool.sqlite"
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2 + 100] if damage is None else damage)
    second = Spool(tmp_path, "n1", BIG)
    assert second.incarnation != first.incarnation
    second.add([draft()], 2)
    assert [entry.sequence for entry in take(second)] == [1]
    assert bool(second.damaged) == (damage != b"")  # an empty file is a new one
    second.close()


def test_a_disk_that_takes_nothing_holds_no_event_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, said = Spool(tmp_path, "n1", BIG), list[str]()
    spools = Spools(disk, "n1", said.append)
    full, add = [True], disk.add

    def failing(*args: object, **more: object) -> None:
        if full[0]:
            raise sqlite3.OperationalError("database or disk is full")
        add(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(disk, "add", failing)
    spools.add([draft()], 1, places={"kernel_log": b"1"})
    spools.add([draft()], 2, places={"kernel_log": b"2"})
    assert "disk is full" in spools.trouble
    assert len(said) == 1
    memory = spools.all[1]
    assert [entry.sequence for entry in take(memory)] == [1, 2]
    assert memory.incarnation != disk.incarnation
    full[0] = False
    monkeypatch.setattr(spools, "_try_at", 0.0)
    spools.add([draft()], 3)
    assert spools.trouble == ""
    assert disk.place("kernel_log") == b"2"
    assert [entry.sequence for entry in take(disk)] == [1]
    spools.close()


def test_a_file_that_may_not_grow_is_a_full_disk(tmp_path: Path) -> None:
    disk = Spool(tmp_path, "n1", BIG)
    pages = disk._db.execute("PRAGMA page_count").fetchone()[0]
    disk._db.execute(f"PRAGMA max_page_count = {pages + 2}")
    spools = Spools(disk, "n1")
    for number in range(20):
        spools.add([draft(size=2000)], number)
    assert spools.trouble
    assert disk.held.entries == len(take(disk)) > 0
    assert disk.held.entries + spools.all[1].held.entries == 20
    spools.close()


_CHILD = """
import sys, random
from pathlib import Path
from collectors.agent.spool import Draft, Rank, Spool
spool = Spool(Path(sys.argv[1]), "n1", 64 << 20)
rng = random.Random(int(sys.argv[2]))
for at in range(100_000):
    def build(incarnation, sequence):
        print("numbered", incarnation, sequence, flush=True)
        return b"%d" % sequence + b"x" * rng.randrange(3000)
    spool.add([Draft("t", b"n1", Rank.EVENTS, build)], at, places={"log": b"%d" % (at + 1)})
    print("added", at, flush=True)
    if rng.random() < 0.5:
        taken = spool.take(2, 1 << 20, 0)
        for entry in taken:
            print("sent", entry.sequence, flush=True)
        spool.settle(taken[:1], taken[1:])
        for entry in taken[:1]:
            print("settled", entry.sequence, flush=True)
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_loses_nothing_and_gives_no_number_twice(tmp_path: Path) -> None:
    rng = random.Random(4)
    added, sent, settled = 0, set[int](), set[int]()
    incarnations = set[str]()
    for kill in range(12):
        command = [sys.executable, "-c", _CHILD, str(tmp_path / "spool"), str(kill)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        child = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        assert child.stdout is not None
        assert child.stdout.readline()  # it is at work
        time.sleep(rng.uniform(0.0, 0.15))
        child.send_signal(signal.SIGKILL)
        for line in child.stdout.read().splitlines(keepends=True):
            word, _, rest = line.removesuffix("\n").partition(" ")
            if not (rest and line.endswith("\n")):  # killed in mid word
                continue
            if word == "numbered" and rest.count(" ") == 1:
                incarnations.add(rest.split()[0])
            elif word == "sent":
                sent.add(int(rest))
            elif word == "settled":
                settled.add(int(rest))
        child.wait()
        child.stdout.close()
        spool = Spool(tmp_path / "spool", "n1", BIG)
        left = [entry.sequence for entry in take(spool)]
        added = int((spool.place("log") or b"0").decode())
        assert str(spool.incarnation) in incarnations
        assert len(incarnations) == 1
        whole = set(range(1, max([*left, *sent, 0]) + 1))
        assert whole - set(left) <= sent, "an entry is gone that nobody was given"
        assert not settled & set(left)
        assert len(left) == len(set(left))
        spool.close()
    assert added > 0
