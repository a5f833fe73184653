"""A small cluster with a remediator, all on the memory log and one clock: incidents go in, the ledger comes out."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from diagnosis.case import Case
from remediation.plan import planned
from remediation.schedulers.simulated import SimulatedScheduler
from sickbay import actions, messages
from sickbay.actions import JUDGED_KEY, Action, Control, Judged, Outcome
from sickbay.app.asking.ledger_lines import ledger_of
from sickbay.app.remediating.remediation_inputs import TASK
from sickbay.app.remediating.remediator import Remediator
from sickbay.app.running.service import Context
from sickbay.log.memory import MemoryLog
from sickbay.messages import Action as Headline
from sickbay.messages import Affected, Incident, Placement, Severity, Suspect, Verdict
from sickbay.placement import Placements
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config, Remediation

START = 1_760_000_000_000
JOB = "4471"
CARD = "accelerator:n1/0000:cb:00"


ACT = Remediation(mode="act", scheduler="simulated")


class Crash(BaseException):
    """The process dies here."""


@dataclass(slots=True)
class Hands:
    """Both clocks of the machine. `sleep` is what a stopped process sees: both jump."""

    now_ms: int = START
    mono_ms: int = 0

    def wall(self) -> int:
        return self.now_ms

    def monotonic(self) -> float:
        return self.mono_ms / 1000

    def sleep(self, ms: int) -> None:
        self.now_ms += ms
        self.mono_ms += ms


MADE: list["Cluster"] = []  # so that the tests' own fixture ends what they started


@dataclass(slots=True)
class Cluster:
    """Four nodes, one job of three on them, a remediator in `act` mode. `judging`: diagnosis beats each second.

    `placed`: the poller has told of the job."""

    settings: Remediation = ACT
    seed: int = 0
    job_size: int = 3
    clock: Hands = field(default_factory=Hands)
    judging: bool = True
    placed: bool = True
    lines: list[str] = field(default_factory=list)
    remediators: list[Remediator] = field(default_factory=list)
    incidents: dict[str, Incident] = field(default_factory=dict)
    log: MemoryLog = field(init=False)
    scheduler: SimulatedScheduler = field(init=False)
    remediator: Remediator = field(init=False)

    def __post_init__(self) -> None:
        self.log = MemoryLog(clock=self.clock.wall, seed=self.seed)
        self.scheduler = SimulatedScheduler([f"n{number}" for number in range(1, 5)], self.clock.wall)
        self.scheduler.submit(JOB, self.job_size)
        if self.placed:
            self.place()
        self.remediator = self.started()
        if self.settings.test_command:
            MADE.append(self)

    def started(self, settings: Remediation | None = None, member: str = "remediation-1") -> Remediator:
        """A fresh process."""
        config = Config(remediation=settings or self.settings)
        context = Context(config, self.log, SelfMetrics(), self.lines.append, self.clock.wall)
        scheduler = None if config.remediation.scheduler == "none" else self.scheduler
        self.remediators.append(Remediator(context, scheduler, self.clock.monotonic, member))
        return self.remediators[-1]

    def close_all(self) -> None:
        """End what runs."""
        for remediator in self.remediators:
            remediator.errands.close()

    def restart(self, settings: Remediation | None = None) -> None:
        self.remediator = self.started(settings)

    def place(self) -> None:
        """What the poller tells of the job."""
        job = self.scheduler.jobs([JOB])[JOB]
        told = Placement(job=JOB, attempt=job.attempt, hosts=job.nodes, from_ms=self.scheduler.began_ms(JOB) or None,
                         state=job.state)  # fmt: skip
        self.append("sickbay.placement.v1", JOB.encode(), messages.encode(told))

    def append(self, topic: str, key: bytes, value: bytes | None) -> None:
        self.log.appender().append(topic, key, value)

    def incident(self, key: str = "i1", **fields: Any) -> Incident:
        """Diagnosis finds a lost accelerator (or what `fields` say) and tells of it."""
        return self.tell(found(key, self.clock.now_ms, **fields))

    def tell(self, incident: Incident) -> Incident:
        self.incidents[incident.id] = incident
        self.append(TASK.topic, incident.id.encode(), messages.encode(incident))
        return incident

    def close(self, key: str) -> None:
        self.tell(replace(self.incidents[key], state="closed"))

    def judge(self, as_of_ms: int | None = None) -> None:
        """The heartbeat."""
        standing = tuple(one.id for one in self.incidents.values() if one.state == "open")
        judged = Judged(as_of_ms=self.clock.now_ms if as_of_ms is None else as_of_ms, open=standing)
        self.append(TASK.topic, JUDGED_KEY, actions.encode(judged))

    def say(self, kind: str, target: str, **fields: Any) -> None:
        """A person speaks."""
        control = Control(kind=kind, target=target, by="carol", at_ms=self.clock.now_ms, **fields)
        self.append("sickbay.control.v1", f"{kind}:{target}:carol".encode(), actions.encode(control))

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """The machines go on: a heartbeat each second, the remediator whenever it wants to."""
        for _ in range(int(seconds * 2)):
            if self.judging and self.clock.now_ms % 1000 == 0:
                self.judge()
            for _ in range(30):
                if not self.remediator.step(self.clock.now_ms):
                    break
            if until():
                return
            self.clock.sleep(500)

    def run_slowly(self, seconds: float = 120, until: Callable[[], bool] = lambda: False) -> None:
        """The same, with some real time in between for what runs beside."""
        for _ in range(int(seconds)):
            self.run(1, until)
            if until():
                return
            time.sleep(0.005)

    @property
    def ledger(self) -> dict[str, Action]:
        return ledger_of(self.log.reader())

    def states(self, incident: str = "i1") -> dict[str, str]:
        """Newest state per verb of an incident."""
        return {line.do: str(line.state) for line in self.ledger.values() if line.incident == incident}

    def line(self, do: str, incident: str = "i1") -> Action:
        return next(one for one in self.ledger.values() if (one.do, one.incident) == (do, incident))

    def line_of(self, do: str, incident: str = "i1") -> Action | None:
        return next((one for one in self.ledger.values() if (one.do, one.incident) == (do, incident)), None)

    def line_state(self, do: str) -> str:
        return self.states().get(do, "")

    def history(self, do: str, incident: str = "i1") -> list[str]:
        """All states that a verb went through."""
        read = self.log.reader().read(TASK._replace(topic="sickbay.actions.v1"), 0, 10_000)
        told = [actions.decode(record.value) for record in read if record.value]
        mine = [one for one in told if isinstance(one, Action) and (one.do, one.incident) == (do, incident)]
        return list(dict.fromkeys(str(one.state) for one in mine))

    def outcomes(self) -> list[Outcome]:
        read = self.log.reader().read(TASK._replace(topic="sickbay.outcomes.v1"), 0, 10_000)
        told = [actions.decode(record.value) for record in read if record.value]
        return [one for one in told if isinstance(one, Outcome)]


def found(key: str, now_ms: int, component: str = CARD, **fields: Any) -> Incident:
    given: dict[str, Any] = {
        "verdict": Verdict.COMPONENT, "fault": "accelerator_off_bus", "severity": Severity.FATAL, "probability": 0.97,
        "action": Headline.REBOOT_HOST, "suspects": (Suspect(component=component, probability=0.97),),
        "affected": Affected(jobs=(JOB,)), "onset_ms": now_ms, "detected_ms": now_ms,
    }  # fmt: skip
    bare = Incident(id=key, component=component, **(given | fields))
    return with_plan(bare)


def with_plan(incident: Incident) -> Incident:
    case = Case(now_ms=incident.onset_ms or 0, placements=Placements())
    return planned([incident], case)[0]


def command_of(folder: Path, script: str) -> tuple[str, ...]:
    """A test that runs some lines of shell."""
    path = folder / "release-test"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return (str(path),)


def writes(cluster: Cluster, verb: str) -> list[str]:
    return [target for one, target in cluster.scheduler.writes if one == verb]


def names(lines: Iterable[Action]) -> list[str]:
    return [f"{one.do}:{one.state}" for one in lines]
