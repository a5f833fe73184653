"""Which hosts the policy would hold over the incidents of a replay, decided purely.

What the archive does not hold of the world is assumed at its most harmless: the scheduler answers, knows each host, and
nobody else holds one; a hold takes effect at once and stays. So a difference between two runs comes from the incidents
or the settings, and from nothing else. Nothing is done.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from remediation.decision import Context
from remediation.ledger import DRAIN, Ledger
from remediation.policy import decide
from remediation.schedulers import NodeState
from sickbay.actions import ActionState, Control, Judged, Mode
from sickbay.app.diagnosing.horizon import Horizon
from sickbay.components import Kind, Name
from sickbay.messages import Incident
from sickbay.settings import Config

WORDS = {ActionState.INTENDED: "held", ActionState.WAITING: "asked"}


class Hold(NamedTuple):
    """What became of the wish to hold a host: held, asked, or its state and why it is not. `at_ms`: when first so."""

    target: Name
    incident: str
    at_ms: int
    word: str
    why: str


class Holds:
    """The policy's decisions on hosts, look by look."""

    def __init__(self, config: Config) -> None:
        settings = config.remediation
        if settings.scheduler == "none":
            settings = msgspec.structs.replace(settings, scheduler="simulated")
        self._settings, self._mode = settings, Mode(settings.mode)
        self._ledger = Ledger()
        self.controls: dict[bytes, Control] = {}  # the newest word under each key
        self.found: dict[tuple[Name, str], Hold] = {}

    def look(self, at_ms: int, incidents: Iterable[Incident], horizon: Horizon) -> None:
        """Decides anew, as incidents changed."""
        known = {one.id: one for one in incidents}
        standing = tuple(one.id for one in known.values() if one.state == "open")
        decisions = decide(
            Context(
                now_ms=at_ms,
                settings=self._settings,
                mode=self._mode,
                judged=Judged(as_of_ms=at_ms, open=standing),
                incidents=known,
                ledger=self._ledger,
                nodes=_free(known.values(), at_ms),
                placements=horizon.placements,
                controls=self.controls,
                topology=horizon.topology,
                keeps_evidence=True,
            )
        )
        lines = []
        for one in decisions:
            action = one.action
            if action.do != DRAIN:
                continue
            word = WORDS.get(action.state, str(action.state))
            before = self.found.get(key := (action.target, action.incident))
            if before is None or before.word != word or before.why != action.why:
                self.found[key] = Hold(action.target, action.incident, at_ms, word, action.why)
            done = action.state is ActionState.INTENDED
            lines.append(msgspec.structs.replace(action, state=ActionState.VERIFIED) if done else action)
        self._ledger = self._ledger.told(lines)


def _free(incidents: Iterable[Incident], at_ms: int) -> dict[str, NodeState]:
    """The hosts that plans would hold, as a scheduler would show them with nothing on."""
    targets = {step.target for one in incidents for step in one.plan if step.do == DRAIN}
    names = {one.removeprefix(f"{Kind.HOST}:") for one in targets}
    return {name: NodeState(name=name, flags=frozenset({"idle"}), read_ms=at_ms) for name in sorted(names)}
