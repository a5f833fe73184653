"""What Alertmanager is told: incidents as alerts of its API v2. Pure: values in, JSON-ready values out.

An alert is its labels: a changed label is another alert, so they are few, bounded, and change only when the verdict
does. An alert is kept alive by repeating it before `endsAt`; if Sickbay dies, all end by themselves and only the
operator's own rule on Sickbay's metrics is left. Text of logs is hostile: it is cut, made visible, and can neither
open a template nor ping people.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from diagnosis.explain import says
from remediation.notify.standing import Story, held
from sickbay.clock import rfc3339
from sickbay.components import HOST_SCOPED, Kind, Name, host_of
from sickbay.messages import Action as Headline
from sickbay.messages import Evidence, Incident, PlanStep, Severity
from sickbay.plain import harmless

INCIDENT, SILENT = "SickbayIncident", "SickbaySilent"
ALERTNAMES = (INCIDENT, SILENT)
MAX_LABEL = 120  # characters: labels are indexed and shown in one line
MAX_LINE, MAX_LINES = 300, 8  # of the plan, of the evidence, of the actions
MAX_SUMMARY = 1000
LIVES = 3  # an alert outlives so many repeats: one that is lost is no resolve
SILENT_S = 30.0  # six heartbeats of diagnosis

Alert: TypeAlias = dict[str, Any]  # an alert of the API v2
Labels: TypeAlias = tuple[tuple[str, str], ...]  # what makes an alert this alert, sorted


def labels(incident: Incident, cluster: str) -> dict[str, str]:
    """The labels of an incident's alert."""
    told = {
        "alertname": INCIDENT,
        "cluster": cluster,
        "incident": incident.id,
        "verdict": incident.verdict.value,
        "fault": incident.fault,
        "severity": severity(incident).value,
        "component": incident.component,
        "host": host(incident.component),
    }
    return {name: text for name, value in told.items() if (text := harmless(value, MAX_LABEL))}


def severity(incident: Incident) -> Severity:
    """How loud: what is only watched is `info`, so that a route can leave it out."""
    return Severity.INFO if incident.action is Headline.WATCH else incident.severity


def host(component: Name) -> str:
    """The host that a component is in, empty where it is in none or the name tells none."""
    try:
        return (host_of(component) or "") if Kind(component.partition(":")[0]) in HOST_SCOPED else ""
    except ValueError:
        return ""


def alert(story: Story, cluster: str, now_ms: int, every_s: float, lang: str = "en") -> Alert:
    """The alert of an incident that stands: it lives for three repeats from now."""
    incident = story.incident
    notes = {
        "summary": harmless(incident.summary, MAX_SUMMARY)
        or harmless(f"{incident.fault}: {incident.component}", MAX_LINE),
        "action": incident.action.value,
        "probability": f"{incident.probability:.2f}",
        "plan": _lines(_step(step) for step in incident.plan),
        "evidence": _lines(_claim(one, lang) for one in incident.evidence),
        "against": _lines(_claim(one, lang) for one in incident.against),
        "test": incident.test,
        "jobs": _lines([", ".join(incident.affected.jobs)]),
        "held": _lines(f"{one.do} {one.target}: {one.reason}" for one in held(story.actions)),
        "actions": _lines(f"{one.do} {one.target}: {one.state.value}" for one in story.actions[-MAX_LINES:]),
        "more": f"sickbay report {harmless(incident.id, MAX_LABEL)}",
    }
    starts_ms = _began(incident, now_ms)
    return _alert(labels(incident, cluster), notes, starts_ms, now_ms + round(LIVES * every_s * 1000))


def silent(cluster: str, last_ms: int, now_ms: int, every_s: float) -> Alert:
    """The alert on diagnosis itself, when it has not said for long that it has read everything."""
    told = {"alertname": SILENT, "cluster": cluster, "severity": Severity.ERROR.value}
    notes = {
        "summary": f"Diagnosis has not read its inputs since {rfc3339(last_ms)}: no incident says nothing now.",
        "plan": "1. See that sickbay process runs and that its lag falls; the log and its disk may be the reason.",
    }
    return _alert(told, notes, min(last_ms, now_ms), now_ms + round(LIVES * every_s * 1000))


def resolved(alert: Mapping[str, Any], now_ms: int) -> Alert:
    """The end of an alert: of ours, or as Alertmanager tells it."""
    ends = rfc3339(max(now_ms, 0)) or ""
    starts = min(str(alert.get("startsAt") or ends), ends)
    notes = {str(name): str(value) for name, value in dict(alert.get("annotations") or {}).items()}
    return {"labels": dict(alert["labels"]), "annotations": notes, "startsAt": starts, "endsAt": ends}


def identity(alert: Mapping[str, Any]) -> Labels:
    """What makes an alert the same one to Alertmanager."""
    return tuple(sorted((str(name), str(value)) for name, value in alert["labels"].items()))


def strays(known: Iterable[Mapping[str, Any]], wanted: Iterable[Alert], cluster: str, now_ms: int) -> list[Alert]:
    """The ends of those alerts of ours that Alertmanager still has and nobody wants: of a life before a restart."""
    keep = {identity(one) for one in wanted}
    ours = (one for one in known if _ours(one, cluster))
    return [resolved(one, now_ms) for one in ours if identity(one) not in keep]


def _ours(alert: Mapping[str, Any], cluster: str) -> bool:
    told = alert.get("labels")
    return isinstance(told, Mapping) and told.get("alertname") in ALERTNAMES and told.get("cluster") == cluster


def _alert(told: dict[str, str], notes: dict[str, str], starts_ms: int, ends_ms: int) -> Alert:
    kept = {name: text for name, text in notes.items() if text}
    return {"labels": told, "annotations": kept, "startsAt": rfc3339(starts_ms), "endsAt": rfc3339(ends_ms)}


def _began(incident: Incident, now_ms: int) -> int:
    """The onset, else the first sign; never in the future, which Alertmanager would refuse at the end."""
    known = (at for at in (incident.onset_ms, incident.detected_ms) if at is not None and at >= 0)
    return min(next(known, now_ms), now_ms)


def _step(step: PlanStep) -> str:
    asks = ", asks first" if step.needs_approval else ""
    return f"{step.do} {step.target} ({step.when.replace('_', ' ')}{asks})"


def _claim(one: Evidence, lang: str) -> str:
    cite = one.cites[0] if one.cites else None
    place = f" [{cite.path}:{cite.line}]" if cite and cite.line else ""
    return f"{says(one, lang)}{place}"


def _lines(lines: Iterable[str]) -> str:
    kept = [harmless(line, MAX_LINE) for line in lines]
    more = [f"(+{len(kept) - MAX_LINES})"] if len(kept) > MAX_LINES else []
    return "\n".join([*kept[:MAX_LINES], *more]) if any(kept) else ""
