"""Running stages: each in a thread of its own, ended in good order, with metrics and readiness to be asked for.

A stage is the shell around a pure core. It opens what it needs in `open`, in the thread that will use it; an error that
it does not handle ends the whole process with a message, as a stage that is silently gone looks healthy.
"""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sickbay.log import Log, wall_ms
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config


@dataclass(frozen=True, slots=True)
class Context:
    """What every stage is given. `say` prints one line for people on standard error."""

    config: Config
    log: Log
    metrics: SelfMetrics
    say: Callable[[str], None]
    clock: Callable[[], int] = wall_ms


class Stage(Protocol):
    """One stage at work."""

    def step(self, now_ms: int) -> bool:
        """Do what there is to do; False: nothing was there, wait a little. Must return within a few seconds."""
        ...

    def close(self) -> None:
        """Finish what is open and let go."""
        ...


Make = Callable[[Context], Stage]

IDLE_S = 0.05  # between two looks that found nothing
DRAIN_S = 20.0  # for a stage to end in good order


@dataclass(slots=True)
class Service:
    """Some stages in one process. `run` returns the exit status: 0 asked to stop, 4 a stage failed."""

    context: Context
    stages: dict[str, Make]
    failed: str = ""
    beats: dict[str, float] = field(default_factory=dict)  # stage: monotonic time of its newest step
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self, signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT)) -> int:
        """Runs until a signal or `stop`. Only the main thread may take signals."""
        for one in signals:
            signal.signal(one, lambda *_: self.stop())
        threads = [
            threading.Thread(target=self._run, args=(name, make), name=name, daemon=True)
            for name, make in self.stages.items()
        ]
        for thread in threads:
            thread.start()
        while not self._stop.wait(0.2):  # with a time limit, so that signals are seen
            pass
        deadline = time.monotonic() + DRAIN_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        late = [thread.name for thread in threads if thread.is_alive()]
        if late:
            self.context.say(f"{', '.join(late)}: did not end within {DRAIN_S:.0f} s; left behind")
        return 4 if self.failed or late else 0

    def stop(self) -> None:
        """Ask every stage to end."""
        self._stop.set()

    def _run(self, name: str, make: Make) -> None:
        try:
            stage = make(self.context)
            try:
                while not self._stop.is_set():
                    self.beats[name] = time.monotonic()
                    if not stage.step(self.context.clock()):
                        self._stop.wait(IDLE_S)
            finally:
                stage.close()
        except Exception as error:
            self.failed = f"{name}: {type(error).__name__}: {error}"
            self.context.say(self.failed)
            self.stop()
