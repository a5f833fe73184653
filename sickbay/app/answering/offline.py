"""The offline run: inputs in, an answer out, through the same formats, windows and detectors as the stream.

Exit statuses and the JSON contract are those of `docs/reference.md`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import partial
from itertools import chain
from pathlib import Path

import polars as pl

from collectors.identity import Names
from collectors.inputs.bound import collected
from collectors.inputs.gather import Gathered, gather
from collectors.inputs.inputs import walk
from diagnosis.case import Case
from diagnosis.engine import diagnose
from diagnosis.explain import says
from remediation.plan import planned
from sickbay.answer import Answer, ComponentRow, InputRow, TopologyRow, component_row, event_rows, incident_row
from sickbay.app.answering.merge import Joined, merge
from sickbay.components import Name
from sickbay.messages import Evidence, Incident
from sickbay.placement import Placements
from sickbay.schema import TABLES
from sickbay.topology import Topology
from streams.windows import features, join, sampling_ms, width_for


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller knows and the inputs do not say."""

    host: str | None = None
    zone: tzinfo = UTC
    lang: str = "en"
    topology: Path | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The answer, with the case and incidents behind it for reports."""

    answer: Answer
    case: Case
    incidents: tuple[Incident, ...]
    status: int


def run(
    paths: Iterable[Path],
    options: Options,
    *,
    more: Iterable[Gathered] = (),
    progress: Callable[[str, int], None] = lambda path, size: None,
) -> Result:
    """Diagnoses everything under `paths`, and `more` that was gathered elsewhere (a live Prometheus)."""
    given = [*paths, *([options.topology] if options.topology else [])]
    return judge(collected(chain(_gathered(given, progress), more)), options)


def _gathered(paths: Iterable[Path], progress: Callable[[str, int], None]) -> Iterator[Gathered]:
    for source in walk(paths):
        yield gather(source, partial(progress, source.path))


def judge(inputs: Sequence[Gathered], options: Options) -> Result:
    """From gathered inputs to the answer. Pure."""
    names, joined = merge(inputs, options.host, options.zone)
    case = case_of(joined)
    incidents = planned(diagnose(case, options.lang), case, options.lang)
    answer = _answer(inputs, names, case, incidents, options.lang)
    return Result(answer, case, incidents, status(inputs, incidents))


def status(inputs: Sequence[Gathered], incidents: Sequence[Incident]) -> int:
    """The exit status, the first that applies: 2 no readable input, 1 incidents, 3 some input not understood, 0."""
    if not any(found.readable for found in inputs):
        return 2
    if incidents:
        return 1
    said = any(found.kind != "empty" for found in inputs)  # of empty files alone nothing can be said
    return 0 if said and all(found.understood for found in inputs) else 3


def case_of(joined: Joined) -> Case:
    """The case that detectors see."""
    frames = join(joined.samples)
    sampling = _sampling_ms(frames)
    width = width_for(sampling)
    ends = [event.at_ms for event in joined.events if event.at_ms is not None]
    ends += [int(frame["at_ms"].max()) for frame in frames.values() if frame.height]  # type: ignore[arg-type]
    return Case(
        now_ms=max(ends, default=None),
        events=tuple(joined.events),
        progress=tuple(joined.progress),
        steps=tuple(joined.steps),
        changes=tuple(joined.changes),
        identities=tuple(joined.identities),
        features={table: features(frame, TABLES[table], width) for table, frame in frames.items()},
        window_ms=width,
        sampling_ms=sampling,
        topology=Topology(joined.edges),
        placements=Placements(joined.placements),
        maintenance=tuple(sorted(joined.declared, key=lambda one: (one.at_ms, one.target, one.by))),
    )


# Modules and units of the facility are read slowly: their rows must not widen the windows of all others. The service
# has windows of one width too, whatever a table's pace.
SLOW = frozenset({"optic", "switch", "pdu", "cdu"})


def _sampling_ms(frames: Mapping[str, pl.DataFrame]) -> int:
    """The longest time between two samples of the tables that are sampled fast, else of all."""
    found = {table: sampling_ms(frame) for table, frame in frames.items() if frame.height}
    fast = [each for table, each in found.items() if table not in SLOW and each > 0]
    return max(fast or found.values(), default=1_000)


def _answer(inputs: Sequence[Gathered], names: Names, case: Case, incidents: tuple[Incident, ...], lang: str) -> Answer:
    rows, left_out = event_rows(case.events)
    return Answer(
        inputs=tuple(_input_row(found) for found in inputs),
        components=_components(names, case, incidents),
        topology=_topology_row(case),
        events=rows,
        omitted={"events": left_out + sum(found.omitted for found in inputs)},
        incidents=tuple(incident_row(incident, lambda evidence: says(evidence, lang)) for incident in incidents),
    )


def _input_row(found: Gathered) -> InputRow:
    note = "; ".join([*([found.problem] if found.problem else []), *found.tally.notes])
    if found.tally.cut:
        note = f"{note}; {found.tally.cut} lines cut at the length limit".lstrip("; ")
    return InputRow(
        path=found.path,
        kind=found.kind,
        records=found.tally.records,
        unparsed=found.tally.unparsed,
        clock=found.clock,
        note=note,
    )


def _topology_row(case: Case) -> TopologyRow:
    return TopologyRow(
        components=case.topology.components,
        links=case.topology.links,
        conflicts=tuple(map(str, case.topology.conflicts[:100])),
    )


def _components(names: Names, case: Case, incidents: Sequence[Incident]) -> dict[Name, ComponentRow]:
    """Every component that an event or incident of the answer names."""
    seen = dict.fromkeys(event.component for event in case.events)
    for incident in incidents:
        seen.update(dict.fromkeys(_named(incident)))
    topology, placements = case.topology.at(None), case.placements.at(None)
    rows = {}
    for component in list(seen)[:20_000]:
        job = placements.job_of(component)
        switch = next((up for up in topology.ancestors(component) if up.startswith("switch:")), None)
        rows[component] = component_row(
            component,
            names.identity(component),
            switch.partition(":")[2] if switch else None,
            job.job if job else None,
            placements.ranks_of(component),
        )
    return rows


def _named(incident: Incident) -> Iterable[Name]:
    yield incident.component
    yield from (suspect.component for suspect in incident.suspects)
    yield from incident.dependants
    yield from incident.affected.components
    evidence: Evidence
    for evidence in (*incident.evidence, *incident.against):
        yield evidence.component
