"""The steps under a headline: blame, availability and the job apart, evidence saved before anything resets.

A plan only proposes: whether and when a step is done is the policy's to say.
"""

import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from diagnosis.case import Case
from diagnosis.incidents import HOLDS
from diagnosis.relations import jobs_on
from remediation.verbs import Verb, fits, verbs
from sickbay.components import HOST_SCOPED, UNKNOWN, Kind, Name, host_of, kind_of, name
from sickbay.messages import Action, Incident, PlanStep, Verdict, replace, strength
from sickbay.vocabulary import faults

JobState: TypeAlias = Literal["dead", "alive", "idle", "restarted"]

MOST_SUSPECTS = 2  # hosts that an unknown verdict may exclude for one attempt
MOST_HELD = 64  # dependants that a plan lists one by one
UNDER_WAY_MS = 15_000  # [house] lines of steps that were under way at the onset are written by then
MOST_STEPS, MOST_PAUSES = 16, 3  # of the newest steps; without one for three usual pauses a job stands
# Signs that a job makes no steps any more.
STANDS = frozenset({"peers_idle", "collective_stall", "rank_absent", "collective_mismatch", "job_same_step"})
# Faults that no job survives, whatever its telemetry says yet.
KILLS = frozenset(
    {
        "accelerator_off_bus", "accelerator_memory_uncorrectable", "accelerator_memory_repair_failed", "host_panic",
        "host_down", "host_blind", "accelerator_blind", "pcie_fatal", "power_lost", "cpu_fault", "dimm_uncorrectable",
        "nic_failed", "fabric_fault", "accelerator_internal",
    }
)  # fmt: skip
LIGHT = frozenset({"optic_fault", "link_attenuated"})
LIGHTLESS = frozenset({"light_lost", "laser_out", "light_cut_between", "light_cut_between_both_ways"})
# Steps that need a part to blame, and verdicts that have none: the program, a person at work, or nobody knows.
HARD = frozenset(
    {
        "drain_host", "dependency_hold", "isolate_device", "isolate_port", "reset_device", "reset_board", "reboot_host",
        "power_cycle", "replace_part",
    }
)  # fmt: skip
# Blindness alone: the host is excluded at once, and held only where the proof is strong (night 8).
BLIND = frozenset({"host_blind", "accelerator_blind"})
BLAMES_NO_HOST = frozenset({Verdict.JOB, Verdict.MAINTENANCE, Verdict.UNKNOWN})


class Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a recipe."""

    do: str
    on: str
    when: Literal["now", "at_checkpoint", "when_idle"] = "now"
    only: Literal["", "dead", "alive", "idle", "used"] = msgspec.field(default="", name="if")
    verdict: Literal["", "component", "shared"] = ""
    sure: bool = False  # only where the proof would do to hold a host: one family of soft readings never does


@cache
def recipes() -> dict[str, tuple[Step, ...]]:
    """Steps by `fault.NAME` and `action.NAME`."""
    table = tomllib.loads(resources.files("remediation").joinpath("recipes.toml").read_text(encoding="utf-8"))
    return {
        f"{group}.{key}": msgspec.convert(row["steps"], tuple[Step, ...])
        for group, rows in table.items()
        for key, row in rows.items()
    }


def plan(incident: Incident, case: Case, lang: str = "en") -> tuple[PlanStep, ...]:
    """The steps that the verdict asks for, in order, each with its reason."""
    state = job_state(incident, case)
    found: dict[tuple[str, str], PlanStep] = {}
    for step in recipe(incident):
        if not applies(step, state) or (step.do in HARD and _spared(incident)):
            continue
        if step.verdict not in ("", incident.verdict) or (step.sure and incident.probability < HOLDS):
            continue
        for target in targets(step, incident, case):
            if fits(verbs()[step.do], target) and not _is_trunk(step, target, incident, case):
                found.setdefault((step.do, target), _planned(step, target, incident, state, lang))
    if not found and incident.action is not Action.IGNORE:  # no step fits that kind of part: never no plan at all
        watch = Step(do="watch", on="component")
        return (_planned(watch, incident.component, incident, state, lang),)
    return tuple(found.values())


def _is_trunk(step: Step, target: Name, incident: Incident, case: Case) -> bool:
    """Only a host's own port is ever closed (night 16): a switch's may carry many others."""
    return step.do == "isolate_port" and _is_switch(host_of(target), case, incident.onset_ms)


def _spared(incident: Incident) -> bool:
    """No host is held or reset for that: nobody is to blame, or it went blind and that alone is too little."""
    weak = incident.fault in BLIND and strength(incident.action) < strength(Action.DRAIN_HOST)
    return weak or incident.verdict in BLAMES_NO_HOST


def recipe(incident: Incident) -> tuple[Step, ...]:
    """The fault's own recipe where the headline is its usual one, else the headline's."""
    usual = faults()[incident.fault].action
    own = recipes().get(f"fault.{incident.fault}")
    if own is not None and (incident.action is usual or _by_verdict(incident) or _stronger_by_advice(incident, usual)):
        return own
    return recipes()[f"action.{incident.action}"]


def _by_verdict(incident: Incident) -> bool:
    """Symptoms, questions and blindness have steps of their own; so has maintenance, whose headline is to ignore it."""
    if incident.fault in BLIND:
        return True
    if incident.verdict is Verdict.MAINTENANCE:
        return incident.fault == "orderly_shutdown"
    return incident.verdict is Verdict.UNKNOWN and faults()[incident.fault].role != "primary"


def _stronger_by_advice(incident: Incident, usual: Action) -> bool:
    """A device that left the bus needs the same steps whatever stronger word the vendor has for it."""
    return incident.fault in ("accelerator_off_bus", "pcie_fatal") and strength(incident.action) >= strength(usual)


def job_state(incident: Incident, case: Case) -> JobState:
    """What the job on the broken part does: stands, makes steps, is not there, or was started again."""
    if not incident.affected.jobs:
        stands = incident.fault in BLIND  # known by the very stall of a job without a name
        return "dead" if stands or incident.action is Action.RESTART_JOB else "idle"
    if _restarted(incident, case):
        return "restarted"
    shown = {one.fault for one in incident.evidence}
    dark = incident.fault in LIGHT and "link_down" in shown
    lost = incident.fault in LIGHT and any(one.says in LIGHTLESS for one in incident.evidence)
    if not (shown & STANDS or incident.fault in KILLS or dark or lost):
        return "alive"
    if not _moves(incident, case):
        return "dead"
    return "alive" if incident.fault in LIGHT else "restarted"  # a job outlives a link that came back


def _restarted(incident: Incident, case: Case) -> bool:
    """A later attempt of every job runs already: what follows is containment only."""
    onset = incident.onset_ms
    if onset is None:
        return False
    later = {place.job for place in case.placements if place.from_ms is not None and place.from_ms > onset}
    return set(incident.affected.jobs) <= later


def _moves(incident: Incident, case: Case) -> bool:
    """Every job that it hit has made steps long after the onset, and does now: what was told is old, it was restarted
    in place, or it lives on. Whatever the fault, a stop would end a healthy attempt (night 2)."""
    if incident.onset_ms is None or case.now_ms is None:
        return False
    for job in incident.affected.jobs:
        at = sorted(one.at_ms for one in case.steps if one.job == job and not one.phase and one.at_ms is not None)
        late = [ms for ms in at if ms > incident.onset_ms + UNDER_WAY_MS][-MOST_STEPS:]
        pauses = sorted(after - before for before, after in pairwise(late))
        if not pauses or case.now_ms - late[-1] > max(MOST_PAUSES * pauses[len(pauses) // 2], UNDER_WAY_MS):
            return False
    return True


def applies(step: Step, state: JobState) -> bool:
    """Whether a step is for the state that the job is in."""
    if step.only == "used":
        return state in ("dead", "alive")
    if step.only == "idle":
        return state == "idle"
    return not step.only or step.only == state


def targets(step: Step, incident: Incident, case: Case) -> Iterator[Name]:
    """Whom a step is for."""
    if step.on.startswith("owner:"):
        yield step.on
    elif step.on == "component":
        yield incident.component
    elif step.on == "jobs":
        unknown = (UNKNOWN,) if incident.action is Action.RESTART_JOB else ()
        yield from (name(Kind.JOB, job) for job in incident.affected.jobs or unknown)
    elif step.on == "own_jobs":  # of all that it hit only those that run on the part itself
        yield from (name(Kind.JOB, job) for job in sorted(jobs_on(incident.component, case, incident.onset_ms)))
    elif step.on == "host":
        yield from _host(incident.component, case, incident.onset_ms)
    elif step.on == "dependants":
        hosts = [part for part in incident.dependants if kind_of(part) is Kind.HOST]
        yield from (hosts or list(_host(incident.component, case, incident.onset_ms)))[:MOST_HELD]
    elif step.on == "suspects":
        hosts = [host for one in incident.suspects for host in _host(one.component, case, incident.onset_ms)]
        yield from list(dict.fromkeys(hosts))[:MOST_SUSPECTS]


def _host(component: Name, case: Case, at_ms: int | None) -> Iterator[Name]:
    kind = kind_of(component)
    if kind is Kind.RANK:
        place = case.placements.at(at_ms).component_of(component)
        if place:
            yield from _host(place, case, at_ms)
    elif kind in HOST_SCOPED:
        host = host_of(component)
        if not _is_switch(host, case, at_ms):
            yield name(Kind.HOST, host or UNKNOWN)


def _is_switch(host: str | None, case: Case, at_ms: int | None) -> bool:
    """A port or optic may belong to a switch, which no scheduler can drain."""
    return host is not None and bool(case.topology.at(at_ms).children(name(Kind.SWITCH, host)))


def _planned(step: Step, target: Name, incident: Incident, state: JobState, lang: str) -> PlanStep:
    verb = verbs()[step.do]
    when = "when_idle" if state == "restarted" and verb.interrupts else step.when
    return PlanStep(
        do=step.do,
        target=target,
        phase=verb.phase,
        when=when,
        interrupts=verb.interrupts and _running(verb, state, when),
        needs_approval=verb.approval or incident.probability < verb.least_p,
        why=verb.zh if lang == "zh" else verb.en,
    )


def _running(verb: Verb, state: JobState, when: str) -> bool:
    return (state in ("dead", "alive") and when != "when_idle") or verb.name == "stop_job"


def planned(incidents: Iterable[Incident], case: Case, lang: str = "en") -> tuple[Incident, ...]:
    """The incidents with their plans."""
    return tuple(replace(incident, plan=plan(incident, case, lang)) for incident in incidents)
