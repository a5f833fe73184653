"""Out of memory: whose limit was hit decides whom. The job's own limit: the job. The host's: the host.

A killed daemon of the system is the host's trouble whatever the limit: it goes silent for that, not for the network.
A kill within the limit of one service or pod that is no job's never comes here: it is an event of that process.
"""

from collections.abc import Iterable

from diagnosis.case import Case
from diagnosis.detectors.explicit_code import build, bursts, job_component
from diagnosis.evidence import CERTAIN
from sickbay.components import Kind, host_of, kind_of, name
from sickbay.messages import Event, Evidence, Severity, replace

NAME, VERSION = "out_of_memory", "1"

KINDS = frozenset({"host.out_of_memory", "job.out_of_memory"})


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per burst: on the job for its own limit, else on the host."""
    spoken = [event for event in case.events if event.kind in KINDS and "injected" not in event.attributes]
    for burst in bursts(event for event in spoken if _hosts_fault(event)):
        yield _claim(burst, "host_out_of_memory", _host(burst[0]), "host_out_of_memory")
    for burst in bursts(event for event in spoken if not _hosts_fault(event)):
        yield _claim(burst, "application_out_of_memory", job_component(case, burst[0]), "job_out_of_memory")


def _hosts_fault(event: Event) -> bool:
    if event.attributes.get("victim_daemon"):
        return True
    constraint = event.attributes.get("constraint", "")
    return event.kind == "host.out_of_memory" and "MEMCG" not in constraint.upper()


def _host(event: Event) -> str:
    if kind_of(event.component) is Kind.HOST:
        return event.component
    host = host_of(event.component) or event.host
    return name(Kind.HOST, host) if host else event.component


def _claim(burst: list[Event], fault: str, component: str, says: str) -> Evidence:
    claim = build(burst, fault, component, detector=NAME, version=VERSION, says=says, llr=CERTAIN)
    daemon = next((e.attributes["victim_daemon"] for e in burst if e.attributes.get("victim_daemon")), "")
    facts = claim.facts | {"daemon": daemon, "killed": burst[0].process or burst[0].attributes.get("victim", "")}
    severity = Severity.ERROR if fault == "host_out_of_memory" else Severity.WARNING
    told: Evidence = replace(claim, facts=facts, severity=severity, says="daemon_killed" if daemon else says)
    return told
