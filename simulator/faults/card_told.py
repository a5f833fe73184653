"""Faults of an accelerator that no code of its driver names: a program, the exporter or only their repetition does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sickbay.messages import Action
from simulator.faults.bearing import ANY_TAKE_OUT, LOOK, NETWORK, OnCard, dies
from simulator.faults.kit import Faults
from simulator.printing import card_lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.run import Run
from simulator.world import World


@dataclass(slots=True, kw_only=True)
class ErrorTold(OnCard):
    """Only the program tells of its device's error: the host's log is lost, as in a container without it."""

    what: str = "uncorrectable ECC error encountered"

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = self.run(world)
        if run and not run.ended and at_s == self.at:
            yield from card_lines.told_by_runtime(world.ms(at_s, 280), run.job.id, self.rank(world), self.what)
        yield from dies(run, at_s, self.at, world, self.card.index)

    def expect(self, world: World) -> Expectation:
        """The card of that rank."""
        return self.right(
            world, "accelerator_error_told", "program told of an error", self.card_or_host(),
            ANY_TAKE_OUT - {Action.REPLACE_PART}, faults=("accelerator_memory_uncorrectable",),
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class FaultReported(OnCard):
    """The exporter shows bad health and a code that no table explains; an Ascend driver prints the code too."""

    code: int = 0x8F180220

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.on(at_s):
            row = self.row(world)
            world.now.overlay.put("accelerator", "health", row, 0)
            world.now.overlay.put("accelerator", "last_error_code", row, self.code)
        if at_s == self.at and self.coded:
            yield card_lines.ascend_code(world.ms(at_s, 90), self.card, self.code)

    def expect(self, world: World) -> Expectation:
        """The card, by its driver's number."""
        by_number = self.card.component.replace(self.card.pci, str(self.card.index))
        return self.right(
            world, "accelerator_fault_reported", "exporter shows bad health", {*self.card_or_host(), by_number},
            LOOK | {Action.DRAIN_HOST, Action.RESET_DEVICE}, faults=("accelerator_attention",),
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class CodeRepeats(OnCard):
    """The same exception from the same unit of one card ends job after job: it is the card, not the programs."""

    every_s: int = 50
    programs: tuple[tuple[str, str], ...] = (("pretrain-70b", "python3"), ("sft-8b", "sft"), ("rl-32b", "rollout"))

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since = at_s - self.at
        place, left = divmod(since, self.every_s)
        if since < 0 or place >= len(self.programs) or (run := self.run(world)) is None:
            return
        if left == 0:
            pid = 48_122 + 700 * place + self.card.index
            yield from card_lines.warp_exception(world.ms(at_s, 110), self.card, pid, self.programs[place][1])
            what = "an illegal instruction was encountered"
            yield from card_lines.told_by_runtime(world.ms(at_s, 300), run.job.id, self.rank(world), what)
        yield from dies(run, at_s, self.at + place * self.every_s, world, self.card.index, code=1)
        if left == 20 and place + 1 < len(self.programs):
            self._next(run, self.programs[place + 1][0], at_s, world)

    @staticmethod
    def _next(old: Run, name: str, at_s: int, world: World) -> None:
        """Another job on the same hosts."""
        job = replace(old.job, id=str(int(old.job.id) + 1000), name=name, user=f"{name.partition('-')[0]}-team")
        runs = {job.id if run is old else run.job.id: run for run in world.runs.values()}
        runs[job.id] = Run(job, old.cluster, old.rng, started_s=at_s)
        world.runs.clear()
        world.runs.update(runs)
        world.news.append(runs[job.id].placement(world.ms(at_s)))

    def expect(self, world: World) -> Expectation:
        """The card; the programs are innocent, which the first of them alone could not tell."""
        return self.right(
            world, "accelerator_code_repeats", "same code in job after job", self.card_or_host(),
            seen_s=self.every_s, forbidden=NETWORK,
        )  # fmt: skip


FAULTS: Faults = {
    "accelerator_error_told": ErrorTold,
    "accelerator_fault_reported": FaultReported,
    "accelerator_code_repeats": CodeRepeats,
}
