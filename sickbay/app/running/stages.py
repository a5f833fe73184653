"""The stages that `sickbay process` runs, by name: shells that feed the pure cores and tell the metrics."""

import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sickbay import selfmetrics
from sickbay.admission import admission
from sickbay.app.alerting.lag import Lag
from sickbay.app.diagnosing.diagnoser import Diagnoser
from sickbay.app.diagnosing.explicit import Explicit
from sickbay.app.running.live import WINDOWS_GROUP, widths, window_maker
from sickbay.app.running.service import Context, Make, Stage
from sickbay.log import LogError, Outcome, Task, driving, tasks_of
from sickbay.selfmetrics import Metric, SelfMetrics
from sickbay.settings import Config
from sickbay.topics import TELEMETRY
from sickbay.trouble import Trouble
from streams.runner import FATAL, Runner
from streams.window_task import WindowTask

TICK_MS = 1000
FLUSH_S = 2.0  # for ticks to arrive: else it is told, and looked at again with the next ones
SWEEP_MS, SWEEP_S = 5_000, 0.5  # the embedded log's own upkeep: so often, at most so long
POLL_RECORDS, POLL_BYTES = 2000, 32 << 20  # of one poll: a second of 100,000 accelerators at once
COMMIT_S = 0.25  # between two commits, where nothing is to be put out
POLL_S = 0.2  # that a poll waits where nothing is there
SAID = 20  # incidents of one look that are said a line each: a power cut may make thousands
TROUBLE_S = 0.5  # wait after a step that failed: the log may be away for a while


class Ticker:
    """Writes an empty record to every driving partition each second, so that silence has a clock; sweeps the log."""

    def __init__(self, context: Context) -> None:
        self._context, self._appender = context, context.log.appender()
        self._tasks = tasks_of(context.log.topics, driving(context.log.topics))
        self._open: dict[Task, Outcome] = {}  # the newest tick of each partition
        self._trouble = Trouble("ticker", context.say)
        self._next_ms = self._sweep_ms = 0

    @property
    def waiting(self) -> str:
        """What keeps it from ticking."""
        return self._trouble.now

    def step(self, now_ms: int) -> bool:
        """One tick where a second is over."""
        if self._next_ms - 2 * TICK_MS <= now_ms < self._next_ms:  # else the machine's clock was set
            return False
        self._next_ms = (now_ms // TICK_MS + 1) * TICK_MS  # looks are at whole seconds: soon after one they can be made
        try:
            self._tick()
            self._sweep(now_ms)
            self._trouble.over()
        except FATAL:
            raise
        except LogError as error:  # without ticks all that follows stands still and says so: lag, heartbeat
            self._context.metrics.count(selfmetrics.LOG_ERRORS, kind=type(error).__name__)
            self._trouble.failed(error)
        return False

    def _tick(self) -> None:
        """A partition whose last tick is still under way gets no other: they would all come at once."""
        due = [task for task in self._tasks if task not in self._open or self._open[task].done()]
        self._open |= {task: self._appender.append(task.topic, b"", b"", partition=task.partition) for task in due}
        self._appender.flush(FLUSH_S)
        self._context.metrics.count(selfmetrics.LOG_APPENDED, len(due), topic="ticks")

    def _sweep(self, now_ms: int) -> None:
        sweep = getattr(self._context.log, "sweep", None)
        if sweep is None or now_ms < self._sweep_ms:
            return
        self._sweep_ms = now_ms + SWEEP_MS
        until = time.monotonic() + SWEEP_S
        while time.monotonic() < until and sweep(1000):
            pass

    def close(self) -> None:
        """The last ticks are nobody's loss."""


_COUNTED: Mapping[str, tuple[Metric, str]] = {  # what a window task counts: the metric, and its label
    "closed": (selfmetrics.WINDOWS_CLOSED, "table"),
    "late": (selfmetrics.ROWS_LATE, "table"),
    "stale": (selfmetrics.WINDOWS_STALE, "table"),
    "clamped": (selfmetrics.ROWS_CLAMPED, "table"),
    "beyond": (selfmetrics.ROWS_BEYOND, "table"),
    "missed": (selfmetrics.LOG_MISSED, "topic"),
    "found": (selfmetrics.LOG_FOUND, "topic"),
    "duplicate": (selfmetrics.LOG_DUPLICATE, "topic"),
}


class Windows:
    """Telemetry to features."""

    def __init__(self, context: Context) -> None:
        config, self._metrics, log = context.config, context.metrics, context.log
        make = window_maker(log, admission(config.security), context.metrics, **widths(config.windows))
        member = member_of(config)
        self._runner = Runner(
            log.join(WINDOWS_GROUP, [TELEMETRY], member), make, context.metrics, WINDOWS_GROUP, context.say,
            commit_s=COMMIT_S, poll_bytes=POLL_BYTES,
        )  # fmt: skip

    @property
    def waiting(self) -> str:
        """What it waits for."""
        return self._runner.trouble.now or ("" if self._runner.tasks else "holds no partition")

    def step(self, now_ms: int) -> bool:
        """One poll and one commit."""
        taken = self._runner.step(POLL_RECORDS, POLL_S)
        tasks = [task for task in self._runner.held.values() if isinstance(task, WindowTask)]
        for task in tasks:
            count(self._metrics, task)
        self._metrics.set(selfmetrics.HOSTS_SILENT, sum(task.silent for task in tasks))
        if self._runner.troubled:
            time.sleep(TROUBLE_S)
        return taken > 0

    def close(self) -> None:
        """Commits what was taken, and leaves the group."""
        self._runner.flush()
        self._runner.log.close()


def count(metrics: SelfMetrics, task: WindowTask) -> None:
    """Tells what a task counted since the last time."""
    for (what, table), number in task.counts.items():
        metric, label = _COUNTED[what]
        metrics.count(metric, number, **{label: table or TELEMETRY})
    task.counts.clear()


class Diagnosis:
    """Events, features and facts to evidence and incidents."""

    def __init__(self, context: Context) -> None:
        config = context.config
        width = widths(config.windows)
        self._diagnoser = Diagnoser(
            context.log, config.report.lang, admission=admission(config.security), metrics=context.metrics,
            say=context.say, window_ms=width["width_ms"], lateness_ms=width["lateness_ms"],
        )  # fmt: skip
        self._say = context.say

    @property
    def waiting(self) -> str:
        """What it waits for before it judges."""
        return self._diagnoser.waiting

    def step(self, now_ms: int) -> bool:
        """Reads some, judges where it is worth it, commits."""
        changed = self._diagnoser.step(now_ms, POLL_S)
        for one in changed[:SAID]:
            self._say(f"diagnosis: {one.id} {one.state}: {one.verdict} {one.component} {one.fault}: {one.action}")
        if len(changed) > SAID:
            self._say(f"diagnosis: and {len(changed) - SAID} more incidents: sickbay incidents list")
        if self._diagnoser.troubled:
            time.sleep(TROUBLE_S)
        return self._diagnoser.took

    def close(self) -> None:
        """Leave the group."""
        self._diagnoser.close()


def member_of(config: Config) -> str:
    """The name of a process that shares its work with others: its machine's, so that a restarted one is known again."""
    import os
    import socket

    return os.environ.get("SICKBAY_MEMBER") or f"windows-{socket.gethostname()}"


@dataclass(frozen=True, slots=True)
class Imported:
    """A stage that is imported when it is made. `needs`: the section and key without which it has nothing to do."""

    where: str
    needs: tuple[str, str]

    def __call__(self, context: Context) -> Stage:
        """The stage, made."""
        module, _, name = self.where.partition(":")
        made: Stage = getattr(importlib.import_module(module), name)(context)
        return made

    def wanted(self, config: Config) -> bool:
        """Whether the settings give it something to do."""
        section, key = self.needs
        return bool(getattr(getattr(config, section), key))


# One look at a storm of ten thousand incidents takes so long (15 s measured for 10,000 on one of two busy cores); below
# the 60 s after which Kafka gives the tasks of a member away that does not poll.
LONGER = {"diagnosis": 50.0}

STAGES: dict[str, Make] = {
    "ticker": Ticker,
    "windows": Windows,
    "explicit": Explicit,
    "diagnosis": Diagnosis,
    "lag": Lag,
    "alerts": Imported("sickbay.app.alerting.alerts:Alerts", ("alerts", "url")),
    "archive": Imported("sickbay.app.archiving.archiver:Archiver", ("archive", "path")),
}


def chosen(names: Sequence[str], config: Config) -> dict[str, Make]:
    """The stages that are named; without names all that the settings give something to do. Raises KeyError."""
    if names:
        return {name: STAGES[name] for name in names}
    return {
        name: make for name, make in STAGES.items() if not isinstance(make, Imported) or make.wanted(config)
    }  # fmt: skip
