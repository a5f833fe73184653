"""What must be said of each effect, and what must not be done: the truth that a run is scored against."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sickbay.components import Name, host_of
from sickbay.messages import Action, Incident, Verdict, strength

# Verbs of a plan that take something out of service or touch it: on an innocent host each is a harm.
TAKING = frozenset(
    {
        "drain_host", "exclude_for_job", "isolate_device", "isolate_port", "cost_out_link",
        "reset_device", "reset_board", "reboot_host", "power_cycle", "replace_part",
    }
)  # fmt: skip
CONTAINMENT = frozenset(action for action in Action if strength(action) >= strength(Action.CHECK_LINK))


@dataclass(frozen=True, slots=True)
class Expectation:
    """One effect's right answer. For a decoy, no verdict is right and any containment is wrong."""

    name: str
    title: str
    at_ms: int
    touched: frozenset[Name]  # what the effect happens to: an incident on one of these is about it
    verdicts: frozenset[Verdict] = frozenset()
    components: frozenset[Name] = frozenset()  # any of these is the right part
    faults: frozenset[str] = frozenset()  # any of these classes is right; empty: not judged
    actions: frozenset[Action] = frozenset()
    exonerated: frozenset[Name] = frozenset()  # looked at, and innocent: blamed or taken out, each is an error
    forbidden: frozenset[str] = frozenset()  # verbs that no plan about it may have
    family: str = ""  # of faults: see `FAMILIES` in `simulator.truth`
    seen_ms: int | None = None  # first observable, as far as any sensor or line tells; None: with the onset
    ends_ms: int | None = None  # when it stops by itself
    severity: float = 1.0  # 1 as the field tells it, less is harder to see

    @property
    def decoy(self) -> bool:
        """Nothing may be taken out of service for it."""
        return not self.verdicts


@dataclass(frozen=True, slots=True)
class Score:
    """How one expectation fared."""

    expectation: Expectation
    incident: Incident | None
    right: bool
    why: str


def score(expectations: Sequence[Expectation], incidents: Sequence[Incident]) -> tuple[list[Score], list[Incident]]:
    """Each expectation against the incidents found, and the incidents that belong to none of them.

    A real effect needs one right incident; a decoy must have none that contains; an incident left over is an error
    where it takes something out of service.
    """
    left = [incident for incident in incidents if incident.state != "merged"]
    scores = []
    for expected in sorted(expectations, key=lambda e: e.decoy):
        about = [incident for incident in left if _about(expected, incident)]
        result = _decoy(expected, about) if expected.decoy else _real(expected, about)
        taken = about if expected.decoy else [result.incident] if result.right else []
        left = [incident for incident in left if incident not in taken]
        scores.append(result)
    return scores, left


def contains(incident: Incident) -> bool:
    """The incident asks to take something out of service."""
    return incident.action in CONTAINMENT


def _about(expected: Expectation, incident: Incident) -> bool:
    return incident.component in expected.touched | expected.components


def _real(expected: Expectation, about: Sequence[Incident]) -> Score:
    if not about:
        return Score(expected, None, False, "no incident names it")
    for incident in about:
        if not (wrong := _wrong(expected, incident)):
            return Score(expected, incident, True, "")
    return Score(expected, about[0], False, wrong)


def _wrong(expected: Expectation, incident: Incident) -> str:
    """Why an incident is not the right answer, empty if it is."""
    if incident.verdict not in expected.verdicts:
        return f"verdict {incident.verdict} instead of {'/'.join(sorted(expected.verdicts))}"
    if incident.component not in expected.components:
        return f"blames {incident.component}"
    if expected.faults and incident.fault not in expected.faults:
        return f"fault {incident.fault}"
    if incident.action not in expected.actions:
        return f"action {incident.action}"
    return _harm(incident, {host for part in expected.components if (host := host_of(part))})


def _harm(incident: Incident, hosts: Collection[str], forbidden: Collection[str] = ()) -> str:
    """What the plan does to anything outside of `hosts`, or by a forbidden verb."""
    for step in incident.plan:
        if step.do in TAKING and (host_of(step.target) not in hosts or step.do in forbidden):
            return f"plans {step.do} of {step.target}"
    return ""


def _decoy(expected: Expectation, about: Sequence[Incident]) -> Score:
    harm = next((incident for incident in about if contains(incident)), None)
    if harm:
        return Score(expected, harm, False, f"{harm.action} of {harm.component} for nothing")
    for incident in about:
        if planned := _harm(incident, {host_of(part) or "" for part in expected.components}, expected.forbidden):
            return Score(expected, incident, False, f"{planned} for nothing")
    return Score(expected, about[0] if about else None, True, "")
