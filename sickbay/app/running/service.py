"""Running stages: each in a thread of its own, ended in good order, with metrics and readiness to be asked for.

A stage is the shell around a pure core. It opens what it needs in `open`, in the thread that will use it; an error that
it does not handle ends the whole process with a message, as a stage that is silently gone looks healthy. So does a
stage that hangs: another process can take its work over only when this one is gone. A call of the log that takes
over 10 s hangs; a step may take longer, as a look of diagnosis at a storm does. A stage that waits for a processor of
a busy machine does not hang, and what it waits is not counted.
"""

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sickbay.app.running.exposition import Exposition
from sickbay.app.running.starving import Starving
from sickbay.app.running.watched import Calls, WatchedLog
from sickbay.log import Log, LogBusy, wall_ms
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config
from sickbay.trouble import Trouble


@dataclass(frozen=True, slots=True)
class Context:
    """What every stage is given. `say` prints one line for people on standard error."""

    config: Config
    log: Log
    metrics: SelfMetrics
    say: Callable[[str], None]
    clock: Callable[[], int] = wall_ms


class Stage(Protocol):
    """One stage at work. An attribute `waiting` that is not empty says what keeps it from being ready."""

    def step(self, now_ms: int) -> bool:
        """Do what there is to do; False: nothing was there, wait a little. Must return within a few seconds."""
        ...

    def close(self) -> None:
        """Finish what is open and let go."""
        ...


Make = Callable[[Context], Stage]

IDLE_S = 0.05  # between two looks that found nothing
AGAIN_S = 1.0  # between two attempts to make a stage while the log does not answer
DRAIN_S = 20.0  # for a stage to end in good order
CALL_S = 10.0  # for one call of the log, as poll or commit: one that fails of itself takes 7 s
STEP_S = 20.0  # without a step or a call of the log that succeeds: such a stage hangs; a slow machine alone is no fault
READY_S = 10.0  # since the newest step of a stage that counts as at work
ASLEEP_S = 2.0  # between two looks of the watchdog, which are 0.2 s apart: the whole process stood still meanwhile


@dataclass(slots=True)
class Service:
    """Some stages in one process. `run` returns the exit status: 0 asked to stop, 4 a stage failed."""

    context: Context
    stages: dict[str, Make]
    step_s: float = STEP_S
    call_s: float = CALL_S  # also where a step may take longer: a long look is work, a long call is none
    longer: Mapping[str, float] = field(default_factory=dict)  # stage: seconds, where a step may take more than that
    failed: str = ""
    beats: dict[str, float] = field(default_factory=dict)  # stage: monotonic time of its newest step
    listening: str = ""  # host:port of the metrics, where they are served
    _stop: threading.Event = field(default_factory=threading.Event)
    _made: dict[str, Stage] = field(default_factory=dict)
    left_behind: bool = False  # a stage did not end: only the end of the process ends it
    _hangs: bool = False
    _calls: Calls = field(default_factory=Calls)
    _starving: Starving = field(default_factory=Starving)

    def run(self, signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT)) -> int:
        """Runs until a signal or `stop`. Only the main thread may take signals."""
        for one in signals:
            signal.signal(one, lambda *_: self.stop())
        threads = [
            threading.Thread(target=self._run, args=(name, make), name=name, daemon=True)
            for name, make in self.stages.items()
        ]
        exposition = self._exposed()
        try:
            for thread in threads:
                thread.start()
            self._watch()
            return self._ended(threads)
        finally:
            if exposition is not None:
                exposition.close()

    def _exposed(self) -> Exposition | None:
        """The metrics over HTTP, where the settings say so. Raises ConfigError."""
        listen = self.context.config.metrics.listen
        if not listen:
            return None
        exposition = Exposition(listen, self.context.metrics, self.troubles)
        self.listening = exposition.address
        return exposition

    def _watch(self) -> None:
        """Until the stop: looks whether every stage goes on."""
        looked = time.monotonic()
        while not self._stop.wait(0.2):  # with a time limit, so that signals are seen
            now = time.monotonic()
            if now - looked > ASLEEP_S:  # stopped and woken: give everyone as long to go on
                self.beats.update(dict.fromkeys(self.beats, now))
                self._calls.forgive(now)
            looked = now
            self._starving.look(now)
            if hanging := self._hanging(now):
                self._hangs, self.failed = True, f"{hanging}: this process ends"
                self.context.say(self.failed)
                self.stop()

    def _hanging(self, now: float) -> str:
        """What takes too long; empty where nothing does."""
        if (longest := self._calls.longest(now)) is not None:
            call, age_s = longest
            if age_s - self._starving.since(call.since) > self.call_s:
                return f"{call.stage}: one {call.what} takes over {self.call_s:.0f} s"
        for name, beat in list(self.beats.items()):
            beat = max(beat, self._calls.done.get(name, 0.0))
            most_s = max(self.step_s, self.longer.get(name, 0.0))
            if now - beat - self._starving.since(beat) > most_s:
                return f"{name}: one step takes over {most_s:.0f} s, with nothing done"
        return ""

    def _ended(self, threads: Sequence[threading.Thread]) -> int:
        """Waits for the stages to finish in good order. Returns the exit status."""
        drain_s = 1.0 if self._hangs else DRAIN_S
        deadline = time.monotonic() + drain_s
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        late = [thread.name for thread in threads if thread.is_alive()]
        self.left_behind = bool(late)
        if late:
            self.context.say(f"{', '.join(late)}: did not end within {drain_s:.0f} s; left behind")
        return 4 if self.failed or late else 0

    def troubles(self) -> dict[str, str]:
        """What is not ready, and why; empty where all is."""
        now, found = time.monotonic(), dict[str, str]()
        for name in self.stages:
            beat, stage = self.beats.get(name), self._made.get(name)
            if beat is None or stage is None:
                found[name] = "starting"
            elif now - beat > READY_S:
                found[name] = f"no step for {now - beat:.0f} s"
            elif waiting := str(getattr(stage, "waiting", "")):
                found[name] = waiting
        return found

    def stop(self) -> None:
        """Ask every stage to end."""
        self._stop.set()

    def _patiently(self, name: str, make: Make) -> Stage | None:
        """The stage, once the log answers; None where the stop comes first."""
        trouble = Trouble(name, self.context.say)
        watched = replace(self.context, log=WatchedLog(self.context.log, self._calls))
        while not self._stop.is_set():
            try:
                stage = make(watched)
                trouble.over()
                return stage
            except LogBusy as error:
                trouble.failed(error)
                self._stop.wait(AGAIN_S)
        return None

    def _run(self, name: str, make: Make) -> None:
        try:
            stage = self._patiently(name, make)
            if stage is None:
                return
            self._made[name] = stage
            try:
                while not self._stop.is_set():
                    self.beats[name] = time.monotonic()
                    if not stage.step(self.context.clock()):
                        self._stop.wait(IDLE_S)
            finally:
                self.beats.pop(name, None)
                stage.close()
        except BaseException as error:  # a library's panic is no Exception: it must not end the thread unseen
            self.failed = f"{name}: {type(error).__name__}: {error}"
            self.context.say(self.failed)
            self.stop()
