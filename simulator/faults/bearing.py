"""What faults of one part of a host share: how the job on it dies, waits or fails to start, and who is innocent."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from sickbay.components import Name
from sickbay.messages import Action, Verdict
from simulator.faults.kit import COMPONENT, TAKE_OUT, host_name
from simulator.faults.lasting import Lasting, hosts_of
from simulator.parts.cluster import Card
from simulator.printing import card_lines, lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.run import Run
from simulator.world import World

CODED = 0.5  # a severity below it: the line that names the fault is lost, only its consequences are seen
ANY_TAKE_OUT = TAKE_OUT | {Action.WATCH}
LOOK = frozenset({Action.WATCH, Action.IGNORE, Action.ESCALATE})
NETWORK = frozenset({"isolate_port", "cost_out_link", "check_link"})  # verbs that have no place in a fault of a host
HANDS_OFF = NETWORK | {"stop_job", "requeue", "reset_device", "reboot_host", "power_cycle", "replace_part"}
REJOIN_S, LOAD_S = 25, 12  # from the end of an attempt to the next one, and to its first use of the devices


@dataclass(slots=True, kw_only=True)
class OnHost(Lasting):
    """A fault of a host or of a part in it."""

    host: str

    def where(self) -> str:
        """The host."""
        return self.host

    def run(self, world: World) -> Run | None:
        """The job that it happens to."""
        return world.run_on(self.where())

    @property
    def coded(self) -> bool:
        """The line that names the fault is printed."""
        return self.severity >= CODED

    def right(
        self, world: World, fault: str, title: str, parts: Iterable[Name], actions: frozenset[Action] = ANY_TAKE_OUT,
        *, family: str = "explicit", faults: Collection[str] = (), forbidden: Collection[str] = NETWORK,
        seen_s: int = 0, verdicts: frozenset[Verdict] = COMPONENT,
    ) -> Expectation:  # fmt: skip
        """The right answer: one of `parts`, and nobody else of the job; `fault` itself is always a right class."""
        run = self.run(world)
        hosts = {self.where(), *(run.job.hosts if run else ())}
        return self.truth(
            world, title, fault=fault, family=family, verdicts=verdicts, components=parts, actions=actions,
            touched=hosts_of(world, hosts), faults={fault, *faults}, forbidden=forbidden, seen_s=seen_s,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class OnCard(OnHost):
    """A fault of one accelerator."""

    host: str = ""  # follows from the card
    card: Card

    def where(self) -> str:
        """The card's host."""
        return self.card.host

    def row(self, world: World) -> int:
        """The card's row."""
        return world.cluster.row(self.card.component)

    def card_or_host(self) -> set[Name]:
        """Both are right where the host is what is taken out."""
        return {self.card.component, host_name(self.card.host)}

    def rank(self, world: World) -> int:
        """The rank on the card."""
        run = self.run(world)
        return run.job.hosts.index(self.card.host) * world.cluster.per_host + self.card.index if run else 0


def dies(
    run: Run | None, at_s: int, began: int, world: World, index: int = 0, code: int = -6, after_ms: int = 300
) -> Iterator[Printed]:
    """A process of the job ends by itself (`code`), the others wait for it, and the launcher ends them 2 s later."""
    if run is None or run.ended or at_s < began:
        return
    if at_s == began:
        yield lines.exit_of(world.ms(at_s, after_ms), run.job.id, index, code, 48_122 + index)
    run.stalled = True
    if at_s == began + 2:
        for other in [one for one in range(world.cluster.per_host) if one != index][:2]:
            yield lines.exit_of(world.ms(at_s, 40 + other), run.job.id, other, -15, 48_122 + other)
        run.ended = True


def starts_anew(
    run: Run | None, at_s: int, began: int, world: World, index: int, what: str, code: int = 1
) -> Iterator[Printed]:
    """The attempt ends by order, and the next one on the same hosts finds no device to work on."""
    if run is None or at_s < began:
        return
    since = at_s - began
    if since == 0 and not run.ended:
        yield lines.cancelled(world.ms(at_s, 200), run.job.id, run.job.hosts[0])
        run.ended = True
    if since == REJOIN_S:
        run.restart(at_s, run.step)
        world.news.append(run.placement(world.ms(at_s)))
    if since == REJOIN_S + LOAD_S:
        yield card_lines.cannot_start(world.ms(at_s, 100), run.job.id, what)
        yield lines.exit_of(world.ms(at_s, 900), run.job.id, index, code, 48_122 + index)
        run.ended = True


def drags(world: World, run: Run | None, what: str, share: float) -> None:
    """The job loses this share of its time to `what`; 0: no more."""
    if run and share > 0:
        run.slow[what] = share
    elif run:
        run.slow.pop(what, None)
