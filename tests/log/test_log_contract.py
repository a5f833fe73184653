"""What every engine of the log must do. A new engine passes by being added to engines.ENGINES.

On Kafka the same tests run against a real broker, but those that wind the clock by hand.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sickbay.log import (
    MAX_KEY,
    MAX_METADATA,
    Bounds,
    Closed,
    Ends,
    Fenced,
    LogError,
    LogInUse,
    OffsetOutOfRange,
    Output,
    Position,
    Replaced,
    Task,
    TaskLog,
    TooLarge,
    UnknownTopic,
    driving,
    tick,
)
from sickbay.topics import TOMBSTONE_MS, partition_of
from tests.log.engines import ENGINES, TOPICS, Engine, done, drained, kafka, told

IN = Task("in", 0)


@pytest.fixture(params=[*sorted(ENGINES), pytest.param("kafka", marks=pytest.mark.service)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "kafka":
        yield from kafka(request.getfixturevalue("kafka_broker").brokers)
    else:
        yield from ENGINES[request.param](tmp_path)


@pytest.fixture
def wound(engine: Engine) -> Engine:
    """An engine whose clock the test moves."""
    if not engine.winds:
        pytest.skip("age and compaction are the brokers' business: test_log_kafka holds what they are told")
    return engine


# --- appending --------------------------------------------------------------------------------------------------------


def test_appends_of_a_partition_keep_their_order_and_get_consecutive_offsets(engine: Engine) -> None:
    engine.put("in", *(b"%d" % number for number in range(50)))
    records = engine.all("in")
    assert [record.offset for record in records] == list(range(50))
    assert [record.value for record in records] == [b"%d" % number for number in range(50)]


def test_a_receipt_tells_where_the_record_lies(engine: Engine) -> None:
    appender = engine.log.appender()
    first, second = (appender.append("in", b"k", value, partition=2) for value in (b"a", b"b"))
    receipt = second.result()
    assert first.done()
    assert (receipt.topic, receipt.partition, receipt.offset) == ("in", 2, 1)
    assert engine.all("in", 2)[1] == (*receipt, b"k", b"b")


@pytest.mark.slow
def test_every_append_has_an_outcome_after_a_flush(engine: Engine) -> None:
    appender = engine.log.appender()
    outcomes = [appender.append("out", b"%d" % number, b"x") for number in range(1200)]
    appender.flush()
    assert all(outcome.done() for outcome in outcomes)
    assert sum(len(engine.all("out", partition)) for partition in range(2)) == 1200


def test_a_key_decides_the_partition_unless_one_is_asked_for(engine: Engine) -> None:
    appender = engine.log.appender()
    for host in (b"node-1", b"node-2", "主机".encode(), bytes(range(256)), b""):
        assert appender.append("in", host, b"x").result().partition == partition_of(host, 3)
    assert appender.append("in", b"node-1", b"x", partition=2).result().partition == 2


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(key=st.binary(max_size=60), value=st.none() | st.binary(max_size=200))
def test_keys_and_values_come_back_byte_for_byte(engine: Engine, key: bytes, value: bytes | None) -> None:
    receipt = engine.appender.append("out", key, value).result()
    task = Task("out", receipt.partition)
    assert engine.log.reader().read(task, receipt.offset) == [(*receipt, key, value)]


def test_append_time_is_the_logs_clock_and_never_goes_back_within_a_partition(wound: Engine) -> None:
    for step in (0, 500, -400, 100, 900):
        wound.after(step)
        wound.put("in", b"x")
    start = wound.all("in")[0].append_ms
    assert [record.append_ms - start for record in wound.all("in")] == [0, 500, 500, 500, 1100]


def test_what_does_not_fit_is_refused_at_once_and_leaves_no_trace(engine: Engine) -> None:
    appender = engine.log.appender()
    with pytest.raises(TooLarge, match="at most 2000"):
        appender.append("in", b"k", b"x" * 2001)
    with pytest.raises(TooLarge, match="key"):
        appender.append("in", b"k" * (MAX_KEY + 1), b"x")
    with pytest.raises(UnknownTopic, match="nowhere"):
        appender.append("nowhere", b"k", b"x")
    with pytest.raises(UnknownTopic, match="partition 3"):
        appender.append("in", b"k", b"x", partition=3)
    appender.flush()
    assert [engine.log.reader().bounds(Task("in", index)) for index in range(3)] == [Bounds(0, 0)] * 3


def test_a_value_of_the_greatest_size_passes(engine: Engine) -> None:
    engine.put("fast", b"\x00" * 200_000)
    assert len(engine.all("fast")[0].value or b"") == 200_000


def test_a_closed_appender_refuses(engine: Engine) -> None:
    appender = engine.log.appender()
    appender.append("in", b"k", b"held back", partition=0)
    appender.close()
    assert len(engine.all("in")) == 1
    with pytest.raises(Closed):
        appender.append("in", b"k", b"x")


def test_ticks_reach_every_driving_partition_and_are_told_apart(engine: Engine) -> None:
    appender = engine.log.appender()
    assert driving(TOPICS) == ["in", "fast"]
    tick(appender, TOPICS, driving(TOPICS))
    appender.append("in", b"", b"not a tick", partition=0)
    appender.flush()
    assert [[record.is_tick for record in engine.all("in", index)] for index in range(3)] == [
        [True, False],
        [True],
        [True],
    ]
    assert [len(engine.all("fast", index)) for index in range(2)] == [1, 1]


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_read_is_limited_goes_on_where_it_is_told_and_ends_empty(engine: Engine) -> None:
    engine.put("in", b"0", b"1", b"2")
    reader = engine.log.reader()
    assert [record.value for record in reader.read(IN, 1, limit=1)] == [b"1"]
    assert [record.value for record in reader.read(IN, 1)] == [b"1", b"2"]
    assert reader.read(IN, 3) == []


def test_offsets_that_never_were_are_an_error(engine: Engine) -> None:
    engine.put("in", b"0")
    for offset in (-1, 2):
        with pytest.raises(OffsetOutOfRange, match="blind interval") as caught:
            engine.log.reader().read(IN, offset)
        assert caught.value.bounds == Bounds(0, 1)


def test_an_undeclared_task_is_an_error(engine: Engine) -> None:
    for task in (Task("nowhere", 0), Task("in", 3), Task("in", -1)):
        with pytest.raises(UnknownTopic):
            engine.log.reader().bounds(task)
        with pytest.raises(UnknownTopic):
            engine.log.reader().committed("group", task)
    with pytest.raises(UnknownTopic):
        engine.log.join("group", ["nowhere"], "m")


# --- groups -----------------------------------------------------------------------------------------------------------


def test_the_first_poll_tells_the_assignment_and_has_no_records(engine: Engine) -> None:
    engine.put("in", b"0")
    member = engine.log.join("group", ["in"], "m")
    assert member.assignment() == frozenset()
    batch = member.poll()
    assert (set(batch.assigned), batch.revoked, len(batch.records)) == (
        {Task("in", index) for index in range(3)},
        (),
        0,
    )
    assert member.assignment() == set(batch.assigned)


def test_a_poll_gives_each_record_once_and_each_task_in_order(engine: Engine) -> None:
    for number in range(60):
        engine.put("in", b"%d" % number, partition=number % 3)
    records = drained(engine.log.join("group", ["in"], "m"))
    assert sorted(int(record.value or b"") for record in records) == list(range(60))
    for index in range(3):
        assert [r.offset for r in records if r.partition == index] == list(range(20))


def test_a_poll_never_exceeds_its_limit(engine: Engine) -> None:
    engine.put("in", *[b"x"] * 40)
    member = engine.log.join("group", ["in", "fast"], "m")
    member.poll()
    assert all(len(member.poll(limit).records) <= limit for limit in (1, 3, 7, 1, 2))


def test_a_poll_without_news_returns_after_its_time(engine: Engine) -> None:
    member = engine.log.join("group", ["in"], "m")
    member.poll()
    began = time.monotonic()
    assert not member.poll(timeout_s=0.05).records
    assert time.monotonic() - began >= 0.04


def test_a_waiting_poll_sees_what_is_appended_meanwhile(engine: Engine) -> None:
    member = engine.log.join("group", ["in"], "m")
    member.poll()
    late = threading.Timer(0.05, engine.put, ("in", b"news"))
    late.start()
    assert [record.value for record in member.poll(timeout_s=30).records] == [b"news"]
    late.join()


def test_groups_do_not_disturb_each_other(engine: Engine) -> None:
    engine.put("in", b"0", b"1")
    one, two = (engine.log.join(group, ["in"], "m") for group in ("one", "two"))
    one.commit([], done(drained(one)[-1]))
    assert len(drained(two)) == 2
    assert two.committed(IN) is None


def test_seek_moves_only_its_task(engine: Engine) -> None:
    engine.put("in", b"0", b"1", b"2")
    engine.put("in", b"other", partition=1)
    member = engine.log.join("group", ["in"], "m")
    drained(member)
    member.seek(IN, 1)
    assert [record.value for record in drained(member)] == [b"1", b"2"]
    member.seek(IN, 3)
    assert drained(member) == []


def test_seek_checks_its_offset_and_its_task(engine: Engine) -> None:
    member = engine.log.join("group", ["in"], "m")
    with pytest.raises(Fenced):
        member.seek(IN, 0)
    member.poll()
    with pytest.raises(OffsetOutOfRange):
        member.seek(IN, 1)
    with pytest.raises(Fenced):
        member.seek(Task("out", 0), 0)


def test_a_restarted_member_goes_on_at_its_commit_and_finds_its_metadata(engine: Engine) -> None:
    engine.put("in", b"0", b"1", b"2")
    member = engine.log.join("group", ["in"], "m")
    records = drained(member)
    member.commit([], done(records[1], '{"frontier":1,"low":0,"名":"前"}'))
    member.close()
    again = engine.log.join("group", ["in"], "m")
    assert [record.value for record in drained(again)] == [b"2"]
    assert again.committed(IN) == Position(2, '{"frontier":1,"low":0,"名":"前"}')
    assert engine.log.reader().committed("group", IN) == (2, '{"frontier":1,"low":0,"名":"前"}')


def test_a_member_that_left_is_closed(engine: Engine) -> None:
    member = engine.log.join("group", ["in"], "m")
    member.poll()
    member.close()
    member.close()
    with pytest.raises(Closed):
        member.poll()
    with pytest.raises((Closed, Fenced)):
        member.commit([], {IN: Position(0)})


def test_a_member_of_the_same_name_replaces_and_fences_the_first(engine: Engine) -> None:
    engine.put("in", b"0")
    zombie = engine.log.join("group", ["in"], "m")
    record = drained(zombie)[0]
    fresh = engine.log.join("group", ["in"], "m")
    assert IN in fresh.poll().assigned
    with pytest.raises(Replaced, match="nothing was committed"):
        zombie.commit([Output("out", b"k", b"from the dead", 0)], done(record))
    with pytest.raises(Replaced):
        zombie.poll()
    assert engine.all("out") == []
    assert fresh.committed(IN) is None
    fresh.commit([Output("out", b"k", b"once", 0)], done(drained(fresh)[0]))
    assert [record.value for record in engine.all("out")] == [b"once"]
    zombie.close()
    assert drained(fresh) == []
    fresh.commit([], {IN: Position(1)})


def test_an_engine_that_does_not_share_refuses_a_second_member(engine: Engine) -> None:
    if engine.shares:
        pytest.skip("several members may share a group here")
    first = engine.log.join("group", ["in"], "one")
    with pytest.raises(LogInUse, match="'one'"):
        engine.log.join("group", ["in"], "two")
    first.close()
    engine.log.join("group", ["in"], "two")


def test_members_share_the_tasks_and_hand_them_over(engine: Engine) -> None:
    if not engine.shares:
        pytest.skip("one member per group here")
    one = engine.log.join("group", ["in"], "one")
    assert len(one.poll().assigned) == 3
    two = engine.log.join("group", ["in"], "two")
    revoked, assigned = handed_over(one, two)
    assert len(revoked) == 1
    assert assigned == revoked
    assert one.assignment() | two.assignment() == {Task("in", index) for index in range(3)}
    with pytest.raises(Fenced):
        one.commit([], {revoked[0]: Position(0)})
    with pytest.raises(Fenced):
        one.seek(revoked[0], 0)
    one.close()
    assert len(told(two).assigned) == 2


def handed_over(one: TaskLog, two: TaskLog) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """What the first is told to give up and the second to take; never is a task given before it was taken."""
    revoked: tuple[Task, ...] = ()
    for _ in range(200):
        assigned = two.poll(timeout_s=0.05).assigned
        if assigned:
            return revoked, assigned
        revoked += one.poll(timeout_s=0.05).revoked
    raise AssertionError("nothing was handed over")


def test_a_silent_member_is_evicted_and_cannot_commit(engine: Engine) -> None:
    if not engine.shares:
        pytest.skip("one member per group here")
    engine.put("in", b"0")
    sleeper = engine.log.join("group", ["in"], "one")
    record = drained(sleeper)[0]
    other = engine.log.join("group", ["in"], "two")
    engine.after(3_600_000)  # on a broker the poll interval passes while the other waits
    assert len(told(other).assigned) == 3
    with pytest.raises(Fenced):
        sleeper.commit([Output("out", b"k", b"late", 0)], done(record))
    woken = told(sleeper)
    assert set(woken.revoked) == {Task("in", index) for index in range(3)}  # all is told as lost, so all is set up anew
    assert engine.all("out") == []


# --- commits ----------------------------------------------------------------------------------------------------------


def test_a_commit_stores_outputs_offsets_and_metadata_as_one(engine: Engine) -> None:
    engine.put("in", b"0", b"1")
    member = engine.log.join("group", ["in"], "m")
    last = drained(member)[-1]
    receipts = member.commit([Output("out", b"a", b"x", 1), Output("state", b"s", b"y")], done(last, "meta"))
    assert [(receipt.topic, receipt.partition, receipt.offset) for receipt in receipts] == [
        ("out", 1, 0),
        ("state", 0, 0),
    ]
    assert [record.value for record in engine.all("out", 1) + engine.all("state")] == [b"x", b"y"]
    assert member.committed(IN) == Position(2, "meta")


@pytest.mark.parametrize(
    ("outputs", "position", "error"),
    [
        ([Output("out", b"a", b"x"), Output("out", b"a", b"x" * 2001)], Position(1), TooLarge),
        ([Output("out", b"a", b"x"), Output("nowhere", b"a", b"x")], Position(1), UnknownTopic),
        ([Output("out", b"a", b"x")], Position(1, "é" * (MAX_METADATA // 2 + 1)), TooLarge),
        ([Output("out", b"a", b"x")], Position(-1), ValueError),
    ],
)
def test_a_refused_commit_leaves_nothing(
    engine: Engine, outputs: list[Output], position: Position, error: type[Exception]
) -> None:
    engine.put("in", b"0")
    member = engine.log.join("group", ["in"], "m")
    drained(member)
    with pytest.raises(error):
        member.commit(outputs, {Task("in", 1): Position(0, "also not"), IN: position})
    assert engine.all("out", 0) + engine.all("out", 1) == []
    assert member.committed(IN) is None
    assert member.committed(Task("in", 1)) is None
    member.commit([Output("out", b"a", b"x", 0)], {IN: Position(1)})
    assert [record.offset for record in engine.all("out")] == [0]


def test_a_commit_of_a_task_that_is_not_held_is_fenced(engine: Engine) -> None:
    member = engine.log.join("group", ["in"], "m")
    with pytest.raises(Fenced):
        member.commit([Output("out", b"a", b"x", 0)], {IN: Position(0)})
    member.poll()
    with pytest.raises(Fenced):
        member.commit([Output("out", b"a", b"x", 0)], {Task("fast", 0): Position(0)})
    assert engine.all("out") == []


def test_outputs_alone_and_positions_alone_may_be_committed(engine: Engine) -> None:
    member = engine.log.join("group", ["in"], "m")
    member.poll()
    assert member.commit([], {}) == []
    assert len(member.commit([Output("out", b"a", None, 0)], {})) == 1
    assert member.commit([], {IN: Position(0, "only text")}) == []
    assert member.committed(IN) == Position(0, "only text")


def test_a_later_commit_replaces_the_earlier_even_backwards(engine: Engine) -> None:
    engine.put("in", b"0", b"1")
    member = engine.log.join("group", ["in"], "m")
    drained(member)
    for position in (Position(2, "two"), Position(1, "back")):
        member.commit([], {IN: position})
    assert member.committed(IN) == Position(1, "back")


# --- retention and compaction -----------------------------------------------------------------------------------------


def test_old_records_go_and_their_offsets_become_an_error(wound: Engine) -> None:
    wound.put("in", b"old", b"old")
    wound.after(600)
    wound.put("in", b"young")
    wound.after(600)
    assert wound.sweep_all() == 2
    assert wound.log.reader().bounds(IN) == Bounds(2, 3)
    assert [record.value for record in wound.all("in")] == [b"young"]
    with pytest.raises(OffsetOutOfRange):
        wound.log.reader().read(IN, 1)


def test_when_all_went_offsets_still_grow(wound: Engine) -> None:
    wound.put("in", b"0", b"1")
    wound.after(5000)
    wound.sweep_all()
    assert wound.log.reader().bounds(IN) == Bounds(2, 2)
    wound.put("in", b"2")
    assert [record.offset for record in wound.all("in")] == [2]


def test_a_member_that_retention_overtook_is_told(engine: Engine) -> None:
    engine.put("in", b"0", b"1")
    member = engine.log.join("group", ["in"], "m")
    member.poll()
    if not engine.winds:
        pytest.skip("the client has fetched the records before they are removed, and hands them out")
    engine.expire(IN)
    with pytest.raises(OffsetOutOfRange) as caught:
        member.poll()
    member.seek(caught.value.task, caught.value.bounds.begin)
    engine.put("in", b"2")
    assert [record.value for record in drained(member)] == [b"2"]


def test_a_committed_offset_that_was_removed_is_told_after_a_restart(engine: Engine) -> None:
    engine.put("in", b"0", b"1")
    member = engine.log.join("group", ["in"], "m")
    member.commit([], done(drained(member)[0]))
    member.close()
    engine.expire(IN)
    again = engine.log.join("group", ["in"], "m")
    again.poll()
    with pytest.raises(OffsetOutOfRange):
        again.poll()


def test_a_topic_without_an_age_keeps_everything(wound: Engine) -> None:
    wound.put("out", b"0")
    wound.after(10**9)
    assert wound.sweep_all() == 0
    assert len(wound.all("out")) == 1


def test_compaction_keeps_the_newest_of_each_key_and_all_within_the_lag(wound: Engine) -> None:
    for value in (b"1", b"2", b"3"):
        wound.put("state", value, key=b"a")
        wound.put("state", value, key=b"b")
        wound.after(60)
    # ages: 180, 120 and 60 ms; the lag is 100
    assert wound.sweep_all() == 2
    assert [(record.key, record.value) for record in wound.all("state")] == [
        (b"a", b"2"), (b"b", b"2"), (b"a", b"3"), (b"b", b"3"),
    ]  # fmt: skip
    assert [record.offset for record in wound.all("state")] == [2, 3, 4, 5]
    assert wound.log.reader().bounds(Task("state", 0)) == Bounds(0, 6)  # gaps are no error
    wound.after(1000)
    assert wound.sweep_all() == 2
    assert [(record.key, record.value) for record in wound.all("state")] == [(b"a", b"3"), (b"b", b"3")]


def test_a_removed_key_stays_visible_for_a_time_and_then_goes(wound: Engine) -> None:
    wound.put("state", b"1", None, key=b"a")
    wound.after(101)
    assert wound.sweep_all() == 1
    assert [record.value for record in wound.all("state")] == [None]
    wound.after(TOMBSTONE_MS + 1)
    assert wound.sweep_all() == 1
    assert wound.all("state") == []


def test_a_sweep_stops_at_its_limit(wound: Engine) -> None:
    wound.put("in", *[b"x"] * 10)
    wound.put("in", *[b"x"] * 10, partition=1)
    wound.after(5000)
    removed = []
    while some := wound.sweep(4):
        removed.append(some)
    assert (max(removed), sum(removed)) == (4, 20)


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_closed_log_refuses_everything(engine: Engine) -> None:
    member = engine.log.join("group", ["in"], "m")
    member.poll()
    appender, reader = engine.log.appender(), engine.log.reader()
    engine.log.close()
    for use in (
        lambda: member.poll(),
        lambda: member.commit([], {}),
        lambda: appender.append("in", b"k", b"x").result(),
        lambda: reader.bounds(IN),
    ):
        with pytest.raises(LogError):
            use()


def test_the_ends_of_many_tasks_are_told_at_once(engine: Engine) -> None:
    engine.put("in", b"0", b"1", partition=1)
    engine.put("out", b"2")
    tasks = [Task("in", 0), Task("in", 1), Task("out", 0), Task("out", 1)]
    assert engine.log.reader().ends(tasks) == dict(
        zip(tasks, [Ends(0, 0), Ends(2, 2), Ends(1, 1), Ends(0, 0)], strict=True)
    )
    assert engine.log.reader().ends([]) == {}
    with pytest.raises(UnknownTopic):
        engine.log.reader().ends([Task("nowhere", 0)])
