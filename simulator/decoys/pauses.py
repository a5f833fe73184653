"""A job that does something else for a while, or all of it more slowly: no rank is worse than the others."""

from collections.abc import Iterator
from dataclasses import dataclass

from simulator.decoys.kit import around, nothing, rows_of
from simulator.printing import lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.run import Mode
from simulator.world import World

CAPPED = 4.0  # bit of the throttle mask: held by the power cap


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
        return nothing(world, around(world, self.host), "checkpoint_pause", "long checkpoint pause", self.at)


@dataclass(slots=True)
class Evaluation:
    """Between two steps a job looks how good its model is: half of the load, forward only, and no step for a while."""

    at: int
    host: str
    lasts_s: int = 45

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = world.run_on(self.host)
        if run is None or not run.moves or not self.at <= at_s < self.at + self.lasts_s:
            return
        run.hold_back()
        if run.mode is not Mode.STEP:
            return
        rows = rows_of(world, run.job.hosts)
        for column, share in (("matrix_active_ratio", 0.55), ("power_watts", 0.66), ("memory_active_ratio", 0.8)):
            world.now.overlay.scale("accelerator", column, rows, share)
        if at_s == self.at + self.lasts_s - 1:
            text = f" validation loss at iteration {run.step} | lm loss value: 2.013412E+00 | lm loss PPL: 7.488E+00 |"
            yield lines.job(world.ms(at_s, 400), run.job.id, text)

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        hosts = around(world, self.host)
        return nothing(world, hosts, "evaluation", "the job evaluates", self.at, ends=self.at + self.lasts_s)


@dataclass(slots=True)
class WholeJobSlow:
    """All ranks of a job do more, alike: a longer sequence, a larger batch, another data set."""

    at: int
    host: str
    severity: float = 1.0
    lasts_s: int | None = None

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = world.run_on(self.host)
        if run and at_s >= self.at:
            run.slow["whole_job"] = 0.35 * self.severity
            run.alike.add("whole_job")
            if self.lasts_s is not None and at_s >= self.at + self.lasts_s:
                run.slow.pop("whole_job")
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nothing: nobody stands out."""
        hosts = around(world, self.host)
        return nothing(world, hosts, "whole_job_slow", "all ranks slower alike", self.at, severity=self.severity)


@dataclass(slots=True)
class PowerPolicy:
    """By policy all cards of a rack's hosts get less power: clocks fall together, and the cap says so."""

    at: int
    host: str
    watts: float = 500.0
    clock: float = 0.88

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s >= self.at:
            rows = rows_of(world, around(world, self.host))
            world.now.overlay.put("accelerator", "power_limit_watts", rows, self.watts)
            world.now.clock[rows] *= self.clock
            if run := world.run_on(self.host):
                run.slow["power_policy"] = 1 / self.clock - 1
                run.alike.add("power_policy")
                held = CAPPED if run.mode is Mode.STEP else 0.0
                world.now.overlay.put("accelerator", "throttle_mask", rows, held)
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nothing: everybody got the same."""
        return nothing(world, around(world, self.host), "power_policy", "power capped by policy", self.at)
