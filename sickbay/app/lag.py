"""How far behind every group is, judged from outside: a laggard that is asked itself says that all is well."""

from sickbay import selfmetrics
from sickbay.app.incidents_topic import IncidentsView
from sickbay.app.service import Context
from sickbay.log import Closed, LogError, Reader, Task, tasks_of
from sickbay.topics import Topic
from streams.runner import read_mark

LOOK_MS = 5_000
GROUPS: dict[str, tuple[str, ...]] = {  # group: the topics that it reads
    "streams.windows": ("sickbay.telemetry.v1",),
    "diagnosis": ("sickbay.features.v1", "sickbay.events.v1", "sickbay.steps.v1", "sickbay.placement.v1"),
    "remediation": ("sickbay.incidents.v1",),
}


class Lag:
    """The stage: every few seconds the age of what each group committed, and of diagnosis' heartbeat."""

    def __init__(self, context: Context) -> None:
        self._context, self._reader = context, context.log.reader()
        self._incidents = IncidentsView(context.log.reader())
        self._next_ms = 0

    def step(self, now_ms: int) -> bool:
        """One look where it is time."""
        if self._next_ms - 2 * LOOK_MS <= now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + LOOK_MS
        try:
            self._context.metrics.tell(selfmetrics.LOG_LAG, self._lags(now_ms))
            self._incidents.read()
            if (judged := self._incidents.judged) is not None:
                age_s = max(0.0, (now_ms - judged.as_of_ms) / 1000)
                self._context.metrics.set(selfmetrics.HEARTBEAT_AGE, age_s)
        except Closed:
            raise
        except LogError as error:
            self._context.metrics.count(selfmetrics.LOG_ERRORS, kind=type(error).__name__)
            self._context.say(f"lag: {error}")
        return False

    def _lags(self, now_ms: int) -> dict[tuple[str, ...], float]:
        topics, found = self._context.log.topics, dict[tuple[str, ...], float]()
        for group, names in GROUPS.items():
            for task in tasks_of(topics, names):
                lag = lag_ms(self._reader, group, task, topics[task.topic], now_ms)
                if lag is not None:
                    found[group, task.topic, str(task.partition)] = lag / 1000
        return found

    def close(self) -> None:
        """Nothing is open."""


def lag_ms(reader: Reader, group: str, task: Task, topic: Topic, now_ms: int) -> int | None:
    """The age of a group's committed frontier; None where it never committed. A ticked topic that gets no ticks grows
    old for all; of any other the age is that of the oldest record that waits."""
    position = reader.committed(group, task)
    if position is None:
        return None
    clock_ms = read_mark(position).clock_ms
    if topic.driving and clock_ms:
        return max(0, now_ms - clock_ms)
    bounds = reader.bounds(task)
    if position.offset >= bounds.end:
        return 0
    waiting = reader.read(task, max(bounds.begin, position.offset), 1)
    return max(0, now_ms - waiting[0].append_ms) if waiting else 0
