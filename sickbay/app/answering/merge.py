"""Joins what inputs say into messages: three looks at what was gathered, none at the files.

Who is who comes first, then when is when, then everything gets its one name and its date.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import tzinfo

from collectors import codes
from collectors.formats.reading import Reading
from collectors.identity import Names, addresses, host_for, hosts_told, short_names, stand_in, told_host
from collectors.inputs.attempts import job_names
from collectors.inputs.dating import Dater, daters
from collectors.inputs.gather import Gathered
from collectors.inputs.lanes import lanes_among
from collectors.inputs.modules import shared_modules
from collectors.inputs.neighbours import Bounds, bounds
from collectors.inputs.sweeps import partial_sweeps
from diagnosis.evidence import in_order
from sickbay.actions import Control
from sickbay.cohorts import runs
from sickbay.components import UNKNOWN, Kind, Name, host_of, kind_of, name
from sickbay.messages import Change, Edge, Event, Identity, Placement, Progress, Step, replace
from sickbay.owners import switches_among
from sickbay.placement import Placements
from sickbay.routes import routes_among
from sickbay.schema import Samples

NAMELESS_JOB = f"{Kind.JOB}:{UNKNOWN}"
LONGEST_MS = 30 * 86_400_000  # of planned work: as for `sickbay maintenance add`
OF_JOB = frozenset({Kind.JOB, Kind.RANK, Kind.PATH})  # what a job's own log speaks of


@dataclass(slots=True)
class Joined:
    """All inputs as messages: named, dated, ready for a case."""

    events: list[Event] = field(default_factory=list)
    identities: list[Identity] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    samples: list[Samples] = field(default_factory=list)
    declared: list[Control] = field(default_factory=list)


def merge(inputs: Sequence[Gathered], host: str | None, zone: tzinfo) -> tuple[Names, Joined]:
    """Names and dates all readings."""
    known = hosts_told(inputs)
    told = [r.record for found in inputs for r in found.readings if isinstance(r.record, Identity)]
    short = {**addresses(told), **short_names(known)}
    hosts = [short.get(name := host_for(found, known, host), name) for found in inputs]
    joiner = _Joiner(short)
    for found, owner in zip(inputs, hosts, strict=True):
        joiner.learn(found, owner)
    joiner.names = Names(joiner.joined.identities)
    jobs = job_names(inputs)
    for found, owner, job, dater in zip(inputs, hosts, jobs, daters(inputs, hosts, zone), strict=True):
        ordered = sorted(found.readings, key=lambda reading: reading.line)
        dates = [dater.at_ms(reading.stamp, reading.boot_s) for reading in ordered]
        for reading, between in zip(ordered, bounds(dates), strict=True):
            joiner.add(reading, found.path, owner, job or UNKNOWN, dater, between)
    modules = map(joiner.names.ports.module, joiner.joined.identities)
    joiner.joined.edges += [*shared_modules(modules), *lanes_among(joiner.joined.edges)]
    joiner.joined.edges += runs(joiner.joined.changes)
    working = _hosts(joiner.joined)
    for among in (switches_among, routes_among):
        joiner.joined.edges += [*among(joiner.joined.edges, working)]
    joiner.joined.events += partial_sweeps(inputs)
    placements = Placements(joiner.joined.placements)
    placed = [_with_job(event, placements) for event in joiner.joined.events]
    joiner.joined.events = in_order(codes.in_context(in_order(placed)))
    return joiner.names, joiner.joined


def _hosts(joined: Joined) -> set[str]:
    """Hosts that run jobs, measure themselves or have accelerators: no switch does."""
    placed = {host for place in joined.placements for host in place.hosts}
    measured = {
        host_of(one) or "" for each in joined.samples if each.table in ("host", "accelerator") for one in each.component
    }
    told = {host_of(one.component) or "" for one in joined.events if kind_of(one.component) is Kind.ACCELERATOR}
    return (placed | measured | told) - {"", UNKNOWN}


def _with_job(event: Event, placements: Placements) -> Event:
    """The event with the one job that ran on its component or host then, where it does not tell one itself."""
    nameless = event.component == NAMELESS_JOB
    if event.job or not (nameless or event.component.partition(":")[0] == Kind.ACCELERATOR):
        return event
    place = name(Kind.HOST, event.host) if nameless else event.component
    ran = placements.at(event.at_ms).jobs_of(place)
    job = ran[0].job if len(ran) == 1 else stand_in(event.path) if nameless else ""
    if not job:
        return event
    component = name(Kind.JOB, job) if nameless else event.component
    with_job: Event = replace(event, job=job, component=component)
    return with_job


class _Joiner:
    """Fills hosts, jobs and times into records, and sorts them by type."""

    def __init__(self, short: dict[str, str]) -> None:
        self.joined = Joined()
        self.names = Names(())
        self._short = short

    def learn(self, found: Gathered, host: str) -> None:
        """Remembers the identities of an input before anything is named."""
        for reading in found.readings:
            if isinstance(reading.record, Identity):
                owner = self._host(reading.record.host) or self._host(reading.host) or host
                self.joined.identities.append(replace(reading.record, host=owner))

    def _host(self, host: str) -> str:
        host = told_host(host)
        return self._short.get(host, host)

    def _name(self, component: Name, host: str, job: str) -> Name:
        kind, colon, rest = component.partition(":")
        owner, slash, tail = rest.partition("/")
        return self.names.canonical(f"{kind}{colon}{self._short.get(owner, owner)}{slash}{tail}", host, job)

    def add(self, reading: Reading, path: str, host: str, job: str, dater: Dater, between: Bounds) -> None:
        """Takes one reading of the input at `path`, whose lines speak of `host` and `job` where they do not say."""
        record, host = reading.record, self._host(reading.host) or host
        at = dater.at_ms(reading.stamp, reading.boot_s)
        joined = self.joined
        if isinstance(record, Event):
            event = self._event(record, reading, path, host, job, at, dater)
            undated = event.at_ms is None and event.at_boot_s is None
            low, high = between if undated else (None, None)
            joined.events.append(replace(event, not_before_ms=low, not_after_ms=high) if low or high else event)
        elif isinstance(record, Progress):
            owner = record.job if record.job != UNKNOWN else job
            joined.progress.append(
                replace(
                    record,
                    job=owner,
                    path=path,
                    line=reading.line,
                    host=self._host(record.host) or self._host(reading.host),
                    at_ms=record.at_ms if record.at_ms is not None else at,
                )
            )
        elif isinstance(record, Step):
            owner = record.job if record.job != UNKNOWN else job
            at = record.at_ms if record.at_ms is not None else at
            joined.steps.append(replace(record, job=owner, path=path, line=reading.line, at_ms=at))
        elif isinstance(record, Placement):
            joined.placements.append(self._placement(record, host, job, at, dater.at_ms(reading.until)))
        elif isinstance(record, Edge):
            child, parent = (self._name(end, host, job) for end in (record.child, record.parent))
            joined.edges.append(replace(record, child=child, parent=parent, source=record.source or path))
        elif isinstance(record, Samples):
            joined.samples.append(self._samples(record, host, at))
        elif isinstance(record, Control):
            until = dater.at_ms(reading.until)
            # Work that no time bounds, or that ends in years, would excuse everything.
            if at is not None and until is not None and until - at <= LONGEST_MS:
                target = self._name(record.target, host, job)
                joined.declared.append(replace(record, target=target, at_ms=at, from_ms=at, until_ms=until))
        elif isinstance(record, Change):
            joined.changes.append(replace(record, at_ms=record.at_ms if record.at_ms is not None else at))

    def _event(
        self, event: Event, reading: Reading, path: str, host: str, job: str, at: int | None, dater: Dater
    ) -> Event:
        boot_s = event.at_boot_s if event.at_boot_s is not None else reading.boot_s
        return replace(  # type: ignore[no-any-return]
            event,
            component=self._name(event.component, host, event.job or job),
            peer=self._name(event.peer, host, job) if event.peer else "",
            job=event.job or (job if job != UNKNOWN and event.component.partition(":")[0] in OF_JOB else ""),
            host=self._host(event.host) or host,
            at_ms=event.at_ms if event.at_ms is not None else at,
            until_ms=event.until_ms if event.until_ms is not None else dater.at_ms(reading.until),
            at_boot_s=boot_s,
            path=path,
            line=reading.line,
        )

    def _placement(self, record: Placement, host: str, job: str, at: int | None, until: int | None) -> Placement:
        ranks = tuple(
            type(rank)(
                rank=rank.rank,
                host=self._host(rank.host) or host,
                component=self._name(rank.component, host, job) if rank.component else "",
                role=rank.role,
            )
            for rank in record.ranks
        )
        return replace(  # type: ignore[no-any-return]
            record,
            job=record.job if record.job != UNKNOWN else job,
            hosts=tuple(self._host(name) or host for name in record.hosts),
            ranks=ranks,
            # A scheduler's record is dated by its start; a rank's own line says only that it runs by now.
            from_ms=record.from_ms if record.from_ms is not None or not record.state else at,
            to_ms=record.to_ms if record.to_ms is not None or not record.state else until,
        )

    def _samples(self, record: Samples, host: str, at: int | None) -> Samples:
        renamed = {component: self._name(component, host, UNKNOWN) for component in set(record.component)}
        at_ms = record.at_ms
        if at is not None and len(at_ms) and not at_ms.any():  # a scrape without times, dated by its input
            at_ms = at_ms + at
        return Samples(record.table, [renamed[component] for component in record.component], at_ms, record.values)
