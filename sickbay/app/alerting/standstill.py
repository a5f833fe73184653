"""What of the log stands still, as seen from outside: pure judgements, and the incidents that follow from them.

Four things are told apart, as each is mended elsewhere: a group that does not read what waits for it, an open
transaction that hides what was written, a topic that should be ticked each second and is not, and one whose times are
ahead, as a clock was set: until that is over its ticks tell no time. A group that is late because of one of the others
is not told beside it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from diagnosis.evidence import identity
from diagnosis.explain import explained
from sickbay.components import Kind, Name, name
from sickbay.log import Task
from sickbay.messages import Action, Evidence, Incident, Severity, Suspect, Verdict, replace

DETECTOR, VERSION, FAULT = "log_standstill", "1", "monitor_fault"
LLR, P = 2.99, 0.95  # ln 20: what is not calibrated says no more
WAITS_MS = 30_000  # a group waits so long for windows before it goes on without (design, section 2, rule 3)
UPSTREAM: Mapping[str, tuple[str, ...]] = {"diagnosis": ("streams.windows",)}  # whom a group waits for


class Frontier(NamedTuple):
    """Up to when a group has read a task; `waits`: something that it has not read lies there."""

    group: str
    task: Task
    since_ms: int
    waits: bool


class Hidden(NamedTuple):
    """An open transaction hides the end of a task since then."""

    task: Task
    since_ms: int


class Standstill(NamedTuple):
    """One thing that stands still: which part of ours, in what words, and since when."""

    part: str
    says: str
    since_ms: int
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def component(self) -> Name:
        """Its name."""
        return name(Kind.MONITOR, "sickbay", self.part)


def found(
    frontiers: Iterable[Frontier], hidden: Iterable[Hidden], ticked: Iterable[str], now_ms: int, limit_ms: int
) -> tuple[Standstill, ...]:
    """What stands still for longer than the limit. `ticked`: the topics that ought to hold a tick each second."""
    frontiers = [*frontiers]
    late = [one for one in frontiers if now_ms - one.since_ms > limit_ms]
    covers = _by_topic(hidden, now_ms, limit_ms)
    covered = {one.part for one in covers}
    unticked = [one for one in late if not one.waits and one.task.topic in {*ticked} - covered]
    ahead = [one for one in frontiers if one.since_ms - now_ms > limit_ms]
    groups = _by_group(one for one in late if one.waits)
    for group, before in UPSTREAM.items():
        if group in groups and any(one in groups for one in before):
            groups[group] = [one for one in groups[group] if now_ms - one.since_ms > limit_ms + WAITS_MS]
    return (
        *covers,
        *([_unticked(unticked)] if unticked else ()),
        *([_ahead(ahead, now_ms)] if ahead else ()),
        *(_behind(group, rows) for group, rows in sorted(groups.items()) if rows),
    )


def _by_topic(hidden: Iterable[Hidden], now_ms: int, limit_ms: int) -> list[Standstill]:
    since: dict[str, int] = {}
    for one in hidden:
        if now_ms - one.since_ms > limit_ms:
            since[one.task.topic] = min(one.since_ms, since.get(one.task.topic, one.since_ms))
    return [Standstill(topic, "log_hidden", at, (("topic", topic),)) for topic, at in sorted(since.items())]


def _by_group(late: Iterable[Frontier]) -> dict[str, list[Frontier]]:
    groups: dict[str, list[Frontier]] = {}
    for one in late:
        groups.setdefault(one.group, []).append(one)
    return groups


def _unticked(late: Sequence[Frontier]) -> Standstill:
    topics = ", ".join(sorted({one.task.topic for one in late}))
    return Standstill("ticker", "log_unticked", min(one.since_ms for one in late), (("topics", topics),))


def _ahead(ahead: Sequence[Frontier], now_ms: int) -> Standstill:
    topics = ", ".join(sorted({one.task.topic for one in ahead}))
    seconds = (max(one.since_ms for one in ahead) - now_ms) // 1000
    return Standstill("clock", "log_ahead", now_ms, (("topics", topics), ("ahead", str(seconds))))


def _behind(group: str, late: Sequence[Frontier]) -> Standstill:
    facts = (("group", group), ("partitions", str(len({one.task for one in late}))))
    return Standstill(group, "log_behind", min(one.since_ms for one in late), facts)


def is_ours(incident: Incident) -> bool:
    """Whether it was told here: diagnosis neither knows nor ends it."""
    return bool(incident.evidence) and all(one.detector == DETECTOR for one in incident.evidence)


def told(
    standing: Iterable[Incident],
    stands: Iterable[Standstill],
    still: Iterable[Standstill],
    now_ms: int,
    lang: str = "en",
) -> list[Incident]:
    """The incidents that begin or end. `stands`: beyond the limit; `still`: not yet well below it, so nothing flaps."""
    open_ = {one.component: one for one in standing if one.state == "open" and is_ours(one)}
    fresh = [_incident(one, now_ms, lang) for one in stands if one.component not in open_]
    not_over = {one.component for one in (*stands, *still)}
    over: list[Incident] = [replace(one, state="closed") for part, one in open_.items() if part not in not_over]
    return fresh + over


def _incident(one: Standstill, now_ms: int, lang: str) -> Incident:
    seconds = str(max(0, now_ms - one.since_ms) // 1000)
    id_ = identity(DETECTOR, VERSION, one.component, FAULT, str(one.since_ms))
    evidence = Evidence(
        id=id_, detector=DETECTOR, version=VERSION, component=one.component, fault=FAULT, llr=LLR,
        onset_from_ms=one.since_ms, onset_to_ms=one.since_ms, severity=Severity.ERROR, says=one.says,
        facts=dict(one.facts) | {"seconds": seconds},
    )  # fmt: skip
    incident = Incident(
        id=id_, verdict=Verdict.COMPONENT, component=one.component, fault=FAULT, severity=Severity.ERROR,
        probability=P, action=Action.ESCALATE, suspects=(Suspect(component=one.component, probability=P),),
        evidence=(evidence,), onset_ms=one.since_ms, detected_ms=now_ms,
    )  # fmt: skip
    return explained(incident, lang)
