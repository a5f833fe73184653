"""Faults of storage: a server that stalls, a slow target, a take-over, one client thrown out. Only who does input or
output shows it, and its clients are innocent unless one alone is the fault."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.components import Kind, Name, name
from sickbay.messages import Action, Verdict
from simulator.faults.kit import COMPONENT, SHARED, Faults, host_name, job_name, stall
from simulator.faults.lasting import Lasting, jobs_on
from simulator.printing import lines as printing
from simulator.printing import site_lines as lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.run import Run
from simulator.world import World

STUCK_S = 122  # the kernel's own patience with a task that hangs
CARE = frozenset({Action.WATCH, Action.ESCALATE})
NEVER = frozenset({"drain_host", "reboot_host", "exclude_for_job", "reset_device", "power_cycle", "requeue"})


def users(host: str, share: float, world: World) -> list[Run]:
    """A share of the jobs, the host's own first: those that do input or output in that minute."""
    runs = list(world.runs.values())
    first = next((i for i, run in enumerate(runs) if host in run.job.hosts), 0)
    ordered = runs[first:] + runs[:first]
    return ordered[: max(1, round(share * len(ordered)))]


def block(world: World, run: Run, tasks: float = 8.0) -> None:
    """Tasks of a job hang in the kernel on all its hosts."""
    for host in run.job.hosts:
        world.now.overlay.put("host", "tasks_blocked", world.cluster.host_index[host], tasks)


def wait(run: Run, began: int, at_s: int, for_s: int, world: World) -> Iterator[Printed]:
    """A job whose ranks hang in input or output: its own time-out may end it before the storage is back."""
    yield from stall(run, began, at_s, world, ())
    run.stalled = not run.ended and at_s - began < for_s
    if run.stalled:
        block(world, run)


@dataclass(slots=True, kw_only=True)
class StorageStall(Lasting):
    """A metadata server stalls: who does I/O waits and says so, who computes runs on (night 21).

    `share` of the jobs wait, the host's own first; `for_s`: how long it lasts.
    """

    host: str
    target: str = "scratch-MDT0002"
    share: float = 0.5
    for_s: int = 400

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since = self.since(at_s)
        if not 0 <= since < self.for_s:
            return
        for place, run in enumerate(self.waiting(world)):
            yield from wait(run, self.at, at_s, self.for_s - 1, world)
            for row, host in enumerate(run.job.hosts):
                if since == 2 + (3 * place + row) % 8:
                    yield self._says(world.ms(at_s, 10 * row), host)
                if since == STUCK_S + 3 + row:
                    yield lines.task_stuck(world.ms(at_s), host, 48_000 + row)

    def _says(self, at_ms: int, host: str) -> Printed:
        return lines.storage_slow(at_ms, host, self.target)

    def waiting(self, world: World) -> list[Run]:
        """The jobs that do I/O in that minute."""
        return users(self.host, self.share * self.severity, world)

    def expect(self, world: World) -> Expectation:
        """The target; its clients are innocent."""
        return _of_target(self, world, self.target, self.waiting(world), "storage_stall", "a server stalls", 2)


def _of_target(
    what: Lasting, world: World, target: str, runs: list[Run], fault: str, title: str, seen_s: int
) -> Expectation:
    touched = {job_name(run) for run in runs} | {host_name(host) for run in runs for host in run.job.hosts}
    return what.truth(
        world, title, fault=fault, family="shared", verdicts=SHARED, components={name(Kind.STORAGE, target)},
        faults={"storage_stall"}, actions=CARE, touched=touched, forbidden=NEVER, seen_s=seen_s,
    )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class FilerSilent(StorageStall):
    """An NFS server does not answer: the same, in the words of its clients, and they say when it is back."""

    target: str = "filer-02"

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        yield from StorageStall.tick(self, at_s, world)
        if self.since(at_s) == self.for_s:
            for row, host in enumerate(host for run in self.waiting(world) for host in run.job.hosts):
                yield lines.filer_answers(world.ms(at_s, 10 * row), host, self.target)

    def _says(self, at_ms: int, host: str) -> Printed:
        return lines.filer_silent(at_ms, host, self.target)

    def expect(self, world: World) -> Expectation:
        """The server."""
        return _of_target(self, world, self.target, self.waiting(world), "storage_filer", "a filer is silent", 2)


@dataclass(slots=True, kw_only=True)
class TargetSlow(Lasting):
    """One object target is slow: a checkpoint takes many times as long on every host that writes to it, and training
    between checkpoints is as ever. `factor`: at full severity; below 0.5 no client's request runs out of its time."""

    host: str
    target: str = "scratch-OST0012"
    share: float = 0.75
    factor: float = 6.0
    began: dict[str, int] | None = None  # checkpoints that were made longer

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        self.began = {} if self.began is None else self.began
        for place, run in enumerate(users(self.host, self.share, world)):
            if not self.on(at_s) or run.ended:
                continue
            if self.since(at_s) == 10 * place and run.moves:  # a checkpoint falls due
                run.pause_now((self.factor - 1) * self.severity * run.job.checkpoint_s + run.job.checkpoint_s)
                self.began[run.job.id] = at_s
                yield printing.checkpoint(world.ms(at_s), run.job.id, run.step, begins=True)
            if self.severity >= 0.5 and at_s - self.began.get(run.job.id, at_s) == 46:
                for row, host in enumerate(run.job.hosts):
                    yield lines.target_slow(world.ms(at_s, 70 * row), host, self.target)

    def expect(self, world: World) -> Expectation:
        """The target, or that checkpoints are slow; nothing while they write."""
        runs = users(self.host, self.share, world)
        hosts = {host_name(host) for run in runs for host in run.job.hosts}
        right = {name(Kind.STORAGE, self.target)} | {job_name(run) for run in runs}
        return self.truth(
            world, "one storage target slow", fault="storage_target_slow", family="shared",
            verdicts=SHARED | frozenset({Verdict.UNKNOWN}), components=right,
            faults={"storage_stall", "checkpoint_slow", "storage_suspected"}, actions=CARE, touched=hosts | right,
            forbidden=NEVER | {"stop_job"}, seen_s=46 if self.severity >= 0.5 else 60,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class ServerTakesOver(Lasting):
    """A metadata server dies and its twin takes over: every client loses it, and has it back a minute or two later."""

    host: str
    target: str = "scratch-MDT0000"
    share: float = 0.5
    lasts_s: int | None = 95

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since, back = self.since(at_s), self.lasts_s or 95
        if not 0 <= since <= back + 5:
            return
        hosts = [host for run in world.runs.values() for host in run.job.hosts]
        for place, host in enumerate(hosts):
            if since == 3 + place % 6:
                yield lines.storage_lost(world.ms(at_s, 13 * place % 1000), host, self.target)
            if since == back + place % 5:
                yield lines.storage_back(world.ms(at_s, 17 * place % 1000), host, self.target)
        if since <= back:
            for run in users(self.host, self.share * self.severity, world):
                yield from wait(run, self.at, at_s, back, world)

    def expect(self, world: World) -> Expectation:
        """The server; all its clients are innocent, and wait."""
        runs = list(world.runs.values())
        return _of_target(self, world, self.target, runs, "storage_failover", "a server is taken over", 3)


@dataclass(slots=True, kw_only=True)
class ClientEvicted(Lasting):
    """One client of many is thrown out while it writes a checkpoint: its dirty pages are lost, and the checkpoint that
    all others report as whole is torn (night 22)."""

    host: str
    target: str = "scratch-OST0012"

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = world.run_on(self.host)
        if self.since(at_s) == -4 and run and run.moves:
            run.pause_now(run.job.checkpoint_s)
            yield printing.checkpoint(world.ms(at_s), run.job.id, run.step, begins=True)
        if self.since(at_s) == 0:
            yield from lines.evicted(world.ms(at_s, 240), self.host, self.target)
        if self.since(at_s) == 25:
            yield lines.storage_back(world.ms(at_s, 10), self.host, self.target)

    def expect(self, world: World) -> Expectation:
        """The client; the target and the other hosts are innocent."""
        run = world.run_on(self.host)
        others = set[Name]() if run is None else {host_name(h) for h in run.job.hosts if h != self.host}
        return self.truth(
            world, "one storage client evicted", fault="storage_client", family="explicit", verdicts=COMPONENT,
            components={name(Kind.FILESYSTEM, self.host, self.target), host_name(self.host)}, actions=CARE,
            touched={host_name(self.host)} | ({job_name(run)} if run else set()),
            forbidden={"drain_host", "reset_device", "power_cycle", "stop_job"},
            spared=others | {name(Kind.STORAGE, self.target)},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class TasksStuck(Lasting):
    """Tasks hang on all hosts of some jobs, two minutes before the kernel says so, and nobody names what for."""

    host: str
    share: float = 0.75
    for_s: int = 300

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since = self.since(at_s)
        if not 0 <= since <= self.for_s:
            return
        for place, run in enumerate(users(self.host, self.share * self.severity, world)):
            yield from wait(run, self.at, at_s, self.for_s, world)
            for row, host in enumerate(run.job.hosts):
                if since == STUCK_S + (2 * place + row) % 9:
                    yield lines.task_stuck(world.ms(at_s, 31 * row), host, 48_000 + row)

    def expect(self, world: World) -> Expectation:
        """A question about what they share; never one of the hosts."""
        runs = users(self.host, self.share * self.severity, world)
        hosts = [host for run in runs for host in run.job.hosts]
        unnamed = {name(Kind.STORAGE, "?")} | {job_name(run) for run in jobs_on(world, hosts)}
        return self.truth(
            world, "tasks stuck on many hosts", fault="storage_suspected", family="shared",
            verdicts=SHARED | frozenset({Verdict.UNKNOWN}), components=unnamed, actions=CARE,
            faults={"storage_suspected", "storage_stall"}, touched={host_name(host) for host in hosts} | unnamed,
            forbidden=NEVER, seen_s=0,
        )  # fmt: skip


FAULTS: Faults = {
    "storage_stall": StorageStall,
    "storage_filer": FilerSilent,
    "storage_target_slow": TargetSlow,
    "storage_failover": ServerTakesOver,
    "storage_client": ClientEvicted,
    "storage_suspected": TasksStuck,
}
