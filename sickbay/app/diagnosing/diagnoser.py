"""The diagnosis stage: reads the log into `diagnosis_fold` and commits what its looks put out. One process leads.

Its memory is what the log tells of the last half hour: a commit keeps the offset at which that begins, and a fresh
process reads from there. A standby reads along, and keeps that memory without judging; when the leader is gone it goes
on behind what that one committed.
"""

import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable

from sickbay import selfmetrics
from sickbay.admission import Admission
from sickbay.app.diagnosing import diagnosis_state
from sickbay.app.diagnosing.diagnosis_fold import WATCHED, DiagnosisFold, Look
from sickbay.app.diagnosing.diagnosis_reading import Facts, Silence, named
from sickbay.app.diagnosing.horizon import Horizon
from sickbay.app.diagnosing.task_read import Stand, read_stand
from sickbay.clock import rfc3339
from sickbay.log import Batch, Log, LogError, OffsetOutOfRange, Output, Position, Record, Task, TaskLog, tasks_of
from sickbay.messages import Incident
from sickbay.selfmetrics import SelfMetrics
from sickbay.trouble import Trouble
from streams.open_windows import LATENESS_MS
from streams.runner import FATAL, count_appended
from streams.windows import WIDTH_MS

GROUP = "diagnosis"
POLLS, LIMIT = 5, 2000  # of one step, so that it stays short
LOOKS_S = 5.0  # of one step: what is left is looked at in the next one
LATE_MS = 5_000  # further behind the present, it is not ready
FOLLOW_S = 3.0  # without the lead, until it reads along: at a start the lead may take a moment
FOLLOWED_S = 1.0  # between two questions how far the leader is


def member_name() -> str:
    """This process among those that stand for the lead."""
    return os.environ.get("SICKBAY_MEMBER") or f"diagnosis-{socket.gethostname()}-{os.getpid()}"


class Diagnoser:
    """One member of the group. `step` does a little, `drain` all there is."""

    def __init__(
        self,
        log: Log,
        lang: str = "en",
        *,
        member: str = "",
        admission: Admission | None = None,
        metrics: SelfMetrics | None = None,
        say: Callable[[str], None] = lambda text: None,
        window_ms: int = WIDTH_MS,
        lateness_ms: int = LATENESS_MS,
    ) -> None:
        self._name = member or member_name()
        self._log, self._lead, self._reader = log, log.lead(GROUP, WATCHED, self._name), log.reader()
        self._tasks = frozenset(tasks_of(log.topics, WATCHED))
        self._metrics, self._say = metrics or SelfMetrics(), say
        self._made: Callable[[], DiagnosisFold] = lambda: DiagnosisFold(
            log.topics, lang, admission=admission, metrics=self._metrics, say=say, window_ms=window_ms,
            lateness_ms=lateness_ms,
        )  # fmt: skip
        self._trouble = Trouble("diagnosis", say)
        self.troubled = False  # the newest step failed: wait a little
        self.took = False  # the newest step found something
        self._now_ms = 0
        self._forget()

    @property
    def horizon(self) -> Horizon:
        """What it remembers."""
        return self.fold.horizon

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """All that are known, open or not."""
        return self.fold.judge.incidents

    @property
    def looks(self) -> int:
        """How often it judged."""
        return self.fold.judge.looks

    @property
    def damaged(self) -> int:
        """Records that it could not read."""
        return self.fold.damaged

    @property
    def leads(self) -> bool:
        """Whether it is the one that judges."""
        return self._begun

    @property
    def waiting(self) -> str:
        """What it waits for before it can judge, empty where it has read all there is, or stands by well."""
        if self._trouble.now:
            return self._trouble.now
        ahead_ms = max(self.fold.at_ms, self.fold.until_ms) - self._now_ms
        if ahead_ms > LATE_MS and self._now_ms:
            return f"what was judged is {ahead_ms // 1000} s ahead of this machine's clock: no more is until then"
        late = self._now_ms - self.fold.at_ms > LATE_MS
        if late and (not self._begun or self.fold.waits or self.took):
            where = rfc3339(self.fold.at_ms) if self.fold.at_ms else "its beginning"
            return f"reads a backlog, at {where}: waits for {self.fold.waits or 'its turn'}"
        if self.fold.judge.trouble:
            return self.fold.judge.trouble
        if self._silence.tasks:
            return f"no ticks in {named(self._silence.tasks)}"
        if self._begun and self.fold.behind and self.fold.clocks.floor_ms:
            return f"windows are behind, at {rfc3339(self.fold.clocks.floor_ms)}: judges events only"
        return ""

    def step(self, now_ms: int, timeout_s: float = 0.0) -> list[Incident]:
        """Reads some of what is new; judges if it is worth it. Returns the incidents that are new or changed."""
        return self._turn(now_ms, POLLS, 1, timeout_s)

    def drain(self, now_ms: int) -> list[Incident]:
        """`step` over everything there is."""
        return self._turn(now_ms, 1_000_000, 2, 0.0)

    def close(self) -> None:
        """Leave the group."""
        self._unfollow()
        self._lead.close()

    def _turn(self, now_ms: int, polls: int, idle: int, timeout_s: float) -> list[Incident]:
        self.troubled, self._now_ms = False, now_ms
        try:
            idles = self._take_in(polls, idle, timeout_s)
            self._facts.read(self.fold)
            self._silence.look(self.fold, self._next.get, idle=idles)
            changed = self._conclude()
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
        self.fold = self._made()
        self._facts, self._silence = Facts(self._log, self._trouble), Silence(self._log, self._say)
        self._next: dict[Task, int] = {}  # the offset after what was read
        self._begun = False  # leads, and has begun
        self._busy = False  # there is more to look at: reading waits, so that a long backlog does not fill the memory
        self._follow: TaskLog | None = None
        self._alone_s: float | None = None  # since when it is without the lead
        self._metrics.tell(selfmetrics.INCIDENTS_OPEN, {})  # another's to tell, or soon told again
        self._asked_s = 0.0

    # Reading

    def _take_in(self, polls: int, idle: int, timeout_s: float) -> bool:
        """Returns whether there was nothing left to read."""
        empty, self.took = 0, False
        for turn in range(1 if self._busy else polls):
            found = self._poll(0.0 if turn else timeout_s)
            self.took |= found
            empty = 0 if found else empty + 1
            if empty >= idle:
                return True
        return False

    def _poll(self, timeout_s: float) -> bool:
        if not self._begun and self._lead.assignment() >= self._tasks:  # after a failure
            self._begin()
        source = self._lead if self._begun else self._follow
        batch = self._polled(self._lead, timeout_s if self._follow is None else 0.0)
        if batch is None:
            return True
        if batch.revoked:  # a part of the memory cannot be taken out
            self._lost()
            return True
        if not self._begun and self._lead.assignment() >= self._tasks:
            self._begin()
            return True
        if not self._begun:
            return self._followed(source, timeout_s)
        self._taken(batch)
        return bool(batch.records)

    def _polled(self, source: TaskLog, timeout_s: float) -> Batch | None:
        try:
            return source.poll(1 if self._busy else LIMIT, 0.0 if self._busy else timeout_s)
        except OffsetOutOfRange as error:  # retention was faster: go on with what is left
            self._blind(error)
            source.seek(error.task, error.bounds.begin)
            return None

    def _taken(self, batch: Batch) -> None:
        for record in batch.records:
            if record.offset >= self._next.get(record.task, 0):
                self._next[record.task] = record.offset + 1
                self.fold.take(record)
        for topic, number in Counter(record.topic for record in batch.records).items():
            self._metrics.count(selfmetrics.LOG_READ, number, topic=topic)

    def _blind(self, error: OffsetOutOfRange) -> None:
        lost = max(0, error.bounds.begin - error.offset)
        self._metrics.count(selfmetrics.LOG_BLIND, lost, topic=error.task.topic)
        self._say(f"diagnosis: blind: {lost} records were removed before they were read: {error}")

    def _lost(self) -> None:
        """The lead is another's."""
        self._unfollow()
        self._forget()

    # Leading

    def _begin(self) -> None:
        """Takes the lead: from what was committed on, looks are told."""
        began = time.monotonic()
        self._lead.committed(min(self._tasks))  # ends what another leader left open: then all can be asked at once
        positions = self._reader.positions(GROUP, sorted(self._tasks))
        stand = newest(positions.values())
        warm = self._follow is not None and self._next.keys() >= self._tasks and self.fold.at_ms <= stand.frontier_ms
        if not warm and self._next:
            self._lost()
        self._unfollow()
        for task in sorted(self._tasks):
            if warm:
                self.fold.read[task].committed = positions[task].offset if task in positions else 0
            else:
                self._next[task] = self._whence(task, positions.get(task))
            self._lead.seek(task, self._next[task])
        self.fold.begin(stand, diagnosis_state.read(self._reader, self._log.topics, self._unreadable))
        self._begun = True
        if stand.frontier_ms:
            how = "with what it read standing by" if warm else "and reads half an hour again"
            took_s = time.monotonic() - began
            self._say(f"diagnosis: {self._name} leads from {rfc3339(stand.frontier_ms)} on, {how}: {took_s:.1f} s")

    def _unreadable(self, record: Record) -> None:
        """A part of what it knew is lost: it goes on without."""
        self._metrics.count(selfmetrics.LOG_ERRORS, kind="BadState")
        self._say(f"diagnosis: {record.topic}[{record.partition}] {record.offset}: a damaged state: goes on without it")

    def _whence(self, task: Task, position: Position | None) -> int:
        """Where the memory of a task begins."""
        bounds, state = self._reader.bounds(task), self.fold.read[task]
        if position is None:
            return bounds.begin
        state.committed, low = position.offset, read_stand(position).low
        if not bounds.begin <= state.committed <= bounds.end:
            self._blind(OffsetOutOfRange(task, state.committed, bounds))
        if state.committed > bounds.end:  # another log than the one that was read
            state.committed, low = bounds.begin, bounds.begin
        return max(bounds.begin, min(low, state.committed))

    def _conclude(self) -> list[Incident]:
        looks = self._looked()
        if not looks:
            return []
        outputs: list[Output] = [output for look in looks for output in look.outputs]
        began = time.monotonic()
        self._lead.commit(outputs, self.fold.positions())
        self._metrics.observe(selfmetrics.LOG_COMMIT, time.monotonic() - began, group=GROUP)
        count_appended(self._metrics, outputs)
        self.fold.kept()
        return [one for look in looks for one in look.changed]

    def _looked(self) -> list[Look]:
        """As many looks as a step has time for: what is said does not depend on how many that are."""
        looks, before, began, self._busy = list[Look](), self.looks, time.monotonic(), False
        for look in self.fold.looks():
            looks.append(look)
            if time.monotonic() - began > LOOKS_S:
                self.took = self._busy = True  # come again at once
                break
        if self.looks > before:
            self._metrics.observe(selfmetrics.LOOKS, time.monotonic() - began)
        if looks:
            self._metrics.set(selfmetrics.LOG_TIME, self.fold.at_ms / 1000)
            self._metrics.set(selfmetrics.WINDOWS_BEHIND, float(self.fold.behind))
        return looks

    # Standing by

    def _followed(self, source: TaskLog | None, timeout_s: float) -> bool:
        """Reads what the leader reads, and forgets what that one does not need any more."""
        now = time.monotonic()
        if source is None:
            self._alone_s = now if self._alone_s is None else self._alone_s
            if now - self._alone_s >= FOLLOW_S:
                self._follow = self._log.join(f"{GROUP}.standby.{self._name}", WATCHED, self._name)
            return False
        if now - self._asked_s >= FOLLOWED_S:
            self._asked_s = now
            self.fold.follow(newest(self._reader.positions(GROUP, sorted(self._tasks)).values()).frontier_ms)
        batch = self._polled(source, timeout_s)
        if batch is None:
            return True
        if batch.revoked:
            self._lost()
            return True
        known = self._reader.positions(GROUP, batch.assigned) if batch.assigned else {}
        for task in batch.assigned:
            begin = self._whence(task, known.get(task))
            source.seek(task, self._next.setdefault(task, begin))
        self._taken(batch)
        return bool(batch.records or batch.assigned)

    def _unfollow(self) -> None:
        follow, self._follow = self._follow, None
        if follow is not None:
            follow.close()


def newest(positions: Iterable[Position | None]) -> Stand:
    """The stand of the newest commit: not every one tells of every task."""
    return max((read_stand(one) for one in positions), key=lambda stand: stand.frontier_ms, default=Stand())
