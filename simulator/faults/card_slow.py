"""Accelerators that work, and slower than their peers: the job waits for them at every step (mechanism 8)."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.messages import Action
from simulator.faults.bearing import HANDS_OFF, OnCard, drags
from simulator.faults.kit import Faults
from simulator.printing import card_lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World

SWAP = frozenset({Action.WATCH, Action.DRAIN_HOST, Action.ESCALATE})  # at a committed checkpoint, if it pays
NOT_NOW = HANDS_OFF - {"stop_job", "power_cycle", "replace_part", "reset_device", "reboot_host"}
CAP_BIT, BRAKE_BIT = 4, 128  # of the mask of reasons
FULL_WATTS = 700.0


@dataclass(slots=True, kw_only=True)
class Slow(OnCard):
    """A card's clock is held low (`silent`: it is slow, and its clock and its mask of reasons look as ever)."""

    share: float = 0.12  # of its speed
    silent: bool = False

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        lost = self.share * self.grown(at_s)
        drags(world, self.run(world), "slow", lost / (1 - lost))
        if lost:
            row = self.row(world)
            world.now.clock[row] = 1 - lost
            if self.silent:
                world.now.overlay.scale("accelerator", "clock_megahertz", row, 1 / (1 - lost))
        yield from ()

    def expect(self, world: World) -> Expectation:
        """The card; the job that waits and its other ranks are innocent, the longest collective is a victim's."""
        return self.right(
            world, "accelerator_slow", "slow card", self.card_or_host(), SWAP, family="slow", forbidden=NOT_NOW
        )


@dataclass(slots=True, kw_only=True)
class SilentlySlow(Slow):
    """`Slow` with nothing to see in its clock."""

    silent: bool = True


@dataclass(slots=True, kw_only=True)
class PowerLimited(OnCard):
    """A card gets less power: a cap set too low, or (`brake`) its supply holds it back at half its clock."""

    watts: float = 400.0
    brake: bool = False

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run, grown = self.run(world), self.grown(at_s)
        lost = (0.5 if self.brake else 0.3) * grown
        drags(world, run, "power", lost / (1 - lost))
        if at_s == self.at and self.brake and self.coded:
            yield card_lines.no_power_cable(world.ms(at_s, 300), self.card)
        if not lost:
            return
        row, cap = self.row(world), FULL_WATTS - (FULL_WATTS - self.watts) * grown
        if not self.brake:
            world.now.overlay.put("accelerator", "power_limit_watts", row, cap)
        if run and run.moves:
            world.now.clock[row] = 1 - lost
            world.now.overlay.put("accelerator", "throttle_mask", row, BRAKE_BIT if self.brake else CAP_BIT)
            world.now.overlay.count("accelerator", "power_violation_nanoseconds_total", row, round(1e9 * lost))

    def expect(self, world: World) -> Expectation:
        """The card: cap, cable or supply."""
        more = Action.FIX_SOFTWARE if not self.brake else Action.REPLACE_PART
        return self.right(
            world, "accelerator_power_limited", "too little power", self.card_or_host(), SWAP | {more},
            family="slow", faults=("accelerator_slow",), forbidden=NOT_NOW,
        )  # fmt: skip


FAULTS: Faults = {
    "accelerator_slow": Slow,
    "accelerator_slow_silent": SilentlySlow,
    "accelerator_power_limited": PowerLimited,
}
