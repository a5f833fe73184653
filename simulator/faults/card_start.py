"""Accelerators that are not there, or not ready, when the next attempt begins.

`at`: the attempt before ends by order; the next one begins 25 s later on the same hosts and fails.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.messages import Action
from simulator.faults.bearing import NETWORK, OnCard, OnHost, starts_anew
from simulator.faults.kit import TAKE_OUT, Faults, blind, host_name
from simulator.printing import card_lines, fabric_lines, host_lines, site_lines
from simulator.printing.lines import Printed, kernel
from simulator.truth.expectation import Expectation
from simulator.world import World

LOADS_S = 10  # from the attempt's end to the driver's start
TOLD_S = 22  # the scheduler's daemon registers again, and counts
NO_DEVICE = "Error 100: no CUDA-capable device is detected"
TAKEN_OUT = TAKE_OUT | {Action.ESCALATE}


@dataclass(slots=True, kw_only=True)
class InitFailed(OnCard):
    """The driver starts anew between two attempts, and one card does not come up."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        failed = self.at + LOADS_S
        if at_s >= failed and self.on(at_s):
            world.now.seen[self.row(world)] = False
        if at_s == failed and self.coded:
            yield from card_lines.not_initialised(world.ms(at_s, 420), self.card)
        yield from starts_anew(self.run(world), at_s, self.at, world, self.card.index, NO_DEVICE)

    def expect(self, world: World) -> Expectation:
        """The card: no work for its host."""
        return self.right(
            world, "accelerator_init_failed", "card does not initialise", self.card_or_host(), TAKEN_OUT,
            seen_s=LOADS_S, forbidden=NETWORK, faults=("accelerator_missing", "accelerator_error_told"),
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Missing(OnCard):
    """A host comes back with one card less: no line of the kernel, only a count (night 10)."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s >= self.at + LOADS_S and self.on(at_s):
            world.now.seen[self.row(world)] = False
        if at_s == self.at + TOLD_S and self.coded:
            each = world.cluster.per_host
            yield site_lines.fewer_cards(world.ms(at_s, 700), self.card.host, each - 1, each)
        yield from starts_anew(self.run(world), at_s, self.at, world, self.card.index, NO_DEVICE)

    def expect(self, world: World) -> Expectation:
        """The host, or the card that is not there; the scheduler and the jobs it turns away are innocent."""
        return self.right(
            world, "accelerator_missing", "a card is missing", self.card_or_host(), TAKEN_OUT, seen_s=LOADS_S,
            forbidden=NETWORK,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class NoneSeen(OnHost):
    """A host comes back without its accelerators' driver: no card at all, and the scheduler's daemon ends."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s >= self.at + LOADS_S and self.on(at_s):
            blind(world, self.host)
        if at_s == self.at + LOADS_S and self.coded:
            yield kernel(world.ms(at_s, 90), self.host, "NVRM: No NVIDIA GPU found.")
        if at_s == self.at + TOLD_S:
            text = "fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory"
            yield host_lines.of_program(world.ms(at_s, 310), self.host, "slurmd[3120]", text)
        yield from starts_anew(self.run(world), at_s, self.at, world, 0, NO_DEVICE)

    def expect(self, world: World) -> Expectation:
        """The host's software."""
        return self.right(
            world, "accelerators_none", "no card at all", {host_name(self.host)},
            frozenset({Action.FIX_SOFTWARE, Action.DRAIN_HOST, Action.REBOOT_HOST}), seen_s=LOADS_S,
            forbidden=NETWORK | {"replace_part"}, faults=("accelerator_missing",),
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class DriverMismatch(OnHost):
    """A package was upgraded under a loaded driver: whoever runs goes on, the next program that asks it fails."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s == self.at + LOADS_S and self.on(at_s):
            yield from fabric_lines.driver_unlike(world.ms(at_s, 240), self.host)
        if at_s >= self.at + LOADS_S and self.on(at_s):
            blind(world, self.host)  # the exporter's own calls are refused too
        what = "Error 803: system has unsupported display driver / cuda driver combination"
        yield from starts_anew(self.run(world), at_s, self.at, world, 0, what)

    def expect(self, world: World) -> Expectation:
        """The host's software: one version, then the driver loaded anew."""
        return self.right(
            world, "driver_mismatch", "driver and programs differ", {host_name(self.host)},
            frozenset({Action.FIX_SOFTWARE}), seen_s=LOADS_S, forbidden=NETWORK | {"replace_part"},
        )  # fmt: skip


FAULTS: Faults = {
    "accelerator_init_failed": InitFailed,
    "accelerator_missing": Missing,
    "accelerators_none": NoneSeen,
    "driver_mismatch": DriverMismatch,
}
