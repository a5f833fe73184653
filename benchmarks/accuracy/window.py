"""One window: the simulated site through the pipeline under test, and through the baselines on the same features."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.accuracy.cases import Case, parameters
from benchmarks.accuracy.feed import Senders
from benchmarks.accuracy.outcomes import Result, Step, Truth, Word, machine_of
from benchmarks.accuracy.pipeline import Delays, Pipeline, Said
from benchmarks.accuracy.settings import Settings
from benchmarks.baselines import Baseline, Features
from collectors.identity import Names
from remediation.verbs import verbs
from sickbay.app.demonstrating.agents import NewLines
from sickbay.messages import Identity, Incident
from simulator.noise import noise
from simulator.noise.delivery import Delivery
from simulator.parts import facility
from simulator.parts.cables import HOST, LEAF, optic, serial
from simulator.parts.cluster import Cluster
from simulator.printing.envelopes import syslog
from simulator.printing.lines import Printed
from simulator.scenario import Scenario, scenario
from simulator.truth.expectation import Expectation
from simulator.world import Second


@dataclass(frozen=True, slots=True)
class Clocks:
    """CPU seconds of the parts of a window."""

    generator: float
    pipeline: float


def night_of(case: Case, settings: Settings) -> Scenario:
    """The scenario of a case. Raises whatever an effect that cannot be made raises."""
    jobs = settings["jobs"]
    made = scenario(
        seed=case.seed, hosts=case.hosts, per_host=jobs["per_host"], hosts_per_job=case.hosts,
        layout="rail" if case.layout == "rail" else "leaf", hosts_per_leaf=jobs["hosts_per_leaf"], step_s=case.step_s,
        timeout_s=case.timeout_s,
    )  # fmt: skip
    if case.effect:
        takes, given = parameters(case.effect), dict[str, object]()
        given |= {"severity": case.severity} if "severity" in takes else {}
        given |= {"ramp_s": case.ramp_s} if "ramp_s" in takes else {}
        made.add(case.effect, case.at_s, None, given)
    return made


def run(
    case: Case, settings: Settings, baselines: Mapping[str, Baseline], numbers: Mapping[str, Iterable[int]], *,
    judged: bool = True,
) -> Result:  # fmt: skip
    """The window's result; `numbers`: which settings of each baseline are tried. Not `judged`: of baselines alone."""
    try:
        night = night_of(case, settings)
        truth = truth_of(night, case)
    except Exception as error:  # an effect of somebody else's that cannot be made for this cluster
        return _skipped(case, error)
    said: list[Said] = []
    complaints: list[str] = []
    window = settings["windows"]
    delays = Delays(read=window["transport_ms"], commit=window["commit_ms"])
    pipeline = Pipeline(Names(night.cluster.identities()), delays, complaints.append, judged=judged)
    try:
        clocks = _through(night, case, pipeline, said)
    except Exception as error:
        return _skipped(case, error)
    features = Features.of(pipeline.blocks, pipeline.events, pipeline.steps, night.cluster, night.start_ms)
    cpu = {"generator": clocks.generator, "sickbay": clocks.pipeline}
    alarms: dict[str, dict[str, tuple[Any, ...]]] = {}
    for name, baseline in baselines.items():
        began = time.process_time()
        alarms[name] = {
            str(number): tuple(baseline.alarms(features, baseline.settings[number])) for number in numbers[name]
        }
        cpu[name] = time.process_time() - began
    job = night.jobs[0].id
    return Result(
        key=case.key, case=case, truth=truth, hosts=night.cluster.hosts,
        steps_s=tuple(sorted((at - night.start_ms) / 1000 for at, one in pipeline.steps if one.job == job)),
        words=tuple(_word(one, night.start_ms) for one in said), alarms=alarms, cpu_s=cpu,
        events=len(pipeline.events), unparsed=pipeline.unparsed, complaints=tuple(complaints[:5]),
    )  # fmt: skip


def _skipped(case: Case, error: Exception) -> Result:
    return Result(
        key=case.key, case=case, truth=Truth(), hosts=(), steps_s=(), words=(),
        skipped=f"{type(error).__name__}: {error}"[:300],
    )  # fmt: skip


def _through(night: Scenario, case: Case, pipeline: Pipeline, said: list[Said]) -> Clocks:
    senders, start_ms = Senders(night.cluster, case.interval_s, Delivery.of(case.noise, case.seed)), night.start_ms
    edges = [*night.cluster.edges(), *facility.edges(night.cluster, night.feeds)]
    pipeline.facts(edges, [*night.cluster.identities(), *modules(night.cluster)], start_ms)
    seconds = noise(case.noise, case.seed)(night.seconds(case.until_s))
    generator, began = 0.0, time.process_time()
    for at_s in range(case.until_s):
        before = time.process_time()
        second = next(seconds, None)
        generator += time.process_time() - before
        if second is None:
            break
        said += fed(pipeline, senders, second, at_s, start_ms)
    return Clocks(generator, time.process_time() - began - generator)


def modules(cluster: Cluster) -> Iterator[Identity]:
    """The modules of both ends of every cable, as agents and switches tell them."""
    for card in cluster.cards:
        for side in (HOST, LEAF):
            host, _, port = optic(card, side).partition(":")[2].partition("/")
            yield Identity(host=host, kind="optic", name=port, serial=serial(cluster, card, side))


def fed(pipeline: Pipeline, senders: Senders, second: Second, at_s: int, start_ms: int) -> Iterator[Said]:
    """One second of a site into the pipeline, and what it says of it."""
    for placement in second.placements:
        pipeline.placement(placement, second.at_ms)
    for control in second.declared:
        pipeline.control(control, second.at_ms)
    for event in pipeline.lines(lines_of(second.lines, start_ms)):
        senders.alarmed(event.host, at_s)
    for sent in senders.second(second, at_s):
        pipeline.rows(sent.matrices, sent.hosts, second.at_ms + 1000 + sent.late_ms)
    yield from pipeline.tick(second.at_ms + 1000)


def lines_of(lines: Iterable[Printed], start_ms: int) -> Iterator[tuple[int, NewLines]]:
    """What was written to each log in a second, with the time of the first line of each."""
    groups: dict[tuple[str, str], list[Printed]] = {}
    for line in lines:
        groups.setdefault((line.source, line.job if line.source == "job" else line.host), []).append(line)
    for (source, owner), rows in groups.items():
        yield max(row.at_ms for row in rows), _new_lines(source, owner, rows, start_ms)


def _new_lines(source: str, owner: str, rows: list[Printed], start_ms: int) -> NewLines:
    if source == "job":
        return NewLines(f"slurm-{owner}.out", "\n".join(row.text for row in rows), job=owner)
    if source == "kernel":
        return NewLines(f"{owner}/kern.log", "\n".join(syslog(row, start_ms) for row in rows), host=owner)
    path = "slurmctld.log" if source == "scheduler" else f"{owner}.log"
    return NewLines(path, "\n".join(row.text for row in rows), host=owner)


def truth_of(night: Scenario, case: Case) -> Truth:
    """The truth of a case."""
    if not case.effect:
        return Truth()
    return truth(night.expectations()[0], night.cluster, night.start_ms)


def truth(expected: Expectation, cluster: Cluster, start_ms: int) -> Truth:
    """An effect's own word on what is right, as seconds of the window."""
    onset_s = (expected.at_ms - start_ms) / 1000
    hosts = {host for one in expected.components if (host := machine_of(one, cluster.host_index))}
    return Truth(
        name=expected.name, family=expected.family, verdicts=tuple(sorted(map(str, expected.verdicts))),
        components=tuple(sorted(expected.components)), touched=tuple(sorted(expected.touched)),
        faults=tuple(sorted(expected.faults)), actions=tuple(sorted(map(str, expected.actions))),
        exonerated=tuple(sorted(expected.exonerated)), forbidden=tuple(sorted(expected.forbidden)),
        machines=tuple(sorted(hosts)) if "component" in expected.verdicts else (), onset_s=onset_s,
        seen_s=onset_s if expected.seen_ms is None else (expected.seen_ms - start_ms) / 1000,
    )  # fmt: skip


def _word(said: Said, start_ms: int) -> Word:
    one = said.incident
    return Word(
        at_s=(said.at_ms - start_ms) / 1000, id=one.id, verdict=str(one.verdict), component=one.component,
        fault=one.fault, action=str(one.action), state=one.state, probability=round(one.probability, 4),
        steps=tuple(_due(one)), planned=tuple(dict.fromkeys(step.do for step in one.plan)),
    )  # fmt: skip


def _due(incident: Incident) -> Iterator[Step]:
    for step in incident.plan:
        if step.when == "now" and incident.probability >= verbs()[step.do].least_p and incident.state == "open":
            yield Step(do=step.do, target=step.target)


def healthy_features(seed: int, hosts: int, until_s: int = 480) -> Features:
    """The features of a healthy site: what models are trained on."""
    night = scenario(seed=seed, hosts=hosts, hosts_per_job=hosts)
    pipeline = Pipeline(Names(()), Delays(), judged=False)
    senders = Senders(night.cluster)
    for at_s, second in enumerate(night.seconds(until_s)):
        for sent in senders.second(second, at_s):
            pipeline.rows(sent.matrices, sent.hosts, second.at_ms + 1000)
        for _ in pipeline.tick(second.at_ms + 1000):
            raise AssertionError("nobody looks here")
    return Features.of(pipeline.blocks, (), (), night.cluster, night.start_ms)
