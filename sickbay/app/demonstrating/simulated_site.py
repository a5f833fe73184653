"""`sickbay up --simulate`: a small site made up in this process: a scheduler, a job, and cards that fall off the bus.

Its hosts are watched by real agents, its scheduler is held and released by the real remediation; hardware, jobs and
the person who power-cycles a broken host are simulated.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from remediation.schedulers.simulated import SimulatedScheduler
from sickbay import messages
from sickbay.app.running.service import Context
from sickbay.messages import Placement
from sickbay.settings import Agent, Config, Metrics
from sickbay.topics import PLACEMENT
from simulator.live import node_test
from simulator.live.site import Site
from simulator.live.site_jobs import Running, SiteJobs

JOB, SIZE = "1001", 3
FIRST_S, EVERY_S = 30.0, 300.0  # after the start, and between two faults
REPAIR_S = 10.0  # from an empty, held host to its power cycle


@dataclass(slots=True)
class Simulated:
    """The site and its scheduler."""

    folder: Path
    hosts: tuple[str, ...]
    seed: int = 0
    site: Site = field(init=False)
    scheduler: SimulatedScheduler = field(init=False)

    def __post_init__(self) -> None:
        from sickbay.log import wall_ms

        self.site = Site(self.folder, self.hosts, seed=self.seed)
        self.scheduler = SimulatedScheduler(self.hosts, wall_ms)
        self.scheduler.submit(JOB, SIZE)
        self.site.start()

    def settings(self, config: Config) -> Config:
        """The settings to run it with: remediation acts, as nothing real can be hurt; its test asks the exporters."""
        remediation = msgspec.structs.replace(
            config.remediation,
            mode="act",
            scheduler="simulated",
            test_command=(sys.executable, str(node_test.__file__), f"http://127.0.0.1:{self.site.exporters.port}"),
            test_sensitivity=0.95,
            test_timeout_s=30.0,
        )
        return msgspec.structs.replace(config, remediation=remediation)

    def agents(self, config: Config) -> list[Config]:
        """The settings of one agent a host."""
        return [msgspec.structs.replace(config, agent=self._agent(host), metrics=Metrics()) for host in self.hosts]

    def _agent(self, host: str) -> Agent:
        return Agent(
            host=host,
            root=str(self.site.root(host)),
            kernel_log="var/log/kern.log",
            exporters=tuple(self.site.exporters.url(host, what) for what in ("accelerators", "node")),
            job_logs=("scratch/slurm-*.out",) if host == self.hosts[0] else (),
            spool=str(self.folder / "spools" / host),
        )


class SimulatedStage:
    """Lets the jobs run, breaks a card now and then, repairs what is held, and tells placements as a poller would."""

    def __init__(self, context: Context, simulated: Simulated) -> None:
        self._context, self._simulated = context, simulated
        self._jobs = SiteJobs(simulated.site)
        self._appender = context.log.appender()
        self._told: dict[tuple[str, int], Placement] = {}
        self._began_ms = context.clock()
        self._broken = 0
        self._empty_ms: dict[str, int] = {}

    def step(self, now_ms: int) -> bool:
        """One moment; nothing is ever left to do at once."""
        running = list(self._running())
        self._jobs.step(now_ms / 1000, running)
        self._tell(running, now_ms)
        self._break(running, now_ms)
        self._repair(now_ms)
        return False

    def close(self) -> None:
        """End the site."""
        self._appender.close()
        self._simulated.site.close()

    def _running(self) -> Iterator[Running]:
        for job in self._simulated.scheduler.jobs().values():
            if job.state == "running":
                yield Running(job.id, job.attempt, job.nodes)

    def _tell(self, running: list[Running], now_ms: int) -> None:
        now = {(one.job, one.attempt): one for one in running}
        for key, one in now.items():
            if key not in self._told:
                began = self._simulated.scheduler.began_ms(one.job) or now_ms
                self._say(Placement(job=one.job, attempt=one.attempt, hosts=one.nodes, from_ms=began, state="running"))
        for key, placement in self._told.items():
            if key not in now and placement.to_ms is None:
                self._say(messages.replace(placement, to_ms=now_ms, state="requeued"))

    def _say(self, placement: Placement) -> None:
        self._told = {**self._told, (placement.job, placement.attempt): placement}
        self._appender.append(PLACEMENT, placement.job.encode(), messages.encode(placement))
        self._appender.flush()

    def _break(self, running: list[Running], now_ms: int) -> None:
        due_ms = self._began_ms + (FIRST_S + EVERY_S * self._broken) * 1000
        site, hosts = self._simulated.site, self._simulated.hosts
        if not running or now_ms < due_ms or not all(site.healthy(host) for host in hosts):
            return
        card = site.lose(running[0].nodes[1 + self._broken % (SIZE - 1)], (3 + 2 * self._broken) % 8)
        self._broken += 1
        self._context.say(f"simulated: {card.component} falls off the bus")

    def _repair(self, now_ms: int) -> None:
        for node in self._simulated.scheduler.nodes().values():
            if self._simulated.site.healthy(node.name) or not node.held or node.jobs:
                self._empty_ms.pop(node.name, None)
            elif now_ms - self._empty_ms.setdefault(node.name, now_ms) >= REPAIR_S * 1000:
                self._simulated.site.repair(node.name)
                self._context.say(f"simulated: somebody power-cycles {node.name}")
