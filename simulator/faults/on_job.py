"""What faults of a job's own program share: no host is to blame, and none may be touched."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sickbay.components import Kind, Name, name
from sickbay.messages import Action, Verdict
from simulator.faults.bearing import HANDS_OFF
from simulator.faults.kit import JOB, LEAVE, job_name
from simulator.faults.lasting import Lasting, hosts_of
from simulator.printing import lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.run import Run
from simulator.world import World

NO_BLAME = HANDS_OFF | {"drain_host", "exclude_for_job", "isolate_device", "reset_board"}
OPEN = JOB | {Verdict.UNKNOWN}  # where nothing tells a program's doing from another's
AGAIN_S = 25  # from the end of an attempt to the next one


@dataclass(slots=True, kw_only=True)
class OnJob(Lasting):
    """Something that the job on `host` does to itself, wherever it runs by then."""

    host: str
    _job: str = ""

    def run(self, world: World) -> Run | None:
        """The job."""
        if not self._job and (run := world.run_on(self.host)):
            self._job = run.job.id
        return world.runs.get(self._job)

    def right(
        self, world: World, fault: str, title: str, *, verdicts: frozenset[Verdict] = JOB, faults: Collection[str] = (),
        family: str = "work", also: Iterable[Name] = (), actions: frozenset[Action] = LEAVE, seen_s: int = 0,
    ) -> Expectation:  # fmt: skip
        """The right answer: the job (or one of `also`), and none of its hosts with all that is in them."""
        run = self.run(world)
        jobs = {job_name(run)} if run else set[Name]()
        return self.truth(
            world, title, fault=fault, faults={fault, *faults}, family=family, verdicts=verdicts,
            components=jobs | {*also}, actions=actions, forbidden=NO_BLAME, seen_s=seen_s,
            touched=hosts_of(world, run.job.hosts if run else (self.host,)),
        )  # fmt: skip


def rank_name(run: Run, rank: int) -> Name:
    """Component name of a rank."""
    return name(Kind.RANK, run.job.id, str(rank))


def first_rank(run: Run, host: str, place: int = 0) -> int:
    """Rank of a card of a host, by its place there; of the job's first host where it has left this one."""
    hosts = run.job.hosts
    return (hosts.index(host) if host in hosts else 0) * run.cluster.per_host + place


def give_up(run: Run, at_s: int, world: World, absent: Collection[int], op: str = "ALLREDUCE") -> Iterator[Printed]:
    """All ranks but the absent ones find that their time is over, and the job ends."""
    for rank in range(run.cluster.per_host * len(run.job.hosts)):
        if rank not in absent:
            seq = 71_904 + run.step
            yield from lines.watchdog(world.ms(at_s, 37 + rank), run.job.id, rank, seq, op, run.job.timeout_s)
    run.ended = True


def again(run: Run, at_s: int, world: World, step: int, hosts: Sequence[str] = ()) -> None:
    """The next attempt, told to the scheduler's readers."""
    run.restart(at_s, step, tuple(hosts))
    world.news.append(run.placement(world.ms(at_s)))


def elsewhere(run: Run, world: World) -> tuple[str, ...]:
    """As many idle hosts as the job needs; none where there are too few."""
    idle = [host for host in world.cluster.hosts if world.run_on(host) is None]
    return tuple(idle[: len(run.job.hosts)]) if len(idle) >= len(run.job.hosts) else ()
