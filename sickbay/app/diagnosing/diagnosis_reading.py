"""What diagnosis reads beside its tasks: facts to their end, and whether a partition without ticks is at its end."""

from collections.abc import Callable, Iterable

from sickbay.app.diagnosing.diagnosis_fold import KEPT, DiagnosisFold
from sickbay.app.diagnosing.diagnosis_inputs import SIDE_MARGIN_MS
from sickbay.log import Log, LogBusy, Task, tasks_of
from sickbay.log.reading import Followed
from sickbay.trouble import Trouble

SILENT_MS = 30_000  # without a record, while others go on: some ticks, and what a broker's fail-over takes
AGAIN_MS = 1_000  # of the log's time, until such a partition is asked again


class Facts:
    """The compacted topics, from their beginning on, read up to the end that they have after a clock was heard."""

    def __init__(self, log: Log, trouble: Trouble) -> None:
        reader = log.reader()
        self._topics = [Followed(reader, task) for task in tasks_of(log.topics, KEPT)]
        self._trouble, self._asked_ms = trouble, -1

    def read(self, fold: DiagnosisFold) -> None:
        """Takes what is new, once for each second of the log."""
        clock_ms = fold.inputs.newest_ms  # before the question, or the answer says nothing of that time
        if clock_ms // 1000 <= self._asked_ms // 1000:
            return
        try:
            for topic in self._topics:
                for record in topic.read():
                    fold.take(record)
        except LogBusy as error:  # looks wait, and say so: without facts nobody may be blamed
            self._trouble.failed(error)
            return
        self._asked_ms = clock_ms
        fold.inputs.facts_ms = max(fold.inputs.facts_ms, clock_ms - SIDE_MARGIN_MS)


class Silence:
    """Partitions that get no ticks while others do. At their end there is nothing to wait for."""

    def __init__(self, log: Log, say: Callable[[str], None]) -> None:
        self._reader, self._say, self._asked_ms = log.reader(), say, 0
        self.tasks: frozenset[Task] = frozenset()

    def look(self, fold: DiagnosisFold, following: Callable[[Task], int | None], *, idle: bool) -> None:
        """Goes on without them. `following`: the offset that is to be read next, None where that is not known.
        `idle`: nothing is read just now, so that what was not heard of is silent, or far behind."""
        newest_ms = fold.inputs.newest_ms
        if newest_ms - self._asked_ms < (AGAIN_MS if idle else 10 * AGAIN_MS):
            return
        self._asked_ms = newest_ms
        late = [task for task, at_ms in fold.inputs.heard.items() if newest_ms - at_ms > SILENT_MS]
        silent = [task for task in late if self._at_end(task, following)]
        for task in silent:
            fold.inputs.reached(task, newest_ms - SIDE_MARGIN_MS)
        self._tell(silent)

    def _at_end(self, task: Task, following: Callable[[Task], int | None]) -> bool:
        at = following(task)
        return at is not None and not self._reader.read(task, at, 1)

    def _tell(self, silent: Iterable[Task]) -> None:
        now = frozenset(silent)
        if fresh := sorted(now - self.tasks):
            self._say(f"diagnosis: {named(fresh)}: no ticks, goes on without: is a ticker at work, and the broker?")
        self.tasks = now


def named(tasks: Iterable[Task]) -> str:
    """The partitions for people."""
    return ", ".join(f"{task.topic}[{task.partition}]" for task in sorted(tasks))
