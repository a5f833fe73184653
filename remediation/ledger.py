"""The ledger as a fold: the newest line of an id is the state of that action; what is held is a function of them all.

A hold is a line `drain_host` whose state is intended, done or verified; one that ended, by whomever, is undone.
A co-hold is a need that somebody else's hold stands in for: nothing of ours is in the scheduler, nothing is written.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property

from remediation.schedulers import NodeState
from remediation.schedulers.reasons import cleaned, ours
from sickbay.actions import Action, ActionState
from sickbay.components import Name

DRAIN, REQUEUE, TEST, RELEASE, COLLECT = "drain_host", "requeue", "run_test", "release", "collect_evidence"
OPEN = frozenset({ActionState.INTENDED, ActionState.DONE, ActionState.VERIFIED})
HELD = frozenset({ActionState.DONE, ActionState.VERIFIED, ActionState.UNDONE})  # states of a hold that took effect
FINAL = frozenset({ActionState.VERIFIED, ActionState.FAILED, ActionState.UNDONE})
POLICY = "policy"  # who wrote a line that no person asked for


def action_id(incident: str, do: str, target: Name, generation: int) -> str:
    """The id of an action: the same wherever and whenever it is proposed."""
    text = "\x1f".join((incident, do, target, str(generation)))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def reason(action: Action, about: str) -> str:
    """What is written into the scheduler: it begins with the action's id, by which we know our own hold again."""
    return cleaned(f"sickbay {action.id} g{action.generation} {about} incident {action.incident}")


def is_ours(node: NodeState, action: Action) -> bool:
    """Whether the node is held by that very action, every word of its reason and its user untouched."""
    mine = node.reason == action.reason if action.reason else ours(node.reason) == action.id
    return node.held and mine and (not action.reason_by or node.reason_by == action.reason_by)


def settled(action: Action) -> bool:
    """Whether nothing more becomes of it: it was done, failed, or a person said no or nothing in time."""
    if action.state in FINAL:
        return True
    if action.state is ActionState.EXPIRED and action.at_ms is not None and action.expires_ms is not None:
        return action.at_ms >= action.expires_ms
    return action.state is ActionState.REFUSED and action.by != POLICY


class Ledger:
    """The state of every action. Immutable; `told` gives the next one."""

    def __init__(self, lines: Mapping[str, Action] | None = None) -> None:
        self.lines: Mapping[str, Action] = lines or {}

    def told(self, actions: Iterable[Action]) -> "Ledger":
        """This ledger after more lines, in the order of the log."""
        return Ledger({**self.lines, **{action.id: action for action in actions}})

    @cached_property
    def _by_target(self) -> dict[tuple[str, Name], list[Action]]:
        found: dict[tuple[str, Name], list[Action]] = {}
        for action in self.lines.values():
            found.setdefault((action.do, action.target), []).append(action)
        return found

    def of(self, do: str, target: Name) -> list[Action]:
        """All actions of one verb on one target."""
        return self._by_target.get((do, target), [])

    def last(self, incident: str, do: str, target: Name) -> Action | None:
        """The newest action of an incident of that verb on that target."""
        mine = [action for action in self.of(do, target) if action.incident == incident]
        return max(mine, key=lambda action: action.generation, default=None)

    @cached_property
    def holds(self) -> dict[Name, Action]:
        """Our own holds by target, those included that are only about to be done."""
        return {action.target: action for action in self._drains if action.state in OPEN and not action.co_hold}

    @cached_property
    def co_holds(self) -> dict[Name, Action]:
        """By target: somebody else holds it, and we would as well."""
        return {action.target: action for action in self._drains if action.co_hold}

    @cached_property
    def _drains(self) -> list[Action]:
        return [action for action in self.lines.values() if action.do == DRAIN]

    def takes_no_work(self, target: Name) -> bool:
        """Whether a hold of ours was read back there, or somebody else's stands in for it."""
        mine = self.holds.get(target)
        return target in self.co_holds or (mine is not None and mine.state is ActionState.VERIFIED)

    def generation(self, target: Name) -> int:
        """The newest generation of the holds of a target, 0 where there was none."""
        counted = OPEN | HELD | {ActionState.FAILED}
        return max((a.generation for a in self.of(DRAIN, target) if a.state in counted), default=0)

    def holds_begun(self, since_ms: int, target: Name | None = None) -> list[Action]:
        """Holds that were about to be done since then, whatever came of it; of one target: those that took effect."""
        drains = self._drains if target is None else [a for a in self.of(DRAIN, target) if a.state in HELD]
        return [a for a in drains if a.intended_ms is not None and a.intended_ms >= since_ms]

    def requeued(self, job: Name, attempt: str, but: str = "") -> Action | None:
        """The action that gave that attempt back to the queue, or may have done so; `but` is not counted."""
        spent = OPEN | {ActionState.FAILED}
        mine = (a for a in self.of(REQUEUE, job) if a.attempt == attempt and a.id != but)
        return next((a for a in mine if a.state in spent), None)

    def requeues_begun(self, job: Name, since_ms: int, but: str = "") -> list[Action]:
        """Requeues of a job, whichever attempt, that were about to be done since then."""
        mine = (a for a in self.of(REQUEUE, job) if a.id != but)
        return [a for a in mine if a.intended_ms is not None and a.intended_ms >= since_ms]
