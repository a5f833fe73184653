"""Replay: the records of an archive through the cores of the live service, with a made-up tick each second.

Nothing is read from or written to a log here, and nothing acts: windows, diagnosis and policy are the same folds, and
what they put out is kept to be compared. Where a run begins in the middle it is as a restarted service: it takes in
what was before silently, and goes on from what had been said.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from diagnosis.detectors import load
from sickbay import actions
from sickbay.actions import JUDGED_KEY, Control
from sickbay.admission import Admission
from sickbay.app.diagnosing.diagnosis_fold import WATCHED, DiagnosisFold, Look
from sickbay.app.diagnosing.diagnosis_inputs import SIDE_MARGIN_MS
from sickbay.app.diagnosing.diagnosis_state import Memory
from sickbay.app.diagnosing.explicit import DETECTORS, ExplicitTask
from sickbay.app.diagnosing.task_read import Stand
from sickbay.app.replaying.replay_holds import Holds
from sickbay.app.running.live import widths
from sickbay.log import Output, Record, Task, tasks_of
from sickbay.messages import Edge, Placement
from sickbay.settings import Config
from sickbay.topics import CONTROL, EVENTS, EVIDENCE, FEATURES, INCIDENTS, PLACEMENT, TELEMETRY, TOPICS, TOPOLOGY
from streams.feature_record import Clock, clock_key, encode_clock, is_clock
from streams.replay import Batch
from streams.runner import Mark
from streams.side_inputs import Facts, Told, Versions
from streams.window_task import Decoded, WindowTask

MOST_SAID = 50


class Said(NamedTuple):
    """A record that was put out: by the look at `at_ms`, in an archive when the log took it."""

    at_ms: int
    value: bytes


@dataclass(slots=True)
class Story:
    """All that was said, by the id of what it is about, in order. `explicit`: claims of events by themselves."""

    incidents: dict[str, list[Said]] = field(default_factory=dict)
    evidence: dict[str, list[Said]] = field(default_factory=dict)
    explicit: set[str] = field(default_factory=set)

    def add(self, at_ms: int, output: Output) -> None:
        """One more record of the topics of verdicts; others are passed over."""
        of = {INCIDENTS: self.incidents, EVIDENCE: self.evidence}.get(output.topic)
        if of is not None and output.key != JUDGED_KEY and output.value:
            of.setdefault(output.key.decode("utf-8", "replace"), []).append(Said(at_ms, output.value))


class Sides:
    """The side inputs of windows, of which everything up to a moment was told before anybody asks."""

    def __init__(self) -> None:
        self.versions = Versions()

    def at(self, cutoff_ms: int, clock_ms: int) -> Facts:
        """See `side_inputs.Sides`."""
        return self.versions.at(cutoff_ms)

    def known(self, cutoff_ms: int) -> Facts:
        """See `side_inputs.Sides`."""
        return self.versions.at(cutoff_ms)


class Run:
    """One run with one set of settings. `cut_ms`: looks begin after it, 0: with the first record of all.

    Telemetry has its partitions and a task for each. Their features meet again in one partition, and one clock stands
    for all: they are all complete when a second is over.
    """

    def __init__(self, config: Config, cut_ms: int = 0, memory: Memory | None = None) -> None:
        topics = TOPICS | {name: replace(TOPICS[name], partitions=1) for name in (TELEMETRY, FEATURES)}
        width = widths(config.windows)
        self._width_ms, self._lateness_ms = width["width_ms"], width["lateness_ms"]
        self._ticked = tasks_of(topics, WATCHED)
        self.said: list[str] = []  # what the cores complain of, such as a detector that fails
        self.fold = DiagnosisFold(
            topics, config.report.lang, say=self._say, window_ms=self._width_ms, lateness_ms=self._lateness_ms
        )  # fmt: skip
        self._admission, self._sides, self._tasks = Admission(), Sides(), dict[int, WindowTask]()
        self._explicit = ExplicitTask({name: load(name) for name in DETECTORS}, self._admission, Mark())
        self._now = Decoded(())
        self.story, self.holds = Story(), Holds(config)
        self.unreadable = 0
        self.fold.begin(self._stand(cut_ms), memory or Memory())

    def _say(self, text: str) -> None:
        if len(self.said) < MOST_SAID and text not in self.said:
            self.said.append(text)

    def _stand(self, cut_ms: int) -> Stand:
        if not cut_ms:
            return Stand()
        frontier_ms = (cut_ms - self._lateness_ms) // self._width_ms * self._width_ms
        return Stand(frontier_ms=cut_ms, windows_ms=frontier_ms, told_ms=cut_ms, behind=False)

    @property
    def counts(self) -> dict[str, int]:
        """What window tasks counted: closed, late, clamped."""
        found: dict[str, int] = {}
        for task in self._tasks.values():
            for (what, _), number in task.counts.items():
                found[what] = found.get(what, 0) + number
        return found

    def message(self, record: Record) -> None:
        """One record of any topic but telemetry, in the order of append times."""
        if record.topic in (PLACEMENT, TOPOLOGY):
            self._fact(record)
        elif record.topic == CONTROL:
            self._control(record)
        elif record.topic == EVENTS:
            for output in self._explicit.take(record):
                self.story.explicit.add(output.key.decode("utf-8", "replace"))
        if record.partition >= TOPICS[record.topic].partitions:
            self.unreadable += 1
            return
        self.fold.take(record)

    def _fact(self, record: Record) -> None:
        try:
            message = self._admission.message(record).message
        except ValueError:  # counted by the fold
            return
        if isinstance(message, Placement | Edge):
            self._sides.versions.add(Told(record.append_ms, record.key, message))

    def _control(self, record: Record) -> None:
        try:
            said = actions.decode(record.value or b"")
        except ValueError:
            return
        if isinstance(said, Control):
            self.holds.controls[record.key] = said

    def batch(self, batch: Batch) -> None:
        """What a partition of telemetry took within a second."""
        self._now = batch.told
        self._features(batch.record, self._task(batch.record.partition).take(batch.record))

    def _task(self, partition: int) -> WindowTask:
        if partition not in self._tasks:
            self._tasks[partition] = WindowTask(
                Task(TELEMETRY, partition), Mark(), lambda record: self._now, sides=self._sides,
                width_ms=self._width_ms, lateness_ms=self._lateness_ms, partitions=1,
            )  # fmt: skip
        return self._tasks[partition]

    def _features(self, record: Record, outputs: Iterable[Output]) -> None:
        for one in outputs:
            if one.topic == FEATURES and not is_clock(one.key):
                self.fold.take(Record(FEATURES, one.partition or 0, 0, record.append_ms, one.key, one.value))

    def tick(self, at_ms: int) -> Iterator[Look]:
        """The second before `at_ms` is over: what the looks that became possible say."""
        for partition, task in self._tasks.items():
            tick = Record(TELEMETRY, partition, 0, at_ms, b"", b"")
            self._features(tick, task.take(tick))
        clock = encode_clock(Clock(0, at_ms, False))
        for topic, partition in self._ticked:
            key, value = (clock_key(0), clock) if topic == FEATURES else (b"", b"")
            self.fold.take(Record(topic, partition, 0, at_ms, key, value))
        self.fold.inputs.facts_ms = at_ms - SIDE_MARGIN_MS
        for look in self.fold.looks():
            for output in look.outputs:
                self.story.add(look.at_ms, output)
            if look.changed:
                self.holds.look(look.at_ms, self.fold.judge.incidents, self.fold.horizon)
            yield look
