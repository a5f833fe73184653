"""Relays: frames of many hosts in one record, whole, confirmed, and read by everybody who reads frames."""

import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from sickbay import packs
from sickbay.app.running.live import FrameReader, window_maker
from sickbay.log import Record, tick
from sickbay.log.https_appender import HttpsAppender
from sickbay.log.memory import MemoryLog
from sickbay.settings import LogSettings
from sickbay.topics import TOPICS
from streams.dead_letters import decode as letter_of
from streams.runner import Runner
from streams.window_task import Decoded, Packed, WindowTask
from tests.listen.listen_kit import NOW_MS, TELEMETRY, Held, Site, config, frames, records, site
from tests.listen.test_listen_records import SCHEMAS, way
from tests.process.kit import Agent, card, features

HOSTS = [f"n{place}" for place in range(24)]


def spoken(host: str, *at_ms: int) -> list[Record]:
    """What an agent says: layouts, then a frame a moment."""
    log = MemoryLog()
    agent = Agent(host, log.appender(), None)
    for at in at_ms:
        agent.sample(at)
    return [*records(log, SCHEMAS), *records(log, TELEMETRY)]


def sent(told: LogSettings, host: str, *at_ms: int) -> None:
    appender = HttpsAppender(told, TOPICS)
    try:
        for record in spoken(host, *at_ms):
            appender.append(record.topic, record.key, record.value).result()
    finally:
        appender.close()


def all_at_once(one: Site, folder: Path, hosts: list[str], *at_ms: int) -> None:
    told = way(one, folder)
    threads = [threading.Thread(target=sent, args=(told, host, *at_ms)) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


def relay(folder: Path, log: MemoryLog | Held | None = None):  # type: ignore[no-untyped-def]
    return site(folder, log, packs=True, settings=config(folder, pod="pod-7"))


@pytest.mark.slow
def test_frames_of_a_pod_go_together_and_none_is_missing(tmp_path: Path) -> None:
    with relay(tmp_path) as one:
        all_at_once(one, tmp_path, HOSTS, NOW_MS, NOW_MS + 5000)
        found = one.records(TELEMETRY)
        assert len(found) < 2 * len(HOSTS) / 2
        told = one.frames()
        assert sorted((frame.host, frame.sequence) for frame in told) == sorted(
            (host, number) for host in HOSTS for number in (1, 2)
        )
        packed = [record for record in found if packs.is_pack(record.value or b"")]
        assert {record.key for record in packed} == {b"pod-7"}
        assert all(len(packs.unpack(record.value or b"")) <= 32 for record in packed)


@pytest.mark.slow
def test_an_agent_is_answered_when_the_log_has_the_pack(tmp_path: Path) -> None:
    log = Held(MemoryLog())
    with relay(tmp_path, log) as one:
        first, *rest = spoken("n1", NOW_MS)
        appender = HttpsAppender(way(one, tmp_path), TOPICS)
        appender.append(first.topic, first.key, first.value).result()
        log.away = True
        with pytest.raises(Exception, match="outcome"):
            appender.append(rest[0].topic, rest[0].key, rest[0].value).result()
        log.away = False
        time.sleep(1.1)
        began = time.monotonic()
        appender.append(rest[0].topic, rest[0].key, rest[0].value).result()
        assert time.monotonic() - began < 2.0
        assert [frame.host for frame in one.frames()] == ["n1"]
        assert one.records(TELEMETRY)[0].key == b"pod-7"  # where all of its frames go, or its numbers have holes
        appender.close()


def windows(log: MemoryLog) -> tuple[Runner, list[tuple[int, bytes, bytes]]]:
    """The features of all that is in the log, after its windows closed."""
    runner = Runner(log.join("streams.windows", [TELEMETRY], "w"), window_maker(log), group="streams.windows")
    runner.drain()
    return runner, features(log)


def filled(packed: bool, *, bad: bool = False, twice: bool = False) -> MemoryLog:
    """A log with the frames of three hosts at three moments: alone, or in packs."""
    clock = [NOW_MS]
    topics = dict(TOPICS)
    log = MemoryLog(topics, clock=lambda: clock[0])
    appender = log.appender()
    told = {host: spoken(host, NOW_MS, NOW_MS + 5000, NOW_MS + 12_000) for host in HOSTS[:3]}
    for record in told["n0"]:
        if record.topic == SCHEMAS:
            appender.append(record.topic, record.key, record.value)
    for place, at_ms in enumerate((NOW_MS, NOW_MS + 5000, NOW_MS + 12_000)):
        clock[0] = at_ms + 200
        moment = [[one for one in rows if one.topic == TELEMETRY][place].value or b"" for rows in told.values()]
        if packed:
            value = packs.pack([*moment, b"no frame"] if bad else moment)
            for _ in range(2 if twice else 1):
                appender.append(TELEMETRY, b"pod-7", value)
        else:
            for host, frame in zip(told, moment, strict=True):
                appender.append(TELEMETRY, host.encode(), frame)
    clock[0] = NOW_MS + 60_000
    tick(appender, topics, [TELEMETRY])
    return log


def rows_of(log: MemoryLog) -> dict[tuple[str, int], float]:
    from streams.feature_columns import features_of

    found = {}
    for _, _, value in windows(log)[1]:
        table, frame = features_of(value)
        if table == "features_accelerator":
            for row in frame.to_dicts():
                found[row["component"], row["end_ms"]] = row["power_watts"]
    return found


def test_windows_over_packs_are_those_over_frames() -> None:
    alone = rows_of(filled(False))
    assert {name for name, _ in alone} == {card(host, place) for host in HOSTS[:3] for place in (0, 1)}
    assert rows_of(filled(True)) == alone
    assert rows_of(filled(True, twice=True)) == alone  # each member is known by its own number


def test_a_bad_member_is_a_dead_letter_and_silences_no_other() -> None:
    log = filled(True, bad=True)
    runner, _ = windows(log)
    letters = [letter_of(record.value or b"") for record in records(log, "sickbay.deadletter.v1")]
    assert len(letters) == 3
    assert all("1 of 4 members" in letter.reason for letter in letters)
    assert rows_of(filled(True, bad=True)) == rows_of(filled(False))
    counts = Counter[tuple[str, str]]()
    for held in runner.held.values():
        assert isinstance(held, WindowTask)
        counts += held.counts
    assert counts["missed", ""] == counts["duplicate", ""] == 0


def test_a_pack_is_read_member_by_member() -> None:
    log = filled(True, bad=True)
    read = FrameReader(log)
    found = [read(record) for record in records(log, TELEMETRY) if record.value]
    assert all(isinstance(one, Packed) for one in found)
    assert [len(one.members) for one in found if isinstance(one, Packed)] == [3, 3, 3]
    assert len(frames(log)) == 9
    with pytest.raises(ValueError, match="pack"):
        read(Record(TELEMETRY, 0, 0, 0, b"pod-7", packs.MAGIC + b"\x00" * 40))
    alone = [read(record) for record in records(filled(False), TELEMETRY) if record.value]
    assert all(isinstance(one, Decoded) for one in alone)
