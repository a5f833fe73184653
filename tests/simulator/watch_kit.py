"""A simulated night watched live in one process: agents, log, windows, detectors; declared work reaches the log too."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from collectors.identity import Names
from sickbay import actions
from sickbay.app.demonstrating.agents import Agents, NewLines
from sickbay.app.demonstrating.demo import small_site
from sickbay.app.running.live import Pipeline
from sickbay.log.memory import MemoryLog
from sickbay.messages import Incident
from sickbay.schema import Samples
from sickbay.topics import CONTROL
from simulator.parts import facility
from simulator.parts.told import Told
from simulator.printing.envelopes import syslog
from simulator.scenario import Scenario
from simulator.world import Second

FABRIC_S = 30  # between two rounds of whoever asks switches


def watched(night: Scenario, until_s: int, seconds: Iterable[Second] | None = None) -> tuple[Incident, ...]:
    """All incidents that were said; `seconds`: the night as it is told, with noise for example."""
    now = [night.start_ms]
    log = MemoryLog(small_site(), clock=lambda: now[0], seed=night.seed)
    agents = Agents(log, Names(night.cluster.identities()), (*night.cluster.hosts, "facility", "fabric"))
    agents.tell_facts([*night.cluster.edges(), *facility.edges(night.cluster)], night.cluster.identities())
    pipeline, control = Pipeline(log), log.appender()
    for at_s, second in enumerate(night.seconds(until_s) if seconds is None else seconds):
        now[0] = second.at_ms + 1000
        for place, one in enumerate(second.declared):
            control.append(CONTROL, f"maintenance:{one.target}:{at_s}-{place}".encode(), actions.encode(one))
        agents.tell_placements(second.placements)
        agents.tell_lines(_told(second, night.start_ms), now[0])
        agents.tell_samples(_samples(second, at_s), now[0])
        pipeline.second(now[0])
    return pipeline.diagnoser.incidents


def _told(second: Second, start_ms: int) -> Iterator[NewLines]:
    logs: dict[tuple[str, str, str], list[str]] = {}
    for line in second.lines:
        text = syslog(line, start_ms) if line.source == "kernel" else line.text
        logs.setdefault((line.source, line.host, line.job), []).append(text)
    for (source, host, job), rows in logs.items():
        if source == "job":
            yield NewLines(f"slurm-{job}.out", "\n".join(rows), job=job)
        else:
            yield NewLines(f"{host or 'slurmctld'}/{source}.log", "\n".join(rows), host=host)


def _samples(second: Second, at_s: int) -> dict[str, Iterable[Samples]]:
    told: dict[str, Iterable[Samples]] = {**second.samples, "facility": second.site}
    if second.cables is not None and at_s % FABRIC_S == 0:
        assert isinstance(second.samples, Told)
        known, ports = second.samples.tables["port"], second.cables.host_ports(second.at_ms)
        more = replace(ports, values={name: told for name, told in ports.values.items() if name not in known})
        told["fabric"] = (second.cables.modules(second.at_ms), second.cables.leaf_ports(second.at_ms), more)
    return told
