"""Whatever is sent, however it is batched, wherever it crashes: the same features, the same dead letters, each once.

Frames come late, span windows, run ahead, come twice, are damaged; components are silent for longer than a window; the
log leaves gaps between offsets, as transactions do on a distributed one.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay.frames import matrix_of
from sickbay.log import Output, Receipt, Record, Task
from sickbay.log.memory import MemoryLog
from sickbay.schema import Samples
from sickbay.topics import DEADLETTER, FEATURES, TOPICS
from streams import dead_letters, window_state
from streams.dead_letters import PER_SECOND
from streams.feature_record import is_clock
from streams.runner import Mark, Runner
from streams.window_task import Decoded, WindowTask

TELEMETRY = "sickbay.telemetry.v1"
SMALL = {name: replace(topic, partitions=min(2, topic.partitions)) for name, topic in TOPICS.items()}
START = 1_773_194_400_000
UNTIL_S = 60


class GappyLog(MemoryLog):
    """A log whose transactions leave marks between the records."""

    gaps = random.Random(1)

    def put(self, outputs: Sequence[Output]) -> list[Receipt]:
        receipts = super().put(outputs)
        for receipt in receipts:
            self._partitions[Task(receipt.topic, receipt.partition)].end += self.gaps.choice((0, 0, 1, 2))
        return receipts


@dataclass(frozen=True)
class Frame:
    """Sent at `at_s` with one row for each age in seconds. `what`: fine, twice, or damaged."""

    at_s: int
    host: int
    ages: tuple[int, ...]
    what: str = "fine"


class Crash(Exception):
    """The process ends here."""


def _read(record: Record) -> Decoded:
    told: dict[str, Any] = msgspec.json.decode(record.value or b"")
    if told["what"] == "damaged":
        raise ValueError("damaged")
    at_ms = np.array([START + (told["at_s"] - age) * 1000 for age in told["ages"]], np.int64)
    values = {
        "power_watts": at_ms % 977 / 2.0,
        "memory_corrected_total": (at_ms - START) / 10.0 + 1e6 * told["host"],
    }
    name = f"accelerator:h{told['host']}/0000:18:00"
    samples = Samples("accelerator", [name] * len(at_ms), at_ms, values)
    return Decoded([matrix_of(samples)], f"h{told['host']}", 1, told["number"])


def _run(
    frames: Sequence[Frame], limits: Sequence[int] = (500,), crashes: Sequence[tuple[int, str]] = (),
    make: Callable[..., MemoryLog] = MemoryLog, seed: int = 0,
) -> MemoryLog:  # fmt: skip
    clock, commits, due = [START], [0], dict(crashes)

    def hook(moment: str) -> None:
        commits[0] += moment == "commit:before"
        if due.get(commits[0]) == moment:
            del due[commits[0]]
            raise Crash

    log = make(SMALL, clock=lambda: clock[0], seed=seed, hook=hook)
    appender, reader = log.appender(), log.reader()

    def made(task: Task, mark: Mark) -> WindowTask:
        return WindowTask(task, mark, _read, kept=window_state.read(reader, task, mark.state), partitions=2)

    def runner() -> Runner:
        return Runner(log.join("windows", [TELEMETRY], "a"), made)

    running, by_second = runner(), dict[int, list[tuple[int, Frame]]]()
    for number, frame in enumerate(frames):
        by_second.setdefault(frame.at_s, []).append((number, frame))
    for at_s in range(UNTIL_S):
        clock[0] = START + at_s * 1000
        for number, frame in by_second.get(at_s, []):
            payload = msgspec.json.encode(vars(frame) | {"number": number})
            for _ in range(1 + (frame.what == "twice")):
                appender.append(TELEMETRY, f"h{frame.host}".encode(), payload)
        for partition in range(2):
            appender.append(TELEMETRY, b"", b"", partition=partition)
        while True:
            try:
                running.drain(limits[at_s % len(limits)])
                break
            except Crash:
                running = runner()
    return log


def _put_out(log: MemoryLog, topic: str) -> list[tuple[int, bytes, bytes]]:
    """Everything in a topic. Of the features topic in the order of each upstream partition: between them is none."""
    reader = log.reader()
    found = [
        (one.partition, one.key, one.value or b"")
        for partition in range(SMALL[topic].partitions)
        for one in reader.read(Task(topic, partition), 0, 100_000)
    ]
    return sorted(found, key=lambda one: (one[0], one[1].rpartition(b"/")[2])) if topic == FEATURES else found


def _letters(log: MemoryLog) -> list[tuple[str, bytes]]:
    found = [dead_letters.decode(value) for _, _, value in _put_out(log, DEADLETTER)]
    return sorted((one.reason, one.value or b"") for one in found)


ages = st.lists(st.integers(-6, 45) | st.integers(0, 4), min_size=1, max_size=6).map(tuple)
what = st.sampled_from(("fine", "fine", "fine", "twice", "damaged"))
frame = st.builds(Frame, st.integers(0, UNTIL_S - 1), st.integers(0, 3), ages, what)
crash = st.tuples(st.integers(1, 60), st.sampled_from(("commit:before", "commit:after")))


@pytest.mark.slow
@settings(max_examples=25)
@given(
    frames=st.lists(frame, min_size=5, max_size=60),
    limits=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    crashes=st.lists(crash, max_size=8),
    gappy=st.booleans(),
    seed=st.integers(0, 99),
)
def test_batches_crashes_and_gaps_change_nothing(
    frames: list[Frame], limits: list[int], crashes: list[tuple[int, str]], gappy: bool, seed: int
) -> None:
    calm = _run(frames)
    other = _run(frames, limits, crashes, GappyLog if gappy else MemoryLog, seed)
    assert _put_out(other, FEATURES) == _put_out(calm, FEATURES)
    assert _letters(other) == _letters(calm)
    assert len(_letters(calm)) == sum(one.what == "damaged" for one in frames)


def test_a_counter_silent_for_windows_still_counts_on_after_a_crash() -> None:
    frames = [Frame(1, 0, (0,)), Frame(32, 0, (0,)), *(Frame(at_s, 1, (0,)) for at_s in range(55))]
    calm = _run(frames)
    assert _put_out(_run(frames, crashes=[(25, "commit:after")]), FEATURES) == _put_out(calm, FEATURES)
    assert any(not is_clock(key) for _, key, _ in _put_out(calm, FEATURES))


def test_a_storm_of_damage_is_capped_and_counted() -> None:
    frames = [Frame(3, 0, (0,), "damaged")] * 300
    assert len(_letters(_run(frames))) == PER_SECOND


@pytest.mark.slow
def test_a_frame_with_an_old_row_keeps_its_fresh_rows_over_a_crash() -> None:
    """The old row's window is long closed: where reading begins again must not be lost with it."""
    frames = [Frame(30, 0, (40, 0)), Frame(33, 0, (0,))]
    calm = _put_out(_run(frames), FEATURES)
    for commit in range(28, 50):
        assert _put_out(_run(frames, crashes=[(commit, "commit:after")]), FEATURES) == calm
