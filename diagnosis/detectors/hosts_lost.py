"""Hosts that are lost together under one shared part: the part, not the hosts."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from diagnosis.case import Case
from diagnosis.evidence import FAIR, GOOD, bucket_of, cites, identity
from sickbay.components import Kind, Name, host_of, kind_of, name
from sickbay.messages import Event, Evidence, Relation, Severity
from sickbay.topology import View

NAME, VERSION = "hosts_lost", "1"

KINDS = frozenset({"scheduler.host_down", "scheduler.host_failed_job"})
TOGETHER_MS = 60_000  # one poll of the scheduler, or one round of its own heartbeats
LEAST = 3
MOST_OF = 0.8  # share of the part's hosts
FAULT_OF = {Kind.PDU: "power_lost", Kind.SWITCH: "switch_down", Kind.RACK: "power_lost"}


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per shared part under which nearly all hosts were lost within a minute."""
    lost = sorted(
        (
            event
            for event in case.events
            if event.kind in KINDS and event.at_ms is not None and host_of(event.component)
        ),
        key=lambda event: (event.at_ms, event.component),
    )
    for together in _at_once(lost):
        yield from _of_parts(together, case)


def _at_once(lost: list[Event]) -> Iterator[list[Event]]:
    group: list[Event] = []
    for event in lost:
        if group and (event.at_ms or 0) - (group[0].at_ms or 0) > TOGETHER_MS:
            yield group
            group = []
        group.append(event)
    if group:
        yield group


def _of_parts(together: list[Event], case: Case) -> Iterator[Evidence]:
    view = case.topology.at(together[0].at_ms)
    by_host: dict[Name, list[Event]] = defaultdict(list)
    for event in together:
        by_host[name(Kind.HOST, host_of(event.component) or "")].append(event)
    if len(by_host) < LEAST:
        return
    for part, count in view.shared_parents(sorted(by_host), LEAST):
        under = view.hosts_under(part)
        if kind_of(part) in FAULT_OF and count >= MOST_OF * len(under):
            fault = "management_lost" if _manages(part, by_host, view) else FAULT_OF[kind_of(part)]
            yield _claim(part, fault, [event for events in by_host.values() for event in events], count, under)
            return


def _manages(part: Name, hosts: Iterable[Name], view: View) -> bool:
    """The hosts' work does not go through the part: only what is said of them does (night 19)."""
    return all(part in view.parents(host, Relation.MANAGED_BY) for host in hosts if part in view.parents(host))


def _claim(part: Name, fault: str, events: list[Event], count: int, under: tuple[str, ...]) -> Evidence:
    onset = min(event.at_ms for event in events if event.at_ms is not None)
    return Evidence(
        id=identity(NAME, VERSION, part, fault, bucket_of(onset)),
        detector=NAME,
        version=VERSION,
        component=part,
        fault=fault,
        llr=GOOD if count > LEAST else FAIR,
        onset_from_ms=onset - TOGETHER_MS,
        onset_to_ms=onset,
        source_group=f"{part}|hosts_lost",
        severity=Severity.ERROR,
        count=count,
        says="hosts_lost_together",
        facts={"count": str(count), "all": str(len(under)), "hosts": ", ".join(under)},
        cites=cites(events),
    )
