"""The training jobs of a simulated site that has no real scheduler to run `simulator.live.trainer`: a fold over time.

It says and writes what the trainer would: activity of every host, the job's log, checkpoints.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from simulator.live import trainer
from simulator.live.site import Site


class Running(NamedTuple):
    """An attempt that a scheduler says runs now."""

    job: str
    attempt: int
    nodes: tuple[str, ...]


@dataclass(slots=True)
class _Attempt:
    began: float
    last: float
    step: int


@dataclass(slots=True)
class SiteJobs:
    """All jobs of a site. `step` is called several times a second, by one thread."""

    site: Site
    _attempts: dict[tuple[str, int], _Attempt] = field(default_factory=dict)

    def step(self, now: float, running: Iterable[Running]) -> None:
        """What the jobs do at that time (seconds)."""
        for one in running:
            key = (one.job, one.attempt)
            if key not in self._attempts:
                self._attempts[key] = _Attempt(now, now + trainer.LOAD_S, self._saved(one.job))
            self._do(one, self._attempts[key], now)

    def _saved(self, job: str) -> int:
        file = self.site.scratch / f"{job}.checkpoint"
        return int(file.read_text()) if file.exists() else 0

    def _do(self, one: Running, attempt: _Attempt, now: float) -> None:
        if not all(self.site.healthy(node) for node in one.nodes):
            word, attempt.last = "wait", now
        else:
            word = "load" if now < attempt.began + trainer.LOAD_S else "step"
        for node in one.nodes:
            trainer.say(self.site.folder, node, word)
        if word == "step" and now - attempt.last >= trainer.STEP_S:
            self._finish(one.job, attempt, now)

    def _finish(self, job: str, attempt: _Attempt, now: float) -> None:
        attempt.step += 1
        with (self.site.scratch / f"slurm-{job}.out").open("a", encoding="utf-8") as out:
            print(trainer.line(attempt.step, now - attempt.last), file=out)
            if attempt.step % trainer.SAVE_EVERY == 0:
                trainer.save(self.site.scratch / f"{job}.checkpoint", attempt.step, out)
        attempt.last = now
