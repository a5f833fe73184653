"""A simulated night through live stages over one embedded log, the archive stage among them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from collectors.identity import Names
from sickbay.admission import Admission
from sickbay.app.archiving.archiver import Archiver
from sickbay.app.demonstrating.agents import Agents
from sickbay.app.demonstrating.demo import small_site, told
from sickbay.app.diagnosing.explicit import GROUP, explicit_maker
from sickbay.app.replaying.replay import Run
from sickbay.app.replaying.replay_archive import archived, feed, memory
from sickbay.app.replaying.replay_compare import Outcome, against_archive
from sickbay.app.replaying.replay_span import Span, span
from sickbay.app.running.live import Pipeline
from sickbay.app.running.service import Context
from sickbay.history import History
from sickbay.log import Log, driving, tick
from sickbay.log.sqlite import SqliteLog
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Archive, Config
from sickbay.topics import EVENTS, INCIDENTS
from simulator.scenario import Scenario
from streams.runner import Runner
from tests.process.kit import everything


@dataclass
class Night:
    """What is left of it: the archive, and the log that it is of."""

    folder: Path
    begin_ms: int
    end_ms: int
    log: Log

    @property
    def history(self) -> History:
        return History(self.folder)

    def said(self, topic: str) -> list[tuple[bytes, bytes | None]]:
        """All records of a topic of verdicts, without heartbeats."""
        found = (one for one in everything(self.log, topic) if not one.is_tick)
        return [(one.key, one.value) for one in found if one.key != b"judged"]


def night(folder: Path, made: Scenario, seconds: int, each: Callable[[int, Agents], object] | None = None) -> Night:
    """Lives through a night; `each` is called with every second and who tells of it."""
    now, troubles = [made.start_ms], list[str]()
    log = SqliteLog(folder / "log", small_site(), clock=lambda: now[0])
    agents = Agents(log, Names(made.cluster.identities()), made.cluster.hosts)
    agents.tell_facts(made.cluster.edges(), made.cluster.identities())
    agents._appender.flush()
    put = log.appender()
    pipeline = Pipeline(log, lateness_ms=10_000)
    explicit = Runner(log.join(GROUP, [EVENTS], "e"), explicit_maker(Admission()), group=GROUP)
    config = Config(archive=Archive(path=str(folder / "archive"), every_s=30.0))
    archiver = Archiver(Context(config, log, SelfMetrics(), troubles.append, lambda: now[0]))
    for number, second in enumerate(made.seconds(seconds)):
        now[0] = second.at_ms + 1000 + number % 7
        agents.tell_placements(second.placements)
        agents.tell_lines(told(second, made.start_ms), now[0])
        agents.tell_samples(second.samples, now[0])
        if each is not None:
            each(number, agents)
        agents._appender.flush()
        tick(put, log.topics, driving(log.topics))
        put.flush()
        explicit.drain()
        pipeline.work(now[0])
        while archiver.step(now[0]):
            pass
    archiver.archive.drain()
    assert not troubles
    return Night(folder / "archive", made.start_ms, now[0], log)


def replayed(one: Night, since_ms: int, until_ms: int) -> tuple[Outcome, Run, Span]:
    """A range replayed and compared with the archive."""
    history = one.history
    at = span(history, since_ms, until_ms)
    run = Run(Config(), at.cut_ms, memory(history, at.cut_ms))
    for _ in feed(history, at, [run]):
        pass
    return against_archive(archived(history, at), run, at.since_ms, at.until_ms), run, at


def incidents_of(run: Run) -> dict[bytes, list[bytes | None]]:
    """What a run said of each incident."""
    return {key.encode(): [one.value for one in said] for key, said in run.story.incidents.items()}


def incidents_in(one: Night) -> dict[bytes, list[bytes | None]]:
    """What the log holds of each incident."""
    found: dict[bytes, list[bytes | None]] = {}
    for key, value in one.said(INCIDENTS):
        found.setdefault(key, []).append(value)
    return found
