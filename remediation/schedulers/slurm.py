"""Slurm through its own commands: `scontrol` for nodes and for every write, `squeue` for jobs.

Slurm has no compare-and-set. The owner of a hold is read right before each write (some 10 ms: the window in which an
administrator's own drain can still be overwritten), and the policy reads back afterwards.
"""

import os
import pwd
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from collectors.formats import hostlist, slurm_queue
from collectors.formats.reading import Tally
from collectors.formats.slurm_records import Node
from collectors.formats.slurm_show import shown_nodes
from remediation.schedulers import JobState, NodeState, Refused, SchedulerError, Unreachable
from remediation.schedulers.reasons import cleaned, ours
from sickbay.clock import resolve
from sickbay.programs import Answer, NoAnswer, Unasked, ask, environment
from sickbay.settings import Slurm

LEAST_S = 0.1  # that the last question of a method is given
ASKED_AT_ONCE = 100  # names in one question; for more the whole cluster is asked
# No option, list, range, or name for all nodes; names of node sets are refused by the read before a write.
_NODE = re.compile(r"(?!(?i:all)\Z)[A-Za-z0-9][A-Za-z0-9._-]{0,252}", re.ASCII)
_JOB = re.compile(r"\d{1,10}", re.ASCII)
_NO_SUCH_NODE = re.compile(r"Node \S{1,253} not found")
_NO_SUCH_JOB = "invalid job id"
# What slurmctld itself writes behind a reason, whoever's it is (22.05): no person changed it.
_REBOOTS = re.compile(r"(?: : (?:reboot (?:requested|issued|complete|timed out)|Reboot ASAP))+\Z")
_AWAY = (
    "unable to contact", "timed out", "connection refused", "connect failure", "zero bytes", "not responding",
    "communication", "standby mode", "could not establish a configuration source", "no route", "incoherent",
)  # fmt: skip
# Words of a no that stays one; whatever else fails may be different the next time.
_NO = ("invalid", "already", "disabled", "not permitted", "not allowed", "not supported")
_RIGHTS = ("access/permission denied", "user not found", "invalid user id", "permission denied", "access denied")


class SlurmScheduler:
    """A client of one Slurm. It holds no connection and no state: every method asks anew, within one time limit."""

    name = "slurm"

    def __init__(self, settings: Slurm, clock: Callable[[], int]) -> None:
        self._settings = settings
        self._clock = clock
        more = {"TZ": "UTC", "LC_ALL": "C"} | ({"SLURM_CONF": settings.conf} if settings.conf else {})
        self._env = environment(os.environ, without=slurm_queue.WITHOUT, **more)

    def nodes(self, names: Iterable[str] = ()) -> Mapping[str, NodeState]:
        """The named nodes, all where none is named. Unknown names are missing from the answer."""
        wanted = frozenset(names)
        read_ms = self._clock()
        asked = {name for name in wanted if _NODE.fullmatch(name)}
        if wanted and not asked:
            return {}
        until = self._until()
        shown = self._shown(asked if len(asked) <= ASKED_AT_ONCE else (), until)
        shown = [node for node in shown if not wanted or node.host in wanted]
        running = self._running(until) if shown else {}
        return {node.host: _node_state(node, running.get(node.host, ()), read_ms) for node in shown}

    def jobs(self, ids: Iterable[str] = ()) -> Mapping[str, JobState]:
        """The named jobs, all that Slurm still remembers where none is named."""
        wanted = frozenset(ids)
        read_ms = self._clock()
        asked = sorted(job for job in wanted if _JOB.fullmatch(job))
        if wanted and not asked:
            return {}
        found = (queued for queued in self._queued(asked if len(asked) <= ASKED_AT_ONCE else []) if queued.job.state)
        return {one.job.id: _job_state(one, read_ms) for one in found if not wanted or one.job.id in wanted}

    def drain(self, node: str, reason: str) -> None:
        """Give the node no new work. Refused where somebody else holds it, whatever the policy thought it had read."""
        text, until = cleaned(reason), self._until()
        if ours(text) is None:
            raise Refused(f"{node}: a reason must begin with the action's id, not {text[:60]!r}")
        self._for_writing(node, until)
        self._told(until, "scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={text}")

    def resume(self, node: str) -> None:
        """Take our drain off; one that is down besides stays down. Refused where the hold is not ours."""
        until = self._until()
        state = self._for_writing(node, until)
        if ours(state.reason) is None:
            raise Refused(f"{node} is not held by us: {_standing(state)}")
        if "unknown" in state.flags:  # Slurm would call it an invalid state
            raise Unreachable(f"{node}: slurmctld has just started and has not heard of it yet; try again")
        self._told(until, "scontrol", "update", f"NodeName={node}", "State=UNDRAIN")

    def requeue(self, job: str) -> None:
        """Stop the job and put it back into its queue. One that has ended meanwhile is not started again."""
        if not _JOB.fullmatch(job):
            raise Refused(f"not the id of a job: {job[:80]!r}")
        self._told(self._until(), "scontrol", "requeue", "Incomplete", job)

    def _for_writing(self, node: str, until: float) -> NodeState:
        """The node right before a write to it. Raises Refused where it is none, or held by somebody else."""
        if not _NODE.fullmatch(node):
            raise Refused(f"not a name of a node: {node[:80]!r}")
        read_ms = self._clock()
        found = [shown for shown in self._shown([node], until) if shown.host == node]
        if len(found) != 1:
            raise Refused(f"{node} is no node of this cluster (scontrol show node {node})")
        state = _node_state(found[0], (), read_ms)
        theirs = ours(state.reason) is None or state.reason_by not in ("", *_me())
        if state.held and theirs:
            raise Refused(f"{node} is held by somebody else: {_standing(state)}")
        return state

    def _shown(self, names: Iterable[str], until: float) -> list[Node]:
        which = [",".join(sorted(names))] if names else []
        answer = self._asked(until, "scontrol", "show", "node", "-o", *which)
        unknown = [row for row in (answer.text + answer.errors).splitlines() if _NO_SUCH_NODE.fullmatch(row.strip())]
        if answer.status and not unknown:
            raise _problem(answer)
        tally = Tally()
        found = list(shown_nodes(answer.text, tally))
        if tally.unparsed and not found:
            raise Unreachable("scontrol show node: its answer cannot be read")
        return found

    def _running(self, until: float) -> dict[str, tuple[str, ...]]:
        """Per node the jobs that have something running there, in order; those that are just ending too."""
        answer = self._told(until, "squeue", "--noheader", "--all", "--format=%A|%N")
        on: dict[str, tuple[str, ...]] = {}
        for row in answer.text.splitlines():
            job, bar, nodes = row.strip().partition("|")
            if not (bar and _JOB.fullmatch(job)):
                raise Unreachable("squeue: its answer cannot be read")
            for node in hostlist.names(nodes, Tally()):
                on[node] = (*on.get(node, ()), job)
        return on

    def _queued(self, jobs: list[str]) -> list[slurm_queue.Queued]:
        mark = slurm_queue.mark_of(secrets.token_hex(8))
        which = [f"--jobs={','.join(jobs)}"] if jobs else []
        answer = self._asked(self._until(), "squeue", *slurm_queue.question(mark), *which)
        if answer.status and jobs and _NO_SUCH_JOB in answer.errors.lower():
            return []
        if answer.status:
            raise _problem(answer)
        try:
            return list(slurm_queue.jobs(answer.text, mark, Tally()))
        except slurm_queue.Unreadable as error:
            raise Unreachable(f"squeue: {error}") from None

    def _until(self) -> float:
        """When a method that begins now must have its answer."""
        return time.monotonic() + self._settings.timeout_s

    def _told(self, until: float, program: str, *arguments: str) -> Answer:
        answer = self._asked(until, program, *arguments)
        if answer.status:
            raise _problem(answer)
        return answer

    def _asked(self, until: float, program: str, *arguments: str) -> Answer:
        command = str(Path(self._settings.bin, program)) if self._settings.bin else program
        try:
            return ask([command, *arguments], timeout_s=max(LEAST_S, until - time.monotonic()), env=self._env)
        except Unasked as error:
            raise Unreachable(f"{error}: set [slurm] bin to the folder of Slurm's commands") from None
        except NoAnswer as error:
            raise Unreachable(f"{error}: does slurmctld run? (scontrol ping; [slurm] conf, timeout_s)") from None


def _me() -> tuple[str, ...]:
    """How Slurm spells the user that we write as."""
    user = os.geteuid()
    try:
        return (pwd.getpwuid(user).pw_name, str(user))
    except KeyError:
        return (str(user),)


def _standing(state: NodeState) -> str:
    by = f" by {state.reason_by}" if state.reason_by else ""
    return f"{'+'.join(sorted(state.flags))}{by}: {state.reason[:200] or 'no reason given'}"


def _node_state(node: Node, jobs: Iterable[str], read_ms: int) -> NodeState:
    return NodeState(
        name=node.host,
        flags=frozenset(flag.lower() for flag in node.states),
        reason=_REBOOTS.sub("", node.reason),
        reason_by=node.user,
        reason_at_ms=resolve(node.at),  # asked with TZ=UTC
        jobs=tuple(dict.fromkeys(jobs)),
        read_ms=read_ms,
    )


def _job_state(queued: slurm_queue.Queued, read_ms: int) -> JobState:
    job = queued.job
    return JobState(
        id=job.id,
        attempt=job.attempt,
        state=job.state.lower(),
        nodes=hostlist.names(job.nodes, Tally()),
        user=job.user,
        may_requeue=queued.may_requeue,
        read_ms=read_ms,
    )


def _problem(answer: Answer) -> SchedulerError:
    """What a command that failed says, in its own words, with what to do about it."""
    said = " ".join((answer.errors or answer.text).split())[:300] or f"exit status {answer.status}"
    low = said.lower()
    if answer.status < 0 or any(word in low for word in _AWAY):
        return Unreachable(f"Slurm cannot be asked: {said} (scontrol ping)")
    if any(word in low for word in _RIGHTS):
        return Refused(f"Slurm does not let us: {said}: run as SlurmUser, root or an operator")
    return (Refused if any(word in low for word in _NO) else SchedulerError)(f"Slurm says: {said}")
