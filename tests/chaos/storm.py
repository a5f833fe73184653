"""Processes that live for a moment, over and over, until enough have been killed; then some that live on."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.chaos import points
from tests.chaos.child import Spec, run
from tests.chaos.points import Trap

STEP_S = 0.02
FOR_EVER_S = 300.0  # lives as long as that get the traps that the test names
ENDS = (0, 4)  # of a process that ended itself: asked to, or as it stood still for too long


@dataclass
class Member:
    """One place in the group, with the life that fills it."""

    name: str
    stages: tuple[str, ...]
    process: BaseProcess | None = None
    until_s: float = 0.0
    trap: Trap | None = None
    wakes_s: float = 0.0  # it was stopped, and goes on then


@dataclass
class Storm:
    """`lives_s`: the shortest and the longest life. `kills` counts SIGKILLs of processes by kind."""

    server: ForkServerContext
    folder: Path
    engine: str
    members: list[Member]
    seed: int
    lives_s: tuple[float, float]
    kills: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)  # stops, sleeps, ends by themselves

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def rage(self, while_: Callable[[], bool]) -> None:
        """Lets members live and die as long as that is true."""
        while while_():
            for member in self.members:
                self._look(member)
            time.sleep(STEP_S)

    def _look(self, member: Member) -> None:
        now = time.monotonic()
        if member.process is None:
            return self._born(member, now)
        if not member.process.is_alive():
            return self._buried(member)
        if member.wakes_s:
            if now >= member.wakes_s:
                self.wake(member)
        elif now >= member.until_s:
            if _stopped(member.process):  # by its own trap
                member.wakes_s = now + self._chance.uniform(4, 13)
                self.others[f"stopped: {member.trap.point if member.trap else ''}"] += 1
            else:
                self.kill(member, "at a random moment")

    def _born(self, member: Member, now: float) -> None:
        if self.lives_s[1] < FOR_EVER_S:
            member.trap = self._trap() if self._chance.random() < 0.75 else None
        longer = 3 if self._chance.random() < 0.15 else 1  # so that work gets done between the kills
        member.until_s = now + longer * self._chance.uniform(*self.lives_s)
        self.start(member)

    def _trap(self) -> Trap:
        point = self._chance.choice(points.points(self.engine))
        often = point in ("in rebuild", "in diagnosis' rebuild", "between two sends")
        return Trap(point, round(self._chance.lognormvariate(4 if often else 0.7, 1)) + 1)

    def start(self, member: Member, patience_s: float = 0.0) -> None:
        """A new life, with its trap."""
        spec = Spec(self.folder, member.name, member.stages, member.trap, patience_s)
        member.process = self.server.Process(target=run, args=(spec,), daemon=True)
        member.process.start()

    def _buried(self, member: Member) -> None:
        assert member.process is not None
        status = member.process.exitcode
        if status == -signal.SIGKILL:
            self.kills[member.trap.point if member.trap else "?"] += 1
        else:
            self.others[f"ended with {status}"] += 1
            assert status in ENDS, f"{member.name} ended with {status}: {self.said(member.name)[-3000:]}"
        member.process.close()
        member.process, member.wakes_s = None, 0.0

    def kill(self, member: Member, kind: str) -> None:
        """SIGKILL from outside."""
        assert member.process is not None
        member.process.kill()
        member.process.join(20)
        self.kills[kind] += 1
        member.process.close()
        member.process, member.wakes_s = None, 0.0

    def stop(self, member: Member, seconds: float) -> None:
        """SIGSTOP, for so long."""
        assert member.process is not None
        os.kill(member.process.pid or 0, signal.SIGSTOP)
        member.wakes_s = time.monotonic() + seconds
        self.others["stopped from outside"] += 1

    def wake(self, member: Member) -> None:
        """SIGCONT, and a second or more to be a nuisance in."""
        assert member.process is not None
        os.kill(member.process.pid or 0, signal.SIGCONT)
        member.wakes_s, member.until_s = 0.0, time.monotonic() + self._chance.uniform(1.0, 4.0)

    def said(self, name: str) -> str:
        """What a member's lives said."""
        file = self.folder / f"said-{name}"
        return file.read_text(errors="replace") if file.exists() else ""

    @property
    def all_said(self) -> str:
        """What everybody said at the end."""
        return "\n".join(f"== {one.name}\n{self.said(one.name)[-3000:]}" for one in self.members)

    @contextmanager
    def calm(self) -> Iterator[None]:
        """All live on, without traps; at the end they are asked to end, which they must do well."""
        for member in self.members:
            if member.process is not None and member.process.is_alive():
                self.kill(member, "at the end")
            elif member.process is not None:
                self._buried(member)
            member.trap = None
            self.start(member)
        yield
        for member in self.members:
            assert member.process is not None
            assert member.process.is_alive(), self.said(member.name)[-3000:]
            member.process.terminate()
        for member in self.members:
            assert member.process is not None
            member.process.join(30)
            assert member.process.exitcode == 0, self.said(member.name)[-3000:]

    def over(self) -> None:
        """Nobody is left, whatever happened."""
        for member in self.members:
            if member.process is not None:
                member.process.kill()
                member.process.join(10)

    @property
    def summary(self) -> str:
        """For people."""
        return f"seed {self.seed}: {self.kills.total()} kills {dict(self.kills)}; {dict(self.others)}"


def _stopped(process: BaseProcess) -> bool:
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "T"
