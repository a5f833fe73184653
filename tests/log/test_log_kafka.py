"""What only the Kafka log promises: declared topics, trust and rights, clear errors, takeover and back-pressure."""

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import crc32c
import msgspec
import pytest
from kafka.record import util as kafka_python

from sickbay.log import (
    Fenced,
    LogBusy,
    LogError,
    OffsetOutOfRange,
    OutcomeUnknown,
    Output,
    Position,
    Replaced,
    Task,
    TaskLog,
    TooLarge,
)
from sickbay.log import kafka_transactions as transactions
from sickbay.log.kafka import KafkaLog
from sickbay.log.kafka_appender import KafkaAppender
from sickbay.log.kafka_clients import confluent, fetching
from sickbay.log.kafka_errors import explained
from sickbay.log.kafka_topics import BATCH_BYTES
from sickbay.log.opened import open_appender, open_log
from sickbay.settings import LogSettings
from sickbay.topics import MIB, TOMBSTONE_MS
from sickbay.topics import TOPICS as DECLARED
from tests.log.engines import TOPICS, KafkaEngine, PatientLog, done, drained, kafka, told
from tests.services.kafka import PASSWORD, POOR, POOR_PASSWORD, USER, Addresses

pytestmark = pytest.mark.service
IN = Task("in", 0)
REFUSED = r"refused user 'sickbay' .*check \[log\] sasl, user and password_file|is the password right\?"  # or slow
ROOT = Path(__file__).parents[2]


@pytest.fixture
def engine(kafka_broker: Addresses) -> Iterator[KafkaEngine]:
    yield from kafka(kafka_broker.brokers)


@pytest.fixture
def secure(kafka_broker: Addresses, engine: KafkaEngine, tmp_path: Path) -> LogSettings:
    """Settings of a user who may do everything, over TLS, for the topics of `engine`."""
    (tmp_path / "password").write_text(PASSWORD + "\n")
    return msgspec.structs.replace(
        settings_of(engine),
        brokers=kafka_broker.secure,
        tls=True,
        ca_file=kafka_broker.ca_file,
        sasl="SCRAM-SHA-512",
        user=USER,
        password_file=str(tmp_path / "password"),
    )


def settings_of(engine: KafkaEngine) -> LogSettings:
    return kafka_log(engine).settings


def kafka_log(engine: KafkaEngine) -> PatientLog:
    assert isinstance(engine.log, PatientLog)
    return engine.log


def alter(engine: KafkaEngine, topic: str, name: str, value: str) -> None:
    """Change a setting of a topic behind the log's back."""
    client = confluent().admin
    log = kafka_log(engine)
    entry = client.ConfigEntry(name, value, incremental_operation=client.AlterConfigOpType.SET)
    resource = client.ConfigResource(
        client.ConfigResource.Type.TOPIC, log.settings.prefix + topic, incremental_configs=[entry]
    )
    for future in log.declared.admin.incremental_alter_configs([resource]).values():
        future.result(timeout=10)
    asked = client.ConfigResource(client.ConfigResource.Type.TOPIC, log.settings.prefix + topic)
    for _ in range(100):  # the broker hears of it from the controller
        if log.declared.admin.describe_configs([asked])[asked].result(timeout=10)[name].value == value:
            return
        time.sleep(0.05)
    raise AssertionError(f"{name} of {topic} was not changed")


# --- topics


def test_topics_are_created_as_declared(kafka_broker: Addresses) -> None:
    settings = LogSettings(engine="kafka", brokers=kafka_broker.brokers, prefix="declared.", replication=1)
    log = KafkaLog(settings)
    client = confluent().admin
    kind = client.ConfigResource
    asked = [kind(kind.Type.TOPIC, "declared." + name) for name in DECLARED]
    futures = log.declared.admin.describe_configs(asked)
    for resource, future in futures.items():
        found = {name: entry.value for name, entry in future.result(timeout=10).items()}
        topic = DECLARED[resource.name.removeprefix("declared.")]
        assert found["message.timestamp.type"] == "LogAppendTime"
        assert found["cleanup.policy"] == ("compact" if topic.compacted else "delete")
        assert int(found["max.message.bytes"]) > max(topic.max_bytes, BATCH_BYTES)
        assert found["min.insync.replicas"] == "1"
        if topic.compacted:
            assert (int(found["min.compaction.lag.ms"]), int(found["delete.retention.ms"])) == (
                topic.lag_ms,
                TOMBSTONE_MS,
            )
        else:
            assert int(found["retention.ms"]) == topic.keep_ms
            assert int(found["segment.ms"]) <= (topic.keep_ms or 0) // 8
    there = log.declared.admin.list_topics(timeout=10).topics
    assert {name: len(there["declared." + name].partitions) for name in DECLARED} == {
        name: topic.partitions for name, topic in DECLARED.items()
    }
    log.close()
    for future in log.declared.admin.delete_topics(["declared." + name for name in DECLARED]).values():
        future.result(timeout=10)


def test_append_time_is_the_brokers(engine: KafkaEngine) -> None:
    before = time.time_ns() // 1_000_000
    engine.put("in", b"0", b"1", b"2")
    times = [record.append_ms for record in engine.all("in")]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= time.time_ns() // 1_000_000


def test_a_topic_with_other_partitions_is_refused(engine: KafkaEngine) -> None:
    wider = TOPICS | {"in": replace(TOPICS["in"], partitions=5)}
    with pytest.raises(LogError, match=r"has 3 partitions, not 5: .* another \[log\] prefix"):
        KafkaLog(settings_of(engine), wider)
    with pytest.raises(LogError, match="has 3 partitions, not 5"):
        KafkaAppender(settings_of(engine), wider).append("in", b"k", b"x")


def test_a_topic_with_the_producers_time_is_refused(engine: KafkaEngine) -> None:
    alter(engine, "in", "message.timestamp.type", "CreateTime")
    with pytest.raises(LogError, match=r"message.timestamp.type = CreateTime, not LogAppendTime: correct it there"):
        KafkaLog(settings_of(engine), TOPICS)


def test_a_topic_that_takes_too_little_is_refused(engine: KafkaEngine) -> None:
    alter(engine, "fast", "max.message.bytes", "1000")
    with pytest.raises(LogError, match=r"takes 1000 bytes: raise its max.message.bytes to \d+"):
        KafkaLog(settings_of(engine), TOPICS)


def test_more_copies_than_brokers_are_refused(kafka_broker: Addresses) -> None:
    settings = LogSettings(engine="kafka", brokers=kafka_broker.brokers, prefix="copies.", replication=3)
    with pytest.raises(LogError, match=r"fewer brokers than .* replication = 3"):
        KafkaLog(settings, TOPICS)


def test_a_missing_topic_is_named_by_an_appender(engine: KafkaEngine) -> None:
    appender = KafkaAppender(msgspec.structs.replace(settings_of(engine), prefix="nowhere."), TOPICS)
    with pytest.raises(LogError, match=r"topic 'nowhere.in' is not at 127.0.0.1:\d+: run `sickbay process`"):
        appender.append("in", b"k", b"x")
    appender.close()


# --- what a broker refuses


def test_a_record_that_the_broker_finds_too_large_is_told(engine: KafkaEngine) -> None:
    engine.put("in", b"0")
    member = engine.log.join("group", ["in"], "m")
    drained(member)
    alter(engine, "out", "max.message.bytes", "500")
    alter(engine, "in", "max.message.bytes", "500")
    outcome = engine.appender.append("in", b"k", b"x" * 1500)
    with pytest.raises(TooLarge, match=r"raise max\.message\.bytes"):
        outcome.result()
    with pytest.raises(TooLarge):
        engine.appender.flush()
    with pytest.raises(TooLarge, match=r"raise max\.message\.bytes"):
        member.commit([Output("out", b"k", b"x" * 1500, 0)], {IN: Position(1)})
    assert member.committed(IN) is None
    member.commit([Output("out", b"k", b"short", 0)], {IN: Position(1)})
    assert [record.value for record in engine.all("out")] == [b"short"]


def test_no_broker_is_told_with_its_address() -> None:
    settings = LogSettings(engine="kafka", brokers="127.0.0.1:1", replication=1)
    for opened in (open_log, open_appender):
        with pytest.raises(LogBusy, match=r"127\.0\.0\.1:1: .*refused.*check that the brokers run"):
            opened(settings)


def test_a_name_that_does_not_resolve_is_told() -> None:
    with pytest.raises(LogBusy, match=r"no-such-host\.invalid:9092"):
        open_appender(LogSettings(engine="kafka", brokers="no-such-host.invalid:9092"))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"brokers": ""}, r"brokers is empty: name some brokers as host:port"),
        ({"sasl": "PLAIN"}, r"needs user and password_file"),
        ({"sasl": "PLAIN", "user": "u", "password_file": "/nowhere"}, r"password_file = '/nowhere': No such file"),
        ({"sasl": "PLAIN", "user": "u", "password_file": "/p", "brokers": "127.0.0.1:1,b:1"}, r"unencrypted: set tls"),
        ({"tls": True, "ca_file": "/nowhere"}, r"ca_file = '/nowhere': No such file"),
        ({"ca_file": "x.pem"}, r"ca_file is set but tls is not true"),
        ({"tls": True, "certificate_file": "x.pem"}, r"belong together"),
    ],
)
def test_settings_that_lead_nowhere_are_told(changed: dict[str, Any], text: str) -> None:
    settings = msgspec.structs.replace(LogSettings(engine="kafka", brokers="127.0.0.1:1"), **changed)
    for opened in (open_log, open_appender):
        with pytest.raises(LogError, match=text):
            opened(settings)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"])
def test_both_clients_speak_over_tls_as_a_user(secure: LogSettings, mechanism: Any) -> None:
    log = PatientLog(msgspec.structs.replace(secure, sasl=mechanism), TOPICS)
    log.appender().append("in", b"k", b"0", partition=0).result()
    member = log.join("group", ["in"], "m")
    (record,) = drained(member)
    assert member.commit([Output("out", b"k", b"x", 0)], done(record))[0].offset == 0
    assert log.reader().committed("group", IN) == Position(1)
    log.close()


def test_word_that_nothing_is_committed_moves_nobody_who_was_sent_to_an_offset(engine: KafkaEngine) -> None:
    """The client says so when it has asked, which may be after a processor sought where its work begins."""
    engine.put("in", b"0", b"1", b"2")
    member = engine.log.join("group", ["in"], "m")
    told(member)
    member.seek(IN, 1)
    assert [record.value for record in drained(member)] == [b"1", b"2"]
    member._misplaced(IN, None)  # type: ignore[attr-defined]
    engine.put("in", b"3")
    assert [record.value for record in drained(member)] == [b"3"]


def test_a_wrong_password_is_told(secure: LogSettings) -> None:
    Path(secure.password_file).write_text("wrong")
    for opened in (open_log, open_appender):
        with pytest.raises(LogError, match=REFUSED):
            opened(secure, TOPICS)


def test_a_broker_that_is_not_trusted_is_told(secure: LogSettings, tmp_path: Path) -> None:
    names = ["-subj", "/CN=other", "-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "other.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names]
    subprocess.run(command, check=True, capture_output=True)
    for opened in (open_log, open_appender):
        with pytest.raises(LogError, match=r"no TLS \(.*certificate.*check \[log\] tls and ca_file"):
            opened(msgspec.structs.replace(secure, ca_file=str(tmp_path / "other.pem")), TOPICS)


def test_a_refused_right_is_told_with_topic_and_user(secure: LogSettings) -> None:
    Path(secure.password_file).write_text(POOR_PASSWORD)
    poor = msgspec.structs.replace(secure, user=POOR)
    with pytest.raises(LogError, match=r"does not allow it to user 'agent': grant it there"):
        open_log(poor, TOPICS)
    appender = open_appender(poor, TOPICS)
    with pytest.raises(LogError, match=rf"{secure.prefix}in: .*does not allow it to user 'agent'"):
        appender.append("in", b"k", b"x").result()
    appender.close()


def test_an_agent_needs_no_right_but_to_write_its_topic(secure: LogSettings, engine: KafkaEngine) -> None:
    client = confluent().admin
    grant = client.AclBinding(
        client.ResourceType.TOPIC,
        secure.prefix + "in",
        client.ResourcePatternType.LITERAL,
        f"User:{POOR}",
        "*",
        client.AclOperation.WRITE,
        client.AclPermissionType.ALLOW,
    )
    for future in kafka_log(engine).declared.admin.create_acls([grant]).values():
        future.result(timeout=10)
    Path(secure.password_file).write_text(POOR_PASSWORD)
    appender = open_appender(msgspec.structs.replace(secure, user=POOR), TOPICS)
    appender.append("in", b"k", b"x", partition=0).result()
    appender.close()
    assert [record.value for record in engine.all("in")] == [b"x"]


def test_errors_of_either_client_say_the_same() -> None:
    settings = LogSettings(engine="kafka", brokers="a:1")
    for one, other in (
        ("MSG_SIZE_TOO_LARGE", "MESSAGE_SIZE_TOO_LARGE"),
        ("_TRANSPORT", "KAFKA_CONNECTION"),
        ("UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"),
    ):
        assert str(explained(one, "text", settings, "in")) == str(explained(other, "text", settings, "in"))


# --- clients


@pytest.mark.parametrize("partitions", [1, 16, 48])
def test_one_answer_has_room_for_all_partitions_of_a_backlog(partitions: int) -> None:
    told = fetching(LogSettings(engine="kafka", brokers="127.0.0.1:1"), 4 * MIB, partitions)
    most, each = int(str(told["fetch.max.bytes"])), int(str(told["max.partition.fetch.bytes"]))
    assert each * partitions <= most < int(str(told["receive.message.max.bytes"]))
    assert most >= 4 * MIB


def test_the_checksum_is_the_one_in_c() -> None:
    assert kafka_python._crc32c is crc32c.crc32c  # in Python it takes nine times as long


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    start = "import sys\nfrom sickbay.settings import LogSettings\nfrom sickbay.log import *\n"
    start += "from sickbay.log.opened import *\nfrom tests.log.engines import TOPICS\n"
    command = [sys.executable, "-c", start + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)


def test_appending_goes_without_confluent_kafka_and_reading_says_what_is_missing(engine: KafkaEngine) -> None:
    code = """
sys.modules["confluent_kafka"] = None
settings = LogSettings(engine="kafka", brokers=sys.argv[1], prefix=sys.argv[2], replication=1)
appender = open_appender(settings, TOPICS)
print(appender.append("in", b"k", b"x", partition=0).result().offset)
appender.close()
assert "polars" not in sys.modules
try:
    open_log(settings, TOPICS)
except LogError as error:
    print(error)
"""
    ran = python(code, settings_of(engine).brokers, settings_of(engine).prefix)
    assert ran.stdout.splitlines() == [
        "0",
        "reading a Kafka log needs confluent-kafka: pip install 'sickbay[kafka]'",
    ], ran.stderr


# --- commits and takeovers


def test_outputs_of_an_aborted_commit_are_not_seen_and_its_work_is_told_anew(
    engine: KafkaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.put("in", b"0", b"1", b"2")
    member = engine.log.join("group", ["in"], "m")
    first, second, _ = drained(member)
    member.commit([Output("out", b"k", b"0", 0)], done(first, "before"))

    def dies(self: Any, producer: Any, deadline: float) -> None:
        self.drop(abort=True)
        raise OutcomeUnknown("died before it was asked for")

    with monkeypatch.context() as patched:
        patched.setattr(transactions.Transactions, "_settle", dies)
        with pytest.raises(OutcomeUnknown):
            member.commit([Output("out", b"k", b"lost", 0)], done(second, "lost"))
    with pytest.raises(Fenced, match="poll first"):
        member.commit([Output("out", b"k", b"too soon", 0)], done(second))
    assert member.committed(IN) == Position(1, "before")
    again = member.poll()
    assert set(again.revoked) == set(again.assigned) == {Task("in", index) for index in range(3)}
    assert [record.value for record in drained(member)] == [b"1", b"2"]
    member.commit([Output("out", b"k", b"1", 0)], done(second))
    assert [record.value for record in engine.all("out")] == [b"0", b"1"]


def test_what_a_dead_process_left_open_is_ended_by_its_next_life(engine: KafkaEngine) -> None:
    engine.put("in", b"0")
    code = """
import os
from sickbay.log import kafka_transactions
kafka_transactions.Transactions._settle = lambda *_: os._exit(9)
settings = LogSettings(engine="kafka", brokers=sys.argv[1], prefix=sys.argv[2], replication=1)
member = open_log(settings, TOPICS).join("group", ["in"], "m")
while not (records := member.poll(timeout_s=1).records):
    pass
member.commit([Output("out", b"k", b"from the dead", 0)], {records[0].task: Position(1, "from the dead")})
"""
    assert python(code, settings_of(engine).brokers, settings_of(engine).prefix).returncode == 9
    began = time.monotonic()
    member = engine.log.join("group", ["in"], "m")
    (record,) = drained(member)
    member.commit([Output("out", b"k", b"alive", 0)], done(record))
    assert [record.value for record in engine.all("out")] == [b"alive"]
    assert time.monotonic() - began < transactions.OPEN_MS / 1000  # not the broker's own patience


def test_an_offset_that_is_gone_is_told_until_the_member_seeks(engine: KafkaEngine) -> None:
    engine.put("in", b"0", b"1")
    member = engine.log.join("group", ["in"], "m")
    member.commit([], done(drained(member)[0]))
    member.close()
    engine.expire(IN)
    again = engine.log.join("group", ["in"], "m")
    again.poll()
    for _ in range(2):
        with pytest.raises(OffsetOutOfRange, match="blind interval") as caught:
            again.poll()
        assert (caught.value.offset, *caught.value.bounds) == (1, 2, 2)
    engine.put("in", b"2")
    again.seek(IN, 2)
    assert [record.value for record in drained(again)] == [b"2"]


def test_a_replaced_member_hears_of_it_by_polling(engine: KafkaEngine) -> None:
    zombie = engine.log.join("group", ["in"], "m")
    told(zombie)
    other = engine.log.join("group", ["in"], "m")
    told(other)
    with pytest.raises(Replaced):
        both_polled(zombie, other, time.monotonic() + 20)


def both_polled(one: TaskLog, other: TaskLog, deadline: float) -> None:
    """The other lives on meanwhile: a name that nobody has any more is free again."""
    while time.monotonic() < deadline:
        other.poll(timeout_s=0.1)
        one.poll(timeout_s=0.5)


def test_a_second_cluster_on_the_same_brokers_is_kept_apart(engine: KafkaEngine, kafka_broker: Addresses) -> None:
    engine.put("in", b"0")
    member = engine.log.join("group", ["in"], "m")
    member.commit([], done(drained(member)[0]))
    for other in kafka(kafka_broker.brokers):
        assert other.all("in") == []
        assert other.log.reader().committed("group", IN) is None
