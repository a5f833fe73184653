"""Changes of software that make all ranks slower alike, or break host after host. Nobody stands out by hardware."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sickbay.components import Kind, Name, name
from sickbay.messages import Action, Change
from simulator.faults.card import FirmwareHang
from simulator.faults.kit import SHARED, Faults, blind, host_name, stall
from simulator.faults.lasting import Lasting, hosts_of
from simulator.faults.on_job import AGAIN_S, NO_BLAME, OPEN, OnJob, again
from simulator.printing import job_lines, lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.run import Run
from simulator.world import World

SLOWER = frozenset({Action.WATCH, Action.IGNORE, Action.FIX_SOFTWARE})
LAG_S = 45  # from a firmware hang to the driver's word


@dataclass(slots=True, kw_only=True)
class CodeChange(OnJob):
    """The owner stops the job and starts it with another revision, which is slower: every rank, every step, by `share`.

    `told`: a feed of changes has the revision.
    """

    share: float = 0.22
    told: bool = True
    old: str = "4f1c09a"
    new: str = "9be27d3"

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if (run := self.run(world)) is None:
            return
        if at_s == self.at and not run.ended:
            yield lines.cancelled(world.ms(at_s, 200), run.job.id, run.job.hosts[0])
            run.ended = True
        if self.since(at_s) == AGAIN_S:
            again(run, at_s, world, run.step)
            if self.told:
                world.changes.append(self.change(run, world.ms(at_s)))
            yield from self.begins(run, at_s, world)
        if self.since(at_s) >= AGAIN_S and not run.ended:
            self.weighs(run, at_s)

    def change(self, run: Run, at_ms: int) -> Change:
        """What the feed of changes tells."""
        return Change(target=name(Kind.JOB, run.job.id), what="code revision", at_ms=at_ms, who=run.job.user,
                      old=self.old, new=self.new)  # fmt: skip

    def begins(self, run: Run, at_s: int, world: World) -> Iterator[Printed]:
        """What the new attempt prints of it."""
        yield from ()

    def weighs(self, run: Run, at_s: int) -> None:
        """All ranks' own work takes longer."""
        run.slow["software"] = self.share * self.severity
        run.alike.add("software")

    def expect(self, world: World) -> Expectation:
        """The job; where no change is told, nobody knows."""
        return self.right(world, "slow_steps", "all steps slower by a change", verdicts=OPEN, family="slow",
                          actions=SLOWER, seen_s=AGAIN_S + 15)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class WrongTransport(CodeChange):
    """A setting of the collective library keeps it off the fast network: all exchange runs over sockets, many times
    slower, and its ports carry next to nothing."""

    share: float = 1.4

    def change(self, run: Run, at_ms: int) -> Change:
        """What the feed of changes tells."""
        return Change(target=name(Kind.JOB, run.job.id), what="setting", at_ms=at_ms, who=run.job.user,
                      old="NCCL_IB_DISABLE=0", new="NCCL_IB_DISABLE=1")  # fmt: skip

    def begins(self, run: Run, at_s: int, world: World) -> Iterator[Printed]:
        """The library says which network it uses."""
        for host in run.job.hosts:
            yield job_lines.sockets(world.ms(at_s, 300), run.job.id, world.cluster.of(host)[0])

    def weighs(self, run: Run, at_s: int) -> None:
        """The exchange takes longer, own work does not."""
        run.slow["transport"] = self.share * self.severity
        run.traffic = 1 - 0.98 * min(1.0, self.severity * 2)


@dataclass(slots=True, kw_only=True)
class LoaderStarves(CodeChange):
    """Too few workers read the data: in every so many seconds all cards wait one or two for their next batch.

    `every_s`: at full severity.
    """

    every_s: int = 5

    def weighs(self, run: Run, at_s: int) -> None:
        """All cards idle for a moment."""
        every = max(2, round(self.every_s / max(self.severity, 0.05)))
        if at_s % every < 2:
            run.starve()

    def expect(self, world: World) -> Expectation:
        """The job."""
        return self.right(world, "slow_steps", "all ranks wait for data", verdicts=OPEN, family="slow",
                          actions=SLOWER, seen_s=AGAIN_S + 15)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class CheckpointSlow(OnJob):
    """From a change on the job writes its checkpoints from one rank alone: each takes `factor` times as long."""

    factor: float = 4.0

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if (run := self.run(world)) and at_s == self.at and not run.ended:
            longer = run.job.checkpoint_s * (1 + (self.factor - 1) * self.severity)
            run.job = replace(run.job, checkpoint_s=longer)
            if run.moves:
                run.pause_now(longer)
                yield lines.checkpoint(world.ms(at_s), run.job.id, run.step, begins=True)

    def expect(self, world: World) -> Expectation:
        """The job's checkpoints; whether by storage or by itself is open."""
        return self.right(world, "checkpoint_slow", "checkpoints take longer", verdicts=OPEN, family="slow",
                          actions=SLOWER | {Action.ESCALATE}, seen_s=20)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class BadDriver(Lasting):
    """A driver is rolled out, `batch` hosts at a time; some of those that have it hang after a while, each of them by
    itself, and none without it does (night 28). Each case alone is perfectly argued.

    `victims`: hosts that hang, at full severity.
    """

    host: str  # the first one that gets it
    victims: int = 3
    batch: int = 2
    every_s: int = 10
    first_s: int = 40  # from the first host's change to the first hang
    apart_s: int = 25
    old: str = "550.54"
    new: str = "550.90"
    _hangs: list[FirmwareHang] = field(default_factory=list)

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since, hosts = self.since(at_s), self.order(world)
        if since >= 0 and since % self.every_s == 0:
            first = since // self.every_s * self.batch
            world.changes += [self.change(host, world.ms(at_s)) for host in hosts[first : first + self.batch]]
        self._hangs = self._hangs or self.hangs(world)
        for one in self._hangs:
            yield from self.breaks(one, at_s, world)

    def breaks(self, one: FirmwareHang, at_s: int, world: World) -> Iterator[Printed]:
        """What becomes of a host that it hits."""
        yield from one.tick(at_s, world)

    def order(self, world: World) -> tuple[str, ...]:
        """Half of the hosts, from the first one on: the roll-out comes no further."""
        hosts = world.cluster.hosts
        at = world.cluster.host_index[self.host]
        return (hosts[at:] + hosts[:at])[: max(2, len(hosts) // 2)]

    def hangs(self, world: World) -> list[FirmwareHang]:
        """One card of a host each time: of as many jobs as there are."""
        rng, hosts = self.rng(28), self.order(world)
        many = max(1, min(round(self.victims * self.severity), len(hosts)))
        places = [round(one * (len(hosts) - 1) / max(1, many - 1)) for one in range(many)]
        cards = [world.cluster.of(hosts[place])[int(rng.integers(world.cluster.per_host))] for place in places]
        ready = [self.at + self.every_s * (place // self.batch) for place in places]
        return [
            FirmwareHang(at=max(self.at + self.first_s + self.apart_s * n, changed + 5), card=card)
            for n, (card, changed) in enumerate(zip(cards, ready, strict=True))
        ]

    def change(self, host: str, at_ms: int) -> Change:
        """What the feed of changes tells."""
        return Change(target=host_name(host), what="driver", at_ms=at_ms, who="rollout", old=self.old, new=self.new)

    def expect(self, world: World) -> Expectation:
        """The version; the hosts and cards that hang are its victims."""
        cohort, hosts = name(Kind.COHORT, "driver", self.new), self.order(world)
        victims = {part for one in self.hangs(world) for part in (one.card.component, host_name(one.card.host))}
        return self.truth(
            world, "a driver fails on host after host", fault="cohort_defect", family="shared", verdicts=SHARED,
            components={cohort}, actions=frozenset({Action.FIX_SOFTWARE, Action.ESCALATE}),
            touched=hosts_of(world, hosts), spared=victims, seen_s=self.first_s,
            forbidden=(NO_BLAME | {"run_test", "release"}) - {"drain_host", "exclude_for_job"},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class BadImage(BadDriver):
    """An image is rolled out whose exporter's library does not match: hosts with it go blind, and lose their jobs."""

    old: str = "2026.10"
    new: str = "2026.11"

    def breaks(self, one: FirmwareHang, at_s: int, world: World) -> Iterator[Printed]:
        """Its cards cannot be asked any more, and its ranks stop at their next call; no code tells why."""
        if at_s >= one.at:
            blind(world, one.card.host)
        yield from stall(world.run_on(one.card.host), one.at, at_s, world, world.cluster.of(one.card.host))

    def change(self, host: str, at_ms: int) -> Change:
        """What the feed of changes tells."""
        return Change(target=host_name(host), what="image", at_ms=at_ms, who="rollout", old=self.old, new=self.new)

    def expect(self, world: World) -> Expectation:
        """The image."""
        right: frozenset[Name] = frozenset({name(Kind.COHORT, "image", self.new)})
        return _replaced(BadDriver.expect(self, world), right)


def _replaced(expectation: Expectation, right: frozenset[Name]) -> Expectation:
    touched = expectation.touched - expectation.components | right
    return replace(expectation, components=right, touched=touched, title="an image fails on host after host")


FAULTS: Faults = {
    "slow_steps": CodeChange,
    "transport_wrong": WrongTransport,
    "loader_starves": LoaderStarves,
    "checkpoint_slow": CheckpointSlow,
    "cohort_defect": BadDriver,
    "cohort_defect_image": BadImage,
}
