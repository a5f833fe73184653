"""Faults that an accelerator's driver names by a code, each with what the job notices of it."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.components import Kind, name
from sickbay.messages import Action, Verdict
from simulator.faults.bearing import ANY_TAKE_OUT, HANDS_OFF, LOOK, NETWORK, OnCard, dies
from simulator.faults.kit import COMPONENT, Faults, stall
from simulator.printing import card_lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World

WATCHDOG_S = 7  # the driver's watchdog waits so long, then the code follows within the second
PATIENCE_S = 6  # past the 5.2 s in which the firmware's heart must beat
SWITCH_S = 5  # and a context switch so long
ASKED = {1: "GPU Reset Required", 2: "Node Reboot Required"}  # the driver's recovery actions that stop work


@dataclass(slots=True, kw_only=True)
class EngineHang(OnCard):
    """An engine stops in the middle of a step: the card shows work and does none, its peers spin (mechanism 3)."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = self.run(world)
        if self.on(at_s):
            row = self.row(world)
            world.now.overlay.put("accelerator", "utilisation_ratio", row, 1.0)
            world.now.overlay.put("accelerator", "compute_active_ratio", row, 0.0)
            world.now.overlay.put("accelerator", "matrix_active_ratio", row, 0.0)
            world.now.overlay.scale("accelerator", "power_watts", row, 0.62)  # it does not even spin
        if self.coded and at_s == self.at + WATCHDOG_S:
            yield card_lines.watchdog(world.ms(at_s, 90), self.card)
            yield card_lines.engine_stopped(world.ms(at_s, 870), self.card)
        yield from stall(run, self.at, at_s, world, (self.card,))

    def expect(self, world: World) -> Expectation:
        """The card."""
        return self.right(
            world, "accelerator_engine_hang", "engine hangs", self.card_or_host(), family="hang",
            faults=("accelerator_unresponsive", "rank_absent"), seen_s=0,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class ContextTimeout(OnCard):
    """A context switch times out: the driver ends the program, the card itself may be well."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = self.run(world)
        if run and not run.ended and at_s >= self.at:
            run.stalled = True
        if at_s == self.at + SWITCH_S:
            if self.coded:
                yield card_lines.context_timeout(world.ms(at_s, 210), self.card)
                yield from card_lines.channels_closed(world.ms(at_s, 260), self.card, 109, 24)
            if run and not run.ended:
                what = "the launch timed out and was terminated"
                yield from card_lines.told_by_runtime(world.ms(at_s, 330), run.job.id, self.rank(world), what)
        yield from dies(run, at_s, self.at + SWITCH_S, world, self.card.index)

    def expect(self, world: World) -> Expectation:
        """The card: start the job again first, reset the card when it comes back."""
        return self.right(
            world, "accelerator_context_timeout", "context switch times out", self.card_or_host(),
            frozenset({Action.RESTART_JOB, Action.RESET_DEVICE, Action.WATCH}), faults=("accelerator_error_told",),
            forbidden=NETWORK | {"replace_part"},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Internal(OnCard):
    """One of the card's own small processors stops: the vendor must judge."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s == self.at and self.coded:
            yield card_lines.microcontroller_halted(world.ms(at_s, 130), self.card)
        yield from dies(self.run(world), at_s, self.at + 1, world, self.card.index)

    def expect(self, world: World) -> Expectation:
        """The card."""
        return self.right(
            world, "accelerator_internal", "hardware fault inside", self.card_or_host(),
            ANY_TAKE_OUT | {Action.ESCALATE}, forbidden=NETWORK,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class RecoveryNeeded(OnCard):
    """The driver asks for a reset and gives the card no more work: its program ends."""

    action: int = 1

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.on(at_s):
            world.now.overlay.put("accelerator", "recovery_action", self.row(world), self.action)
        if at_s == self.at and self.coded:
            yield card_lines.recovery_asked(world.ms(at_s, 150), self.card, self.action, ASKED[self.action])
        yield from dies(self.run(world), at_s, self.at, world, self.card.index)

    def expect(self, world: World) -> Expectation:
        """What the driver asks for."""
        asked = {Action.RESET_DEVICE, Action.DRAIN_HOST} if self.action == 1 else {Action.REBOOT_HOST}
        return self.right(
            world, "accelerator_recovery_needed", "driver asks for recovery", self.card_or_host(),
            frozenset(asked | {Action.DRAIN_HOST}), forbidden=NETWORK | {"replace_part"},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Attention(OnCard):
    """The card's own small store wears out: a code, and nothing stops."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s == self.at:
            yield card_lines.worn_store(world.ms(at_s, 640), self.card)

    def expect(self, world: World) -> Expectation:
        """A look, by day."""
        either = COMPONENT | {Verdict.UNKNOWN}
        return self.right(
            world, "accelerator_attention", "condition to ask about", self.card_or_host(), LOOK, verdicts=either,
            forbidden=HANDS_OFF | {"drain_host", "exclude_for_job"},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Unresponsive(OnCard):
    """The card's firmware is silent for some seconds and comes back: the job waits, and goes on.

    Where it is hard to see, it comes back before the driver says a word.
    """

    lasts_s: int | None = 12

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run, quiet_s = self.run(world), max(2, round((self.lasts_s or 12) * self.severity))
        quiet = self.at <= at_s < self.at + quiet_s
        if quiet:
            world.now.seen[self.row(world)] = False
        if run and not run.ended and (quiet or at_s == self.at + quiet_s):
            run.stalled = quiet
        if at_s == self.at + PATIENCE_S and quiet:
            yield card_lines.heartbeat_missed(world.ms(at_s, 210), self.card, 6_200)

    def expect(self, world: World) -> Expectation:
        """The card, if by its driver's number: what follows decides, and nothing is taken out for it."""
        return self.right(
            world, "accelerator_unresponsive", "silent for seconds",
            {*self.card_or_host(), name(Kind.ACCELERATOR, self.card.host, f"GPU{self.card.index}")}, LOOK,
            verdicts=COMPONENT | {Verdict.UNKNOWN}, forbidden=HANDS_OFF | {"drain_host"}, family="hang",
        )  # fmt: skip


FAULTS: Faults = {
    "accelerator_engine_hang": EngineHang,
    "accelerator_context_timeout": ContextTimeout,
    "accelerator_internal": Internal,
    "accelerator_recovery_needed": RecoveryNeeded,
    "accelerator_attention": Attention,
    "accelerator_unresponsive": Unresponsive,
}
