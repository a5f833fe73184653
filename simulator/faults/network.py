"""Faults of the training network."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.components import Kind, name
from sickbay.messages import Action
from simulator.faults.kit import SHARED, Faults, host_name, job_name, ranks_of
from simulator.printing import lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.run import Run
from simulator.world import World


@dataclass(slots=True)
class LeafReboot:
    """A leaf switch restarts: all carriers of its hosts go and come back; the jobs die (night 14)."""

    at: int
    leaf: str
    away: int = 200

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        cards = world.cluster.under(self.leaf)
        if self.at <= at_s < self.at + self.away:
            world.now.cables.silent.add(self.leaf)
        for place, card in enumerate(cards):
            back = self.at + self.away + 20 * place // len(cards)
            if self.at <= at_s < back:
                world.now.port_up[world.cluster.row(card.component)] = False
            if at_s == self.at:
                yield lines.link(world.ms(at_s, 40 + 5 * place), card, "Down")
            if at_s == back:
                yield lines.link(world.ms(at_s, 300), card, "Up")
        hit = {run.job.id: run for card in cards if (run := world.run_on(card.host))}
        for run in hit.values():
            yield from self._job(run, at_s, world)

    def _job(self, run: Run, at_s: int, world: World) -> Iterator[Printed]:
        if run.ended or at_s < self.at:
            return
        run.stalled = True
        if at_s == self.at + 38:
            cut = [card for _, card in ranks_of(run) if card.leaf == self.leaf]
            near = [card for _, card in ranks_of(run) if card.host != cut[-1].host]
            for place, card in enumerate(near[:4]):
                yield lines.retry_exceeded(world.ms(at_s, place), run.job.id, card, cut[place % len(cut)])
        run.ended = at_s >= self.at + 42

    def expect(self, world: World) -> Expectation:
        """The switch; its hosts are innocent and must not be drained."""
        cards, switch = world.cluster.under(self.leaf), name(Kind.SWITCH, self.leaf)
        touched = {switch, *(c.port for c in cards), *(host_name(c.host) for c in cards)}
        touched |= {job_name(run) for c in cards if (run := world.run_on(c.host))}
        return Expectation(
            name="switch_down", title="leaf switch restarts", at_ms=world.ms(self.at), touched=frozenset(touched),
            verdicts=SHARED, components=frozenset({switch}), faults=frozenset({"switch_down"}),
            actions=frozenset({Action.WATCH, Action.ESCALATE}),
        )  # fmt: skip


FAULTS: Faults = {
    "switch_down": LeafReboot,
}
