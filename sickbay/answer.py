"""The answer of `diagnose`: the JSON contract `sickbay.diagnosis/1`, and how messages become it.

Every key is always there; times are RFC 3339 UTC or null. Terminal, HTML and scripts read this and nothing else.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from sickbay.clock import rfc3339
from sickbay.components import Kind, Name, host_of, kind_of, parts_of, pci_address
from sickbay.messages import Event, Evidence, Identity, Incident, PlanStep, Severity, Suspect

SCHEMA = "sickbay.diagnosis/1"
MAX_EVENTS = 10_000
DEVICES = frozenset({Kind.ACCELERATOR, Kind.NIC, Kind.OPTIC, Kind.PCIE})  # named by address, identity or index
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_RANK = {severity: rank for rank, severity in enumerate(Severity)}


class Row(Struct, frozen=True, kw_only=True):
    """Base of the answer's parts."""


class InputRow(Row, frozen=True, kw_only=True):
    """One input and how well it was understood. `clock`: absolute, no_zone, no_year, since_boot, none."""

    path: str
    kind: str
    records: int
    unparsed: int
    clock: str
    note: str = ""


class ComponentRow(Row, frozen=True, kw_only=True):
    """What is known of a component; null where nothing is."""

    host: str | None = None
    pci: str | None = None
    uuid: str | None = None
    serial: str | None = None
    index: str | None = None
    switch: str | None = None
    port: str | None = None
    job: str | None = None
    ranks: tuple[str, ...] = ()


class TopologyRow(Row, frozen=True, kw_only=True):
    """How much topology the inputs told."""

    components: int = 0
    links: int = 0
    conflicts: tuple[str, ...] = ()


class EventRow(Row, frozen=True, kw_only=True):
    """One event, folded. `message` is the source's text: hostile until escaped."""

    at: str | None
    until: str | None
    count: int
    at_boot_s: float | None
    component: Name
    kind: str
    code: str
    severity: Severity
    message: str
    path: str
    line: int


class EvidenceRow(Row, frozen=True, kw_only=True):
    """One claim; `says` is ours."""

    detector: str
    component: Name
    says: str
    path: str
    line: int


class AffectedRow(Row, frozen=True, kw_only=True):
    """What the incident hit."""

    jobs: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()
    components: tuple[Name, ...] = ()


class IncidentRow(Row, frozen=True, kw_only=True):
    """One root cause."""

    id: str
    verdict: str
    component: Name
    fault: str
    severity: Severity
    probability: float
    action: str
    plan: tuple[PlanStep, ...]
    suspects: tuple[Suspect, ...]
    summary: str
    evidence: tuple[EvidenceRow, ...]
    against: tuple[EvidenceRow, ...]
    dependants: tuple[Name, ...]
    affected: AffectedRow
    onset: str | None
    detected: str | None
    test: str = ""


class Answer(Row, frozen=True, kw_only=True):
    """All that `diagnose` found."""

    schema: str = SCHEMA
    inputs: tuple[InputRow, ...] = ()
    components: dict[Name, ComponentRow] = {}
    topology: TopologyRow = TopologyRow()
    events: tuple[EventRow, ...] = ()
    omitted: dict[str, int] = {}
    incidents: tuple[IncidentRow, ...] = ()

    def json(self, *, indent: int = 0) -> bytes:
        """Valid UTF-8 JSON: lone surrogates of hostile input are replaced."""
        data = msgspec.json.encode(self)
        return msgspec.json.format(data, indent=indent) if indent else data


def event_rows(events: Sequence[Event], limit: int = MAX_EVENTS) -> tuple[tuple[EventRow, ...], int]:
    """At most `limit` events, the worst kept, in the order given; and how many were left out."""
    kept = events
    if len(events) > limit:
        worst = sorted(range(len(events)), key=lambda place: -_RANK[events[place].severity])[:limit]
        kept = [events[place] for place in sorted(worst)]
    return tuple(map(event_row, kept)), len(events) - len(kept)


def event_row(event: Event) -> EventRow:
    """An event as the contract tells it."""
    return EventRow(
        at=rfc3339(event.at_ms),
        until=rfc3339(event.until_ms if event.until_ms is not None else event.at_ms),
        count=event.count,
        at_boot_s=event.at_boot_s,
        component=event.component,
        kind=event.kind,
        code=event.code,
        severity=event.severity,
        message=event.message,
        path=event.path,
        line=event.line,
    )


def incident_row(incident: Incident, say: Callable[[Evidence], str]) -> IncidentRow:
    """An incident as the contract tells it; `say` turns evidence into a sentence of the reader's language."""
    return IncidentRow(
        id=incident.id,
        verdict=incident.verdict,
        component=incident.component,
        fault=incident.fault,
        severity=incident.severity,
        probability=incident.probability,
        action=incident.action,
        plan=incident.plan,
        suspects=incident.suspects,
        summary=incident.summary,
        evidence=tuple(evidence_row(evidence, say) for evidence in incident.evidence),
        against=tuple(evidence_row(evidence, say) for evidence in incident.against),
        dependants=incident.dependants,
        affected=AffectedRow(
            jobs=incident.affected.jobs, ranks=incident.affected.ranks, components=incident.affected.components
        ),
        onset=rfc3339(incident.onset_ms),
        detected=rfc3339(incident.detected_ms),
        test=incident.test,
    )


def evidence_row(evidence: Evidence, say: Callable[[Evidence], str]) -> EvidenceRow:
    """A claim as the contract tells it, at the first line that it cites."""
    cite = evidence.cites[0] if evidence.cites else None
    return EvidenceRow(
        detector=evidence.detector,
        component=evidence.component,
        says=say(evidence),
        path=cite.path if cite else "",
        line=cite.line if cite else 0,
    )


def component_row(
    component: Name,
    identity: Identity | None = None,
    switch: str | None = None,
    job: str | None = None,
    ranks: Iterable[str] = (),
) -> ComponentRow:
    """What is known of a component by its name, its identity and what it hangs on."""
    kind, parts = kind_of(component), parts_of(component)
    token = parts[1] if len(parts) > 1 else ""
    device = kind in DEVICES
    return ComponentRow(
        host=host_of(component) if kind is not Kind.SWITCH else None,
        pci=(identity and identity.pci) or (token if device and pci_address(token) else None),
        uuid=(identity and identity.uuid) or (token if device and _UUID.search(token) else None),
        serial=(identity and identity.serial) or None,
        index=(identity and identity.index) or (token if device and token.isdigit() else None),
        switch=switch or (parts[0] if kind is Kind.SWITCH else None),
        port="/".join(parts[1:]) if kind is Kind.PORT and len(parts) > 1 else None,
        job=job,
        ranks=tuple(ranks),
    )


def as_dict(answer: Answer) -> dict[str, Any]:
    """The answer as plain containers, for templates and notebooks."""
    return msgspec.to_builtins(answer)  # type: ignore[no-any-return]
