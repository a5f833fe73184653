"""What differs between two stories: of an archive and its replay, or of two replays."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from remediation.verbs import verbs
from sickbay.app.alerting.standstill import is_ours
from sickbay.app.asking.incidents_topic import told
from sickbay.app.replaying.replay import Run, Said, Story
from sickbay.app.replaying.replay_holds import Hold
from sickbay.components import Name
from sickbay.messages import Incident, PlanStep

FIELDS = ("verdict", "component", "fault", "action", "state", "severity", "probability", "suspects", "onset_ms")


class Differs(NamedTuple):
    """An incident of which not the same was said, as it stood last; None: there is none. `fields`: which differ, empty
    where only the wording, the evidence or the moments of telling do."""

    id: str
    before: Incident | None
    after: Incident | None
    fields: tuple[str, ...] = ()


class Evidence(NamedTuple):
    """Ids of claims, by whether the same was said of them."""

    same: int
    different: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


class HoldDiffers(NamedTuple):
    """A hold that is not decided as before; None: nobody asks for it."""

    target: Name
    before: Hold | None
    after: Hold | None


class Outcome(NamedTuple):
    """All that differs. `same`: incidents of which every byte is as it was."""

    same: int
    incidents: tuple[Differs, ...]
    evidence: Evidence
    holds: tuple[HoldDiffers, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.incidents or self.holds or any(self.evidence[1:]))


def against_archive(live: Story, run: Run, since_ms: int, until_ms: int) -> Outcome:
    """A replay against what the live service said. Times of the live one are those of the log, a little later."""
    known = {id_: said for id_, said in live.incidents.items() if not _ours(said)}
    same, found = _incidents(known, run.story.incidents, since_ms, until_ms, tail=True)
    return Outcome(same, found, _evidence(live, run.story, since_ms, until_ms, run.story.explicit))


def against_run(before: Run, after: Run, since_ms: int, until_ms: int) -> Outcome:
    """A replay with other settings against one with these."""
    same, found = _incidents(before.story.incidents, after.story.incidents, since_ms, until_ms)
    evidence = _evidence(before.story, after.story, since_ms, until_ms, frozenset())
    return Outcome(same, found, evidence, holds(before, after))


def holds(before: Run, after: Run) -> tuple[HoldDiffers, ...]:
    """The hosts that are not held alike."""
    sides = [_by_target(one.holds.found.values()) for one in (before, after)]
    found = []
    for target in sorted(sides[0].keys() | sides[1].keys()):
        one, other = (side.get(target) for side in sides)
        if _decided(one) != _decided(other):
            found.append(HoldDiffers(target, one, other))
    return tuple(found)


def _decided(one: Hold | None) -> tuple[str, str]:
    return (one.word, one.why) if one else ("", "")


def _by_target(found: Iterable[Hold]) -> dict[Name, Hold]:
    """Of several wishes for a host the one that got furthest, then the first."""
    rank = {"held": 0, "asked": 1, "shown": 2}
    best: dict[Name, Hold] = {}
    for one in found:
        known = best.get(one.target)
        if known is None or (rank.get(one.word, 3), one.at_ms) < (rank.get(known.word, 3), known.at_ms):
            best[one.target] = one
    return best


def _ours(said: Sequence[Said]) -> bool:
    one = told(said[-1].value)
    return not isinstance(one, Incident) or is_ours(one)


def _incidents(
    before: Mapping[str, Sequence[Said]], after: Mapping[str, Sequence[Said]], since_ms: int, until_ms: int,
    *, tail: bool = False,
) -> tuple[int, tuple[Differs, ...]]:  # fmt: skip
    """How many were told alike, and the others. `tail`: what `before` told after the range is of looks behind it."""
    same, found = 0, []
    for id_ in [*before, *(one for one in after if one not in before)]:
        one, other = before.get(id_, ()), [said for said in after.get(id_, ()) if said.at_ms <= until_ms]
        if tail:
            one = [said for place, said in enumerate(one) if said.at_ms <= until_ms or place < len(other)]
        else:
            one = [said for said in one if said.at_ms <= until_ms]
        if not any(said.at_ms >= since_ms for said in (*one, *other)):
            continue
        if [said.value for said in one] == [said.value for said in other]:
            same += 1
        else:
            found.append(_differs(id_, _last(one), _last(other)))
    return same, tuple(found)


def _last(said: Sequence[Said]) -> Incident | None:
    one = told(said[-1].value) if said else None
    return one if isinstance(one, Incident) else None


def _differs(id_: str, before: Incident | None, after: Incident | None) -> Differs:
    if before is None or after is None:
        return Differs(id_, before, after)
    fields = [name for name in FIELDS if getattr(before, name) != getattr(after, name)]
    if steps(before) != steps(after):
        fields.append("plan")
    return Differs(id_, before, after, tuple(fields))


def steps(incident: Incident) -> list[str]:
    """The steps of a plan in words."""
    return [f"{one.do} {one.target}" + ("" if one.when == "now" else f" ({one.when})") for one in incident.plan]


def holding(incident: Incident | None) -> list[str]:
    """The steps that hold or exclude something and that the proof is sure enough for."""
    if incident is None:
        return []
    table = verbs()

    def holds_it(step: PlanStep) -> bool:
        verb = table[step.do]
        return verb.phase == "contain" and incident.probability >= verb.least_p

    return [f"{one.do} {one.target}" for one in incident.plan if one.do in table and holds_it(one)]


def _evidence(before: Story, after: Story, since_ms: int, until_ms: int, explicit: Set[str]) -> Evidence:
    """Of an id the same was said where nothing else was said after than before. `explicit`: said at once by a stage
    that is not replayed."""
    same, different, gone, new = 0, list[str](), list[str](), list[str]()
    for id_ in [*before.evidence, *(one for one in after.evidence if one not in before.evidence)]:
        one = before.evidence.get(id_, ())
        other = [said for said in after.evidence.get(id_, ()) if said.at_ms <= until_ms]
        if not any(since_ms <= said.at_ms <= until_ms for said in (*one, *other)):
            continue
        if not one:
            new.append(id_)
        elif not other and id_ not in explicit:
            gone.append(id_)
        elif other and not {said.value for said in other} <= {said.value for said in one}:
            different.append(id_)
        else:
            same += 1
    return Evidence(same, tuple(different), tuple(gone), tuple(new))
