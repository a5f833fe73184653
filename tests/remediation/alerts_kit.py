"""Incidents, actions and an Alertmanager that only remembers, for the tests of alerts."""

from typing import Any

from remediation.notify.alertmanager import Alert, identity
from remediation.notify.client import AlertError, Alertmanager
from sickbay import actions, messages
from sickbay.actions import JUDGED_KEY, Action, ActionState, Judged
from sickbay.log.memory import MemoryLog
from sickbay.messages import Action as Headline
from sickbay.messages import Affected, Cite, Evidence, Incident, PlanStep, Severity, Verdict

T0 = 1_800_000_000_000  # a moment that all times here count from
CARD = "accelerator:n2/0000:cb:00"


def claim(**fields: Any) -> Evidence:
    told: dict[str, Any] = {
        "id": "e1", "detector": "explicit_code", "version": "1", "component": CARD, "fault": "accelerator_off_bus",
        "llr": 2.9, "onset_from_ms": T0, "onset_to_ms": T0, "says": "it_said",
        "facts": {"message": "fallen off the bus"}, "cites": (Cite(path="kern.log", line=12),),
    }  # fmt: skip
    return Evidence(**(told | fields))


def incident(**fields: Any) -> Incident:
    told: dict[str, Any] = {
        "id": "e1", "verdict": Verdict.COMPONENT, "component": CARD, "fault": "accelerator_off_bus",
        "severity": Severity.FATAL, "probability": 0.97, "action": Headline.DRAIN_HOST,
        "summary": f"{CARD} has fallen off the bus.", "onset_ms": T0, "detected_ms": T0 + 2000, "evidence": (claim(),),
        "plan": (PlanStep(do="drain_host", target="host:n2", phase="contain"),), "affected": Affected(jobs=("41",)),
    }  # fmt: skip
    return Incident(**(told | fields))


def action(do: str = "drain_host", **fields: Any) -> Action:
    told: dict[str, Any] = {
        "id": f"a-{do}", "incident": "e1", "do": do, "target": "host:n2", "state": ActionState.VERIFIED,
        "generation": 1, "at_ms": T0 + 4000,
    }  # fmt: skip
    return Action(**(told | fields))


def write(log: MemoryLog, *told: Incident | Action | Judged) -> None:
    """Append messages where they belong."""
    appender = log.appender()
    for one in told:
        if isinstance(one, Incident):
            appender.append("sickbay.incidents.v1", one.id.encode(), messages.encode(one))
        elif isinstance(one, Judged):
            appender.append("sickbay.incidents.v1", JUDGED_KEY, actions.encode(one))
        else:
            appender.append("sickbay.actions.v1", one.id.encode(), actions.encode(one))
    appender.flush()


class FakeAlertmanager(Alertmanager):
    """Remembers what it was sent; away or refusing when told so."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9")
        self.posts: list[list[Alert]] = []
        self.has: dict[Any, Alert] = {}
        self.broken = ""

    def send(self, alerts: Any) -> None:
        if self.broken:
            raise AlertError(self.broken, "is broken")
        self.posts.append(list(alerts))
        for one in alerts:
            self.has[identity(one)] = one

    def ours(self, cluster: str) -> list[dict[str, Any]]:
        if self.broken:
            raise AlertError(self.broken, "is broken")
        return list(self.has.values())

    def firing(self, now: str) -> list[dict[str, str]]:
        """Labels of what fires at a time."""
        return [dict(one["labels"]) for one in self.has.values() if one["endsAt"] > now]
