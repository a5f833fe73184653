"""How far behind every group is, judged from outside: a laggard that is asked itself says that all is well."""

from sickbay import selfmetrics
from sickbay.app.incidents_topic import IncidentsView
from sickbay.app.service import Context
from sickbay.log import Closed, LogError, Position, Reader, Task, tasks_of
from sickbay.topics import EVENTS, FEATURES, INCIDENTS, PLACEMENT, STEPS, TELEMETRY, Topic
from sickbay.trouble import Trouble
from streams.runner import read_mark

LOOK_MS = 5_000
GROUPS: dict[str, tuple[str, ...]] = {  # group: the topics that it reads
    "streams.windows": (TELEMETRY,),
    "diagnosis": (FEATURES, EVENTS, STEPS, PLACEMENT),
    "remediation": (INCIDENTS,),
}


class Lag:
    """The stage: every few seconds the age of what each group committed, and of diagnosis' heartbeat."""

    def __init__(self, context: Context) -> None:
        self._context, self._reader = context, context.log.reader()
        self._incidents = IncidentsView(context.log.reader())
        self._trouble = Trouble("lag", context.say)
        self._since_ms: dict[tuple[str, ...], int] = {}  # by group, topic, partition: what was not read since when
        self._next_ms = 0

    @property
    def waiting(self) -> str:
        """What keeps it from looking."""
        return self._trouble.now

    def step(self, now_ms: int) -> bool:
        """One look where it is time."""
        if self._next_ms - 2 * LOOK_MS <= now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + LOOK_MS
        try:
            self._look(now_ms)
            self._incidents.read()
            self._trouble.over()
        except Closed:
            raise
        except LogError as error:
            self._context.metrics.count(selfmetrics.LOG_ERRORS, kind=type(error).__name__)
            self._trouble.failed(error)
        ages = {place: max(0, now_ms - since_ms) / 1000 for place, since_ms in self._since_ms.items()}
        self._context.metrics.tell(selfmetrics.LOG_LAG, ages)
        if (judged := self._incidents.judged) is not None:  # grows old while nothing can be read
            self._context.metrics.set(selfmetrics.HEARTBEAT_AGE, max(0.0, (now_ms - judged.as_of_ms) / 1000))
        return False

    def _look(self, now_ms: int) -> None:
        topics = self._context.log.topics
        for group, names in GROUPS.items():
            for task, position in self._reader.positions(group, tasks_of(topics, names)).items():
                place = (group, task.topic, str(task.partition))
                self._since_ms[place] = since_ms(self._reader, task, position, topics[task.topic], now_ms)

    def close(self) -> None:
        """Nothing is open."""


def since_ms(reader: Reader, task: Task, position: Position, topic: Topic, now_ms: int) -> int:
    """Up to when a group has read. A ticked topic that gets no ticks grows old for all; of any other it is the time of
    the oldest record that waits."""
    clock_ms = read_mark(position).clock_ms
    if topic.driving and clock_ms:
        return clock_ms
    bounds = reader.bounds(task)
    if position.offset >= bounds.end:
        return now_ms
    waiting = reader.read(task, max(bounds.begin, position.offset), 1)
    return waiting[0].append_ms if waiting else now_ms
