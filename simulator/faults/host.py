"""Faults of a host as a whole: it locks up, panics, is lost, or its own programs are in a bad condition."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.messages import Action, Verdict
from simulator.faults.bearing import HANDS_OFF, LOOK, NETWORK, OnHost, drags
from simulator.faults.kit import COMPONENT, JOB, LEAVE, Faults, host_name, job_name, stall
from simulator.printing import board_lines, site_lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World

SOFT_S = 22  # of a processor that runs kernel code, before the watchdog speaks; again after as long
TASK_S = 122  # a task in uninterruptible sleep is told of after two minutes
NO_ANSWER_S, DOWN_S = 45, 300  # the scheduler misses a host, and gives it up
OUT = frozenset({Action.DRAIN_HOST, Action.REBOOT_HOST, Action.WATCH, Action.REPLACE_PART})


def gone(world: World, host: str) -> None:
    """Nothing of the host answers, and its ports carry no light."""
    world.now.host_up[world.cluster.host_index[host]] = False
    world.now.port_up[world.cluster.rows(host)] = False


@dataclass(slots=True, kw_only=True)
class Lockup(OnHost):
    """A processor hangs in the kernel; the program that needs it hangs, and the job with it (at < 0.5: it is slow)."""

    cpu: int = 7

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since, run = self.since(at_s), self.run(world)
        if self.on(at_s):
            row = world.cluster.host_index[self.host]
            world.now.overlay.put("host", "load_1m", row, 40 + min(400.0, 4.0 * since * self.severity))
            if since and since % SOFT_S == 0:
                yield from board_lines.soft_lockup(world.ms(at_s, 210), self.host, self.cpu, since + 1)
            if since == 21 * 3:  # as the kernel's own 21 s and its repeats have it
                yield from board_lines.scheduler_stall(world.ms(at_s, 480), self.host)
        if self.coded:
            yield from stall(run, self.at + 1, at_s, world, world.cluster.of(self.host))
        else:
            drags(world, run, "lockup", 0.3 * self.grown(at_s))

    def expect(self, world: World) -> Expectation:
        """The host."""
        return self.right(
            world, "host_lockup", "processors lock up", {host_name(self.host)}, OUT, family="hang",
            forbidden=NETWORK, faults=("host_tasks_stuck",),
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Down(OnHost):
    """A host is gone from one second to the next, without a word (`panics`: its kernel's last words were kept)."""

    panics: bool = False

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s == self.at and self.panics:
            yield from board_lines.panic(world.ms(at_s, 120), self.host, "Fatal exception in interrupt")
        if self.on(at_s) and at_s > self.at:
            gone(world, self.host)
        if self.on(at_s) and self.since(at_s) == NO_ANSWER_S:
            yield site_lines.no_answer(world.ms(at_s, 400), [self.host])
        if self.on(at_s) and self.since(at_s) == DOWN_S:
            yield site_lines.not_responding(world.ms(at_s, 400), [self.host])
        yield from stall(self.run(world), self.at + 1, at_s, world, world.cluster.of(self.host))

    def expect(self, world: World) -> Expectation:
        """The host: its job need not wait for it."""
        fault = "host_panic" if self.panics else "host_down"
        title = "kernel panics" if self.panics else "host is lost"
        return self.right(
            world, fault, title, {host_name(self.host)}, OUT, family="hang", forbidden=NETWORK, faults=("host_silent",)
        )


@dataclass(slots=True, kw_only=True)
class Panic(Down):
    """`Down` with its reason."""

    panics: bool = True


@dataclass(slots=True, kw_only=True)
class Condition(OnHost):
    """The scheduler's own check fails on a host: whoever runs there runs on, the accelerators are not judged by it."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s == self.at:
            yield site_lines.prolog_failed(world.ms(at_s, 510), self.host)

    def expect(self, world: World) -> Expectation:
        """The host, by a look."""
        return self.right(
            world, "host_condition", "the scheduler's check fails", {host_name(self.host)},
            LOOK | {Action.FIX_SOFTWARE}, verdicts=COMPONENT | {Verdict.UNKNOWN}, forbidden=HANDS_OFF,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class TasksStuck(OnHost):
    """Tasks of the job wait in the accelerators' driver for ever: the kernel says so two minutes later, and again."""

    tasks: int = 3

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since = self.since(at_s)
        if self.on(at_s):
            row = world.cluster.host_index[self.host]
            world.now.overlay.put("host", "tasks_blocked", row, self.tasks)
            world.now.overlay.scale("host", "load_1m", row, 1.0 + 0.02 * min(since, 60))
        if since > 0 and since % TASK_S == 0 and since <= 3 * TASK_S and self.on(at_s):
            for place in range(self.tasks):
                pid, waited = 48_122 + place, since
                yield from board_lines.task_in_driver(world.ms(at_s, 90 + 5 * place), self.host, pid, waited)
        yield from stall(self.run(world), self.at, at_s, world, world.cluster.of(self.host)[: self.tasks])

    def expect(self, world: World) -> Expectation:
        """The host; what its tasks wait for is still open."""
        return self.right(
            world, "host_tasks_stuck", "tasks wait in the driver", {host_name(self.host)},
            OUT - {Action.REPLACE_PART} | {Action.ESCALATE},
            family="hang", verdicts=COMPONENT | {Verdict.UNKNOWN}, forbidden=NETWORK | {"replace_part"},
            faults=("host_blind", "accelerator_firmware_hang"),
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class SilentCorruption(OnHost):
    """A host computes wrong, and no sensor shows it: the gradient jumps on all ranks at once (night 11).

    `finite`: the norm is a number, as nearly always.
    """

    times: float = 14.0
    finite: bool = True

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if run := self.run(world):
            until = self.at + min(3 * run.job.step_s, self.lasts_s or math.inf)
            if self.at <= at_s < until:
                run.gradient = 1 + (self.times - 1) * self.severity if self.finite else math.nan
            elif until <= at_s < until + 1:
                run.gradient = 1.0
        yield from ()

    def expect(self, world: World) -> Expectation:
        """A question about the job, and nobody's fault: the batch is played again first."""
        run = self.run(world)
        jobs = {job_name(run)} if run else set()
        return self.right(
            world, "loss_anomaly", "gradient jumps", jobs, LEAVE | {Action.ESCALATE}, family="work",
            verdicts=JOB | {Verdict.UNKNOWN},
            forbidden=HANDS_OFF | {"drain_host", "exclude_for_job", "relaunch_in_allocation"},
        )  # fmt: skip


FAULTS: Faults = {
    "host_lockup": Lockup,
    "host_panic": Panic,
    "host_down": Down,
    "host_condition": Condition,
    "host_tasks_stuck": TasksStuck,
    "loss_anomaly": SilentCorruption,
}
