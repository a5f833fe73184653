"""The runner: whatever crashes, whenever it crashes, the same features come out, each once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay import selfmetrics
from sickbay.frames import matrix_of
from sickbay.log import LogBusy, Output, Position, Receipt, Record, Task
from sickbay.log.memory import MemoryLog
from sickbay.schema import Samples
from sickbay.topics import DEADLETTER, FEATURES, TOPICS
from streams import dead_letters, window_state
from streams.feature_record import decode, encode_frame, frame_of, is_clock
from streams.runner import Mark, Runner, read_mark, write_mark
from streams.window_task import Decoded, WindowTask

TELEMETRY = "sickbay.telemetry.v1"
SMALL = {name: replace(topic, partitions=min(3, topic.partitions)) for name, topic in TOPICS.items()}
START = 1_773_194_400_000


def _payload(host: int, at_s: int) -> bytes:
    return f"{host} {at_s}".encode()


def _samples(record: Record) -> Decoded:
    host, at_s = map(int, (record.value or b"").split())
    if host < 0:
        raise ValueError("damaged")
    at_ms = np.array([START + at_s * 1000], np.int64)
    values = {"power_watts": np.array([500.0 + host]), "memory_corrected_total": np.array([1000.0 * at_s + host])}
    return Decoded([matrix_of(Samples("accelerator", [f"accelerator:h{host}/0000:18:00"], at_ms, values))])


class Night:
    """A log whose clock is set by the test, with samples of six hosts."""

    def __init__(self, seed: int, hook: Callable[[str], None] = lambda moment: None) -> None:
        self.now = START
        self.log = MemoryLog(SMALL, clock=lambda: self.now, seed=seed, hook=hook)
        self.appender = self.log.appender()

    def second(self, at_s: int) -> None:
        self.now = START + at_s * 1000
        for host in range(6):
            self.appender.append(TELEMETRY, f"h{host}".encode(), _payload(host, at_s))

    def runner(self, member: str = "a") -> Runner:
        reader = self.log.reader()

        def made(task: Task, mark: Mark) -> WindowTask:
            return WindowTask(task, mark, _samples, kept=window_state.read(reader, task, mark.state), partitions=3)

        return Runner(self.log.join("windows", [TELEMETRY], member), made)

    def features(self) -> list[tuple[int, str, bytes]]:
        """(partition, key, value) of everything that was put out, in the order of each partition."""
        reader = self.log.reader()
        return [
            (partition, record.key.decode(), record.value or b"")
            for partition in range(SMALL[FEATURES].partitions)
            for record in reader.read(Task(FEATURES, partition), 0, 10_000)
            if not is_clock(record.key)
        ]


def _calm(until_s: int = 45) -> list[tuple[int, str, bytes]]:
    night = Night(0)
    runner = night.runner()
    for at_s in range(until_s):
        night.second(at_s)
        runner.drain()
    return night.features()


#  window 0       10        20   lateness 5: closes at append time 15, 25, ...
def test_windows_come_out_once_they_are_over_and_late() -> None:
    found = [decode(value) for _, _, value in _calm(26)]
    assert sorted({one.end_ms - START for one in found}) == [10_000, 20_000]
    for one in found:
        assert one.table == "accelerator"
        frame = frame_of(one)
        assert frame["n"].to_list() == [10] * frame.height
        if one.end_ms == START + 20_000:
            assert frame["memory_corrected_total__increase"].to_list() == [10_000.0] * frame.height


class Crash(Exception):
    """The process ends here."""


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), crashes=st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=6))
def test_a_crash_at_any_commit_changes_nothing(seed: int, crashes: list[tuple[int, bool]]) -> None:
    due = {commit: "commit:after" if after else "commit:before" for commit, after in crashes}
    commits = [0]

    def hook(moment: str) -> None:
        commits[0] += moment == "commit:before"
        if due.get(commits[0]) == moment:
            del due[commits[0]]
            raise Crash

    night = Night(seed, hook)
    runner = night.runner()
    for at_s in range(45):
        night.second(at_s)
        while True:
            try:
                runner.drain()
                break
            except Crash:
                runner = night.runner()  # the same member comes back and has forgotten everything
    assert night.features() == _calm()


def test_a_task_that_moves_to_another_member_goes_on_there() -> None:
    night = Night(3)
    runners = [night.runner("a")]
    for at_s in range(45):
        night.second(at_s)
        if at_s == 22:
            runners.append(night.runner("b"))
        for runner in runners:
            runner.drain()
    assert night.features() == _calm()
    assert len(runners[1].held) > 0


def test_damaged_records_become_dead_letters_once() -> None:
    night = Night(0)
    runner = night.runner()
    night.second(0)
    night.appender.append(TELEMETRY, b"h0", _payload(-1, 0))
    runner.drain()
    night.runner().drain()
    (record,) = night.log.reader().read(Task(DEADLETTER, 0), 0)
    letter = dead_letters.decode(record.value or b"")
    assert (record.key, letter.reason, letter.value) == (TELEMETRY.encode(), "damaged", _payload(-1, 0))


@pytest.mark.parametrize("at_commit", [1, 9, 31])
def test_a_member_that_lost_some_tasks_in_a_commit_goes_on_with_the_others(at_commit: int) -> None:
    commits, runners = [0], list[Runner]()

    def hook(moment: str) -> None:
        commits[0] += moment == "commit:before"
        if commits[0] == at_commit and len(runners) == 1:
            runners.append(night.runner("b"))
            now, night.now = night.now, night.now + 31_000  # the first member has been silent for too long
            runners[1].step()
            night.now = now

    night = Night(5, hook)
    runners.append(night.runner("a"))
    for at_s in range(45):
        night.second(at_s)
        for runner in list(runners):
            runner.drain()
    assert night.features() == _calm()
    assert all(runner.held for runner in runners)


def test_marks_survive_the_offset_metadata() -> None:
    mark = Mark(frontier_ms=START, low=12, clock_ms=START + 5)
    assert read_mark(Position(40, write_mark(mark))) == mark
    assert read_mark(Position(40, "not a mark")) == Mark(low=40)
    assert read_mark(None) == Mark()


FRAME = pl.DataFrame(
    {"component": ["a", "b"], "end_ms": [10, 10], "n": [5, 4], "covered_ms": [None, 10_000], "x": [1.5, None]},
    schema_overrides={"x": pl.Float32},
)


def test_a_feature_record_gives_back_what_was_put_in() -> None:
    block = decode(encode_frame("host", 10, FRAME))
    assert (block.table, block.end_ms) == ("host", 10)
    assert frame_of(block).equals(FRAME)


@given(data=st.data())
def test_a_damaged_feature_record_is_refused(data: st.DataObject) -> None:
    payload = bytearray(encode_frame("host", 10, FRAME))
    place = data.draw(st.integers(0, len(payload) - 1))
    payload[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match=r".+"):
        decode(bytes(payload))
    with pytest.raises(ValueError, match=r".+"):
        decode(bytes(payload[:place]))


def test_what_retention_removed_is_told_and_the_rest_goes_on() -> None:
    night, said = Night(0), list[str]()
    runner = night.runner()
    runner.say = said.append
    for at_s in range(12):
        night.second(at_s)
        runner.drain()
    for at_s in range(12, 45):
        night.second(at_s)
    night.now += 24 * 3_600_000 - 20_000
    while night.log.sweep(10_000):
        pass
    night.now = START + 45_000
    assert runner.drain() > 0
    lost = {task: night.log.reader().bounds(task).begin for task in runner.held}
    assert sum("blind" in line for line in said) == len([begin for begin in lost.values() if begin])
    # Also what was read once and would have been read again for the window that is open after twelve seconds.
    assert runner.metrics.value(selfmetrics.LOG_BLIND, topic=TELEMETRY) == sum(lost.values())


def test_a_mark_behind_what_is_kept_is_told_too() -> None:
    night, said = Night(0), list[str]()
    runner = night.runner()
    for at_s in range(12):
        night.second(at_s)
        runner.drain()
    night.now += 24 * 3_600_000 - 5_000
    while night.log.sweep(10_000):
        pass
    again = night.runner()
    again.say = said.append
    again.drain()
    assert any("blind" in line for line in said)
    assert len(again.held) == 3


def test_a_processor_that_raises_keeps_what_it_put_out_and_its_clock() -> None:
    night = Night(0)
    taken: list[bytes] = []

    class Raises:
        def take(self, record: Record) -> Iterator[Output]:
            taken.append(record.value or b"")
            yield Output(FEATURES, b"first", record.value)
            if record.value:
                raise RuntimeError("odd")

        def mark(self, offset: int) -> Mark:
            return Mark(low=offset)

        def committed(self, written: Sequence[tuple[Output, Receipt]]) -> None:
            assert all(receipt.topic == output.topic for output, receipt in written)

    night.appender.append(TELEMETRY, b"h0", b"odd one")
    runner = Runner(night.log.join("windows", [TELEMETRY], "a"), lambda task, mark: Raises())
    runner.drain()
    assert taken == [b"odd one", b""]
    assert [key for _, key, _ in night.features()] == ["first", "first"]
    (record,) = night.log.reader().read(Task(DEADLETTER, 0), 0)
    assert dead_letters.decode(record.value or b"").reason == "RuntimeError: odd"
    assert runner.metrics.value(selfmetrics.DEAD_LETTERS, topic=TELEMETRY, reason="RuntimeError") == 1


@pytest.mark.parametrize(("bound", "limit"), [("COMMIT_BYTES", 1), ("TAKE_S", 0.0001)])
def test_steps_and_commits_are_short_however_much_is_polled(
    bound: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    night = Night(0)
    for at_s in range(45):  # a backlog
        night.second(at_s)
    runner = night.runner()
    commit = runner.log.commit

    def counted(outputs: Sequence[Output], positions: object) -> list[Receipt]:
        sizes.append(len([one for one in outputs if one.topic == FEATURES and not is_clock(one.key)]))
        return commit(outputs, positions)  # type: ignore[arg-type]

    monkeypatch.setattr(runner.log, "commit", counted)
    monkeypatch.setattr(f"streams.runner.{bound}", limit)
    runner.drain(10_000)
    assert night.features() == _calm()
    assert max(sizes) <= 3  # of one task's window: a record goes to each of the partitions at most
    assert sum(sizes) == len(night.features())


def test_what_was_polled_and_not_taken_is_read_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    night, failures = Night(0), [True, True, True]
    for at_s in range(45):
        night.second(at_s)
    runner = night.runner()
    commit = runner.log.commit

    def fails(outputs: Sequence[Output], positions: object) -> list[Receipt]:
        if failures and outputs:
            failures.pop()
            raise LogBusy("no answer")
        return commit(outputs, positions)  # type: ignore[arg-type]

    monkeypatch.setattr(runner.log, "commit", fails)
    monkeypatch.setattr("streams.runner.COMMIT_BYTES", 1)
    runner.drain(10_000)
    runner.drain(10_000)
    runner.drain(10_000)
    runner.drain(10_000)
    assert night.features() == _calm()
