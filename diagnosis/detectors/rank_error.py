"""What ranks print of errors: their device's, which names the device, and their collective's, which names nobody."""

from collections.abc import Iterable

from diagnosis.case import Case
from diagnosis.detectors.explicit_code import build, bursts, job_component
from diagnosis.evidence import FAIR, GOOD, WEAK, in_order
from sickbay.components import UNKNOWN, Kind, Name, kind_of, name, parts_of
from sickbay.messages import Action, Blame, Event, Evidence, Severity, replace

NAME, VERSION = "rank_error", "1"

ENDINGS = frozenset({"rank.exited", "process.exited"})


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per burst: on the rank's device, on the program, or on the job as a question."""
    for burst in bursts(event for event in case.events if _counts(event, "rank.device_error")):
        yield _of_device(burst, case)
    for burst in bursts(_endings(case)):
        yield _of_ending(burst, _job(burst[0], case))
    by_job: dict[Name, list[Event]] = {}
    for event in in_order(case.events):
        if _counts(event, "rank.collective_error"):
            by_job.setdefault(_job(event, case), []).append(event)
    for job in sorted(by_job):
        yield _of_collective(by_job[job], job)


def _counts(event: Event, kind: str) -> bool:
    return event.kind == kind and event.severity is not Severity.INFO and "injected" not in event.attributes


def _endings(case: Case) -> list[Event]:
    """Processes that a signal ended and nothing else in the inputs explains; a program's own exit code is its own."""
    ended = [event for event in case.events if event.kind in ENDINGS and event.attributes.get("unexplained")]
    others = (event for event in case.events if event.kind not in ENDINGS)
    return [] if any(event.severity is not Severity.INFO for event in others) else ended


def _of_ending(burst: list[Event], job: Name) -> Evidence:
    """The job is dead and nothing names a part: start it again, and look for what sent the signal."""
    claim = build(burst, "job_killed", job, detector=NAME, version=VERSION, says="process_ended", llr=FAIR)
    told: Evidence = replace(claim, advice=Action.RESTART_JOB, severity=Severity.WARNING)
    return told


def _job(event: Event, case: Case) -> Name:
    known = job_component(case, event)
    if kind_of(known) is Kind.JOB:
        return known
    told = parts_of(event.component)[0] if kind_of(event.component) is Kind.RANK else ""
    return name(Kind.JOB, told or UNKNOWN)


def _of_device(burst: list[Event], case: Case) -> Evidence:
    first = burst[0]
    if all(event.blame is Blame.APPLICATION for event in burst):
        return build(
            burst, "application_error", _job(first, case), detector=NAME, version=VERSION, says="program_error_told"
        )
    device = case.placements.at(first.at_ms).component_of(first.component) or first.component
    hardware = any(event.blame is Blame.HARDWARE for event in burst)
    claim = build(
        burst, "accelerator_error_told", device, detector=NAME, version=VERSION,
        says="device_error_told", llr=GOOD if hardware else FAIR,
    )  # fmt: skip
    advice = claim.advice or (None if hardware else Action.RESTART_JOB)
    told: Evidence = replace(claim, advice=advice, severity=Severity.ERROR if hardware else claim.severity)
    return told


def _of_collective(events: list[Event], job: Name) -> Evidence:
    if all(event.blame is Blame.APPLICATION for event in events):
        claim = build(
            events, "application_error", job, detector=NAME, version=VERSION, says="collective_failed", llr=FAIR
        )
        setting: Evidence = replace(claim, advice=claim.advice or Action.FIX_SOFTWARE)
        return setting
    claim = build(events, "collective_stall", job, detector=NAME, version=VERSION, says="collective_failed", llr=WEAK)
    told: Evidence = replace(claim, advice=Action.WATCH)
    return told
