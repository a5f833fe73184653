"""Decoys: what looks alarming and is nothing. Nobody may be taken out of service for one of these."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from simulator.faults.facility import fed_with
from simulator.faults.kit import Happening, host_name, job_name, ranks_of
from simulator.faults.optics import PortClosed
from simulator.faults.pause import Congestion, PartialSweep, PauseFromAfar
from simulator.parts.cluster import Card
from simulator.parts.facility import FLOW
from simulator.printing import lines
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
        return _nothing(world, self.host, "scancel_storm", "job cancelled by its owner", self.at)


@dataclass(slots=True)
class CheckpointPause:
    """Every card of a job idles while a long checkpoint is written (night 23)."""

    at: int
    host: str
    seconds: float = 70.0

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = world.run_on(self.host)
        if run and run.moves and at_s == self.at:
            run.pause_now(self.seconds)
            yield lines.checkpoint(world.ms(at_s), run.job.id, run.step, begins=True)

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        return _nothing(world, self.host, "checkpoint_pause", "long checkpoint pause", self.at)


@dataclass(slots=True)
class CorrectedErrors:
    """Errors that the hardware corrected: two on a host link, a few in main memory."""

    at: int
    card: Card

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s in (self.at, self.at + 90):
            world.now.replays[world.cluster.row(self.card.component)] = 1
            yield from lines.corrected_bus_error(world.ms(at_s, 77), self.card)
        if at_s in (self.at + 20, self.at + 65):
            world.now.memory_errors[world.cluster.host_index[self.card.host]] = 1
            yield lines.corrected_memory(world.ms(at_s, 12), self.card.host)

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        return _nothing(world, self.card.host, "corrected_errors", "errors that were corrected", self.at)


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
        return _nothing(world, self.card.host, "program_error", "the program's own error", self.at)


@dataclass(slots=True)
class Glitch:
    """One sample of one sensor is absurd."""

    at: int
    card: Card
    column: str = "temperature_celsius"
    value: float = 127.0

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s == self.at:
            world.now.overlay.put("accelerator", self.column, world.cluster.row(self.card.component), self.value)
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        return _nothing(world, self.card.host, "glitch", "one absurd sample", self.at)


@dataclass(slots=True)
class ExporterGap:
    """An exporter restarts: its host is blind for a while and the job moves on."""

    at: int
    host: str
    seconds: int = 40

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.at <= at_s < self.at + self.seconds:
            world.now.seen[world.cluster.rows(self.host)] = False
            world.now.source_up[world.cluster.host_index[self.host]] = False
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nothing: a gap while the job moves is a gap."""
        return _nothing(world, self.host, "exporter_gap", "exporter restarts, job moves", self.at)


@dataclass(slots=True)
class ProfilingBlank:
    """Somebody else holds the profiling counters of a host: these columns go blank, the job moves on."""

    at: int
    host: str
    seconds: int = 60

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.at <= at_s < self.at + self.seconds:
            columns = ("compute_active_ratio", "matrix_active_ratio", "memory_active_ratio",
                       "scale_up_tx_bytes_per_second", "scale_up_rx_bytes_per_second")  # fmt: skip
            world.now.overlay.hide("accelerator", world.cluster.rows(self.host), columns)
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        return _nothing(world, self.host, "profiling_blank", "profiling counters blank, job moves", self.at)


def _nothing(world: World, host: str, what: str, title: str, at: int) -> Expectation:
    run = world.run_on(host)
    hosts = run.job.hosts if run else (host,)
    touched = {host_name(each) for each in hosts} | {
        card.component for each in hosts for card in world.cluster.of(each)
    }
    touched |= {card.port for each in hosts for card in world.cluster.of(each)} | ({job_name(run)} if run else set())
    return Expectation(name=what, title=title, at_ms=world.ms(at), touched=frozenset(touched))


@dataclass(slots=True)
class LessCoolant:
    """A coolant unit gives less at less load, as its controller is made to: nothing grows warmer (night 20's twin)."""

    at: int
    host: str
    flow: float = 0.75

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s >= self.at:
            unit = fed_with(self.host, world).cdu
            world.now.facility[unit] = {"flow_litres_per_minute": FLOW * self.flow, "pump_ratio": 0.55}
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        return _nothing(world, self.host, "less_coolant", "coolant follows the load", self.at)


DECOYS: dict[str, Callable[..., Happening]] = {
    "scancel_storm": CancelStorm,
    "checkpoint_pause": CheckpointPause,
    "corrected_errors": CorrectedErrors,
    "program_error": ProgramError,
    "glitch": Glitch,
    "exporter_gap": ExporterGap,
    "profiling_blank": ProfilingBlank,
    "less_coolant": LessCoolant,
    "port_closed": PortClosed,
    "pause_from_afar": PauseFromAfar,
    "congestion": Congestion,
    "partial_sweep": PartialSweep,
}
OF_THE_SITE = frozenset(
    {"less_coolant", "port_closed", "pause_from_afar", "congestion", "partial_sweep"}
)  # see `faults`
