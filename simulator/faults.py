"""Faults, named as in faults.toml: what each does to sensors and jobs, what is printed, and the right answer.

Times are whole seconds of the night. A synchronous job stalls as a whole within a second; the ranks that print a
time-out do so one time-out later, and they are the ones that waited.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sickbay.components import Kind, Name, name
from sickbay.messages import Action, Verdict
from simulator import lines
from simulator.cluster import Card
from simulator.expectation import Expectation
from simulator.lines import Printed
from simulator.workload import Run
from simulator.world import World

COMPONENT, SHARED, JOB = (frozenset({v}) for v in (Verdict.COMPONENT, Verdict.SHARED, Verdict.JOB))
TAKE_OUT = frozenset({Action.RESET_DEVICE, Action.DRAIN_HOST, Action.REBOOT_HOST, Action.REPLACE_PART})
LEAVE = frozenset({Action.IGNORE, Action.WATCH, Action.FIX_SOFTWARE, Action.RESTART_JOB})


class Happening(Protocol):
    """An effect that knows the right answer."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """What this second is like because of it, and what is printed."""
        ...

    def expect(self, world: World) -> Expectation:
        """What must be said of it."""
        ...


def host_name(host: str) -> Name:
    """Component name of a host."""
    return name(Kind.HOST, host)


def job_name(run: Run) -> Name:
    """Component name of a job."""
    return name(Kind.JOB, run.job.id)


def ranks_of(run: Run) -> list[tuple[int, Card]]:
    """Ranks of a job with their cards."""
    return list(enumerate(card for host in run.job.hosts for card in run.cluster.of(host)))


def stall(run: Run | None, began: int, at_s: int, world: World, absent: Sequence[Card]) -> Iterator[Printed]:
    """A job that waits for `absent`: transport errors after half a minute, time-outs of the others after its time."""
    if run is None or run.ended or at_s < began:
        return
    run.stalled = True
    waiting = [(rank, card) for rank, card in ranks_of(run) if card not in absent]
    if at_s == began + 35 and absent:
        far = [(rank, card) for rank, card in waiting if card.host != absent[0].host]  # near ones use no network
        for rank, card in far[:2]:
            yield lines.retry_exceeded(world.ms(at_s, 100 + rank), run.job.id, card, absent[0])
    if at_s == began + run.job.timeout_s:
        for rank, _ in waiting:
            seq = 71_904 + run.step
            yield from lines.watchdog(world.ms(at_s, 37 + rank), run.job.id, rank, seq, "ALLREDUCE", run.job.timeout_s)
    if at_s == began + run.job.timeout_s + 2:
        run.ended = True


@dataclass(slots=True)
class OffBus:
    """A card falls off the bus: its host's cards go blank, the job stalls (night 1)."""

    at: int
    card: Card
    coded: bool = True
    burst: bool = True

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.burst and at_s in (self.at - 40, self.at - 39):
            world.now.replays[world.cluster.row(self.card.component)] = 60
            yield from lines.corrected_bus_error(world.ms(at_s, 210), self.card)
        if at_s == self.at:
            yield from lines.off_bus(world.ms(at_s, 20), self.card, coded=self.coded)
        if at_s > self.at:
            _blind(world, self.card.host)
        yield from stall(world.run_on(self.card.host), self.at + 1, at_s, world, (self.card,))

    def expect(self, world: World) -> Expectation:
        """The card; a plan that ends in a power cycle, never a reset: what left the bus cannot be reset."""
        return _of_card(world, self.card, "accelerator_off_bus", "card off the bus", self.at,
                        TAKE_OUT - {Action.RESET_DEVICE})  # fmt: skip


@dataclass(slots=True)
class FirmwareHang:
    """The exporter dies as the firmware hangs; the driver says so 45 s later (night 8)."""

    at: int
    card: Card

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s >= self.at:
            _blind(world, self.card.host)
        if at_s == self.at + 45:
            yield lines.firmware_timeout(world.ms(at_s, 310), self.card)
        yield from stall(world.run_on(self.card.host), self.at, at_s, world, world.cluster.of(self.card.host))

    def expect(self, world: World) -> Expectation:
        """The card, or its host while only blindness speaks."""
        return _of_card(world, self.card, "accelerator_firmware_hang", "firmware hang", self.at, TAKE_OUT)


@dataclass(slots=True)
class Thermal:
    """A card lowers its clock for heat; its job waits for it (night 4)."""

    at: int
    card: Card
    share: float = 0.08  # of the clock

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run, row = world.run_on(self.card.host), world.cluster.row(self.card.component)
        if at_s < self.at or run is None or not run.moves:
            return
        grown = min(1.0, (at_s - self.at) / 30)
        world.now.clock[row] = 1 - self.share * grown
        world.now.heat[row] = 16 * grown
        world.now.throttled[row] = 0.35 * grown
        run.slow["thermal"] = self.share * grown
        yield from ()

    def expect(self, world: World) -> Expectation:
        """The card; no stop now, a drain is no cure for a job that runs."""
        actions = frozenset({Action.WATCH, Action.DRAIN_HOST, Action.REPLACE_PART, Action.ESCALATE})
        return _of_card(world, self.card, "accelerator_thermal", "card slowed by heat", self.at, actions,
                        faults={"accelerator_thermal", "accelerator_slow"})  # fmt: skip


@dataclass(slots=True)
class NarrowBus:
    """A card whose host link has run at half width since boot: nothing ever changes (night 5 b)."""

    at: int
    card: Card
    share: float = 0.05

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        world.now.lanes[world.cluster.row(self.card.component)] = 8
        if run := world.run_on(self.card.host):
            run.slow["bus"] = self.share
        yield from ()

    def expect(self, world: World) -> Expectation:
        """The card or its link, by the width alone."""
        seen = _of_card(world, self.card, "pcie_degraded", "PCIe x8 since boot", 0,
                        frozenset({Action.WATCH, *TAKE_OUT}))  # fmt: skip
        links = {
            name(Kind.PCIE, self.card.host, pci) for pci in (self.card.pci, self.card.pci + ".0", self.card.root_pci)
        }
        return replace(seen, touched=seen.touched | links, components=seen.components | links)


@dataclass(slots=True)
class LeafReboot:
    """A leaf switch restarts: all carriers of its hosts go and come back; the jobs die (night 14)."""

    at: int
    leaf: str
    away: int = 200

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        cards = world.cluster.under(self.leaf)
        for place, card in enumerate(cards):
            back = self.at + self.away + 20 * place // len(cards)
            if self.at <= at_s < back:
                world.now.port_up[world.cluster.row(card.component)] = False
            if at_s == self.at:
                yield lines.link(world.ms(at_s, 40 + 5 * place), card, "Down")
            if at_s == back:
                yield lines.link(world.ms(at_s, 300), card, "Up")
        for host in dict.fromkeys(card.host for card in cards):
            yield from self._job(world.run_on(host), at_s, world)

    def _job(self, run: Run | None, at_s: int, world: World) -> Iterator[Printed]:
        if run is None or run.ended or at_s < self.at:
            return
        run.stalled = True
        if at_s == self.at + 38:
            ranks = ranks_of(run)
            for rank, card in ranks[:4]:
                yield lines.retry_exceeded(world.ms(at_s, rank), run.job.id, card, ranks[rank - 4][1])
        run.ended = at_s >= self.at + 42

    def expect(self, world: World) -> Expectation:
        """The switch; its hosts are innocent and must not be drained."""
        cards, switch = world.cluster.under(self.leaf), name(Kind.SWITCH, self.leaf)
        touched = {switch, *(c.port for c in cards), *(host_name(c.host) for c in cards)}
        touched |= {job_name(run) for c in cards if (run := world.run_on(c.host))}
        return Expectation(
            name="switch_down", title="leaf switch restarts", at_ms=world.ms(self.at), touched=frozenset(touched),
            verdicts=SHARED, components=frozenset({switch}), faults=frozenset({"switch_down"}),
            actions=frozenset({Action.WATCH, Action.ESCALATE}),
        )  # fmt: skip


@dataclass(slots=True)
class UserMemory:
    """A process goes over its own memory limit and is killed; the job ends (night 24)."""

    at: int
    host: str

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = world.run_on(self.host)
        if run is None or run.ended or at_s < self.at:
            return
        if at_s == self.at:
            world.now.kills[world.cluster.host_index[self.host]] = 1
            yield from lines.killed_by_own_limit(world.ms(at_s, 120), self.host, run.job.id, 48_122)
            yield lines.exit_of(world.ms(at_s, 600), run.job.id, 3, -9, 48_122)
            yield lines.exit_of(world.ms(at_s, 900), run.job.id, 5, -6, 48_124)
        run.ended = True

    def expect(self, world: World) -> Expectation:
        """The job: its own limit was hit, the host is fine."""
        run = world.run_on(self.host)
        jobs = frozenset({job_name(run)}) if run else frozenset()
        return Expectation(
            name="application_out_of_memory", title="user's process over its memory limit", at_ms=world.ms(self.at),
            touched=jobs | {host_name(self.host)}, verdicts=JOB, components=jobs,
            faults=frozenset({"application_out_of_memory"}), actions=LEAVE,
        )  # fmt: skip


@dataclass(slots=True)
class HostMemory:
    """A leaking daemon takes the memory of the whole host (the twin of night 24)."""

    at: int
    host: str

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        row, run = world.cluster.host_index[self.host], world.run_on(self.host)
        if at_s >= self.at - 60:
            world.now.memory_free[row] = 0.004 if at_s >= self.at else 0.78 * (self.at - at_s) / 60
        if at_s == self.at:
            world.now.kills[row] = 1
            yield from lines.killed_for_host(world.ms(at_s, 150), self.host, 3311)
        if run and at_s == self.at + 3 and not run.ended:
            yield lines.exit_of(world.ms(at_s, 10), run.job.id, 1, -7, 48_121)
            run.ended = True

    def expect(self, world: World) -> Expectation:
        """The host."""
        host = frozenset({host_name(self.host)})
        return Expectation(
            name="host_out_of_memory", title="host out of memory", at_ms=world.ms(self.at), touched=host,
            verdicts=COMPONENT, components=host, faults=frozenset({"host_out_of_memory"}),
            actions=frozenset({Action.DRAIN_HOST, Action.REBOOT_HOST}),
        )  # fmt: skip


@dataclass(slots=True)
class Deadlock:
    """Half of the ranks wait in another operation; the next attempt stops at the same step (night 25)."""

    at: int
    host: str
    attempts: int = 2
    _stopped: int = -1
    _seen: int = 0
    _step: int = 0

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = world.run_on(self.host)
        if run is None or at_s < self.at:
            return
        if self._stopped < 0 and (self._seen == 0 or run.step >= self._step):
            self._stopped, self._step, self._seen = at_s, run.step, self._seen + 1
        if self._stopped < 0:
            return
        run.stalled = not run.ended
        if at_s == self._stopped + run.job.timeout_s:
            for rank, _ in ranks_of(run):
                op = "ALLREDUCE" if rank % 2 else "_ALLGATHER_BASE"
                seq, wait = 71_904 + self._step, run.job.timeout_s
                yield from lines.watchdog(world.ms(at_s, 37 + rank), run.job.id, rank, seq, op, wait)
        if at_s == self._stopped + run.job.timeout_s + 3:
            run.ended = True
        if at_s == self._stopped + run.job.timeout_s + 20 and self._seen < self.attempts:
            run.restart(at_s, self._step - 3)
            self._stopped = -1
            world.news.append(run.placement(world.ms(at_s)))

    def expect(self, world: World) -> Expectation:
        """The program: no host is at fault."""
        run = world.run_on(self.host)
        jobs = frozenset({job_name(run)}) if run else frozenset()
        hosts = {host_name(host) for host in run.job.hosts} if run else set()
        return Expectation(
            name="collective_mismatch", title="ranks wait in different operations", at_ms=world.ms(self.at),
            touched=jobs | hosts, verdicts=JOB, components=jobs,
            faults=frozenset({"collective_mismatch", "job_same_step"}), actions=LEAVE,
        )  # fmt: skip


def _blind(world: World, host: str) -> None:
    world.now.seen[world.cluster.rows(host)] = False
    world.now.source_up[world.cluster.host_index[host]] = False


def _of_card(
    world: World, card: Card, fault: str, title: str, at: int, actions: frozenset[Action],
    faults: set[str] | None = None,
) -> Expectation:  # fmt: skip
    run, host = world.run_on(card.host), host_name(card.host)
    touched = {host, *(other.component for other in world.cluster.of(card.host)), *([job_name(run)] if run else [])}
    return Expectation(
        name=fault, title=title, at_ms=world.ms(at), touched=frozenset(touched),
        verdicts=COMPONENT, components=frozenset({card.component, host}),
        faults=frozenset(faults or {fault, "host_blind"}), actions=actions,
    )  # fmt: skip


FAULTS: dict[str, Callable[..., Happening]] = {
    "accelerator_off_bus": OffBus,
    "accelerator_firmware_hang": FirmwareHang,
    "accelerator_thermal": Thermal,
    "pcie_degraded": NarrowBus,
    "switch_down": LeafReboot,
    "application_out_of_memory": UserMemory,
    "host_out_of_memory": HostMemory,
    "collective_mismatch": Deadlock,
}
