"""The training hook: tells the host's agent of steps. Standard library only; this one file may be copied anywhere.

    from sickbay.steps import Steps          # or, from a copy: from steps import Steps
    steps = Steps()                          # job and rank as the environment tells them
    with steps.step(number, work=tokens):    # around each training step
        train(batch)

It costs some microseconds a step, never waits and never raises: what cannot be sent now is kept for a while (the newest
`KEPT` messages), then dropped and counted, and the count is in every later message. The agent may start later or be
restarted. It may be used from several threads, and after a fork.
"""

from __future__ import annotations

import atexit
import functools
import json
import math
import os
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Concatenate, ParamSpec

    P = ParamSpec("P")
    T = TypeVar("T")

PATH = "/run/sickbay/steps.sock"  # where agents listen, unless SICKBAY_STEPS names another place
KEPT = 64  # messages that wait for a full or absent agent
PACKET = 8_000  # bytes of one datagram that several messages share
LONGEST = 15_000  # bytes of one message: the agent takes no more
AGAIN_S = 1.0  # between two tries to find the agent
BEGIN_S = 0.1  # of shorter steps not every begin is told: it only matters where a step does not end
FULL_S = 0.001  # before the next message to one whose queue is full
JOBS = ("SICKBAY_JOB", "SLURM_JOB_ID", "SLURM_JOBID")
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK_ID", "SLURM_PROCID")
WORLDS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "RANK_SIZE", "SLURM_NTASKS")


def _safe(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T | None]:
    """A method that never raises: training goes on whatever happens here."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **named: P.kwargs) -> T | None:
        try:
            return method(self, *arguments, **named)
        except Exception:
            self.errors += 1
            return None

    return call


class Steps:
    """One rank's word to its host's agent. What is not given is taken from the environment.

    `groups`: the ranks of each parallel group that this rank is in, as {"tensor": (0, 1, 2, 3)}.
    """

    errors = 0  # calls that went wrong in here, wrong arguments included

    def __init__(
        self,
        *,
        job: str = "",
        rank: int | None = None,
        world: int | None = None,
        path: str = "",
        groups: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self._lost: dict[int, int] = {}  # by thread, so that no lock is needed
        self._waiting: deque[bytes] = deque()
        self._socket: socket.socket | None = None
        self._pid, self._head, self._again_s, self._begin_s, self._ended = 0, "", 0.0, 0.0, False
        self._rank: int | None = None
        self._open: tuple[int, float] | None = None
        self.last = -1  # the newest step that was begun
        self._begin_rank(job, rank, world, path)
        self._groups(groups or {})

    @_safe
    def _groups(self, groups: Mapping[str, Sequence[int]]) -> None:
        for name, ranks in groups.items():
            self.group(name, ranks)

    @_safe
    def _begin_rank(self, job: str, rank: int | None, world: int | None, path: str) -> None:
        self._path = str(path) or os.environ.get("SICKBAY_STEPS") or PATH
        self._rank = _told(RANKS) if rank is None else int(rank)
        world = _told(WORLDS) if world is None else int(world)
        job = str(job) or next((value for name in JOBS if (value := os.environ.get(name))), "")
        about: dict[str, Any] = {"v": 1, "job": job}
        about.update({key: value for key, value in (("rank", self._rank), ("world", world)) if value is not None})
        self._about = json.dumps(about)[:-1]
        self._began()
        atexit.register(self.close)

    def _began(self) -> None:
        """This process is the sender: also after a fork, when nothing of the parent's may be used or told."""
        self._head = f'{self._about}, "start": {time.time_ns() // 1_000_000}, "k": '
        if self._socket is not None:
            self._socket.close()
        self._socket, self._again_s, self._begin_s, self._open = None, 0.0, -BEGIN_S, None
        self._lost, self._waiting, self.errors = {}, deque(), 0
        self._pid = os.getpid()

    @property
    def lost(self) -> int:
        """Messages that were dropped."""
        return sum(list(self._lost.values()))

    def step(self, step: int, *, work: float | None = None) -> _Step:
        """A step as a context: begun, and ended where its body was left without an exception."""
        return _Step(self, step, work)

    @_safe
    def begin(self, step: int) -> None:
        """A step begins. `step`: its number in the run."""
        number, now_s = _whole(step), time.perf_counter()
        self.last, self._open = number, (number, now_s)
        if now_s - self._begin_s >= BEGIN_S:
            self._begin_s = now_s
            self._tell(f'"begin", "step": {number}')

    @_safe
    def end(self, *, work: float | None = None, loss: float | None = None, grad_norm: float | None = None) -> None:
        """The step that was begun ends. `work`: its tokens or samples on this rank. Plain numbers: a value that lies on
        a device would have to be waited for, and is not taken."""
        begun, self._open = self._open, None
        if begun is None:
            raise ValueError("no step was begun")
        took_ms = (time.perf_counter() - begun[1]) * 1000
        body = f'"step", "step": {begun[0]}, "ms": {took_ms:.3f}'
        if work is not None and _finite(work):
            body += f', "work": {float(work)!r}'
        for key, value in (("loss", loss), ("grad", grad_norm)):
            if value is not None:
                body += f', "{key}": {float(value)!r}' if _finite(value) else ', "odd": true'
        self._tell(body)

    @_safe
    def phase(self, phase: str, step: int | None = None) -> None:
        """Something else than a step begins: `load`, `evaluate` ... `step`: the newest one, unless told."""
        number = self.last if step is None else _whole(step)
        self._tell(f'"phase", "step": {number}, "phase": {json.dumps(str(phase)[:40])}')

    def checkpoint_begin(self, step: int | None = None) -> None:
        """A checkpoint of this step begins to be written by this rank."""
        self.phase("checkpoint_begin", step)

    def checkpoint_commit(self, step: int | None = None) -> None:
        """The checkpoint of this step is whole: a restart would resume from it."""
        self.phase("checkpoint_end", step)

    @_safe
    def group(self, name: str, ranks: Sequence[int]) -> None:
        """The ranks of a parallel group that this rank is in."""
        told = sorted({int(rank) for rank in ranks})
        self._tell(f'"group", "group": {json.dumps(str(name)[:60])}, "ranks": {told}')

    @_safe
    def restart_owner(self, owner: str) -> None:
        """Who restarts this job when it fails: `framework`, `scheduler`, `person` ... Rank 0 tells it."""
        if not self._rank:
            self._tell(f'"owner", "owner": {json.dumps(str(owner)[:40])}')

    @_safe
    def no_stop_until(self, at_s: float) -> None:
        """Do not stop this job before that time, in seconds since 1970; 0 takes it back. Rank 0 tells it."""
        if not self._rank:
            self._tell(f'"no_stop", "until": {max(0, int(at_s * 1000))}')

    @_safe
    def close(self) -> None:
        """This rank ends; also called when the interpreter does."""
        if self._pid == os.getpid() and not self._ended and self.last >= 0:
            self._ended = True
            self.phase("exit")
        if self._pid == os.getpid() and self._socket is not None:
            self._socket.close()
            self._socket = None

    def _tell(self, body: str) -> None:
        if os.getpid() != self._pid:
            self._began()
        if len(self._waiting) >= KEPT:
            self._waiting.popleft()
            self._lose(1)
        more = f', "lost": {self.lost}, "errors": {self.errors}' if self._lost or self.errors else ""
        line = f'{self._head}{body}, "at": {time.time_ns() // 1_000_000}{more}}}\n'.encode()
        if len(line) > LONGEST:
            raise ValueError("a message that no agent takes")
        if self._socket is not None and not self._waiting and self._sent(line):  # as it nearly always is
            return
        self._waiting.append(line)
        while self._waiting and self._connected():
            lines = self._packet()
            if not self._sent(b"".join(lines)):
                self._waiting.extendleft(reversed(lines))
                return

    def _lose(self, number: int) -> None:
        own = threading.get_ident()
        self._lost[own] = self._lost.get(own, 0) + number

    def _packet(self) -> list[bytes]:
        """The oldest messages that fit into a datagram."""
        lines, size = [self._waiting.popleft()], 0
        while self._waiting and (size := size + len(lines[-1])) + len(self._waiting[0]) <= PACKET:
            lines.append(self._waiting.popleft())
        return lines

    def _connected(self) -> bool:
        now_s = time.monotonic()
        if now_s < self._again_s:
            return False
        if self._socket is not None:
            return True
        self._again_s = now_s + AGAIN_S
        found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            found.setblocking(False)
            found.connect(self._path)
        except OSError:  # no agent there yet
            found.close()
            return False
        self._socket, self._again_s = found, 0.0
        return True

    def _sent(self, packet: bytes) -> bool:
        """False where the agent's queue is full, or it is gone."""
        found = self._socket
        if found is None:
            return False
        try:
            found.send(packet)
            return True
        except BlockingIOError:
            self._again_s = time.monotonic() + FULL_S
        except OSError:  # it went away; another one may be there at once
            self._socket = None
            found.close()
        return False


class _Step:
    """One step as a context."""

    __slots__ = ("_step", "_steps", "_work")

    def __init__(self, steps: Steps, step: int, work: float | None) -> None:
        self._steps, self._step, self._work = steps, step, work

    def __enter__(self) -> Steps:
        self._steps.begin(self._step)
        return self._steps

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self._steps.end(work=self._work)


class Callback:
    """The hook as a callback, by the names that PyTorch Lightning, Transformers and MindSpore call.

    Where a framework wants its own class, take both: `class Hook(steps.Callback, TheirCallback): pass`.
    `work`: tokens or samples of one step on one rank.
    """

    def __init__(self, steps: Steps | None = None, *, work: float | None = None) -> None:
        super().__init__()
        self.steps, self._work, self._count, self._writes, self.errors = steps or Steps(), work, 0, False, 0

    @_safe
    def on_train_batch_start(self, *told: Any, **named: Any) -> None:
        """A step begins."""
        number = next((one for one in map(_step_of, (*told, *named.values())) if one is not None), self._count)
        self._count = number + 1
        if self._writes:
            self.steps.checkpoint_commit()
            self._writes = False
        self.steps.begin(number)

    @_safe
    def on_train_batch_end(self, *told: Any, **named: Any) -> None:
        """A step ends."""
        self.steps.end(work=self._work)

    @_safe
    def on_save_checkpoint(self, *told: Any, **named: Any) -> None:
        """A checkpoint is written; it is whole when the next step begins."""
        self.steps.checkpoint_begin()
        self._writes = True

    @_safe
    def on_save(self, *told: Any, **named: Any) -> None:
        """A checkpoint was written."""
        self.steps.checkpoint_commit()

    @_safe
    def on_train_end(self, *told: Any, **named: Any) -> None:
        """Training ends."""
        self.steps.close()

    on_step_begin = on_train_step_begin = on_train_batch_start
    on_step_end = on_train_step_end = on_train_batch_end


def _step_of(told: Any) -> int | None:
    """The number of the step, where a trainer, its state or a run context tells it."""
    number = getattr(told, "global_step", None)
    if number is None and callable(arguments := getattr(told, "original_args", None)):
        number = getattr(arguments(), "cur_step_num", None)
    return number if isinstance(number, int) else None


def _whole(step: int) -> int:
    if not isinstance(step, int):
        raise TypeError("a step is a whole number")
    return int(step)


def _finite(value: float) -> bool:
    if not isinstance(value, (int, float)):
        raise TypeError("not a plain number")
    return math.isfinite(value)


def _told(names: Sequence[str]) -> int | None:
    for name in names:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return None
