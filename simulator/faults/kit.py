"""What faults share: how a job stalls, how a host goes blank, and how a right answer is written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from sickbay.components import Kind, Name, name
from sickbay.messages import Action, Verdict
from simulator.parts.cluster import Card, Cluster
from simulator.printing import lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.run import Run
from simulator.world import World

COMPONENT, SHARED, JOB = (frozenset({v}) for v in (Verdict.COMPONENT, Verdict.SHARED, Verdict.JOB))
TAKE_OUT = frozenset({Action.RESET_DEVICE, Action.DRAIN_HOST, Action.REBOOT_HOST, Action.REPLACE_PART})
LEAVE = frozenset({Action.IGNORE, Action.WATCH, Action.FIX_SOFTWARE, Action.RESTART_JOB})


class Happening(Protocol):
    """An effect that knows the right answer."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """What this second is like because of it, and what is printed."""
        ...

    def expect(self, world: World) -> Expectation:
        """What must be said of it."""
        ...


Faults: TypeAlias = Mapping[str, Callable[..., Happening]]  # by their names in faults.toml


@runtime_checkable
class Sweeping(Protocol):
    """An effect that shows in sweeps of the fabric."""

    def sweeps(self, cluster: Cluster) -> dict[int, tuple[str, ...]]:
        """Second of each sweep, with the leaves that it missed."""
        ...


def host_name(host: str) -> Name:
    """Component name of a host."""
    return name(Kind.HOST, host)


def job_name(run: Run) -> Name:
    """Component name of a job."""
    return name(Kind.JOB, run.job.id)


def ranks_of(run: Run) -> list[tuple[int, Card]]:
    """Ranks of a job with their cards."""
    return list(enumerate(card for host in run.job.hosts for card in run.cluster.of(host)))


def stall(run: Run | None, began: int, at_s: int, world: World, absent: Sequence[Card]) -> Iterator[Printed]:
    """A job that waits for `absent`: transport errors after half a minute, time-outs of the others after its time."""
    if run is None or run.ended or at_s < began:
        return
    run.stalled = True
    waiting = [(rank, card) for rank, card in ranks_of(run) if card not in absent]
    if at_s == began + 35 and absent:
        far = [(rank, card) for rank, card in waiting if card.host != absent[0].host]  # near ones use no network
        for rank, card in far[:2]:
            yield lines.retry_exceeded(world.ms(at_s, 100 + rank), run.job.id, card, absent[0])
    if at_s == began + run.job.timeout_s:
        for rank, _ in waiting:
            seq = 71_904 + run.step
            yield from lines.watchdog(world.ms(at_s, 37 + rank), run.job.id, rank, seq, "ALLREDUCE", run.job.timeout_s)
    if at_s == began + run.job.timeout_s + 2:
        run.ended = True


def blind(world: World, host: str) -> None:
    """The accelerator exporter of a host gives nothing; the host itself is alive."""
    world.now.seen[world.cluster.rows(host)] = False
    world.now.source_up[world.cluster.host_index[host]] = False


def of_card(
    world: World, card: Card, fault: str, title: str, at: int, actions: frozenset[Action],
    faults: set[str] | None = None,
) -> Expectation:  # fmt: skip
    """The right answer for a fault of one card: it, or its host; siblings, peers and job are touched, not guilty."""
    run, host = world.run_on(card.host), host_name(card.host)
    touched = {host, *(other.component for other in world.cluster.of(card.host)), *([job_name(run)] if run else [])}
    return Expectation(
        name=fault, title=title, at_ms=world.ms(at), touched=frozenset(touched),
        verdicts=COMPONENT, components=frozenset({card.component, host}),
        faults=frozenset(faults or {fault, "host_blind"}), actions=actions,
    )  # fmt: skip
