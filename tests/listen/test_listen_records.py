"""Records that agents hand over: from an agent's spool over HTTPS into the log, once each, and only what is theirs."""

import time
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from collectors.agent.agent import start
from sickbay import handover, messages, wire
from sickbay.handover import Handed
from sickbay.layouts import layout_of
from sickbay.log import Closed, LogBusy, TooLarge, UnfitPlace
from sickbay.log.https_appender import HttpsAppender
from sickbay.log.memory import MemoryLog
from sickbay.log.opened import open_appender, open_log
from sickbay.schema import TABLES
from sickbay.seal import Opened, Seal, host_key, opened, sealed
from sickbay.settings import LogSettings
from sickbay.topics import TOPICS
from tests.collectors.agent_kit import XID, kernel_log, settings, wait_for, write
from tests.listen.listen_kit import EVENTS, NOW_MS, TELEMETRY, Held, Site, config, records, site
from tests.process.kit import KEY, Agent, lost_card
from tests.services.process import free_port

SCHEMAS, TOPOLOGY, DEADLETTER = "sickbay.schemas.v1", "sickbay.topology.v1", "sickbay.deadletter.v1"


def way(one: Site, folder: Path, token: str = "all") -> LogSettings:
    """How an agent reaches the listener."""
    (folder / "token").write_text(f"{token}\n")
    return LogSettings(
        engine="https", url=f"https://{one.listener.address}", ca_file=one.ca_file, token_file=str(folder / "token")
    )


def event(
    host: str = "n1", sequence: int = 1, key: bytes | None = None, owner: str = "", incarnation: int = 7
) -> bytes:
    payload = messages.encode(lost_card(owner or host, NOW_MS))
    return sealed(payload, Seal(host=host, incarnation=incarnation, sequence=sequence), key)


@pytest.mark.slow
def test_an_agent_sends_what_it_sees_over_https(tmp_path: Path) -> None:
    with site(tmp_path) as one:
        own = settings(tmp_path)
        own = replace(own, log=way(one, tmp_path))
        path = kernel_log(own)
        agent = start(own, lambda: open_appender(own.log))
        try:
            agent.step(int(time.time() * 1000), 0.5)
            write(path, f"Mar 11 04:00:00 n1 kernel: {XID}\n")
            wait_for(lambda: agent.step(int(time.time() * 1000), 0.1) and one.told(EVENTS), 15)
        finally:
            agent.close()
        (found,) = [event for event in one.told(EVENTS) if event.kind == "accelerator.off_bus"]
        assert found.component == "accelerator:n1/0000:cb:00"
        (record,) = [one for one in one.records(EVENTS) if b"off_bus" in (one.value or b"")]
        seal = opened(record.value or b"").seal
        assert seal is not None
        assert seal.host == "n1"


@pytest.mark.slow
def test_each_record_has_an_outcome_of_its_own_and_is_taken_once(tmp_path: Path) -> None:
    with site(tmp_path) as one:
        appender = HttpsAppender(way(one, tmp_path), TOPICS)
        good, other = appender.append(EVENTS, b"n1", event()), appender.append(EVENTS, b"x1", event("x1"))
        unknown = appender.append("sickbay.incidents.v1", b"1", b"{}")
        with pytest.raises(LogBusy, match="may tell of"):
            appender.flush()
        good.result()
        with pytest.raises(LogBusy, match="may tell of"):
            other.result()
        with pytest.raises(LogBusy, match="nobody may write"):
            unknown.result()
        for _ in range(3):  # answers may be lost: what was taken is not stored again
            appender.append(EVENTS, b"n1", event()).result()
        appender.append(EVENTS, b"n1", event(sequence=2)).result()
        appender.append(EVENTS, b"n1", event(incarnation=8)).result()
        assert len(one.records(EVENTS)) == 3
        with pytest.raises(TooLarge):
            appender.append(EVENTS, b"n1", b"x" * (1 << 20))
        appender.close()
        with pytest.raises(Closed):
            appender.append(EVENTS, b"n1", event())


@pytest.mark.slow
def test_a_log_that_is_away_keeps_records_in_the_spool(tmp_path: Path) -> None:
    log = Held(MemoryLog())
    with site(tmp_path, log) as one:
        appender, log.away = HttpsAppender(way(one, tmp_path), TOPICS), True
        with pytest.raises(LogBusy, match="outcome"):
            appender.append(EVENTS, b"n1", event()).result()
        log.away = False
        time.sleep(1.1)
        appender.append(EVENTS, b"n1", event()).result()
        assert len(one.records(EVENTS)) == 1
        appender.close()


@pytest.mark.slow
def test_what_cannot_be_read_becomes_a_dead_letter_and_stops_nobody(tmp_path: Path) -> None:
    with site(tmp_path) as one:
        appender = HttpsAppender(way(one, tmp_path), TOPICS)
        for value in (b"", b"{}", b"\xff" * 10, event("n2"), event(owner="n1")[:-9]):
            appender.append(EVENTS, b"n1", value).result()
        appender.append(TELEMETRY, b"n1", b"no frame").result()
        assert one.records(EVENTS) == one.records(TELEMETRY) == []
        assert len(one.records(DEADLETTER)) == 6
        appender.close()


def test_signatures_are_checked_where_the_key_is_known(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY.hex())
    strict = config(tmp_path, key_file=str(tmp_path / "key"), require_signed=True)
    with site(tmp_path, settings=strict) as one:
        appender = HttpsAppender(way(one, tmp_path), TOPICS)
        appender.append(EVENTS, b"n1", event(key=host_key(KEY, "n1"))).result()
        for bad in (event(), event(key=host_key(KEY, "n2")), event(owner="n2", key=host_key(KEY, "n1"), sequence=9)):
            appender.append(EVENTS, b"n1", bad).result()
        assert len(one.records(EVENTS)) == 1
        assert len(one.records(DEADLETTER)) == 3
        appender.close()


@pytest.mark.slow
def test_frames_need_their_layout_and_facts_their_owner(tmp_path: Path) -> None:
    log = MemoryLog()
    with site(tmp_path, log) as one:
        appender, own = HttpsAppender(way(one, tmp_path), TOPICS), MemoryLog()
        Agent("n1", own.appender(), None).sample(NOW_MS)
        (frame,) = records(own, TELEMETRY)
        layouts = records(own, SCHEMAS)
        with pytest.raises(LogBusy, match="layout"):
            appender.append(TELEMETRY, b"n1", frame.value).result()
        for record in layouts:
            appender.append(SCHEMAS, record.key, record.value).result()
        appender.append(TELEMETRY, b"n1", frame.value).result()
        assert [told.host for told in one.frames()] == ["n1"]
        stranger = messages.encode(messages.Identity(host="x1", pci="0000:cb:00", index="0"))
        with pytest.raises(LogBusy, match="may tell of"):
            appender.append(TOPOLOGY, b"x1 accelerator 0", stranger).result()
        appender.append(SCHEMAS, b"0" * 16, layout_of(TABLES["host"]).encoded()).result()  # a dead letter
        assert len(one.records(DEADLETTER)) == 1
        appender.close()


@pytest.mark.parametrize(
    ("told", "match"),
    [
        ({"url": ""}, "url"),
        ({"ca_file": "/nowhere"}, "ca_file"),
        ({"token_file": "/nowhere"}, "token_file"),
    ],
)
def test_settings_that_do_not_do_are_told(told: dict[str, str], match: str) -> None:
    with pytest.raises(UnfitPlace, match=match):
        open_appender(replace(LogSettings(engine="https", url="https://127.0.0.1:1"), **told))
    with pytest.raises(UnfitPlace, match="agents"):
        open_log(LogSettings(engine="https", url="https://127.0.0.1:1"))


def test_whoever_is_not_there_or_not_trusted_is_busy(tmp_path: Path) -> None:
    with site(tmp_path) as one:
        told = way(one, tmp_path)
        nobody = way(one, tmp_path, "of_nobody")
        other = told.url.replace("127.0.0.1", "127.1")
        for bad, what in (
            (replace(told, ca_file=""), r"\[log\] ca_file"),
            (replace(told, url="https://127.0.0.1:1"), "refused"),
            (replace(told, url=other), r"not valid for .127.1'.*\[log\] url must name"),
            (nobody, r"401.*\[log\] token_file"),
        ):
            appender = HttpsAppender(bad, TOPICS)
            with pytest.raises(LogBusy, match=what):
                appender.append(EVENTS, b"n1", event()).result()


def test_any_bytes_are_records_or_an_error() -> None:
    whole = handover.encode([Handed(EVENTS, b"n1", event()), Handed(TELEMETRY, b"n2", None)])
    assert handover.decode(whole)[1] == Handed(TELEMETRY, b"n2", None)
    for place in range(len(whole)):
        for damaged in (whole[:place], whole[:place] + b"\xff" + whole[place + 1 :], b"\xdd\xff\xff\xff\xff" + whole):
            with suppress(ValueError):
                assert len(handover.decode(damaged)) <= handover.MAX_RECORDS


@pytest.mark.slow
def test_a_listener_that_is_gone_for_a_while_loses_and_doubles_nothing(tmp_path: Path) -> None:
    log, port = MemoryLog(), free_port()
    told = config(tmp_path, address=f"127.0.0.1:{port}")
    own = settings(tmp_path)
    path, kinds = kernel_log(own), list[str]()

    def seen(count: int) -> bool:
        agent.step(int(time.time() * 1000), 0.05)
        kinds[:] = [one.payload.decode() for one in sealed_events(log) if b"off_bus" in one.payload]
        return len(kinds) >= count

    with site(tmp_path, log, settings=told) as one:
        own = replace(own, log=way(one, tmp_path))
        agent = start(own, lambda: open_appender(own.log))
        agent.step(int(time.time() * 1000), 0.5)
        write(path, f"Mar 11 04:00:00 n1 kernel: {XID}\n")
        wait_for(lambda: seen(1), 15)
    try:
        write(path, f"Mar 11 04:00:01 n1 kernel: {XID.replace('cb', 'cc')}\n")
        wait_for(lambda: seen(1) and agent.courier.trouble, 15)
        with site(tmp_path, log, settings=told):
            wait_for(lambda: seen(2), 20)
            numbers = [seal.sequence for one in sealed_events(log) if (seal := one.seal) is not None]
            assert sorted(numbers) == list(range(min(numbers), min(numbers) + len(numbers)))
    finally:
        agent.close()


def sealed_events(log: MemoryLog) -> list[Opened]:
    return [opened(record.value or b"") for record in records(log, EVENTS)]


def test_a_spool_that_was_put_back_is_told(tmp_path: Path) -> None:
    """Its numbers begin anew from an older one: readers take what comes for repeats."""

    def said(moment: int) -> Handed:
        payload = messages.encode(lost_card("n1", moment))
        return Handed(EVENTS, b"n1", sealed(payload, Seal(host="n1", incarnation=7, sequence=1)))

    with site(tmp_path) as one:
        for told in (said(NOW_MS), said(NOW_MS), said(NOW_MS + 1)):
            answer = one.post("/v1/records", handover.encode([told]), Content_Type=handover.TYPE)
            assert handover.decode_answers(answer.body) == [""]
        assert len(one.records(EVENTS)) == 1
        (letter,) = one.records(DEADLETTER)
        assert b"was its spool put back" in (letter.value or b"")


def test_an_old_frame_s_empty_one_is_no_other(tmp_path: Path) -> None:
    log = MemoryLog()
    Agent("n1", log.appender(), None).sample(NOW_MS)
    told = [
        Handed(record.topic, record.key, record.value)
        for topic in (SCHEMAS, TELEMETRY)
        for record in records(log, topic)
    ]
    empty = Handed(TELEMETRY, b"n1", wire.emptied(told[-1].value or b""))
    with site(tmp_path) as one:
        for batch in (told, [empty], told):
            answer = one.post("/v1/records", handover.encode(batch), Content_Type=handover.TYPE)
            assert set(handover.decode_answers(answer.body)) == {""}
        assert len(one.records(TELEMETRY)) == 1
        assert one.records(DEADLETTER) == []
