"""What remediation writes and what people tell it: the ledger of actions, outcomes of tests, and control records.

The ledger (`sickbay.actions.v1`) is a fold: the newest record of an id is the state of that action, and what is held
now is a function of the whole. An action is written down as `intended` before it is done, so that a crash between the
two is seen and settled by reading back, never by doing it again.
"""

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from sickbay.components import Name
from sickbay.messages import Message, Text


class ActionState(StrEnum):
    """How far an action is. Final: verified, refused, failed, expired, undone, shown."""

    SHOWN = "shown"  # observe mode: would be done, nothing is touched
    WAITING = "waiting"  # for a person's approval, until `expires_ms`; the default is to do nothing
    INTENDED = "intended"  # about to be done: after a crash, read back before anything else
    DONE = "done"  # the scheduler took it, not yet read back
    VERIFIED = "verified"  # read back
    REFUSED = "refused"  # by a stage of the policy or by a person; `why` names it
    FAILED = "failed"  # the scheduler refused it, or reading back showed something else
    EXPIRED = "expired"  # its evidence grew old, or its attempt ended, before it could be done
    UNDONE = "undone"  # taken back, or ended by somebody else's hand


class Mode(StrEnum):
    """How far remediation may go."""

    OBSERVE = "observe"
    ADVISE = "advise"
    ACT = "act"


class Action(Message, frozen=True, kw_only=True, tag="action"):
    """One line of the ledger: the state of one action after its newest change."""

    id: str  # hash of incident, verb, target and generation
    incident: str
    do: str  # a verb of remediation/verbs.toml
    target: Name
    state: ActionState
    mode: Mode = Mode.OBSERVE
    generation: int = 0  # of the holds of this target: one more with each new hold; a release names the hold it ends
    attempt: str = ""  # job/restart count that it speaks of: an action for another attempt is never done
    reason: Text = ""  # as written into the scheduler
    reason_by: str = ""  # whose name the scheduler put under our reason: another one ends our ownership
    co_hold: bool = False  # somebody else holds the node: our need stands here only, nothing was written there
    why: Text = ""  # the sentence for people, or the stage that muted it and its reason
    evidence: tuple[str, ...] = ()  # ids
    test: str = ""  # the test that ends a hold
    read_back: Text = ""  # what the scheduler said afterwards
    by: str = "policy"  # or the user who approved or rejected it
    at_ms: int | None = None  # of this change
    began_ms: int | None = None  # when it was first proposed
    intended_ms: int | None = None  # when it was first about to be done
    tries: int = 0  # of a test: how often it was run and not passed
    expires_ms: int | None = None


class Outcome(Message, frozen=True, kw_only=True, tag="outcome"):
    """Whether a verdict was right. `result`: confirmed, refuted, inconclusive."""

    id: str
    incident: str
    target: Name
    result: str
    test: str = ""
    sensitivity: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None  # of the test for this fault class
    detail: Text = ""
    by: str = "policy"
    at_ms: int | None = None


class Judged(Message, frozen=True, kw_only=True, tag="judged"):
    """The heartbeat of diagnosis, on the incidents topic: all inputs were read up to `as_of_ms` (append time)."""

    as_of_ms: int
    open: tuple[str, ...] = ()  # ids of the incidents that stand
    behind: bool = False  # the windows are, and were left out: then they were read up to `as_of_ms`, events further


class Control(Message, frozen=True, kw_only=True, tag="control"):
    """What a person tells Sickbay: approval, rejection, pause, maintenance, label; it holds from `from_ms` until
    `until_ms`, where these are told. Of a job, through its host's agent: no_stop (it must not be stopped until then),
    restart_owner (`note`: who restarts it)."""

    kind: str
    target: str  # id of an action or incident, or a component
    by: str
    at_ms: int
    until_ms: int | None = None
    asked_ms: int | None = None  # of an approval: `at_ms` of the line that it answers
    note: Text = ""
    from_ms: int | None = None

    def holds(self, at_ms: int) -> bool:
        """Whether it holds at that time."""
        begun = self.from_ms is None or self.from_ms <= at_ms
        return begun and (self.until_ms is None or at_ms < self.until_ms)


LedgerMessage: TypeAlias = Action | Outcome | Judged | Control
JUDGED_KEY = b"judged"  # of the heartbeat: compaction keeps the newest

_decoder: msgspec.json.Decoder[LedgerMessage] = msgspec.json.Decoder(LedgerMessage, strict=True)
_encoder = msgspec.json.Encoder()


def encode(message: LedgerMessage) -> bytes:
    """The message as JSON."""
    return _encoder.encode(message)


def decode(payload: bytes) -> LedgerMessage:
    """The message in `payload`. Raises msgspec.DecodeError (a ValueError) that says what is wrong."""
    try:
        return _decoder.decode(payload)
    except RecursionError:
        raise msgspec.ValidationError("nested too deeply") from None
