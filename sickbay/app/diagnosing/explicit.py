"""The explicit stage: an event that is a verdict by itself becomes evidence at once, in a group that nothing delays.

Diagnosis makes the same claims under the same ids a little later, with all that it knows besides: of an id the newest
record counts. So nothing is remembered here, and what cannot be read is diagnosis' to tell.
"""

import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from diagnosis.case import Case, Detector
from diagnosis.detectors import load
from diagnosis.engine import evidence_of
from sickbay import messages
from sickbay.admission import Admission, admission
from sickbay.app.diagnosing.horizon import dated
from sickbay.app.running.service import Context
from sickbay.components import Kind, kind_of
from sickbay.log import Output, Receipt, Record, Task
from sickbay.messages import Event, Evidence
from sickbay.sequences import Sequences
from sickbay.topics import EVENTS, EVIDENCE
from streams.runner import Make, Mark, Runner

GROUP = "diagnosis.explicit"
DETECTORS = ("explicit_code", "recovery_advice", "out_of_memory")  # that need nothing but the event
# Several sources call one port by several names, which topology joins: an event alone cannot tell which is meant.
RENAMED = frozenset({Kind.PORT, Kind.OPTIC, Kind.LINK})
POLL_S = 0.2  # that a poll waits where nothing is there
TROUBLE_S = 0.5  # wait after a step that failed


class ExplicitTask:
    """A `TaskProcessor` of one partition of events that remembers nothing but the time."""

    def __init__(self, using: Mapping[str, Detector], admission: Admission, mark: Mark) -> None:
        self._using, self._admission, self._clock_ms = using, admission, mark.clock_ms
        self._sequences = Sequences()  # what a sender repeats at once is told once; after a restart perhaps twice

    def take(self, record: Record) -> Iterator[Output]:
        """The claims of one event."""
        self._clock_ms = max(self._clock_ms, record.append_ms)
        event = None if record.is_tick else self._event(record)
        if event is not None:
            for claim in claims_of(event, self._using):
                yield Output(EVIDENCE, claim.id.encode(), messages.encode(claim))

    def _event(self, record: Record) -> Event | None:
        try:
            message, seal = self._admission.message(record)
        except ValueError:  # a dead letter of diagnosis
            return None
        if seal is not None:
            place = self._sequences.place(record.topic, seal.host, seal.incarnation, seal.sequence)
            if not place.fresh:
                return None
        return dated(message, record.append_ms)[1] if isinstance(message, Event) else None

    def mark(self, offset: int) -> Mark:
        """Where it stands."""
        return Mark(low=offset, clock_ms=self._clock_ms)

    def committed(self, written: Sequence[tuple[Output, Receipt]]) -> None:
        """Nothing is remembered."""


def claims_of(event: Event, using: Mapping[str, Detector]) -> Iterable[Evidence]:
    """What an event says by itself of its own component, or of the job that it names."""
    if kind_of(event.component) in RENAMED:
        return ()
    found = evidence_of(Case(now_ms=event.at_ms, events=(event,)), using)
    return (one for one in found if one.component == event.component or event.job)


def explicit_maker(admission: Admission) -> Make:
    """What makes the fold of one partition of events."""
    using = {name: load(name) for name in DETECTORS}

    def made(task: Task, mark: Mark) -> ExplicitTask:
        return ExplicitTask(using, admission, mark)

    return made


class Explicit:
    """The stage."""

    def __init__(self, context: Context) -> None:
        member = os.environ.get("SICKBAY_MEMBER") or f"explicit-{socket.gethostname()}"
        make = explicit_maker(admission(context.config.security))
        self._runner = Runner(context.log.join(GROUP, [EVENTS], member), make, context.metrics, GROUP, context.say)

    @property
    def waiting(self) -> str:
        """What it waits for."""
        return self._runner.trouble.now or ("" if self._runner.tasks else "holds no partition")

    def step(self, now_ms: int) -> bool:
        """One poll and one commit."""
        taken = self._runner.step(timeout_s=POLL_S)
        if self._runner.troubled:
            time.sleep(TROUBLE_S)
        return taken > 0

    def close(self) -> None:
        """Everything taken was committed: leave the group."""
        self._runner.log.close()
