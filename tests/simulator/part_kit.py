"""What the tests of faults of one host or of one part in it share: a night with the fault, and what must hold of it."""

from dataclasses import dataclass
from functools import lru_cache

from sickbay.components import Name
from simulator.truth import FAMILIES
from tests.simulator.signature_kit import Signature, signature

AT = 20  # when faults begin in these nights
UNTIL = 65
JOB_LINES = {  # what a job's own log tells of any part's fault
    "rank.collective_timeout", "rank.exited", "rank.device_error", "path.retry_exceeded", "job.cancelled",
}  # fmt: skip


@dataclass(frozen=True)
class Sign:
    """What must be seen of a fault: kinds of events in logs of hosts and the scheduler, and columns of its own.

    `own`: columns by table, that differ on the target (a card's row, a host's, or those of all its cards) and on
    nobody else; `late_s`: seconds from the onset to the first sign; `until_s`: when all of it has been told.
    """

    kinds: frozenset[str] = frozenset()
    own: tuple[tuple[str, str], ...] = ()
    late_s: int = 0
    until_s: int = UNTIL


def sign(*kinds: str, own: str = "", late_s: int = 0, until_s: int = UNTIL) -> Sign:
    """`own`: `table.column` words."""
    columns = [one.partition(".") for one in own.split()]
    return Sign(frozenset(kinds), tuple((table, column) for table, _, column in columns), late_s, until_s)


@lru_cache(maxsize=32)
def seen_at(fault: str, severity: float = 1.0, until_s: int = UNTIL) -> Signature:
    """The fault in a small cluster; kept, as several tests look at the same night."""
    return signature(fault, at_s=AT, until_s=until_s, severity=severity, timeout_s=24)


def owners(seen: Signature, table: str) -> set[Name]:
    """Who alone may show a fault's own columns."""
    if table == "host":
        return {f"host:{seen.host}"}
    if isinstance(seen.target, str):
        return {card.component for card in seen.scenario.cluster.of(seen.host)}
    return {seen.card.component}


def shows_in_place(seen: Signature, wanted: Sign) -> None:
    """It begins at its onset, touches its own job's hosts alone, and its own columns differ on the target alone."""
    began = seen.began()
    assert began is not None
    assert AT <= began <= AT + wanted.late_s
    assert seen.hosts() <= seen.job_hosts()
    assert {part.partition(":")[0] for part in seen.parts()} <= {"accelerator", "port", "host"}
    changed = [line for _, line in seen.added if line.source == "kernel"]
    assert {line.host for line in changed} <= {seen.host}
    assert all(line.at_ms >= seen.scenario.start_ms + AT * 1000 for _, line in seen.added)
    for table, column in wanted.own:
        assert {part for part, row in seen.changed(table).items() if column in row} == owners(seen, table), column


def says_what_it_is(seen: Signature, wanted: Sign) -> None:
    """Every line is read by the collectors, as events of these kinds and of parts that the truth knows."""
    events = seen.events("kernel", "scheduler")
    assert {event.kind for event in events} == wanted.kinds
    known = {f"host:{seen.host}", *seen.expectation.components, *seen.expectation.touched}
    for event in events:
        own = event.component.partition(":")[2].startswith(seen.host)
        assert own, event.component
        assert event.component in known or event.component.rpartition("/")[2] in known_names(seen), event.component
    assert {event.kind for event in seen.events("job")} <= JOB_LINES


def known_names(seen: Signature) -> set[str]:
    """Other names of the target's parts: the driver's numbers of cards, the buses that they hang on."""
    cards = seen.scenario.cluster.of(seen.host)
    return {word for card in cards for word in (f"GPU{card.index}", str(card.index), card.root_pci, f"{card.pci}.0")}


def truth_holds(seen: Signature) -> None:
    """The right answer is a whole one, and does not contradict itself."""
    told = seen.expectation
    assert told.family in FAMILIES
    assert told.verdicts
    assert told.components
    assert told.actions
    assert told.faults
    assert not told.components & told.exonerated
    assert not {str(action) for action in told.actions} & told.forbidden
    assert told.seen_ms is not None
    assert told.seen_ms >= told.at_ms
    assert told.at_ms == seen.scenario.start_ms + AT * 1000
