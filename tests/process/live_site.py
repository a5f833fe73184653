"""Stages over one embedded log on a clock that the test moves: real sources, pollers, judging, remediation."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from remediation.schedulers.simulated import SimulatedScheduler
from sickbay import actions
from sickbay.actions import Action
from sickbay.app.asking.incidents_topic import current
from sickbay.app.diagnosing.diagnoser import Diagnoser
from sickbay.app.remediating.remediator import Remediator
from sickbay.app.running.live import WINDOWS_GROUP, widths, window_maker
from sickbay.app.running.poller import pollings
from sickbay.app.running.service import Context, Stage
from sickbay.log import driving, tick
from sickbay.log.sqlite import SqliteLog
from sickbay.messages import Incident
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config
from sickbay.topics import ACTIONS, TELEMETRY
from streams.runner import Runner
from tests.process.kit import DEADLETTER, everything, only

START = 1_796_000_000_000


@dataclass
class LiveSite:
    """`sources`: entries of the pollers' catalogue. `hosts`: those of the scheduler, which nobody may touch."""

    folder: Path
    config: Config
    sources: Sequence[str]
    hosts: Sequence[str]
    now_ms: int = START
    every_ms: int = 2_000  # of the stages behind the pollers
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = SqliteLog(self.folder / "log", clock=lambda: self.now_ms)
        self.put = self.log.appender()
        context = Context(self.config, self.log, SelfMetrics(), self.said.append, lambda: self.now_ms)
        self.pollers: list[Stage] = [make(context) for make in pollings(self.sources, self.config).values()]
        width = widths(self.config.windows)
        width_ms, lateness_ms = width["width_ms"], width["lateness_ms"]
        self.windows = Runner(
            self.log.join(WINDOWS_GROUP, [TELEMETRY], "w"),
            window_maker(self.log, width_ms=width_ms, lateness_ms=lateness_ms),
            group=WINDOWS_GROUP,
        )
        self.diagnoser = Diagnoser(self.log, say=self.said.append, window_ms=width_ms, lateness_ms=lateness_ms)
        self.scheduler = SimulatedScheduler(self.hosts, lambda: self.now_ms)
        self.remediator = Remediator(context, self.scheduler, lambda: self.now_ms / 1000)

    def second(self) -> None:
        """One second: sources are asked; now and then everybody else works."""
        self.now_ms += 1000
        for poller in self.pollers:
            poller.step(self.now_ms)
        if self.now_ms % self.every_ms:
            return
        tick(self.put, self.log.topics, driving(self.log.topics))
        self.windows.drain()
        self.diagnoser.drain(self.now_ms)
        self.remediator.step(self.now_ms)

    def close(self) -> None:
        """End of all stages."""
        for stage in (*self.pollers, self.remediator):
            stage.close()
        self.diagnoser.close()
        self.log.close()

    def incidents(self) -> list[Incident]:
        """All, as they stand."""
        return [one for one in current(self.log.reader())[0].values() if one.state != "merged"]

    def acts(self) -> list[Action]:
        """The newest line of each action."""
        lines = [actions.decode(one.value) for one in everything(self.log, ACTIONS) if one.value]
        return list({line.id: line for line in lines if isinstance(line, Action)}.values())

    def letters(self) -> int:
        """Records that somebody could not read."""
        return len(only(self.log, DEADLETTER))
