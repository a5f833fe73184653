"""Faults of an accelerator's own memory: from errors that are corrected to those that end a job."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.messages import Action
from simulator.faults.bearing import ANY_TAKE_OUT, HANDS_OFF, NETWORK, OnCard, dies
from simulator.faults.kit import Faults
from simulator.printing import card_lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World

UNCONTAINED, CONTAINED = 95, 94
FLAGGED_S = 2  # the exporter reads the driver's flags so much later
CORRECTED_A_SECOND = 40.0  # of a memory that fails, by field reports of hundreds to thousands a minute
MANY_S = 60  # the driver's word on a high rate needs so long


@dataclass(slots=True, kw_only=True)
class Uncorrectable(OnCard):
    """An uncorrectable error that was not contained: the program is told, and dies (mechanism 6)."""

    vendor: str = "nvidia"  # or amd: other codes, and the driver resets the card by itself

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.on(at_s):
            row = self.row(world)
            if at_s == self.at:
                world.now.overlay.count(
                    "accelerator", "memory_uncorrected_total", row, max(1, round(4 * self.severity))
                )
            if self.vendor == "nvidia" and self.coded:
                world.now.overlay.put("accelerator", "last_error_code", row, UNCONTAINED)
        run = self.run(world)
        if at_s == self.at:
            yield from self._told(world.ms(at_s))
            if run and not run.ended:
                what = "uncorrectable ECC error encountered"
                yield from card_lines.told_by_runtime(world.ms(at_s, 280), run.job.id, self.rank(world), what)
        yield from dies(run, at_s, self.at, world, self.card.index)

    def _told(self, at_ms: int) -> Iterator[Printed]:
        if not self.coded:
            return
        if self.vendor == "amd":
            yield card_lines.amd_memory(at_ms + 30, self.card, 2)
            yield from card_lines.amd_reset(at_ms + 400, self.card)
            return
        yield from card_lines.uncontained(at_ms + 30, self.card)
        yield from card_lines.channels_closed(at_ms + 350, self.card, UNCONTAINED, 60)

    def expect(self, world: World) -> Expectation:
        """The card; a reset or more."""
        more = ("accelerator_error_told", "accelerator_recovery_needed", "accelerator_memory_repair_pending")
        return self.right(
            world, "accelerator_memory_uncorrectable", "uncorrectable memory error", self.card_or_host(), faults=more
        )


@dataclass(slots=True, kw_only=True)
class Contained(OnCard):
    """An uncorrectable error in one process's pages: that one dies, a repair waits for a reset (night 2)."""

    channels: int = 200

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run, row = self.run(world), self.row(world)
        if self.on(at_s) and at_s == self.at:
            world.now.overlay.count("accelerator", "memory_uncorrected_total", row, 1)
            world.now.overlay.count("accelerator", "memory_rows_uncorrected_total", row, 1)
        if self.on(at_s - FLAGGED_S):
            world.now.overlay.put("accelerator", "memory_repair_pending", row, 1)
        if at_s == self.at:
            if self.coded:
                yield card_lines.contained(world.ms(at_s, 40), self.card)
                yield card_lines.row_marked(world.ms(at_s, 55), self.card)
                yield from card_lines.channels_closed(world.ms(at_s, 360), self.card, CONTAINED, self.channels)
            if run and not run.ended:
                what = "uncorrectable ECC error encountered"
                yield from card_lines.told_by_runtime(world.ms(at_s, 300), run.job.id, self.rank(world), what)
        yield from dies(run, at_s, self.at, world, self.card.index)

    def expect(self, world: World) -> Expectation:
        """The card's memory; the reset can wait for the job's end."""
        more = ("accelerator_error_told", "accelerator_memory_repair_pending", "accelerator_memory_uncorrectable")
        return self.right(
            world, "accelerator_memory_contained", "contained memory error", self.card_or_host(),
            ANY_TAKE_OUT - {Action.REPLACE_PART} | {Action.RESTART_JOB}, faults=more,
            forbidden=NETWORK | {"replace_part"},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class RepairPending(OnCard):
    """Corrected errors in one row until the driver marks it: it works on, and the next reset repairs it."""

    ramp_s: int = 20

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        row, marked = self.row(world), self.at + self.ramp_s
        if self.at <= at_s < marked:
            world.now.overlay.count("accelerator", "memory_corrected_total", row, round(1 + 5 * self.grown(at_s)))
        if at_s == marked:
            world.now.overlay.count("accelerator", "memory_rows_corrected_total", row, 1)
            if self.coded:
                yield card_lines.row_marked(world.ms(at_s, 70), self.card)
        if at_s >= marked + FLAGGED_S and (self.lasts_s is None or self.on(at_s)):
            world.now.overlay.put("accelerator", "memory_repair_pending", row, 1)

    def expect(self, world: World) -> Expectation:
        """The card, when it is idle: the job is not touched."""
        actions = frozenset({Action.WATCH, Action.RESET_DEVICE})
        return self.right(
            world, "accelerator_memory_repair_pending", "memory repair waits", self.card_or_host(), actions,
            forbidden=NETWORK | {"stop_job", "requeue", "replace_part", "reboot_host"}, seen_s=0, family="ramp",
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class RepairFailed(OnCard):
    """A row could not be remapped: spares are used up. It shows on an idle card too (night 10)."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        row = self.row(world)
        if at_s == self.at:
            world.now.overlay.count("accelerator", "memory_uncorrected_total", row, 1)
            if self.coded:
                yield card_lines.remap_failed(world.ms(at_s, 60), self.card)
        if self.on(at_s - FLAGGED_S):
            world.now.overlay.put("accelerator", "memory_repair_failed", row, 1)

    def expect(self, world: World) -> Expectation:
        """The card: out of service, and replaced where the vendor's test says so too."""
        actions = frozenset({Action.DRAIN_HOST, Action.REPLACE_PART, Action.ESCALATE})
        return self.right(
            world, "accelerator_memory_repair_failed", "memory repair failed", self.card_or_host(), actions,
            faults=("accelerator_memory_uncorrectable",),
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Degrading(OnCard):
    """Ever more corrected errors: work goes on, an uncorrectable one may follow."""

    ramp_s: int = 60

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.on(at_s):
            errors = round(CORRECTED_A_SECOND * self.grown(at_s))
            world.now.overlay.count("accelerator", "memory_corrected_total", self.row(world), errors)
        if self.on(at_s) and self.coded and self.since(at_s) % MANY_S == MANY_S - 1:
            yield card_lines.many_corrected(world.ms(at_s, 480), self.card)

    def expect(self, world: World) -> Expectation:
        """The card, which is watched."""
        return self.right(
            world, "accelerator_memory_degrading", "memory degrades", self.card_or_host(),
            frozenset({Action.WATCH}), forbidden=HANDS_OFF, family="ramp",
        )  # fmt: skip


FAULTS: Faults = {
    "accelerator_memory_uncorrectable": Uncorrectable,
    "accelerator_memory_contained": Contained,
    "accelerator_memory_repair_pending": RepairPending,
    "accelerator_memory_repair_failed": RepairFailed,
    "accelerator_memory_degrading": Degrading,
}
