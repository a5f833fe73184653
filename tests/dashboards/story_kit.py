"""The records of one night, as the log would hold them: a lost accelerator, a hold, a requeue, a test, a release."""

from dataclasses import dataclass, field
from typing import Any

from sickbay import actions, messages
from sickbay.actions import Action, ActionState, Judged, Mode, Outcome
from sickbay.log import Log
from sickbay.messages import Action as Headline
from sickbay.messages import (
    Affected,
    Cite,
    Event,
    Evidence,
    Incident,
    Placement,
    PlanStep,
    RankPlace,
    Severity,
    Suspect,
    Verdict,
)

T0 = 1_800_000_000_000  # the onset
HOSTS = ("n1", "n2", "n3", "n4")
CARD = "accelerator:n2/0000:cb:00"
ID = "4f1c2d3e5a6b7c8d"


@dataclass
class Clock:
    """The log's clock, moved by whoever writes."""

    now_ms: int = T0 - 4_000_000


def event(**fields: Any) -> Event:
    told: dict[str, Any] = {
        "component": CARD, "kind": "accelerator.off_bus", "at_ms": T0, "seen_ms": T0 + 100, "code": "Code 79",
        "severity": Severity.FATAL, "message": "the device has fallen off the bus", "path": "kern.log", "line": 12,
    }  # fmt: skip
    return Event(**(told | fields))


def evidence(**fields: Any) -> Evidence:
    told: dict[str, Any] = {
        "id": ID, "detector": "explicit_code", "version": "1", "component": CARD, "fault": "accelerator_off_bus",
        "llr": 2.9, "onset_from_ms": T0, "onset_to_ms": T0, "says": "off_bus",
        "cites": (Cite(path="kern.log", line=12),),
    }  # fmt: skip
    return Evidence(**(told | fields))


def incident(**fields: Any) -> Incident:
    told: dict[str, Any] = {
        "id": ID, "verdict": Verdict.COMPONENT, "component": CARD, "fault": "accelerator_off_bus",
        "severity": Severity.FATAL, "probability": 0.97, "action": Headline.DRAIN_HOST,
        "summary": f"{CARD} has fallen off the bus.", "onset_ms": T0, "detected_ms": T0 + 1500,
        "evidence": (evidence(),), "against": (evidence(id="e2", llr=-0.5, detector="peers_idle"),),
        "suspects": (Suspect(component=CARD, probability=0.97),),
        "plan": (PlanStep(do="drain_host", target="host:n2", phase="contain", why="no new work"),),
        "affected": Affected(jobs=("41",), ranks=tuple(f"rank:41/{rank}" for rank in range(4)), components=(CARD,)),
    }  # fmt: skip
    return Incident(**(told | fields))


def action(do: str, state: ActionState, at_ms: int, **fields: Any) -> Action:
    told: dict[str, Any] = {
        "id": f"a-{do}", "incident": ID, "do": do, "target": "host:n2", "state": state, "mode": Mode.ACT,
        "generation": 1, "at_ms": at_ms, "why": f"why {do}",
    }  # fmt: skip
    return Action(**(told | fields))


def placement(attempt: int, from_ms: int, to_ms: int | None, state: str, hosts: tuple[str, ...]) -> Placement:
    ranks = tuple(
        RankPlace(rank=rank, host=host, component=f"accelerator:{host}/0000:cb:00") for rank, host in enumerate(hosts)
    )
    return Placement(job="41", attempt=attempt, hosts=hosts, ranks=ranks, from_ms=from_ms, to_ms=to_ms, state=state)


@dataclass
class Night:
    """What is written, in the order of time: (append time, message)."""

    told: list[tuple[int, Any]] = field(default_factory=list)

    def write(self, log: Log, clock: Clock) -> None:
        """Into a log whose clock is `clock`."""
        for at_ms, message in self.told:
            clock.now_ms = at_ms
            topic, key, value = _record(message)
            log.appender().append(topic, key, value).result()


def _record(message: Any) -> tuple[str, bytes, bytes]:
    if isinstance(message, Incident):
        return "sickbay.incidents.v1", message.id.encode(), messages.encode(message)
    if isinstance(message, Judged):
        return "sickbay.incidents.v1", actions.JUDGED_KEY, actions.encode(message)
    if isinstance(message, Action):
        return "sickbay.actions.v1", message.id.encode(), actions.encode(message)
    if isinstance(message, Outcome):
        return "sickbay.outcomes.v1", message.id.encode(), actions.encode(message)
    if isinstance(message, Event):
        return (
            "sickbay.events.v1",
            message.component.partition(":")[2].partition("/")[0].encode(),
            messages.encode(message),
        )
    if isinstance(message, Evidence):
        return "sickbay.evidence.v1", b"cluster", messages.encode(message)
    return "sickbay.placement.v1", message.job.encode(), messages.encode(message)


def night() -> Night:
    """The whole story."""
    hold, requeue = ("drain_host", {"read_back": "n2 DRAIN"}), ("requeue", {"target": "job:41"})
    end = (
        placement(0, T0 - 3_600_000, T0 + 9_000, "requeued", HOSTS),
        placement(1, T0 + 130_000, None, "running", ("n1", "n3", "n4", "n5")),
    )
    told: list[tuple[int, Any]] = [
        (T0 - 3_600_000, placement(0, T0 - 3_600_000, None, "running", HOSTS)),
        (T0 - 300_000, event(kind="host.boot", code="", message="long before", at_ms=T0 - 300_000)),
        (T0 - 5_000, Judged(as_of_ms=T0 - 5_000)),
        (T0 + 300, event()),
        (T0 + 400, event(component="accelerator:n1/0000:cb:00", message="somebody else's", at_ms=T0 + 350)),
        (T0 + 500, event(component="monitor:n2/journal", kind="monitor.lines_lost", message="lost 3 lines", at_ms=T0 + 450)),  # noqa: E501
        (T0 + 1_200, evidence()),
        (T0 + 1_500, incident(action=Headline.WATCH, probability=0.6)),
        (T0 + 1_600, incident()),
        (T0 + 2_000, action(hold[0], ActionState.INTENDED, T0 + 1_990)),
        (T0 + 2_300, action(hold[0], ActionState.VERIFIED, T0 + 2_290, **hold[1])),
        (T0 + 2_400, action(hold[0], ActionState.VERIFIED, T0 + 2_390, **hold[1])),
        (T0 + 3_000, action(requeue[0], ActionState.VERIFIED, T0 + 2_990, **requeue[1])),
        (T0 + 131_000, end[0]),
        (T0 + 131_000, end[1]),
        (T0 + 300_000, action("run_test", ActionState.VERIFIED, T0 + 299_000)),
        (T0 + 300_100, Outcome(id="o1", incident=ID, target="host:n2", result="refuted", test="bus_test", sensitivity=0.95, at_ms=T0 + 300_050)),  # noqa: E501
        (T0 + 301_000, action("release", ActionState.VERIFIED, T0 + 300_900, by="anna")),
        (T0 + 302_000, incident(state="closed")),
        (T0 + 303_000, incident(id="ffff0000", component="host:n9", evidence=(), against=(), affected=Affected())),
        (T0 + 303_500, incident(id="ffff1111", component="host:n8", state="merged", merged_into="ffff0000")),
        (T0 + 304_000, Judged(as_of_ms=T0 + 304_000)),
    ]  # fmt: skip
    return Night(told)
