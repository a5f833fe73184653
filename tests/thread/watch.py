"""What the log of a running thread holds, as it grows: every record of the few and precious topics, with its time."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from sickbay import actions, messages
from sickbay.actions import Action, ActionState, Judged, Outcome
from sickbay.log import Log, LogError, Reader, Record, Task, tasks_of
from sickbay.messages import Event, Evidence, Incident, Placement
from sickbay.seal import opened

WATCHED = (
    "sickbay.events.v1", "sickbay.evidence.v1", "sickbay.incidents.v1", "sickbay.actions.v1", "sickbay.outcomes.v1",
    "sickbay.placement.v1", "sickbay.deadletter.v1",
)  # fmt: skip
T = TypeVar("T")


class TooLong(AssertionError):
    """What was waited for did not come; the text says what was there instead."""


@dataclass
class Watch:
    """Follows the log. `told` grows by (append_ms, message); what cannot be decoded is in `strange`."""

    log: Log
    gone: Callable[[], list[str]] = list  # processes that ended though nobody ended them
    told: list[tuple[int, object]] = field(default_factory=list)
    strange: list[Record] = field(default_factory=list)
    _at: dict[Task, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._reader: Reader = self.log.reader()
        self._at = dict.fromkeys(tasks_of(self.log.topics, WATCHED), 0)

    def look(self) -> None:
        """Take what is new."""
        for task, offset in self._at.items():
            while records := self._reader.read(task, offset):
                self._at[task] = offset = records[-1].offset + 1
                for record in records:
                    self._take(record)

    def _take(self, record: Record) -> None:
        if not record.value:
            return
        value = opened(record.value).payload
        for decode in (messages.decode, actions.decode):
            try:
                self.told.append((record.append_ms, decode(value)))
                return
            except ValueError:
                continue
        self.strange.append(record)

    def of(self, kind: type[T], true: Callable[[T], bool] = lambda one: True) -> list[tuple[int, T]]:
        """All of a kind for which `true` holds, oldest first."""
        return [(at, one) for at, one in self.told if isinstance(one, kind) and true(one)]

    def wait(self, kind: type[T], true: Callable[[T], bool], limit_s: float, what: str) -> tuple[int, T]:
        """The first one for which `true` holds, waiting for it. Raises TooLong."""
        deadline = time.monotonic() + limit_s
        while True:
            with suppress(LogError):  # a broker that restarts is looked at again
                self.look()
            found = self.of(kind, true)
            if found:
                return found[0]
            if gone := self.gone():
                raise TooLong(f"while waiting for {what}, ended: {gone[0]}")
            if time.monotonic() > deadline:
                raise TooLong(f"no {what} within {limit_s:.0f} s; there were:\n" + "\n".join(self.story()))
            time.sleep(0.1)

    def wait_action(self, do: str, state: ActionState, limit_s: float, target: str = "") -> tuple[int, Action]:
        """The first action of that verb in that state."""
        return self.wait(
            Action, lambda one: one.do == do and one.state is state and target in ("", one.target), limit_s,
            f"{do} {state} {target}",
        )  # fmt: skip

    def story(self) -> Iterator[str]:
        """Everything of note, one line each: what a failing test shows."""
        for at, one in self.told:
            head = f"{at / 1000 % 100_000:9.2f} "
            if isinstance(one, Incident):
                said = f"{one.verdict} {one.component} {one.fault} P {one.probability:.2f} {one.state}"
                yield f"{head}incident {one.id} {said}"
            elif isinstance(one, Action):
                yield f"{head}action {one.id} {one.do} {one.target} {one.state} ({one.why}) [{one.read_back}]"
            elif isinstance(one, Event):
                yield f"{head}event {one.kind} {one.component} {one.code} {one.message[:80]}"
            elif isinstance(one, Evidence):
                yield f"{head}evidence {one.detector} {one.component} {one.fault} {one.llr:.1f}"
            elif isinstance(one, Placement):
                yield f"{head}placement {one.job}/{one.attempt} {one.state} {','.join(one.hosts)}"
            elif isinstance(one, Outcome):
                yield f"{head}outcome {one.target} {one.result} {one.detail[:80]}"
            elif not isinstance(one, Judged):
                yield f"{head}{one!r:.120}"


def until(true: Callable[[], T], limit_s: float, what: str) -> T:
    """The first answer of `true` that is true itself. Raises TooLong."""
    deadline = time.monotonic() + limit_s
    while True:
        found = true()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TooLong(f"{what}: not within {limit_s:.0f} s")
        time.sleep(0.2)
