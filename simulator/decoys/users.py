"""What users do to their own jobs: they cancel them, and their programs err."""

from collections.abc import Iterator
from dataclasses import dataclass

from simulator.decoys.kit import around, nothing
from simulator.faults.kit import ranks_of
from simulator.parts.cluster import Card
from simulator.printing import error_lines, lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World


@dataclass(slots=True)
class CancelStorm:
    """Somebody cancels a job: a storm of closed channels and flush errors (night 27)."""

    at: int
    host: str
    channels: int = 24

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = world.run_on(self.host)
        if run is None or run.ended or at_s < self.at:
            return
        for rank, card in ranks_of(run):
            for channel in range(self.channels):
                text = f"Ch {channel:08x}, pid={48_122 + rank}"
                yield lines.xid(world.ms(at_s, 500 + channel), card, 45, text, f"{48_122 + rank}/python3")
        last = ranks_of(run)[-1][1]
        for _, card in ranks_of(run)[:6]:
            yield lines.retry_exceeded(world.ms(at_s, 700), run.job.id, card, last, status=5)
        yield lines.cancelled(world.ms(at_s, 100), run.job.id, run.job.hosts[0])
        run.ended = True

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        hosts = around(world, self.host)
        return nothing(world, hosts, "scancel_storm", "job cancelled by its owner", self.at)


@dataclass(slots=True)
class ProgramError:
    """A bug of the program: an access out of range on one card, and the job ends."""

    at: int
    card: Card
    code: int = 31

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run, row = world.run_on(self.card.host), world.cluster.row(self.card.component)
        if at_s >= self.at:
            world.now.overlay.put("accelerator", "last_error_code", row, float(self.code))
        if run is None or run.ended or at_s < self.at:
            return
        text = (
            "Graphics SM Warp Exception on (GPC 2, TPC 4, SM 1): Out Of Range Address"
            if self.code == 13
            else "channel 0x00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC2 GPCCLIENT_T1_3 faulted @ "
            "0x7f2a_1c400000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
        )
        yield lines.xid(world.ms(at_s, 5), self.card, self.code, text, "48122/python3")
        yield lines.exit_of(world.ms(at_s, 800), run.job.id, self.card.index, 1, 48_122)
        run.ended = True

    def expect(self, world: World) -> Expectation:
        """Nothing that touches hardware; a verdict on the job is welcome."""
        hosts = around(world, self.card.host)
        return nothing(world, hosts, "program_error", "the program's own error", self.at)


@dataclass(slots=True)
class Mistake:
    """The program ends by itself: a path that is not there, too little memory on the card, an exception.

    `ranks`: how many of them say so; the others are ended by the launcher and say nothing.
    """

    at: int
    host: str
    kind: str = "exception"
    ranks: int = 0  # 0: as many as the kind has it

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = world.run_on(self.host)
        if run is None or run.ended or at_s < self.at:
            return
        many = self.ranks or (1 if self.kind == "device_memory" else 8)
        own = [(rank, card.index) for rank, card in ranks_of(run) if card.host == self.host][:many]
        yield from error_lines.fails(world.ms(at_s, 20), run.job.id, own, error_lines.MISTAKES[self.kind])
        run.ended = True

    def expect(self, world: World) -> Expectation:
        """Nothing that touches hardware; a verdict on the job is welcome."""
        what = "user_exception" if self.kind == "exception" else self.kind
        return nothing(world, around(world, self.host), what, "the user's own mistake", self.at)


@dataclass(slots=True)
class WrongPath(Mistake):
    """A shard of the data is not where the program looks for it."""

    kind: str = "wrong_path"


@dataclass(slots=True)
class DeviceMemory(Mistake):
    """A batch too large for the card's memory, on one rank."""

    kind: str = "device_memory"


@dataclass(slots=True)
class HostMemory:
    """A data loader goes over its job's own memory limit and is killed: the host is well."""

    at: int
    host: str

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = world.run_on(self.host)
        if run is None or run.ended or at_s < self.at:
            return
        world.now.kills[world.cluster.host_index[self.host]] = 1
        yield from lines.killed_by_own_limit(world.ms(at_s, 120), self.host, run.job.id, 48_902)
        yield lines.exit_of(world.ms(at_s, 700), run.job.id, 2, 1, 48_124)
        run.ended = True

    def expect(self, world: World) -> Expectation:
        """Nothing that touches the host."""
        return nothing(world, around(world, self.host), "own_limit", "over the job's own memory limit", self.at)
