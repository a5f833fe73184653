"""What stands now, folded from the incidents and the ledger: which incident is worth an alert, what is held for it.

One page per root cause: a merged incident has gone into another. An incident that diagnosis closed still stands while
Sickbay holds something for it, as a held node that nobody remembers is capacity lost in silence; an open one whose
holds were all released after their test is over, as diagnosis keeps it open only for late symptoms.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from remediation.ledger import DRAIN, RELEASE
from sickbay.actions import JUDGED_KEY, Action, ActionState, Judged, LedgerMessage
from sickbay.messages import Action as Headline
from sickbay.messages import AnyMessage, Evidence, Incident, replace

HOLDS = frozenset({DRAIN, "dependency_hold", "isolate_device", "isolate_port", "cost_out_link"})
HELD = frozenset({ActionState.DONE, ActionState.VERIFIED})  # also what was not read back: it may be held


@dataclass(frozen=True, slots=True)
class Story:
    """An incident with the actions for it and for those that were merged into it, in the order of their change."""

    incident: Incident
    actions: tuple[Action, ...] = ()


@dataclass(slots=True)
class Standing:
    """The fold: newest record of each incident and action, and the newest heartbeat of diagnosis."""

    incidents: dict[str, Incident] = field(default_factory=dict)
    actions: dict[str, Action] = field(default_factory=dict)
    judged_ms: int | None = None  # diagnosis has read everything up to then

    def take(self, key: bytes, message: AnyMessage | LedgerMessage | None, append_ms: int) -> bool:
        """One record of the incidents or actions topic; None: the key was removed. True if an alert may change."""
        match message:
            case Judged():
                as_of_ms = min(message.as_of_ms, append_ms)  # a clock that runs ahead must not look alive for longer
                self.judged_ms = max(as_of_ms, self.judged_ms or 0)
                return False
            case Incident():
                self.incidents[message.id] = message if message.state == "open" else _slim(message)
            case Action():
                self.actions[message.id] = message
            case None if key != JUDGED_KEY:
                self.incidents.pop(key.decode(errors="replace"), None)
                self.actions.pop(key.decode(errors="replace"), None)
            case _:
                return False
        return True

    def stories(self) -> Iterator[Story]:
        """Every root cause with its actions, by id."""
        actions: dict[str, list[Action]] = {}
        for action in self.actions.values():
            actions.setdefault(self._root(action.incident), []).append(action)
        for incident in sorted(self.incidents.values(), key=lambda one: one.id):
            if incident.state != "merged":
                told = sorted(actions.get(incident.id, ()), key=lambda one: (one.at_ms or 0, one.id))
                yield Story(incident, tuple(told))

    def worth_telling(self) -> tuple[Story, ...]:
        """What is worth an alert now."""
        return tuple(one for one in self.stories() if one.incident.action is not Headline.IGNORE and stands(one))

    def _root(self, id: str) -> str:
        """Where an incident went, through all merges."""
        seen: set[str] = set()
        while id not in seen and (incident := self.incidents.get(id)) is not None and incident.state == "merged":
            seen.add(id)
            id = incident.merged_into
        return id


def stands(story: Story) -> bool:
    """Whether an incident is still something to be told of."""
    return bool(held(story.actions)) or (story.incident.state == "open" and not _over(story))


def held(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Our holds that nothing has ended: the newest of each target without a release of its generation.

    A co-hold is somebody else's, who knows of it.
    """
    actions = tuple(actions)
    newest: dict[tuple[str, str], Action] = {}
    for action in actions:
        known = newest.get((action.do, action.target))
        if action.do in HOLDS and (known is None or known.generation <= action.generation):
            newest[action.do, action.target] = action
    ends = _releases(actions)
    return tuple(
        hold
        for hold in newest.values()
        if hold.state in HELD
        and not hold.co_hold
        and (hold.target not in ends or ends[hold.target].generation < hold.generation)
    )


def _over(story: Story) -> bool:
    """Whether all that was to be held for it was released after its test, and nothing was seen of it since then."""
    holds = {action.target for action in story.actions if action.do in HOLDS}
    ends = _releases(story.actions)
    if not holds or not holds <= set(ends):
        return False
    last = max((_seen(one) for one in story.incident.evidence), default=0)
    return all(last <= (ends[target].at_ms or 0) for target in holds)


def _releases(actions: Iterable[Action]) -> Mapping[str, Action]:
    """The newest verified release of each target."""
    newest: dict[str, Action] = {}
    for action in actions:
        known = newest.get(action.target)
        verified = action.do == RELEASE and action.state is ActionState.VERIFIED
        if verified and (known is None or known.generation <= action.generation):
            newest[action.target] = action
    return newest


def _seen(one: Evidence) -> int:
    times = (one.end_ms, one.window_end_ms, one.onset_to_ms, one.onset_from_ms)
    return max((at for at in times if at is not None), default=0)


def _slim(incident: Incident) -> Incident:
    """One that is over, without what takes memory: months of them are remembered."""
    slim: Incident = replace(incident, plan=(), evidence=(), against=(), dependants=())
    return slim
