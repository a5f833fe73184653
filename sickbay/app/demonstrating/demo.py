"""The demo: a small cluster breaks in three ways and fools us in one; sickbay watches it live, then meets the truth.

Simulated time runs as fast as the machine allows. Everything between the sensors and the verdict is the real thing:
formats, frames, the log, windows, detectors. Only the cluster is made up.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from collectors.identity import Names
from diagnosis.case import Case
from sickbay.app.demonstrating.agents import Agents, NewLines
from sickbay.app.running.live import Pipeline
from sickbay.log.memory import MemoryLog
from sickbay.messages import Incident
from sickbay.topics import TOPICS, Topic
from simulator import decoys
from simulator.decoys import DECOYS
from simulator.printing.envelopes import syslog
from simulator.scenario import Scenario, scenario
from simulator.truth.expectation import Score, score
from simulator.world import Second

UNTIL_S = 480
TIMEOUT_S = 120  # of the demo's jobs in a collective: sites use 600 s, which would only make the demo longer
FAULTS_SHOWN = 3
# One of each sort that hosts and jobs alone show within the demo's minutes. The simulator has many more.
SHOWN = (
    "accelerator_firmware_hang", "accelerator_off_bus", "accelerator_thermal", "application_out_of_memory",
    "collective_mismatch", "host_out_of_memory", "pcie_degraded", "switch_down",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the demo showed and how it fared."""

    seed: int
    scenario: Scenario
    scores: tuple[Score, ...]
    extra: tuple[Incident, ...]  # belong to nothing that happened
    incidents: tuple[Incident, ...]
    found_s: dict[str, int]  # incident: second of the night at which it was first said
    case: Case
    simulated_s: int
    records: int  # of telemetry that went through the log, ticks included
    unparsed: int
    real_s: float

    @property
    def right(self) -> bool:
        """All faults found rightly, decoys left alone, nobody else taken out of service."""
        return all(one.right for one in self.scores) and not self.extra


def night(seed: int) -> Scenario:
    """Three faults and a decoy, drawn by the seed, each on a job of its own: 8 hosts of 8 accelerators, 4 jobs."""
    rng = np.random.default_rng([seed, 0xDE])
    made = scenario(seed=seed, timeout_s=TIMEOUT_S)
    for place, fault in enumerate(map(str, rng.permutation(SHOWN)[:FAULTS_SHOWN])):
        made.at(70 + 35 * place + int(rng.integers(20))).fault(fault, **_variant(fault, rng))
    decoy = str(rng.choice(sorted(set(DECOYS) - decoys.OF_THE_SITE)))
    made.at(60 + int(rng.integers(150))).decoy(decoy, **_variant(decoy, rng))
    return made


def _variant(what: str, rng: np.random.Generator) -> dict[str, Any]:
    """Settings of an effect that may be one way or another."""
    if what == "accelerator_off_bus":  # older drivers print the words without the code, and not every card warns
        return {"coded": bool(rng.integers(2)), "burst": bool(rng.integers(2))}
    return {"code": int(rng.choice([13, 31]))} if what == "program_error" else {}


def run(
    seed: int,
    *,
    until_s: int = UNTIL_S,
    lang: str = "en",
    say: Callable[[int, Incident], None] = lambda at_s, incident: None,
    progress: Callable[[int], None] = lambda at_s: None,
) -> Outcome:
    """Runs the night and scores it. `say` is called as incidents are found or change, `progress` each second."""
    began = time.monotonic()
    made, now = night(seed), [0]
    log = MemoryLog(small_site(), clock=lambda: now[0], seed=seed)
    pipeline = Pipeline(log, lang)
    agents = Agents(log, Names(made.cluster.identities()), made.cluster.hosts)
    agents.tell_facts(made.cluster.edges(), made.cluster.identities())
    found_s: dict[str, int] = {}
    for second in made.seconds(until_s):
        now[0] = second.at_ms + 1000
        at_s = (now[0] - made.start_ms) // 1000
        agents.tell_placements(second.placements)
        agents.tell_lines(told(second, made.start_ms), now[0])
        agents.tell_samples(second.samples, now[0])
        for incident in pipeline.second(now[0]):
            found_s.setdefault(incident.id, at_s)
            say(at_s, incident)
        progress(at_s)
    incidents = pipeline.diagnoser.incidents
    scores, left = score(made.expectations(), incidents)
    return Outcome(
        seed=seed, scenario=made, scores=tuple(scores), extra=tuple(left), incidents=incidents, found_s=found_s,
        case=pipeline.diagnoser.horizon.case(now[0]), simulated_s=until_s,
        records=pipeline.windows.records, unparsed=agents.unparsed,
        real_s=time.monotonic() - began,
    )  # fmt: skip


def small_site() -> dict[str, Topic]:
    """The topics with two partitions at most: eight hosts do not need sixteen."""
    return {name: replace(topic, partitions=min(2, topic.partitions)) for name, topic in TOPICS.items()}


def told(second: Second, start_ms: int) -> Iterator[NewLines]:
    """The second's new lines, log by log, as the cluster's programs write them."""
    logs: dict[NewLines, list[str]] = {}
    for line in second.lines:
        if line.source == "job":
            log, text = NewLines(f"slurm-{line.job}.out", "", job=line.job), line.text
        elif line.source == "scheduler":
            log, text = NewLines("slurmctld.log", ""), line.text
        elif line.source == "switch":
            log, text = NewLines(f"{line.host}.log", "", host=line.host), line.text
        else:
            log, text = NewLines(f"{line.host}/kern.log", "", host=line.host), syslog(line, start_ms)
        logs.setdefault(log, []).append(text)
    for log, rows in logs.items():
        yield log._replace(text="\n".join(rows))
