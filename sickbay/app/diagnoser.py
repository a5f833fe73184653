"""The diagnosis stage: reads events, steps, features and facts, writes evidence and incidents. One active process.

Its memory is what the log tells of the last half hour: a commit keeps the offset at which that begins; a fresh process
reads from there, and the incidents so far from their topic. It judges only what it has read up to the present, and then
says so with a heartbeat. All times are the log's: the append times of what was read.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable

from sickbay import selfmetrics
from sickbay.admission import Admission
from sickbay.app.horizon import HORIZON_MS, Horizon
from sickbay.app.judge import Judge
from sickbay.app.task_read import TaskRead
from sickbay.app.wishes import wish
from sickbay.clock import rfc3339
from sickbay.log import Fenced, Log, LogError, OffsetOutOfRange, Output, Record, Task, tasks_of
from sickbay.messages import Incident
from sickbay.selfmetrics import SelfMetrics
from sickbay.sequences import Sequences
from sickbay.topics import CHANGES, CONTROL, EVENTS, FEATURES, PLACEMENT, STEPS, TOPOLOGY
from sickbay.trouble import Trouble
from streams.dead_letters import reason_of
from streams.feature_record import CLOCK_KEY
from streams.feature_record import decode as decode_features
from streams.processor import LATENESS_MS
from streams.runner import FATAL, count_appended, read_mark
from streams.windows import WIDTH_MS

WATCHED = (FEATURES, EVENTS, STEPS)  # driving: their partitions are ticked
KEPT = (TOPOLOGY, PLACEMENT, CHANGES, CONTROL)  # compacted: read whole at every start
GROUP, MEMBER = "diagnosis", "diagnosis-1"  # one name: who comes later replaces who was there

TOGETHER_MS = 3_000  # partitions whose clocks are closer than this are read equally far: some ticks
PRESENT_MS = 5_000  # what was appended so recently is the present, clocks of machines a little apart
QUIET_S = 1.0  # nothing more came for so long: all there is was read, whatever the clocks say
CATCH_UP_MS = 10 * 60_000  # of a backlog that are judged at once: a third of what is remembered
BEHIND_MS = 30_000  # windows further behind the events are left out: what they lack is not silence of hosts
POLLS, LIMIT = 5, 2000  # of one step, so that it stays short


class Diagnoser:
    """One member that holds all partitions. `step` does a little, `drain` all there is."""

    def __init__(
        self,
        log: Log,
        lang: str = "en",
        *,
        admission: Admission | None = None,
        metrics: SelfMetrics | None = None,
        say: Callable[[str], None] = lambda text: None,
        window_ms: int = WIDTH_MS,
        lateness_ms: int = LATENESS_MS,
    ) -> None:
        self._log, self._reader = log.join(GROUP, [*WATCHED, *KEPT], MEMBER), log.reader()
        self._all = frozenset(tasks_of(log.topics, [*WATCHED, *KEPT]))
        self._driving = frozenset(tasks_of(log.topics, WATCHED))
        self._admission, self._metrics, self._say = admission or Admission(), metrics or SelfMetrics(), say
        self._window_ms, self._lateness_ms = window_ms, lateness_ms
        self._judge = Judge(self._reader, lang, self._metrics, say)
        self._trouble = Trouble("diagnosis", say)
        self.damaged = 0
        self.troubled = False  # the newest step failed: wait a little
        self.took = False  # the newest step found something
        self._forget()

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """All that are known, open or not."""
        return self._judge.incidents

    @property
    def looks(self) -> int:
        """How often it judged."""
        return self._judge.looks

    @property
    def waiting(self) -> str:
        """What it waits for before it can judge, empty where it has read all there is."""
        if self._trouble.now:
            return self._trouble.now
        if not self._all <= set(self._read):
            return "not all partitions are held"
        if self._current:
            return ""
        at_ms = min(state.clock_ms for task, state in self._read.items() if task in self._driving)
        return f"reads a backlog, at {rfc3339(at_ms) if at_ms else 'its beginning'}"

    def step(self, now_ms: int, timeout_s: float = 0.0) -> list[Incident]:
        """Reads some of what is new; judges if it is worth it. Returns the incidents that are new or changed."""
        return self._turn(now_ms, POLLS, 1, timeout_s)

    def drain(self, now_ms: int) -> list[Incident]:
        """`step` over everything there is, judged once."""
        return self._turn(now_ms, 1_000_000, 2, 0.0)

    def close(self) -> None:
        """Leave the group."""
        self._log.close()

    def _turn(self, now_ms: int, polls: int, idle: int, timeout_s: float) -> list[Incident]:
        self.troubled = False
        try:
            self._take_in(polls, idle, timeout_s)
            changed = self._conclude(now_ms)
            if self.took:
                self._trouble.over()
            return changed
        except FATAL:
            raise
        except LogError as error:
            self._failed(error)
        return []

    def _failed(self, error: LogError) -> None:
        """Nobody knows what of the last commit was kept: the log does."""
        self.troubled = True
        self._metrics.count(selfmetrics.LOG_ERRORS, kind=type(error).__name__)
        self._trouble.failed(error)
        self._forget()

    def _forget(self) -> None:
        """All memory is made anew from the log."""
        self.horizon, self._sequences = Horizon(window_ms=self._window_ms), Sequences()
        self._read: dict[Task, TaskRead] = {}
        self._letters: list[Output] = []
        self._urgent, self._current, self._looked_ms, self._frontier_ms = True, False, 0, 0
        self._first_ms = 0  # append time of the first record, where nothing was ever judged
        self._quiet_since: float | None = None
        self._recalled = False

    def _remember(self) -> None:
        """Memory for what is held and not known yet."""
        if not self._recalled:
            self._judge.recall()
            self._recalled = True
        self._begin(self._log.assignment() - set(self._read))

    def _take_in(self, polls: int, idle: int, timeout_s: float) -> None:
        self._remember()
        empty, self.took = 0, False
        for turn in range(polls):
            found = self._poll(0.0 if turn else timeout_s)
            self.took |= found
            empty = 0 if found else empty + 1
            if empty >= idle:
                break
        if self.took:
            self._quiet_since = None
        if empty and self._quiet_since is None:
            self._quiet_since = time.monotonic()

    def _poll(self, timeout_s: float) -> bool:
        try:
            batch = self._log.poll(LIMIT, timeout_s)
        except OffsetOutOfRange as error:  # retention was faster: go on with what is left
            self._blind(error)
            self._log.seek(error.task, error.bounds.begin)
            return True
        if batch.revoked:  # a part of the memory cannot be taken out
            self._forget()
            self._remember()
            return True
        self._begin(batch.assigned)
        for record in batch.records:
            self._one(record)
        for topic, number in Counter(record.topic for record in batch.records).items():
            self._metrics.count(selfmetrics.LOG_READ, number, topic=topic)
        return bool(batch.records or batch.assigned)

    def _blind(self, error: OffsetOutOfRange) -> None:
        lost = max(0, error.bounds.begin - error.offset)
        self._metrics.count(selfmetrics.LOG_BLIND, lost, topic=error.task.topic)
        self._say(f"diagnosis: blind: {lost} records were removed before they were read: {error}")

    def _begin(self, tasks: Iterable[Task]) -> None:
        for task in sorted(tasks):
            position = self._log.committed(task)
            mark = read_mark(position)
            self._read[task] = state = TaskRead(position.offset if position else 0)
            if task.topic in KEPT:
                self._log.seek(task, self._whole(task))
                continue
            begin = 0
            if position is None:
                begin = self._reader.bounds(task).begin
            else:
                judged_ms = mark.frontier_ms or mark.clock_ms
                self._looked_ms = min(self._looked_ms or judged_ms, judged_ms)
                begin = self._again(task, state, mark.low)
            try:
                self._log.seek(task, begin)
            except Fenced:  # lost meanwhile: the next poll tells
                del self._read[task]

    def _again(self, task: Task, state: TaskRead, low: int) -> int:
        """Where the horizon of a task that was read before begins now."""
        bounds = self._reader.bounds(task)
        if not bounds.begin <= state.committed <= bounds.end:
            self._blind(OffsetOutOfRange(task, state.committed, bounds))
        if state.committed > bounds.end:  # another log than the one that was read
            state.committed, low = bounds.begin, bounds.begin
        return max(bounds.begin, min(low, state.committed))

    def _whole(self, task: Task) -> int:
        """Reads a compacted topic to its end. Returns that."""
        at = self._reader.bounds(task).begin
        while records := self._reader.read(task, at, LIMIT):
            for record in records:
                self._one(record)
            at = records[-1].offset + 1
        return at

    def _one(self, record: Record) -> None:
        state = self._read[record.task]
        state.heard(record)
        if not self._looked_ms and record.topic in WATCHED:
            self._first_ms = min(self._first_ms or record.append_ms, record.append_ms)
        if record.is_tick:
            return
        try:
            self._urgent |= self._taken(record, state)
        except Exception as error:
            self.damaged += 1
            if record.offset >= state.committed:
                self._metrics.count(selfmetrics.DEAD_LETTERS, topic=record.topic, reason=type(error).__name__)
                letter = state.letters.letter(record, reason_of(error))
                self._letters += [letter] if letter else []

    def _taken(self, record: Record, state: TaskRead) -> bool:
        if record.topic == FEATURES:
            if record.key == CLOCK_KEY and record.value:
                state.told_ms = max(state.told_ms, decode_features(record.value)[1])
                return False
            return self.horizon.take(record)
        if not record.value or record.topic == CONTROL:
            return self.horizon.take(record)
        told = self._admission.message(record)
        if told.seal is not None:
            place = self._sequences.place(record.topic, told.seal.host, told.seal.incarnation, told.seal.sequence)
            self._metrics.count(selfmetrics.LOG_MISSED, place.missed, topic=record.topic)
            self._metrics.count(selfmetrics.LOG_FOUND, place.found, topic=record.topic)
            if not place.fresh:
                self._metrics.count(selfmetrics.LOG_DUPLICATE, topic=record.topic)
                return False
        if record.offset >= state.committed and (said := wish(told.message, record.append_ms)):
            self._letters.append(said)
        return self.horizon.take(record, told.message)

    def _conclude(self, now_ms: int) -> list[Incident]:
        outputs, self._letters = self._letters, []
        changed = self._judged(now_ms, outputs) if self._all <= set(self._read) else []
        ends = {task: state.end for task, state in self._read.items() if state.end is not None}
        if outputs and not ends:  # silence made it judge: a commit still fences whoever is not the member any more
            task = min(self._read)
            ends = {task: self._read[task].committed}
        if ends:
            began = time.monotonic()
            judged_ms = self._looked_ms or self._first_ms
            self._log.commit(outputs, {task: self._read[task].position(end, judged_ms) for task, end in ends.items()})
            self._metrics.observe(selfmetrics.LOG_COMMIT, time.monotonic() - began, group=GROUP)
            count_appended(self._metrics, outputs)
            for task, end in ends.items():
                self._read[task].kept(end)
        return changed

    def _judged(self, now_ms: int, outputs: list[Output]) -> list[Incident]:
        clocks = [self._read[task].clock_ms for task in self._driving]
        oldest, newest = min(clocks), max(clocks) or now_ms
        self._current = self._is_current(oldest, newest, now_ms)
        looked_ms = self._looked_ms or self._first_ms or newest
        if not self._current and (not oldest or oldest - looked_ms < CATCH_UP_MS):
            self.horizon.bound(newest - 2 * HORIZON_MS)  # whatever keeps it from a look: memory has an end
            return []
        telemetry_ms = min(self._read[task].told_ms for task in self._driving if task.topic == FEATURES)
        behind = newest - telemetry_ms > BEHIND_MS
        frontier_ms = 0 if behind else (telemetry_ms - self._lateness_ms) // self._window_ms * self._window_ms
        changed: list[Incident] = []
        due = self.horizon.due(newest)
        if self._urgent or due or frontier_ms > self._frontier_ms or not self._current:
            # What came since the last look is kept for this one, however long ago that was.
            before_ms = min(looked_ms, oldest or newest) - HORIZON_MS
            case = self.horizon.case(
                newest if self._current else oldest, before_ms=before_ms, frontier_ms=frontier_ms
            )  # fmt: skip
            changed = self._judge.look(case, outputs)
            self._urgent, self._looked_ms, self._frontier_ms = False, oldest or newest, frontier_ms
        if self._current and oldest and telemetry_ms:
            self._judge.beat(min(oldest, telemetry_ms), outputs, soon=bool(changed))
        return changed

    def _is_current(self, oldest: int, newest: int, now_ms: int) -> bool:
        """Whether all there is was read: every clock is the present, or nothing more comes."""
        if oldest >= newest - TOGETHER_MS and newest >= now_ms - PRESENT_MS:
            return True
        return self._quiet_since is not None and time.monotonic() - self._quiet_since >= QUIET_S
