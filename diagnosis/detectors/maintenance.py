"""Hosts that are shut down in order, one after the other: one person at work, not as many faults.

A host alone is told by its own words. Several within ten minutes of one another are one claim on the part that they
have in common, else on the first of them; each of the others then points to it.
"""

from collections.abc import Iterable, Iterator

from diagnosis.case import Case
from diagnosis.detectors.explicit_code import build, bursts
from diagnosis.evidence import CERTAIN
from sickbay.components import Kind, Name, host_of, kind_of
from sickbay.messages import Event, Evidence, replace

NAME, VERSION = "maintenance", "1"

FAULT = "orderly_shutdown"
NEXT_MS = 600_000  # [house] from one host to the next: night 29 takes 40 s, hands in a rack take minutes
MOST_OF = 0.5  # [house] share of a part's hosts that makes it the place of the work
PLACES = (Kind.RACK, Kind.PDU, Kind.CDU, Kind.SWITCH)


def claims(case: Case) -> Iterable[Evidence]:
    """For each row of shutdowns the claim on its place, and one per other host that points to it."""
    told = [event for event in case.events if event.kind == "host.shutdown_orderly"]
    down = [burst for burst in bursts(told) if kind_of(burst[0].component) is Kind.HOST]
    dated = [burst for burst in down if burst[0].at_ms is not None]
    # Those that nothing dates are told together: nobody is blamed by that, and one question is enough for a person.
    for row in (*_rows(dated), [burst for burst in down if burst[0].at_ms is None]):
        hosts = list(dict.fromkeys(burst[0].component for burst in row))
        if len(hosts) > 1:
            yield from _of_row(row, hosts, place_of(hosts, row[0][0].at_ms, case))


def _rows(shutdowns: list[list[Event]]) -> Iterator[list[list[Event]]]:
    """Shutdowns of hosts that follow each other."""
    row: list[list[Event]] = []
    for burst in sorted(shutdowns, key=lambda one: (one[0].at_ms or 0, one[0].component)):
        if row and (burst[0].at_ms or 0) - (row[-1][0].at_ms or 0) > NEXT_MS:
            yield row
            row = []
        row.append(burst)
    if row:
        yield row


def place_of(hosts: list[Name], at_ms: int | None, case: Case) -> Name:
    """The smallest part above all of the hosts of which most hosts went, else the first host."""
    view = case.topology.at(at_ms)
    common = set.intersection(*(set(view.ancestors(host)) for host in hosts))
    sizes = {part: len(view.hosts_under(part)) for part in common if kind_of(part) in PLACES}
    fits = [part for part, size in sizes.items() if size and len(hosts) >= MOST_OF * size]
    return min(fits, key=lambda part: (sizes[part], PLACES.index(kind_of(part)), part), default=hosts[0])


def _of_row(row: list[list[Event]], hosts: list[Name], place: Name) -> Iterator[Evidence]:
    names = ", ".join(host_of(host) or "" for host in hosts)
    whole = build(
        [event for burst in row for event in burst], FAULT, place,
        detector=NAME, version=VERSION, says="hosts_shut_down", llr=CERTAIN,
    )  # fmt: skip
    told: Evidence = replace(whole, facts=whole.facts | {"hosts": names, "count": str(len(hosts))}, peer="")
    yield told
    for burst in row:
        if burst[0].component != place:
            own = build(burst, FAULT, burst[0].component, detector=NAME, version=VERSION, says="explicit", llr=CERTAIN)
            yield _pointing(own, place)


def _pointing(claim: Evidence, place: Name) -> Evidence:
    told: Evidence = replace(claim, peer=place)
    return told
