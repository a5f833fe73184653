"""From causes to incidents: verdict, action, who is hit, who is innocent; and the fold that keeps ids stable."""

from collections.abc import Iterable

from diagnosis.case import Case
from diagnosis.claims import Claim
from diagnosis.declared import declared
from diagnosis.evidence import strongest, worst
from diagnosis.localise import Finding
from diagnosis.relations import jobs_on
from diagnosis.undated import SHARP_MS
from sickbay.components import HOST_SCOPED, JOB_SCOPED, UNKNOWN, Kind, Name, host_of, kind_of, name, parts_of
from sickbay.messages import (
    ALLOWED_ACTIONS,
    Action,
    Affected,
    Evidence,
    Incident,
    Verdict,
    replace,
    strength,
)

ENOUGH = 0.5  # below it the verdict is `unknown`, with the test that would settle it
SURE_ENOUGH = 0.7  # [house] below it nothing above `watch` is advised
OPEN_MS = 1_920_000  # a collective's longest usual time-out (30 min) + 120 s: late symptoms still join
STANDS_S = 120  # [house] longer than a checkpoint holds up a job (night 23: 70 s are nothing)
SHARED_KINDS = frozenset({Kind.SWITCH, Kind.STORAGE, Kind.PDU, Kind.CDU, Kind.RACK, Kind.CLUSTER, Kind.COHORT})
CARRIERS = frozenset({Kind.OPTIC, Kind.PORT, Kind.LINK})  # shared only where several hosts hang on them
SHUTDOWN = "orderly_shutdown"  # work that nobody declared
BLIND = frozenset({"host_blind", "accelerator_blind"})
HOLDS_OTHERS = "pause_sent"  # whoever it holds up does not hang on it
HOLDS = 0.95  # nights, budgets: least P to hold a host on what is no explicit code
SILENT = frozenset({"process_exit", "monitor_fault", "pause_received", "congestion", "host_silent"})


def incidents_of(findings: Iterable[Finding], case: Case) -> tuple[Incident, ...]:
    """One incident per cause that is worth one, the earliest first."""
    found = [(finding, incident(finding, case)) for finding in findings if worth_an_incident(finding)]
    return tuple(one for finding, one in found if one.fault != SHUTDOWN or _hits(finding, one))


def _hits(finding: Finding, one: Incident) -> bool:
    """A shutdown in order that hit no job and explains nothing is somebody's daily work."""
    return bool(finding.symptoms or one.affected.jobs)


def worth_an_incident(finding: Finding) -> bool:
    """A fault of monitoring, an exit or a pause that hides nothing is an event, not an incident.

    A job that stands for long and for the first time is one, even where nothing tells why.
    """
    if finding.headline.fault == "peers_idle":
        facts = [one.facts for claim in finding.causes for one in claim.evidence]
        return any(int(fact.get("seconds", "0")) >= STANDS_S and not fact.get("habit") for fact in facts)
    return finding.headline.fault not in SILENT and not _somebodys_crash(finding)


def _somebodys_crash(finding: Finding) -> bool:
    """A program that crashed on a host, with no job and no device that has to do with it."""
    claims = (*finding.causes, *finding.symptoms)
    return all(kind_of(claim.component) is Kind.PROCESS and not claim.jobs for claim in claims)


def incident(finding: Finding, case: Case) -> Incident:
    """The incident of a finding, without its sentences and its plan."""
    head = finding.headline
    evidence = tuple(one for claim in (*finding.causes, *finding.symptoms) for one in claim.evidence)
    onset = min((at for claim in finding.causes if (at := _utc(claim)) is not None), default=None)
    dependants = dependants_of(finding, case, onset)
    verdict = verdict_of(finding, dependants, case, onset)
    return Incident(
        id=_first(head).id,
        verdict=verdict,
        component=head.component,
        fault=head.fault,
        severity=worst(claim.severity for claim in finding.causes),
        probability=finding.probability,
        action=action_of(finding, verdict),
        suspects=finding.suspects,
        test=head.kind.test if verdict is Verdict.UNKNOWN or finding.probability < 0.95 else "",
        evidence=evidence,
        against=finding.against,
        dependants=dependants,
        affected=affected_of(finding, case, onset),
        onset_ms=_told(finding.causes),
        detected_ms=_detected(evidence, onset),
    )


def _told(causes: Iterable[Claim]) -> int | None:
    """The onset to tell people: a bound that is too wide is no time."""
    sharp = [claim for claim in causes if claim.onset and claim.onset.to_ms - claim.onset.from_ms <= SHARP_MS]
    return min((at for claim in sharp if (at := _utc(claim)) is not None), default=None)


def _detected(evidence: Iterable[Evidence], onset: int | None) -> int | None:
    """When the first sign could be read; never before the onset, which a hang's sign tells a time-out later."""
    first = min((at for one in evidence if (at := _seen(one)) is not None), default=None)
    return first if first is None or onset is None else max(first, onset)


def verdict_of(finding: Finding, dependants: tuple[Name, ...], case: Case, onset: int | None) -> Verdict:
    """What kind of thing is at fault."""
    head = finding.headline
    if head.fault == SHUTDOWN or declared((one for claim in finding.causes for one in claim.evidence), case):
        return Verdict.MAINTENANCE
    if head.fault == "loss_anomaly" or head.role == "symptom" or finding.probability < ENOUGH:
        return Verdict.UNKNOWN
    if head.role == "workload":
        return Verdict.JOB
    kind = kind_of(head.component)
    hosts = {host_of(one) for one in dependants if kind_of(one) is Kind.HOST}
    ends = 2 if kind is Kind.LINK else 1
    if kind in SHARED_KINDS or (kind in CARRIERS and len(hosts) > ends and head.fault != HOLDS_OTHERS):
        return Verdict.SHARED
    return Verdict.COMPONENT


def action_of(finding: Finding, verdict: Verdict) -> Action:
    """The headline: the vendor's word before the usual one, as strong as verdict and proof allow."""
    wanted = strongest(_wanted(finding))
    if finding.probability < SURE_ENOUGH and verdict is Verdict.COMPONENT:
        wanted = min(wanted, Action.WATCH, key=strength)
    if finding.headline.fault in BLIND and finding.probability < HOLDS:
        wanted = min(wanted, Action.WATCH, key=strength)
    allowed = [action for action in ALLOWED_ACTIONS[verdict] if strength(action) <= strength(wanted)]
    return max(allowed, key=strength, default=Action.IGNORE)


def _wanted(finding: Finding) -> list[Action]:
    head = finding.headline
    asked = [
        one for claim in finding.causes + finding.symptoms for one in claim.evidence
        if one.says == "driver_asks" and one.component == head.component and one.advice is not None
    ]  # fmt: skip
    if asked:
        # An unreachable device cannot carry out what its driver asks for: the bus decides.
        return [one.advice or Action.WATCH for one in asked] + ([head.kind.action] if _beyond_reset(finding) else [])
    words = [_word(claim, one) for claim in finding.causes for one in claim.evidence]
    if head.role == "primary":  # the program's own failure on a broken part is not what the part needs
        words = [_word(claim, one) for claim in finding.causes if claim.role == "primary" for one in claim.evidence]
    spared = any(one.says == "driver_asks_nothing" for one in finding.against)
    return [min(word, Action.RESTART_JOB, key=strength) if spared else word for word in words]


def _beyond_reset(finding: Finding) -> bool:
    return any(claim.fault in ("accelerator_off_bus", "fabric_fault") for claim in finding.causes)


def _word(claim: Claim, one: Evidence) -> Action:
    return claim.kind.action if one.advice is None else one.advice


def dependants_of(finding: Finding, case: Case, onset: int | None) -> tuple[Name, ...]:
    """Who suffers without blame: what hangs on the part, and the components that showed its symptoms."""
    head = finding.headline
    found: set[Name] = set()
    if kind_of(head.component) in SHARED_KINDS | CARRIERS:
        own = host_of(head.component)
        hosts = [host for host in case.topology.at(onset).hosts_under(head.component) if host != own]
        found.update(name(Kind.HOST, host) for host in hosts)
    for claim in (*finding.causes, *finding.symptoms):
        hosts_told = [host for one in claim.evidence for host in one.facts.get("hosts", "").split(", ") if host]
        found.update(name(Kind.HOST, host) for host in hosts_told)
        found.update(part for one in claim.evidence for part in one.facts.get("victims", "").split(", ") if part)
        if claim.role == "symptom" or (claim in finding.symptoms and kind_of(claim.component) is not Kind.PROCESS):
            found.add(claim.component)
    unblamed = {head.component, *(suspect.component for suspect in finding.suspects)}
    return tuple(sorted(part for part in found - unblamed if not _stands_for(part, head)))


def _stands_for(part: Name, head: Claim) -> bool:
    """The host of a broken part, or a job that is itself the verdict, is no bystander."""
    if kind_of(head.component) in HOST_SCOPED and kind_of(head.component) not in CARRIERS:
        host = host_of(head.component)
        return part == (name(Kind.HOST, host) if host else "") or f"/{UNKNOWN}" in part
    return part == head.component


def affected_of(finding: Finding, case: Case, onset: int | None) -> Affected:
    """Jobs and ranks that the incident hit, and the components that showed it."""
    head = finding.headline
    claims = (*finding.causes, *finding.symptoms)
    jobs = {parts_of(claim.component)[0] for claim in claims if kind_of(claim.component) in JOB_SCOPED}
    jobs |= {job for claim in claims for job in claim.jobs}
    jobs |= jobs_on(head.component, case, onset)
    jobs |= {job for claim in claims if claim.role != "symptom" for job in jobs_on(claim.component, case, onset)}
    ranks = (
        set(case.placements.at(onset).ranks_of(head.component)) if kind_of(head.component) is not Kind.JOB else set()
    )
    ranks |= {claim.component for claim in claims if kind_of(claim.component) is Kind.RANK}
    shown = {claim.component for claim in claims} | {one.peer for claim in claims for one in claim.evidence if one.peer}
    return Affected(
        jobs=tuple(sorted(job for job in jobs if job and job != UNKNOWN)),
        ranks=tuple(sorted(ranks)),
        components=tuple(sorted(shown)),
    )


def fold(previous: Iterable[Incident], fresh: Iterable[Incident], now_ms: int | None) -> tuple[Incident, ...]:
    """The incidents after a round: known ones keep their id, what turned out to be one is merged, old ones close."""
    known = {one.id: aged(one, now_ms) for one in previous}
    still_open = {key: one for key, one in known.items() if one.state == "open"}
    result = {key: one for key, one in known.items() if one.state != "open"}
    holders: dict[str, list[Incident]] = {}
    for old in still_open.values():
        for own in _ids(old):
            holders.setdefault(own, []).append(old)
    told = sorted(fresh, key=lambda new: (new.id not in still_open, new.detected_ms or 2**62, new.id))
    for new in told:
        ids = _ids(new)
        same = {old.id: old for own in ids for old in holders.get(own, ())}.values()
        free = [old for old in same if old.id not in result and (old.id == new.id or old.id in ids)]
        keeps = min(free, key=lambda old: (old.detected_ms or 2**62, old.id), default=None)
        incident = replace(new, detected_ms=now_ms or new.detected_ms) if keeps is None else _continued(keeps, new)
        result[incident.id] = incident
        for old in free:
            if old.id != incident.id:
                result[old.id] = replace(old, state="merged", merged_into=incident.id)
    for old in still_open.values():
        result.setdefault(old.id, old)
    return in_order(result.values())


def in_order(incidents: Iterable[Incident]) -> tuple[Incident, ...]:
    """The earliest first."""
    return tuple(sorted(incidents, key=lambda one: (one.onset_ms is None, one.onset_ms or 0, one.id)))


def _continued(old: Incident, new: Incident) -> Incident:
    """The new judgement under the known id; it was detected when it was first."""
    continued: Incident = replace(new, id=old.id, detected_ms=old.detected_ms)
    return continued


def _ids(incident: Incident) -> set[str]:
    return {one.id for one in incident.evidence}


def aged(incident: Incident, now_ms: int | None) -> Incident:
    """The incident, closed where nothing was seen of it for longer than the longest time-out."""
    last = max((at for one in incident.evidence if (at := _seen(one)) is not None), default=None)
    over = incident.state == "open" and now_ms is not None and last is not None and now_ms - last > OPEN_MS
    closed: Incident = replace(incident, state="closed") if over else incident
    return closed


def _utc(claim: Claim) -> int | None:
    return claim.onset.from_ms if claim.onset and claim.onset.clock == "utc" else None


def _first(claim: Claim) -> Evidence:
    return claim.evidence[0]


def _seen(one: Evidence) -> int | None:
    return next((at for at in (one.window_end_ms, one.onset_to_ms, one.onset_from_ms) if at is not None), None)
