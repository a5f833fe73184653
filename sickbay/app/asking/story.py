"""Everything that the log holds of one incident, read for a report: its own records, and what belongs to them.

Nothing is joined to a group and nothing is written. Where retention has removed a part of the story, the rest is told.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from dashboards.timeline import Cost, Row, cost, timeline
from sickbay import actions as ledger
from sickbay import messages
from sickbay.actions import Action, Outcome
from sickbay.admission import Admission
from sickbay.app.asking.incidents_topic import told as told_incident
from sickbay.components import HOST_SCOPED, Kind, Name, host_of
from sickbay.log import Reader, Record, Task
from sickbay.log.reading import Logged, records, since
from sickbay.messages import Event, Incident, Placement
from sickbay.topics import ACTIONS, EVENTS, EVIDENCE, INCIDENTS, OUTCOMES, PLACEMENT, TOPICS, partition_of

BEFORE_MS, AFTER_MS = 120_000, 120_000  # events around onset and detection that belong to the story
MAX_EVENTS = 200
MIN_ID = 4  # characters of a prefix that names an incident

M = TypeVar("M")


class NoSuchIncident(Exception):
    """The log holds no such incident, or more than one; the text says what to do."""


@dataclass(slots=True)
class Story:
    """One incident's records in the order of the log."""

    incidents: list[Logged[Incident]] = field(default_factory=list)
    actions: list[Logged[Action]] = field(default_factory=list)
    outcomes: list[Logged[Outcome]] = field(default_factory=list)
    events: list[Logged[Event]] = field(default_factory=list)
    evidence: dict[str, int] = field(default_factory=dict)
    placements: list[Logged[Placement]] = field(default_factory=list)

    @property
    def incident(self) -> Incident:
        """As it stands now."""
        return self.incidents[-1].message

    def rows(self) -> list[Row]:
        """Its time line."""
        return timeline(
            self.incidents, self.actions, self.outcomes,
            events=self.events, evidence=self.evidence, placements=self.placements,
        )  # fmt: skip

    def cost(self) -> Cost:
        """What it took."""
        return cost(self.incident, self.placements)


def story(reader: Reader, wanted: str, admitted: Admission | None = None) -> Story:
    """The story of the incident of that id, or of the only one whose id begins so. Raises NoSuchIncident.

    `admitted`: who may speak for a host; without it signatures are not looked at.
    """
    admitted = admitted or Admission()
    told = _incidents(reader)
    found = Story(incidents=told[chosen(wanted, told)])
    ids = {found.incident.id} | {one for one, versions in told.items() if _went_into(versions, found.incident.id)}
    found.actions = [one for one in _kept(reader, ACTIONS, _ledger, Action) if one.message.incident in ids]
    found.outcomes = [one for one in _kept(reader, OUTCOMES, _ledger, Outcome) if one.message.incident in ids]
    hit = set(found.incident.affected.jobs)
    placements = _kept(reader, PLACEMENT, _opened(admitted), Placement)
    found.placements = [one for one in placements if one.message.job in hit]
    found.evidence = _claims(reader, found)
    found.events = list(_events(reader, found, admitted))
    return found


def chosen(wanted: str, known: "dict[str, list[Logged[Incident]]]") -> str:
    """The id that is meant. Raises NoSuchIncident."""
    if wanted in known:
        return wanted
    alike = sorted(one for one in known if one.startswith(wanted)) if len(wanted) >= MIN_ID else []
    if len(alike) == 1:
        return alike[0]
    if alike:
        shown = ", ".join(alike[:5]) + (" ..." if len(alike) > 5 else "")
        raise NoSuchIncident(f"{len(alike)} incidents begin with {wanted[:80]!r}: {shown}")
    why = "" if len(wanted) >= MIN_ID else f" (a part of an id needs {MIN_ID} characters or more)"
    raise NoSuchIncident(
        f"no incident {wanted[:80]!r} among {len(known)} in the log{why}: see `sickbay incidents list`"
    )


def _incidents(reader: Reader) -> dict[str, list[Logged[Incident]]]:
    found: dict[str, list[Logged[Incident]]] = {}
    for record in records(reader, Task(INCIDENTS, 0)):
        one = told_incident(record.value)
        if isinstance(one, Incident):
            found.setdefault(one.id, []).append(Logged(record.append_ms, one))
    return found


def _went_into(versions: list[Logged[Incident]], id: str) -> bool:
    return versions[-1].message.merged_into == id


def _ledger(record: Record) -> ledger.LedgerMessage:
    return ledger.decode(record.value or b"")


def _plain(record: Record) -> messages.AnyMessage:
    return messages.decode(record.value or b"")


def _opened(admitted: Admission) -> Callable[[Record], messages.AnyMessage]:
    """Reads what agents and pollers wrote: sealed, and only where it is from whom it says."""
    return lambda record: admitted.message(record).message


def _kept(reader: Reader, topic: str, decode: Callable[[Record], object], kind: type[M]) -> Iterator[Logged[M]]:
    """All messages of one kind that a compacted topic keeps."""
    for record in records(reader, Task(topic, 0)):
        one = _decoded(decode, record)
        if isinstance(one, kind):
            yield Logged(record.append_ms, one)


def _claims(reader: Reader, found: Story) -> dict[str, int]:
    """When the log first took each claim of the incident."""
    wanted = {one.id for one in (*found.incident.evidence, *found.incident.against)}
    task, until_ms = Task(EVIDENCE, 0), found.incidents[-1].append_ms + AFTER_MS
    appended: dict[str, int] = {}
    for record in records(reader, task, since(reader, task, _start_ms(found) - BEFORE_MS)):
        if record.append_ms > until_ms or wanted <= appended.keys():
            break
        key = record.key.decode("utf-8", "replace")
        one = _decoded(_plain, record) if key not in wanted else None
        id = one.id if isinstance(one, messages.Evidence) else key
        if id in wanted:
            appended.setdefault(id, record.append_ms)
    return appended


def _events(reader: Reader, found: Story, admitted: Admission) -> Iterator[Logged[Event]]:
    """What the parts of the incident and their hosts said around its onset."""
    names = _names(found.incident)
    hosts = {host for one in names if (host := _host(one))}
    wanted = names | {f"{Kind.HOST}:{host}" for host in hosts}
    from_ms, until_ms = _start_ms(found) - BEFORE_MS, found.incidents[0].append_ms + AFTER_MS
    left = MAX_EVENTS
    for partition in sorted({partition_of(host.encode(), TOPICS[EVENTS].partitions) for host in hosts}):
        task = Task(EVENTS, partition)
        for record in records(reader, task, since(reader, task, from_ms)):
            if record.append_ms > until_ms or not left:
                break
            event = _decoded(_opened(admitted), record)
            if not isinstance(event, Event) or (event.at_ms or from_ms) < from_ms:
                continue  # an old one that was told late
            if event.component in wanted or _blind(event, hosts):
                left -= 1
                yield Logged(record.append_ms, event)


def _start_ms(found: Story) -> int:
    """When it began for the log: records of the onset cannot be older; an onset far before was told late."""
    onset_ms = found.incident.onset_ms
    first_ms = found.incidents[0].append_ms
    return first_ms if onset_ms is None else min(first_ms, onset_ms)


def _names(incident: Incident) -> set[Name]:
    claims = (*incident.evidence, *incident.against)
    return {incident.component, *(one.component for one in claims), *incident.affected.components}


def _blind(event: Event, hosts: set[str]) -> bool:
    return event.kind.startswith("monitor.") and (_host(event.component) in hosts or event.host in hosts)


def _host(component: Name) -> str:
    kind = component.partition(":")[0]
    return (host_of(component) or "") if kind in HOST_SCOPED or kind == Kind.SWITCH else ""


def _decoded(decode: Callable[[Record], M], record: Record) -> M | None:
    try:
        return decode(record) if record.value else None
    except ValueError:
        return None
