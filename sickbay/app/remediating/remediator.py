"""The remediation stage: reads incidents, lets the policy decide, writes each line down, and only then acts.

One look is: read the scheduler → settle what is under way → decide → commit the lines → act on those intended → commit
what became of them. A crash between any two of these leaves lines that the next look, here or in the standby, settles
by reading back.
"""

import os
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from remediation.decision import Context, Decision
from remediation.hands import WITHIN_MS, Hands, Moment
from remediation.ledger import COLLECT, DRAIN, TEST
from remediation.policy import decide
from remediation.propose import proposed
from remediation.schedulers import Scheduler
from remediation.settle import settle
from sickbay import actions, selfmetrics
from sickbay.actions import Action, ActionState, Mode
from sickbay.app.asking.ledger_lines import line_of
from sickbay.app.remediating.errands import Errands
from sickbay.app.remediating.remediation_inputs import Inputs, NotWritten
from sickbay.app.remediating.scheduler_view import SLOW_S, WAIT_S, SchedulerView
from sickbay.app.running import service
from sickbay.archive_place import is_folder
from sickbay.config import ConfigError
from sickbay.log import LogError, Output
from sickbay.settings import Config
from sickbay.topics import OUTCOMES
from streams.runner import FATAL

LOOK_MS = 1_000  # between two looks
PAUSE = 4  # after a look that took long, so many times as long: most of the scheduler's time is its own
LOOK_S = 90.0  # that one may take: it reads and writes a scheduler that may need seconds for each answer


def scheduler_of(config: Config, clock: Callable[[], int]) -> Scheduler | None:
    """The client that the settings name, None for none. Raises ConfigError."""
    if config.remediation.scheduler == "none":
        return None
    if config.remediation.scheduler == "slurm":
        from remediation.schedulers.slurm import SlurmScheduler

        return SlurmScheduler(config.slurm, clock)
    raise ConfigError('[remediation] scheduler = "simulated": one lives only in `sickbay up --simulate`')


def make(context: service.Context) -> "Remediator":
    """The stage, as a service starts it."""
    return Remediator(context, scheduler_of(context.config, context.clock))


def member() -> str:
    """One name per host: a process that is started again takes the place of its forerunner."""
    return f"remediation-{socket.gethostname()}"[:200]


@dataclass(slots=True)
class Remediator:
    """The remediation stage. `told`, else the context's `say`, gets a line for every change of the ledger."""

    context: service.Context
    scheduler: Scheduler | None
    monotonic: Callable[[], float] = time.monotonic
    member: str = field(default_factory=member)
    told: Callable[[str], None] | None = None  # gets the lines of the ledger; None: the context's `say`
    inputs: Inputs = field(init=False)
    errands: Errands = field(init=False)
    hands: Hands | None = field(init=False, default=None)
    view: SchedulerView | None = field(init=False, default=None)
    _next_ms: int = 0
    _pause_ms: int = LOOK_MS
    _waits_s: dict[str, float] = field(default_factory=dict)  # of an action: no try before that
    _told_trouble: str = ""

    def __post_init__(self) -> None:
        self.inputs = Inputs(self.context.log, self.member, self.monotonic)
        self.errands = Errands(self.context.config.remediation, _folder(self.context.config), self.monotonic)
        if self.scheduler is not None:
            self.hands = Hands(self.scheduler, self.context.clock, self.monotonic, lambda: not self.stopped())
            self.view = SchedulerView(self.scheduler, self.context, self.monotonic)

    def step(self, now_ms: int) -> bool:
        """One look where there is a reason for one. Raises Replaced where another process took this one's place."""
        waits = 0 < self._next_ms - now_ms <= self._pause_ms  # else the time has come, or the clock was set
        try:
            news = self.inputs.read(now_ms)
            self._unreadable()
            if not self.inputs.active:
                return news
            if waits and not news and not self._ended(now_ms):
                return False
            self._next_ms, began_s = now_ms + self._pause_ms, self.monotonic()
            changed = self._look(now_ms)
            self.inputs.keep()
            self._pause_ms = max(LOOK_MS, round((self.monotonic() - began_s) * 1000 * PAUSE))
            self._next_ms = now_ms + self._pause_ms
        except NotWritten:
            return False
        except FATAL:
            raise
        except LogError as error:  # the log is away for a while: nothing is done, and it is known from outside by lag
            self.context.metrics.count(selfmetrics.LOG_ERRORS, kind=type(error).__name__)
            self._trouble(f"remediation: the log: {error}")
            return False
        self._told_trouble = ""
        if changed:
            self._next_ms = now_ms
        return news or changed

    def close(self) -> None:
        """Ends tests, leaves the group; what was begun is settled by whoever comes next."""
        self.errands.close()
        self.inputs.close()

    def _unreadable(self) -> None:
        """Says that something was written that this version cannot read."""
        if count := self.inputs.unreadable:
            self.inputs.unreadable = 0
            self.context.metrics.count(selfmetrics.LOG_ERRORS, count, kind="unreadable")
            self.context.say(
                f"remediation: {count} records of incidents or the ledger cannot be read: a newer version's?"
            )

    def _trouble(self, text: str) -> None:
        if text != self._told_trouble:
            self.context.say(text)
        self._told_trouble = text

    @property
    def waiting(self) -> str:
        """What keeps it from acting."""
        return "" if self.inputs.active else "another process is the active one, or the log is not read yet"

    def stopped(self) -> bool:
        """Whether the kill switch is set: its file exists, or cannot be looked for."""
        path = self.context.config.remediation.kill_switch
        if not path:
            return False
        try:
            os.stat(Path(path).parent)
            return os.path.lexists(path) or not os.access(Path(path).parent, os.R_OK | os.X_OK)
        except OSError:
            return True

    @property
    def mode(self) -> Mode:
        """How far it may go now."""
        return Mode.OBSERVE if self.stopped() else Mode(self.context.config.remediation.mode)

    def _ended(self, now_ms: int) -> bool:
        """Writes down what was done beside and is over."""
        found = False
        for line, outcome in self.errands.ended(self.inputs.ledger, now_ms):
            more = [Output(OUTCOMES, outcome.id.encode(), actions.encode(outcome))] if outcome else []
            self._write([line], more)
            found = True
        return found

    def _look(self, now_ms: int) -> bool:
        seen = Moment(self.monotonic(), self.context.clock())
        self._ended(now_ms)
        context = self._read(now_ms)
        lines = settle(context)
        if lines:
            self._write(lines)
            context = replace(context, ledger=self.inputs.ledger)
        decisions = decide(context)
        fresh = [one.action for one in decisions if one.action != one.before]
        if fresh:
            self._write(fresh)
        context = replace(context, ledger=self.inputs.ledger)
        return self._act(decisions, context, seen) or bool(lines or fresh)

    def _act(self, decisions: Iterable[Decision], context: Context, seen: Moment) -> bool:
        """Does what is intended. True where the world changed and is to be looked at again at once."""
        changed = done = False
        for one in decisions:
            if one.action.state is not ActionState.INTENDED or self._waits_s.get(one.action.id, 0) > self.monotonic():
                continue
            if one.do in (TEST, COLLECT):
                self.errands.begin(one, context)
            elif done and (self.monotonic() - seen.monotonic_s) * 1000 > WITHIN_MS / 2:
                return True  # a look that is getting old: another one, before the next write
            elif self.hands is not None:
                done = True
                changed |= self._done(one, self.hands.do(one.action, self.inputs.ledger.holds.get(one.host), seen))
        return changed

    def _done(self, decision: Decision, lines: list[Action]) -> bool:
        if lines:
            self._write(lines)
        key, tries = decision.action.id, self.hands.tries.get(decision.action.id, 0) if self.hands else 0
        if any(line.id == key and line.state is ActionState.INTENDED for line in lines):
            self._waits_s[key] = self.monotonic() + min(WAIT_S * 2 ** (tries - 1), SLOW_S)
            self.context.metrics.count(selfmetrics.SCHEDULER_ERRORS, kind="in_vain")
            return False
        if any(line.do == DRAIN and line.state is ActionState.VERIFIED for line in lines):
            self._held_after(decision)
        return bool(lines)

    def _held_after(self, decision: Decision) -> None:
        if decision.incident is not None and decision.incident.onset_ms is not None:
            seconds = (self.context.clock() - decision.incident.onset_ms) / 1000
            self.context.metrics.observe(selfmetrics.ONSET_TO_HOLD, max(0.0, seconds))

    def _write(self, lines: list[Action], more: Iterable[Output] = ()) -> None:
        """Into the ledger, then told to people."""
        before = self.inputs.ledger.lines
        self.inputs.write(lines, list(more))
        for line in lines:
            old = before.get(line.id)
            if old is None or (old.state, old.why, old.read_back) != (line.state, line.why, line.read_back):
                (self.told or self.context.say)(line_of(line))
            self.context.metrics.count(
                selfmetrics.ACTIONS_CHANGED, do=line.do, state=str(line.state), mode=str(line.mode)
            )
        self.context.metrics.set(selfmetrics.TARGETS_HELD, len(self.inputs.ledger.holds))

    def _read(self, now_ms: int) -> Context:
        """The world now; the scheduler is asked only where there is something to ask about."""
        inputs, settings = self.inputs, self.context.config.remediation
        known = Context(
            now_ms=now_ms, settings=settings, mode=self.mode, judged=inputs.judged, incidents=inputs.incidents,
            unjudged=inputs.unjudged, ledger=inputs.ledger, placements=inputs.placements, controls=inputs.controls,
            topology=inputs.topology,
            uncertain=inputs.uncertain, keeps_evidence=self.errands.folder is not None,
        )  # fmt: skip
        return self.view.read(known, proposed(known)) if self.view else known


def _folder(config: Config) -> Path | None:
    """Where evidence is saved; None where no folder is named for it (an archive in a bucket is none)."""
    if config.remediation.evidence:
        return Path(config.remediation.evidence)
    path = config.archive.path
    return Path(path, "bundles") if path and is_folder(path) else None
