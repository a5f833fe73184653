"""A scheduler that is simulated: nodes, jobs, a queue and people, by a clock that is given. For tests and `sickbay up`.

It behaves like Slurm where that matters: a drained node finishes what it runs, a requeued job waits and starts on free
nodes as the next attempt, and a drain overwrites whatever reason stood there, as nothing compares and sets.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from remediation.schedulers import JobState, NodeState, Refused

OUR_USER = "sickbay"


@dataclass(slots=True)
class _Node:
    held: str = ""  # drain, down, maint or "": none
    reason: str = ""
    reason_by: str = ""
    reason_at_ms: int | None = None


@dataclass(slots=True)
class _Job:
    size: int
    user: str
    may_requeue: bool
    state: str = "pending"
    attempt: int = 0
    nodes: tuple[str, ...] = ()
    ready_ms: int = 0  # may start from then on
    began_ms: int | None = None


@dataclass(slots=True)
class SimulatedScheduler:
    """N nodes and their jobs. `trouble` is called before and after every call, and may raise, wait or change the world.

    It gets "nodes:before", "drain:after" and so on. `writes` lists what was written, as (verb, target).
    """

    names: Iterable[str]
    clock: Callable[[], int]
    requeue_ms: int = 2_000  # from the requeue to the next start
    trouble: Callable[[str], None] = lambda moment: None
    name: str = "simulated"
    writes: list[tuple[str, str]] = field(default_factory=list)
    _nodes: dict[str, _Node] = field(init=False)
    _jobs: dict[str, _Job] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self._nodes = {name: _Node() for name in self.names}

    def nodes(self, names: Iterable[str] = ()) -> Mapping[str, NodeState]:
        """See `Scheduler`."""
        self.trouble("nodes:before")
        with self._lock:
            self._run()
            wanted = list(names) or list(self._nodes)
            found = {name: self._shown(name) for name in wanted if name in self._nodes}
        self.trouble("nodes:after")
        return found

    def jobs(self, ids: Iterable[str] = ()) -> Mapping[str, JobState]:
        """See `Scheduler`."""
        self.trouble("jobs:before")
        with self._lock:
            self._run()
            wanted = list(ids) or list(self._jobs)
            found = {one: self._told(one) for one in wanted if one in self._jobs}
        self.trouble("jobs:after")
        return found

    def drain(self, node: str, reason: str) -> None:
        """See `Scheduler`."""
        self._write("drain", node, lambda: self.hold(node, reason, OUR_USER))

    def resume(self, node: str) -> None:
        """See `Scheduler`."""
        self._write("resume", node, lambda: self.release(node))

    def requeue(self, job: str) -> None:
        """See `Scheduler`."""
        self._write("requeue", job, lambda: self._requeue(job))

    def _write(self, verb: str, target: str, change: Callable[[], None]) -> None:
        self.trouble(f"{verb}:before")
        with self._lock:
            self._run()
            change()
            self.writes.append((verb, target))
        self.trouble(f"{verb}:after")

    def hold(self, node: str, reason: str, by: str, how: str = "drain") -> None:
        """What an administrator does: drain, down or maint."""
        with self._lock:
            if node not in self._nodes:
                raise Refused(f"no node {node}")
            self._nodes[node] = _Node(how, reason, by, self.clock())

    def release(self, node: str) -> None:
        """What an administrator does: the node takes work again."""
        with self._lock:
            if node not in self._nodes:
                raise Refused(f"no node {node}")
            self._nodes[node] = _Node()
            self._run()

    def submit(self, job: str, size: int, user: str = "alice", *, may_requeue: bool = True) -> None:
        """A job of so many nodes; it starts at once where they are free."""
        with self._lock:
            self._jobs[job] = _Job(size, user, may_requeue)
            self._run()

    def end(self, job: str, state: str = "completed") -> None:
        """The job is over."""
        with self._lock:
            self._jobs[job].state, self._jobs[job].nodes = state, ()
            self._run()

    def began_ms(self, job: str) -> int | None:
        """When the running attempt began."""
        return self._jobs[job].began_ms

    def nodes_held(self) -> tuple[str, ...]:
        """The nodes that take no new work, as nobody else but a test asks."""
        return tuple(name for name, node in self._nodes.items() if node.held)

    def _requeue(self, job: str) -> None:
        one = self._jobs.get(job)
        if one is None or one.state != "running" or not one.may_requeue:
            raise Refused(f"job {job} cannot be requeued")
        one.state, one.nodes, one.began_ms = "pending", (), None
        one.attempt, one.ready_ms = one.attempt + 1, self.clock() + self.requeue_ms

    def _run(self) -> None:
        """Start what can start, in the order of submission."""
        now = self.clock()
        for job in self._jobs.values():
            free = self._free()
            if job.state == "pending" and now >= job.ready_ms and len(free) >= job.size:
                job.state, job.nodes, job.began_ms = "running", tuple(free[: job.size]), now

    def _free(self) -> list[str]:
        taken = {node for job in self._jobs.values() for node in job.nodes}
        return [name for name, node in self._nodes.items() if not node.held and name not in taken]

    def _shown(self, name: str) -> NodeState:
        node = self._nodes[name]
        jobs = tuple(key for key, job in self._jobs.items() if name in job.nodes)
        flags = {"allocated" if jobs else "idle", *((node.held,) if node.held else ())}
        return NodeState(
            name=name, flags=frozenset(flags), reason=node.reason, reason_by=node.reason_by,
            reason_at_ms=node.reason_at_ms, jobs=jobs, read_ms=self.clock(),
        )  # fmt: skip

    def _told(self, key: str) -> JobState:
        job = self._jobs[key]
        return JobState(
            id=key, attempt=job.attempt, state=job.state, nodes=job.nodes, user=job.user,
            may_requeue=job.may_requeue, read_ms=self.clock(),
        )  # fmt: skip
