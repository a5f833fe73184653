"""Explicit faults: what a device, driver or kernel says of itself in so many words.

One burst (same component, fault and clock, gaps up to 15 s) is one claim, however many lines it took. An application's
error is a claim about the job, unless that trained on. What the collectors' context rules found to be a consequence
stays a symptom.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from diagnosis.case import Case
from diagnosis.evidence import (
    BOOT,
    BUCKET_MS,
    CERTAIN,
    SINCE_BOOT,
    WEAK,
    boot_clock,
    bucket_of,
    cites,
    event_time,
    explicit_strength,
    identity,
    worst,
)
from diagnosis.still_there import LOST, still_there
from diagnosis.trained_on import trained_on
from sickbay.components import UNKNOWN, Kind, kind_of, name
from sickbay.messages import Action, Blame, Event, Evidence, Severity, replace
from sickbay.vocabulary import event_kinds, faults

NAME, VERSION = "explicit_code", "1"

# Kinds that have a detector of their own, which sees more than one event.
ELSEWHERE = frozenset(
    {
        "port.down", "path.retry_exceeded", "path.not_connected", "path.remote_error", "path.receiver_not_ready",
        "rank.device_error", "rank.collective_error", "rank.collective_timeout", "rank.collective_mismatch",
        "port.pause_storm", "host.out_of_memory", "job.out_of_memory",
        "job.loss_not_finite", "filesystem.client_evicted", "filesystem.connection_lost", "filesystem.request_slow",
        "filesystem.server_silent", "filesystem.unmounted", "host.task_stuck", "monitor.clock_off",
    }
)  # fmt: skip
VICTIM = "victim_of"
CONSEQUENCE = (VICTIM, "caused_by")  # set by context rules: another event explains this one
ALSO_NAMED = ("pci",)  # another name of the component, told beside it
STALE = ("window", "last_value")  # a value that tells that something was, not when
PASSING = frozenset({"host.soft_lockup", "host.cpu_stall"})  # one may pass by itself, many do not
OFTEN = 3  # [house] reports in one burst
# Nothing that its driver offers repairs it: what a code asks for at once is not what the part needs.
PAST_REPAIR = frozenset({"accelerator_memory_repair_failed"})
PROGRAM = "application_error"
NO_FAULT = "accelerator_attention"  # asks for nothing but a look
CLEARED = ("cleared_by_boot", "cleared_by_recovery")  # what once was wrong is over


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per burst of explicit events; the complaints of a dead part's peers speak of that part."""
    spoken = [event for event in case.events if _speaks(event)]
    roots: dict[str, Event] = {}
    for event in sorted(spoken, key=lambda event: (list(Severity).index(event.severity), fault_of(event))):
        if VICTIM not in event.attributes:
            roots[event.component] = event  # the gravest word of a part that is no victim
    for burst in bursts(spoken):
        if fault_of(burst[0]) == PROGRAM and trained_on(case, burst, job_component(case, burst[0])):
            continue  # an event that hid nothing
        claim, root = _claim(case, burst), roots.get(burst[0].attributes.get(VICTIM, ""))
        yield _complaint(claim, root) if root and all(VICTIM in event.attributes for event in burst) else claim
    yield from _repeats(case)


def _complaint(claim: Evidence, root: Event) -> Evidence:
    """A victim's claim as a word about the part that died, under the id that it had before that was known."""
    told: Evidence = replace(
        claim,
        component=root.component,
        fault=fault_of(root),
        advice=Action.IGNORE,
        facts=claim.facts | {"victims": claim.component},
    )
    return told


def _speaks(event: Event) -> bool:
    kind = event_kinds().get(event.kind)
    if kind is None or not kind.fault or event.kind in ELSEWHERE or event.severity is Severity.INFO:
        return kind is not None and kind.fault == "orderly_shutdown"
    if kind.fault == NO_FAULT and any(word in event.attributes for word in STALE):
        return False  # that something once was worth a question is no question now
    return "injected" not in event.attributes


def bursts(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Events of one component, fault and clock that follow each other within 15 s; the undated by input."""
    groups: dict[tuple[str, str, str], list[tuple[int, Event]]] = defaultdict(list)
    for event in events:
        at = event_time(event)
        clock, ms = at if at else (f"none:{event.path}", 0)
        groups[event.component, fault_of(event), clock].append((ms, event))
    for key in sorted(groups):
        yield from _split(sorted(groups[key], key=lambda item: (item[0], item[1].path, item[1].line)))


def _split(dated: list[tuple[int, Event]]) -> Iterator[list[Event]]:
    burst: list[Event] = []
    last = 0
    for ms, event in dated:
        if burst and ms - last > BUCKET_MS:
            yield burst
            burst = []
        burst.append(event)
        last = max(ms, last) if len(burst) > 1 else ms
    if burst:
        yield burst


def fault_of(event: Event) -> str:
    """The fault class that an event speaks for; a code that its table blames on the program is the program's."""
    kind = event_kinds()[event.kind]
    if kind.fault and event.blame is Blame.APPLICATION and kind.component is Kind.ACCELERATOR:
        return PROGRAM
    return kind.fault


def job_component(case: Case, event: Event) -> str:
    """`job:…` of what ran there at the time, else the event's own component."""
    if event.job and event.job != UNKNOWN:
        return name(Kind.JOB, event.job)
    if kind_of(event.component) is Kind.JOB:
        return event.component
    place = case.placements.at(event.at_ms).job_of(event.component) if event.at_ms is not None else None
    return name(Kind.JOB, place.job) if place else event.component


def _claim(case: Case, burst: list[Event]) -> Evidence:
    first, fault = burst[0], fault_of(burst[0])
    workload = faults()[fault].role == "workload"
    component = job_component(case, first) if workload else first.component
    if fault in LOST and still_there(case, component, max(one.seen_ms or one.at_ms or 0 for one in burst)):
        return build(burst, fault, component, detector=NAME, version=VERSION, says="explicit_but_there", llr=WEAK)
    return build(burst, fault, component, detector=NAME, version=VERSION)


def build(
    burst: list[Event],
    fault: str,
    component: str,
    *,
    detector: str,
    version: str,
    says: str = "",
    llr: float | None = None,
) -> Evidence:
    """The claim that a burst of events makes about `component`."""
    first = burst[0]
    dated = [event.at_ms for event in burst if event.at_ms is not None]
    onset = min(dated, default=None)
    strength = max(explicit_strength(event.severity, event.blame) for event in burst) if llr is None else llr
    bucket = bucket_of(onset) if onset is not None or first.at_boot_s is None else f"boot{round(first.at_boot_s) // 15}"
    return Evidence(
        id=identity(detector, version, component, f"{fault}|{first.component}", bucket),
        detector=detector,
        version=version,
        component=component,
        fault=fault,
        llr=min(_lowered(burst, strength), CERTAIN),
        onset_from_ms=onset,
        onset_to_ms=onset,
        end_ms=max((event.until_ms or event.at_ms or 0 for event in burst), default=None) if dated else None,
        source_group=f"{first.component}|{fault}|{bucket}",
        severity=_severity(burst),
        advice=None if fault in PAST_REPAIR and not all(map(_over, burst)) else _advice(burst),
        count=sum(event.count for event in burst),
        job=first.job,
        peer=first.peer if first.peer else (first.component if first.component != component else ""),
        says=says or ("explicit_application" if faults()[fault].role == "workload" else "explicit"),
        facts=_facts(burst),
        cites=cites(burst),
    )


def _seldom(burst: list[Event]) -> bool:
    """A CPU that was held up once is no sick host."""
    return burst[0].kind in PASSING and sum(event.count for event in burst) < OFTEN


def _over(event: Event) -> bool:
    return any(event.attributes.get(word) for word in (*STALE, *CLEARED))


def _lowered(burst: list[Event], strength: float) -> float:
    """What only tells that something was once, or that a boot has since cleared, proves little about now."""
    weak = all(_over(event) for event in burst)
    consequence = all(any(word in event.attributes for word in CONSEQUENCE) for event in burst)
    return WEAK if weak or consequence else strength


def _severity(burst: list[Event]) -> Severity:
    if all(_over(event) for event in burst):
        return Severity.WARNING
    return worst(event.severity for event in burst)


def _advice(burst: list[Event]) -> Action | None:
    if all(_over(event) for event in burst) or _seldom(burst):
        return Action.WATCH
    given = [event.advice for event in burst if event.advice is not None and not _over(event)]
    return max(given, key=list(Action).index, default=None)


def _facts(burst: list[Event]) -> dict[str, str]:
    first = burst[0]
    codes = sorted({event.code for event in burst if event.code})
    facts = {
        "code": ", ".join(codes[:5]) or first.kind,
        "count": str(sum(event.count for event in burst)),
        "where": first.component,
        "process": next((event.process for event in burst if event.process), "?"),
    }
    for word in (*CONSEQUENCE, *STALE, *CLEARED, *ALSO_NAMED):
        if value := first.attributes.get(word):
            facts[word] = value
    if first.at_ms is None and (at := event_time(first)) is not None:
        facts |= {SINCE_BOOT: str(at[1]), BOOT: boot_clock(first)}
    return facts


def _repeats(case: Case) -> Iterator[Evidence]:
    """The same application code on one device in different jobs is the device, not the programs."""
    marked = [event for event in case.events if "repeats_across_jobs" in event.attributes]
    by_component: dict[str, list[Event]] = defaultdict(list)
    for event in marked:
        if kind_of(event.component) is Kind.ACCELERATOR:
            by_component[event.component].append(event)
    for component in sorted(by_component):
        events = by_component[component]
        claim = build(
            events, "accelerator_code_repeats", component,
            detector=NAME, version=VERSION, says="repeats_across_jobs", llr=CERTAIN,
        )  # fmt: skip
        # What one such code asks for is meant for its program. Names of programs alone may be one user's.
        by_job = all(event.job not in ("", UNKNOWN) for event in events)
        told: Evidence = replace(claim, advice=None) if by_job else claim
        yield told
