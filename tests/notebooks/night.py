"""A simulated night with one lost accelerator, diagnosed live and archived; what people did about it is told too."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from collectors.identity import Names
from sickbay import actions, messages
from sickbay.actions import ActionState, Mode
from sickbay.app.demonstrating.agents import Agents
from sickbay.app.demonstrating.demo import small_site, told
from sickbay.app.running.live import Pipeline
from sickbay.log import Log
from sickbay.log.memory import MemoryLog
from sickbay.messages import Incident, Placement
from simulator.scenario import scenario
from streams.archive import Archive

STEPS = ((6_000, "drain_host", "intended"), (6_400, "drain_host", "verified"), (20_000, "requeue", "verified"),
         (90_000, "release", "verified"))  # fmt: skip
AGAIN_MS = 30_000  # after the onset the job's next attempt begins


@dataclass(frozen=True)
class Night:
    """The archive and what is in it."""

    archive: Path
    incident: Incident


def night(path: Path, until_s: int = 130) -> Night:
    """An accelerator of four hosts is lost at second 60."""
    made, now = scenario(seed=4, hosts=4, timeout_s=40), [0]
    made.at(60).fault("accelerator_off_bus")
    log = MemoryLog(small_site(), clock=lambda: now[0], seed=1)
    pipeline = Pipeline(log)
    agents = Agents(log, Names(made.cluster.identities()), made.cluster.hosts)
    agents.tell_facts(made.cluster.edges(), made.cluster.identities())
    placed: list[Placement] = []
    for second in made.seconds(until_s):
        now[0] = second.at_ms + 1000
        placed += second.placements
        agents.tell_placements(second.placements)
        agents.tell_lines(told(second, made.start_ms), now[0])
        agents.tell_samples(second.samples, now[0])
        pipeline.second(now[0])
    incident = pipeline.diagnoser.incidents[0]
    deal_with(log, now, incident, placed)
    Archive(log, path, clock=lambda: now[0]).drain()
    return Night(path, incident)


def deal_with(log: Log, now: list[int], incident: Incident, placed: list[Placement]) -> None:
    """The ledger of a drain, a requeue and a release, and the job's next attempt."""
    appender, onset_ms = log.appender(), incident.onset_ms or 0
    for line in ledger(incident, onset_ms):
        now[0] = max(now[0], line.at_ms or 0)
        appender.append("sickbay.actions.v1", line.id.encode(), actions.encode(line))
    hit = next(one for one in placed if one.job in incident.affected.jobs)
    again = messages.replace(hit, attempt=hit.attempt + 1, from_ms=onset_ms + AGAIN_MS, to_ms=None, state="running")
    appender.append("sickbay.placement.v1", again.job.encode(), messages.encode(again))


def ledger(incident: Incident, onset_ms: int) -> Iterator[actions.Action]:
    """Its lines, in order."""
    host = incident.component.partition(":")[2].partition("/")[0]
    for after_ms, verb, state in STEPS:
        yield actions.Action(
            id=f"a-{verb}", incident=incident.id, do=verb, target=f"host:{host}", state=ActionState(state),
            mode=Mode.ACT, at_ms=onset_ms + after_ms, began_ms=onset_ms + 6_000,
        )  # fmt: skip
