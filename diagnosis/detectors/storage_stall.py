"""Storage: one client that lost its server, or a target that several clients name in the same minute.

Several clients accuse the target and clear each other. One client alone is the client.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from diagnosis.case import Case
from diagnosis.detectors.explicit_code import build, bursts
from diagnosis.evidence import CERTAIN, GOOD
from sickbay.components import UNKNOWN, Kind, Name, host_of, kind_of, name
from sickbay.messages import Event, Evidence, Severity, replace

NAME, VERSION = "storage_stall", "1"

KINDS = frozenset(
    {
        "filesystem.client_evicted", "filesystem.connection_lost", "filesystem.request_slow",
        "filesystem.server_silent", "filesystem.unmounted",
    }
)  # fmt: skip
TOGETHER_MS = 60_000  # [house] clients of one target notice within a minute: requests have time-outs of their own
SEVERAL = 3  # [house] clients that leave little doubt


def claims(case: Case) -> Iterable[Evidence]:
    """Claims about clients, about targets that several of them name, and about stuck tasks."""
    spoken = [
        e for e in case.events if e.kind in KINDS and e.severity is not Severity.INFO and "injected" not in e.attributes
    ]
    for burst in bursts(spoken):
        claim = build(burst, "storage_client", burst[0].component, detector=NAME, version=VERSION, says="client_lost")
        told: Evidence = replace(claim, peer=target_of(burst[0]))
        yield told
    yield from _targets(spoken)
    for burst in bursts(event for event in case.events if event.kind == "host.task_stuck"):
        claim = build(burst, "host_tasks_stuck", burst[0].component, detector=NAME, version=VERSION, says="tasks_stuck")
        stuck: Evidence = replace(claim, peer=target_of(burst[0]))
        yield stuck


def target_of(event: Event) -> Name:
    """The storage target that an event names, empty where it names none."""
    if event.peer and kind_of(event.peer) is Kind.STORAGE:
        return event.peer
    told = event.attributes.get("target") or event.attributes.get("server") or ""
    return name(Kind.STORAGE, told) if told else ""


def _client(event: Event) -> str:
    known = host_of(event.component) or event.host
    return known if known and known != UNKNOWN else ""


def _targets(spoken: list[Event]) -> Iterator[Evidence]:
    by_target: dict[Name, list[Event]] = defaultdict(list)
    for event in spoken:
        if target := target_of(event):
            by_target[target].append(event)
    for target in sorted(by_target):
        for together in _within(by_target[target]):
            hosts = sorted({host for event in together if (host := _client(event))})
            if len(hosts) > 1:
                yield _of_target(target, together, hosts)


def _of_target(target: Name, together: list[Event], hosts: list[str]) -> Evidence:
    llr = CERTAIN if len(hosts) >= SEVERAL else GOOD
    claim = build(
        together, "storage_stall", target, detector=NAME, version=VERSION, says="clients_name_target", llr=llr
    )
    facts = claim.facts | {"hosts": ", ".join(hosts), "clients": str(len(hosts)), "target": target}
    told: Evidence = replace(claim, facts=facts, peer="", severity=Severity.ERROR, advice=None)
    return told


def _within(events: list[Event]) -> Iterator[list[Event]]:
    """Dated events with gaps of a minute at most; undated ones of different hosts share no clock and prove nothing."""
    dated = sorted((e for e in events if e.at_ms is not None), key=lambda e: (e.at_ms, e.path, e.line, e.component))
    group: list[Event] = []
    for event in dated:
        if group and (event.at_ms or 0) - (group[-1].at_ms or 0) > TOGETHER_MS:
            yield group
            group = []
        group.append(event)
    if group:
        yield group
