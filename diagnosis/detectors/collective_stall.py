"""Collectives that hang: the time-out (a symptom), the rank that did not come, ranks in different operations.

The fault is one time-out older than the line, and the ranks that print it are the ones that waited.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from diagnosis.case import Case
from diagnosis.evidence import FAIR, GOOD, STRONG, bucket_of, identity, in_order
from diagnosis.waiting import MOST_ABSENT, GroupState, absent_ranks, blockers, groups_of, mismatch
from sickbay.components import UNKNOWN, Kind, Name, name, parts_of
from sickbay.messages import Action, Cite, Event, Evidence, Progress, Severity

NAME, VERSION = "collective_stall", "1"

HELD_UP = "heartbeat monitor"  # the watchdog itself made no progress: the job hangs, and no operation is named

MOST_NAMED = 16  # ranks that a sentence lists


def claims(case: Case) -> Iterable[Evidence]:
    """Claims about jobs that hang, and about the ranks that the others wait for."""
    by_job: dict[str, list[Progress]] = defaultdict(list)
    for one in case.progress:
        by_job[one.job].append(one)
    lines: dict[str, list[Event]] = defaultdict(list)
    for event in in_order(case.events):
        if event.kind == "rank.collective_timeout" or _held_by_the_watchdog(event):
            lines[_job(event)].append(event)
    for job in sorted(by_job.keys() | lines.keys()):
        yield from _of_job(job, by_job[job], lines[job], case)
    mismatches = (event for event in case.events if event.kind == "rank.collective_mismatch")
    yield from _told_mismatch(mismatches)


def _held_by_the_watchdog(event: Event) -> bool:
    return event.kind == "rank.collective_aborted" and event.code == HELD_UP


def _job(event: Event) -> str:
    return event.job or parts_of(event.component)[0] or UNKNOWN


def _of_job(job: str, progress: list[Progress], lines: list[Event], case: Case) -> Iterator[Evidence]:
    onset = _onset(progress, lines)
    placed = next(iter(case.placements.at(onset).jobs_of(name(Kind.JOB, job))), None)
    states = groups_of(progress, placed)
    waited = sorted({rank for state in states for rank in state.waiting})
    told = _held_up(progress, states)
    absent, circle = absent_ranks(states)
    if not waited and not lines and not absent:
        return
    cited = _cites(told or progress, lines)
    component = name(Kind.JOB, job)
    pair = mismatch(progress)
    if pair or circle:
        yield _mismatch(component, job, pair, onset, cited)
    elif 0 < len(absent) <= MOST_ABSENT:
        for rank, who in absent.items():
            home = case.placements.at(onset).component_of(name(Kind.RANK, job, str(rank)))
            yield _absent(job, rank, who, onset, progress, len(absent), home or "")
    yield _stall(component, job, waited, states_named(told, lines), onset, cited, bool(absent))


def _held_up(progress: list[Progress], states: list[GroupState]) -> list[Progress]:
    """What was said of the very operations that ranks wait in: first those that somebody did not enter."""
    for held in ([state for state in states if blockers(state)], states):
        at = {(state.group, rank, seq) for state in held for rank, seq in state.waiting.items()}
        found = [one for one in progress if (one.group or one.group_name, one.rank, one.seq) in at]
        if found:
            return found
    return []


def states_named(told: list[Progress], lines: list[Event]) -> dict[str, str]:
    """What the stalled operation is called, for people."""
    one = min(told, key=lambda one: (one.seq, one.group, one.rank), default=None)
    if one:
        return {"op": one.op or "?", "seq": str(one.seq), "group": one.group_name or one.group or "?"}
    first = lines[0].attributes if lines else {}
    return {key: first.get(key, "?") for key in ("op", "seq", "group")}


def _onset(progress: list[Progress], lines: list[Event]) -> int | None:
    times = [one.at_ms - (one.timeout_ms or 0) for one in progress if one.at_ms is not None and one.state == "waiting"]
    times += [
        event.at_ms - int(event.attributes["timeout_ms"])
        for event in lines
        if event.at_ms is not None and event.attributes.get("timeout_ms", "").isdecimal()
    ]
    posted = [one.at_ms for one in progress if one.at_ms is not None and one.state in ("entered", "started")]
    times = times or posted or [event.at_ms for event in lines if event.at_ms is not None]
    return min(times, default=None)


def _cites(progress: list[Progress], lines: list[Event]) -> tuple[Cite, ...]:
    places = [*((line.path, line.line) for line in lines), *((one.path, one.line) for one in progress)]
    seen = dict.fromkeys(place for place in places if place[0])
    return tuple(Cite(path=path, line=line) for path, line in sorted(seen)[:MOST_NAMED])


def _ranks(ranks: Iterable[int]) -> str:
    known = sorted(ranks)
    more = f", +{len(known) - MOST_NAMED}" if len(known) > MOST_NAMED else ""
    return ", ".join(map(str, known[:MOST_NAMED])) + more


def _stall(
    component: Name,
    job: str,
    waited: list[int],
    named: dict[str, str],
    onset: int | None,
    cited: tuple[Cite, ...],
    known: bool,
) -> Evidence:
    return Evidence(
        id=identity(NAME, VERSION, component, "collective_stall", bucket_of(onset, 60_000)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="collective_stall",
        llr=FAIR,
        onset_from_ms=onset,
        onset_to_ms=onset,
        source_group=f"{component}|stall",
        severity=Severity.ERROR,
        advice=Action.WATCH,
        job="" if job == UNKNOWN else job,
        says="collective_waits" if known else "collective_waits_no_culprit",
        facts={"ranks": _ranks(waited) or "?"} | named,
        cites=cited,
    )


def _absent(
    job: str, rank: int, who: frozenset[int], onset: int | None, progress: list[Progress], others: int, home: Name
) -> Evidence:
    component = name(Kind.RANK, job, str(rank))
    own = [
        one for one in progress if one.rank == rank and one.state != "absent"
    ]  # what others say of it is not its word
    return Evidence(
        id=identity(NAME, VERSION, component, "rank_absent", bucket_of(onset, 60_000)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="rank_absent",
        llr=GOOD if own and others == 1 else FAIR,
        onset_from_ms=onset,
        onset_to_ms=onset,
        source_group=f"{component}|absent",
        severity=Severity.ERROR,
        advice=Action.RESTART_JOB,
        job="" if job == UNKNOWN else job,
        peer=home,
        says="rank_not_in" if own else "rank_silent",
        facts={"rank": str(rank), "ranks": _ranks(who)},
        cites=_cites(own or [one for one in progress if one.rank in who], [])[:3],
    )


def _mismatch(
    component: Name, job: str, pair: tuple[Progress, Progress] | None, onset: int | None, cited: tuple[Cite, ...]
) -> Evidence:
    facts = {}
    if pair:
        first, second = pair
        facts = {
            "rank": str(first.rank), "op": f"{first.op} {first.size}".strip(),
            "other": str(second.rank), "other_op": f"{second.op} {second.size}".strip(), "seq": str(first.seq),
        }  # fmt: skip
    return Evidence(
        id=identity(NAME, VERSION, component, "collective_mismatch", bucket_of(onset, 60_000)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="collective_mismatch",
        llr=STRONG if pair else GOOD,
        onset_from_ms=onset,
        onset_to_ms=onset,
        source_group=f"{component}|mismatch",
        severity=Severity.ERROR,
        job="" if job == UNKNOWN else job,
        says="ranks_differ" if pair else "ranks_wait_in_circle",
        facts=facts,
        cites=cited,
    )


def _told_mismatch(events: Iterable[Event]) -> Iterator[Evidence]:
    by_job: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_job[_job(event)].append(event)
    for job in sorted(by_job):
        first = by_job[job][0]
        component = name(Kind.JOB, job)
        yield Evidence(
            id=identity(NAME, VERSION, component, "collective_mismatch", f"told{bucket_of(first.at_ms)}"),
            detector=NAME,
            version=VERSION,
            component=component,
            fault="collective_mismatch",
            llr=STRONG,
            onset_from_ms=first.at_ms,
            onset_to_ms=first.at_ms,
            source_group=f"{component}|mismatch",
            severity=Severity.ERROR,
            count=sum(event.count for event in by_job[job]),
            job="" if job == UNKNOWN else job,
            says="mismatch_told",
            facts={"where": first.component},
            cites=_cites([], by_job[job]),
        )
