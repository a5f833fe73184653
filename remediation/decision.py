"""What passes through the policy: proposed actions, and everything that may be asked about the world to judge them."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remediation.ledger import Ledger
from remediation.schedulers import JobState, NodeState
from sickbay.actions import Action, ActionState, Control, Judged, Mode
from sickbay.components import Kind, Name
from sickbay.messages import Incident
from sickbay.placement import Placements
from sickbay.settings import Remediation
from sickbay.topology import Topology

MOST_WHY = 1000  # characters: a note may be longer than what a reader of the ledger takes
Controls: TypeAlias = Mapping[bytes, Control]  # the newest of each key


class Context(Struct, frozen=True, kw_only=True):
    """What a look at the world gave. `unreadable`: why the scheduler could not be read, "" where it was."""

    now_ms: int
    settings: Remediation
    mode: Mode
    judged: Judged | None = None
    incidents: Mapping[str, Incident] = {}
    unjudged: frozenset[str] = frozenset()  # incidents that are newer than the heartbeat
    ledger: Ledger
    nodes: Mapping[str, NodeState] = {}
    jobs: Mapping[str, JobState] = {}
    unreadable: str = ""
    placements: Placements
    controls: Controls = {}
    topology: Topology = Topology()  # read only while somebody declares work on something
    uncertain: frozenset[str] = frozenset()  # ids of actions that an earlier process may or may not have done
    keeps_evidence: bool = False  # whether there is a folder for it

    def stands(self, incident: str) -> bool:
        """Whether the newest word of diagnosis is that the incident is open."""
        return self.judged is None or incident in self.judged.open or incident in self.unjudged

    def node(self, target: Name) -> NodeState | None:
        """The node of `host:NAME` as it was read."""
        return self.nodes.get(target.removeprefix(f"{Kind.HOST}:"))

    def job(self, target: Name) -> JobState | None:
        """The job of `job:ID` as it was read."""
        return self.jobs.get(target.removeprefix(f"{Kind.JOB}:"))

    def control(self, kind: str, target: str) -> Control | None:
        """What a person said of a target and still holds: of several the newest."""
        said = [c for c in self.controls.values() if c.kind == kind and c.target == target]
        valid = [c for c in said if c.holds(self.now_ms)]
        return max(valid, key=lambda control: control.at_ms, default=None)


class Decision(Struct, frozen=True, kw_only=True):
    """One proposed action on its way. `muter`: the stage that stopped it; `later`: it only has to wait for another."""

    action: Action
    host: Name = ""  # the host that is or ought to be held
    incident: Incident | None = None
    before: Action | None = None  # its line in the ledger so far
    needs: tuple[str, ...] = ()  # ids that must be settled first
    muter: str = ""
    later: bool = False
    asks: str = ""  # why a person has to say yes, whatever the mode
    when: str = "now"  # of the plan's step: now, at_checkpoint, when_idle

    @property
    def do(self) -> str:
        """The verb."""
        return self.action.do


def muted(decision: Decision, stage: str, state: ActionState, why: str, **fields: Any) -> Decision:
    """The decision, stopped by a stage that says why."""
    action = replace(decision.action, state=state, why=f"{stage}: {why}"[:MOST_WHY])
    return replace(decision, action=action, muter=stage, **fields)


def postponed(decision: Decision, stage: str, why: str) -> Decision:
    """The decision, to be taken up again once something else happened."""
    return muted(decision, stage, decision.action.state, why, later=True)


def asked(decision: Decision, stage: str, why: str) -> Decision:
    """The decision, which from here on needs a person's yes."""
    return decision if decision.asks else replace(decision, asks=f"{stage}: {why}")
