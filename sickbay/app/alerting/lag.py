"""How far behind every group is, judged from outside: a laggard that is asked itself says that all is well.

What stands still for longer than `[metrics] behind_s` becomes an incident, which this stage writes itself: it must be
told above all when diagnosis is what stands still. It keeps nothing: the open incidents are read from their topic. The
archive is in no group; the age of its last complete round is `sickbay_streams_archive_complete_since_seconds`.
"""

from collections.abc import Mapping

from sickbay import messages, selfmetrics
from sickbay.app.alerting.standstill import Frontier, Hidden, Standstill, found, told
from sickbay.app.asking.incidents_topic import IncidentsView
from sickbay.app.running.service import Context
from sickbay.log import Closed, Ends, LogError, Position, Reader, Task, driving, tasks_of
from sickbay.messages import Incident
from sickbay.topics import EVENTS, FEATURES, INCIDENTS, STEPS, TELEMETRY, Topic
from sickbay.trouble import Trouble
from streams.runner import read_mark

LOOK_MS = 5_000
FLUSH_S = 2.0
GROUPS: dict[str, tuple[str, ...]] = {  # group: the topics that it reads
    "streams.windows": (TELEMETRY,),
    "diagnosis": (FEATURES, EVENTS, STEPS),
    "diagnosis.explicit": (EVENTS,),
    "remediation": (INCIDENTS,),
}
# A site without these is blind: one that never read anything is told, too.
NEEDED = ("streams.windows", "diagnosis", "diagnosis.explicit")


class Lag:
    """The stage: every few seconds the age of what each group committed, and of diagnosis' heartbeat."""

    def __init__(self, context: Context) -> None:
        self._context, self._reader = context, context.log.reader()
        self._appender = context.log.appender()
        self._incidents = IncidentsView(context.log.reader())
        self._trouble = Trouble("lag", context.say)
        self._limit_ms = round(context.config.metrics.behind_s * 1000)
        self._told: dict[str, Incident] = {}  # what was written: it may lie where nobody can read it yet
        self._frontiers: list[Frontier] = []
        self._never: list[Frontier] = []  # where a group that is needed has not committed anything
        self._hidden: dict[Task, tuple[int, int]] = {}  # task: where a transaction is open, since when it is seen
        self._watches_ms: int | None = None  # since when it has looked without a gap
        self._looked_ms = self._next_ms = 0

    @property
    def waiting(self) -> str:
        """What keeps it from looking."""
        return self._trouble.now

    def step(self, now_ms: int) -> bool:
        """One look where it is time."""
        if self._next_ms - 2 * LOOK_MS <= now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + LOOK_MS
        if not 0 <= now_ms - self._looked_ms <= 3 * LOOK_MS:  # stopped, or the clock was set: others may have been, too
            self._watches_ms = None
        self._looked_ms = now_ms
        try:
            self._look(now_ms)
            self._incidents.read()
            self._judge(now_ms)
            self._trouble.over()
        except Closed:
            raise
        except LogError as error:
            self._watches_ms = None  # nobody could read: everyone is given the time to catch up
            self._context.metrics.count(selfmetrics.LOG_ERRORS, kind=type(error).__name__)
            self._trouble.failed(error)
        self._tell(now_ms)
        return False

    def _look(self, now_ms: int) -> None:
        topics = self._context.log.topics
        ends = self._reader.ends(tasks_of(topics, topics))
        self._hidden = _hidden(self._hidden, ends, now_ms)
        frontiers, never = list[Frontier](), list[Frontier]()
        for group, names in GROUPS.items():
            tasks = tasks_of(topics, names)
            positions = self._reader.positions(group, tasks)
            for task, position in positions.items():
                frontiers.append(_frontier(self._reader, group, task, position, ends[task], topics[task.topic], now_ms))
            if group in NEEDED:
                unread = [task for task in tasks if topics[task.topic].driving and ends[task].stable]
                never += [Frontier(group, task, now_ms, True) for task in unread if task not in positions]
        self._frontiers, self._never = frontiers, never

    def _judge(self, now_ms: int) -> None:
        """Says what stands still, once everyone had the time to come to the present after a start or an outage."""
        if self._watches_ms is None:
            self._watches_ms = now_ms
        if now_ms - self._watches_ms <= self._limit_ms:
            return
        standing = self._incidents.incidents | self._told
        stands, still = self._found(now_ms, self._limit_ms), self._found(now_ms, self._limit_ms // 2)
        changed = told(standing.values(), stands, still, now_ms, self._context.config.report.lang)
        for one in changed:
            self._context.say(f"lag: {one.id} {one.state}: {one.summary}")
            self._appender.append(INCIDENTS, one.id.encode(), messages.encode(one))
        if changed:
            self._appender.flush(FLUSH_S)
            self._told |= {one.id: one for one in changed}

    def _found(self, now_ms: int, limit_ms: int) -> tuple[Standstill, ...]:
        topics = self._context.log.topics
        never = [one._replace(since_ms=self._watches_ms or now_ms) for one in self._never]
        hidden = [Hidden(task, since_ms) for task, (_, since_ms) in self._hidden.items()]
        return found([*self._frontiers, *never], hidden, driving(topics), now_ms, limit_ms)

    def _tell(self, now_ms: int) -> None:
        metrics = self._context.metrics
        ages: dict[tuple[str, ...], float] = {
            (one.group, one.task.topic, str(one.task.partition)): max(0, now_ms - one.since_ms) / 1000
            for one in self._frontiers
        }
        metrics.tell(selfmetrics.LOG_LAG, ages)
        stands: dict[tuple[str, ...], float] = {
            (task.topic, str(task.partition)): max(0, now_ms - at) / 1000 for task, (_, at) in self._hidden.items()
        }
        metrics.tell(selfmetrics.LOG_HIDDEN, stands)
        if (judged := self._incidents.judged) is not None:  # grows old while nothing can be read
            metrics.set(selfmetrics.HEARTBEAT_AGE, max(0.0, (now_ms - judged.as_of_ms) / 1000))

    def close(self) -> None:
        """Nothing is open."""
        self._appender.close()


def _hidden(
    before: Mapping[Task, tuple[int, int]], ends: Mapping[Task, Ends], now_ms: int
) -> dict[Task, tuple[int, int]]:
    """Where the last stable offset lies before the end: that offset, and since when it has stood there."""
    after: dict[Task, tuple[int, int]] = {}
    for task, end in ends.items():
        if end.stable < end.written:
            known = before.get(task)
            after[task] = known if known is not None and known[0] == end.stable else (end.stable, now_ms)
    return after


def _frontier(
    reader: Reader, group: str, task: Task, position: Position, end: Ends, topic: Topic, now_ms: int
) -> Frontier:
    """Up to when a group has read. A ticked topic that gets no ticks grows old for all; of any other it is the time of
    the oldest record that waits."""
    waits = position.offset < end.stable
    clock_ms = read_mark(position).clock_ms
    if topic.driving and clock_ms:
        return Frontier(group, task, clock_ms, waits)
    if not waits:
        return Frontier(group, task, now_ms, False)
    oldest = reader.read(task, max(reader.bounds(task).begin, position.offset), 1)
    return Frontier(group, task, oldest[0].append_ms if oldest else now_ms, bool(oldest))
