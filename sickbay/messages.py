"""What crosses a seam: typed, frozen, strict. JSON on the topics of few and precious records, one union for decoding.

Times are UTC milliseconds (`*_ms`), None where unknown. Component names follow `components`; a reader that does not
know the host writes `?` for it. Free text in here is hostile until a surface escapes it.
"""

import math
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from sickbay.components import UNKNOWN, Name

MAX_MESSAGE = 500  # characters of source text that an event keeps

Text: TypeAlias = Annotated[str, Meta(max_length=4000)]
Probability: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]


class Severity(StrEnum):
    """How bad the source says it is; orders as listed."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    FATAL = "fatal"


class Blame(StrEnum):
    """Whose fault a code speaks of, when nothing else is known."""

    APPLICATION = "application"
    HARDWARE = "hardware"
    EITHER = "either"


class Action(StrEnum):
    """The headline of an incident, from weak to strong. The last two imply the drain."""

    IGNORE = "ignore"
    WATCH = "watch"
    FIX_SOFTWARE = "fix_software"
    ESCALATE = "escalate"
    RESTART_JOB = "restart_job"
    CHECK_LINK = "check_link"
    RESET_DEVICE = "reset_device"
    DRAIN_HOST = "drain_host"
    REBOOT_HOST = "reboot_host"
    REPLACE_PART = "replace_part"


class Verdict(StrEnum):
    """What kind of thing is at fault."""

    COMPONENT = "component"
    SHARED = "shared"
    JOB = "job"
    MAINTENANCE = "maintenance"
    UNKNOWN = "unknown"


ALLOWED_ACTIONS: dict[Verdict, frozenset[Action]] = {
    Verdict.JOB: frozenset({Action.IGNORE, Action.WATCH, Action.RESTART_JOB, Action.FIX_SOFTWARE}),
    Verdict.MAINTENANCE: frozenset({Action.IGNORE}),
    Verdict.UNKNOWN: frozenset({Action.WATCH, Action.ESCALATE, Action.RESTART_JOB}),
    Verdict.SHARED: frozenset(
        {Action.WATCH, Action.CHECK_LINK, Action.REPLACE_PART, Action.ESCALATE, Action.FIX_SOFTWARE}
    ),
    Verdict.COMPONENT: frozenset(Action),
}


def strength(action: Action) -> int:
    """The place of an action in the order from weak to strong."""
    return list(Action).index(action)


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="type"):
    """Base of all messages: no unknown field, no infinite or missing number passes."""

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{type(self).__name__}.{field} is not a finite number")


class Event(Message, frozen=True, kw_only=True, tag="event"):
    """Something discrete that a source said. `kind` is a row of kinds.toml, `code` the vendor's own ("XID 79")."""

    component: Name
    kind: str
    at_ms: int | None = None
    until_ms: int | None = None  # of the last one folded in, else None
    at_boot_s: float | None = None  # seconds since the kernel started, where the source tells
    not_before_ms: int | None = None  # of an undated line: the dated lines around it in the same input
    not_after_ms: int | None = None
    seen_ms: int | None = None  # when the agent saw it
    count: Annotated[int, Meta(ge=1)] = 1
    code: Text = ""
    severity: Severity = Severity.INFO
    blame: Blame = Blame.EITHER
    scope: str = ""  # what is lost with it: process, device, domain, host, fabric
    advice: Action | None = None  # the vendor's word, as a headline; None: no opinion
    host: str = ""  # the host that said it, where that is not the component's
    boot_id: str = ""
    process: str = ""  # name[pid] of the process named in the text
    peer: Name = ""  # the other end, where the text names one
    job: str = ""
    attributes: dict[str, str] = {}  # decoded parts of the text: link, register words, exit code ...
    message: Annotated[str, Meta(max_length=MAX_MESSAGE)] = ""
    path: str = ""
    line: int = 0


class Identity(Message, frozen=True, kw_only=True, tag="identity"):
    """One device, all its names: joins what the kernel log, exporters and schedulers call it. Empty = not told."""

    host: str = UNKNOWN
    kind: str = "accelerator"
    index: str = ""
    pci: str = ""
    uuid: str = ""
    serial: str = ""
    name: str = ""  # interface or device name
    model: str = ""
    boot_id: str = ""


class Relation(StrEnum):
    """How `child` hangs on `parent`. `link_end` joins two ports; `same_group` two parts of one scale-up domain."""

    PART_OF = "part_of"
    ATTACHED_TO = "attached_to"
    POWERED_BY = "powered_by"
    COOLED_BY = "cooled_by"
    LINK_END = "link_end"
    ROUTED_OVER = "routed_over"
    MANAGED_BY = "managed_by"
    MOUNTS = "mounts"
    RUNS = "runs"
    SAME_GROUP = "same_group"


class Edge(Message, frozen=True, kw_only=True, tag="edge"):
    """One row of the topology, valid from `from_ms` (inclusive) to `to_ms` (exclusive); None = open."""

    child: Name
    parent: Name
    relation: Relation
    from_ms: int | None = None
    to_ms: int | None = None
    seen_ms: int | None = None
    source: str = ""


class RankPlace(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where one rank ran."""

    rank: int
    host: str
    component: Name = ""  # the accelerator, empty where only the host is known
    role: str = ""  # its place in the parallel groups: peers share it


class Placement(Message, frozen=True, kw_only=True, tag="placement"):
    """Which attempt (job + restart count) ran where. `hosts` in rank order where ranks are not told one by one."""

    job: str
    attempt: int = 0
    hosts: tuple[str, ...] = ()
    ranks: tuple[RankPlace, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    state: str = ""  # running, pending, completed, failed, cancelled, node_fail, ...
    user: str = ""
    name: str = ""
    exclusive: bool = False


class Progress(Message, frozen=True, kw_only=True, tag="progress"):
    """What one rank said of one collective of one group. Sequence numbers are per group; -1 = not told."""

    rank: int
    job: str = UNKNOWN
    at_ms: int | None = None
    group: str = ""
    group_name: str = ""
    group_ranks: tuple[int, ...] = ()
    seq: int = -1
    op: str = ""
    size: str = ""  # as told, to compare between ranks only
    state: str = ""  # waiting (timed out in it), entered, started, completed, absent
    last_enqueued: int = -1
    last_started: int = -1
    last_completed: int = -1
    timeout_ms: int | None = None
    host: str = ""
    path: str = ""
    line: int = 0


class Step(Message, frozen=True, kw_only=True, tag="step"):
    """One line of a training log (or one record of the training hook). Durations are of one step, in milliseconds."""

    step: int
    job: str = UNKNOWN
    rank: int | None = None
    at_ms: int | None = None
    duration_ms: float | None = None
    work: float | None = None  # tokens or samples of this rank in this step: what the duration is divided by
    loss: float | None = None
    grad_norm: float | None = None
    phase: str = ""  # "", checkpoint_begin, checkpoint_end, load, evaluate, exit
    path: str = ""
    line: int = 0


class Change(Message, frozen=True, kw_only=True, tag="change"):
    """Who touched what when: driver, firmware, config, image, code revision, cabling, orderly shutdown."""

    target: Name
    what: str
    at_ms: int | None = None
    who: str = ""
    old: str = ""
    new: str = ""
    message: Text = ""


class Cite(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a claim can be read: a line of an input, or a series (line 0)."""

    path: str = ""
    line: int = 0


class Evidence(Message, frozen=True, kw_only=True, tag="evidence"):
    """One detector's claim about one component. `says` names a sentence template, `facts` fill it."""

    id: str
    detector: str
    version: str
    component: Name
    fault: str  # a class of faults.toml
    llr: float  # ln of the likelihood ratio for the fault; negative speaks against; at most ln 20 uncalibrated
    onset_from_ms: int | None = None  # the onset lies between these two
    onset_to_ms: int | None = None
    end_ms: int | None = None  # last time it was seen
    window_end_ms: int | None = None
    source_group: str = ""  # one physical fact counts once: evidence with the same group does not add up
    could_see: bool = True
    valid_until_ms: int | None = None
    severity: Severity = Severity.WARNING
    advice: Action | None = None
    count: int = 1
    job: str = ""
    peer: Name = ""
    says: str = ""
    facts: dict[str, str] = {}
    cites: tuple[Cite, ...] = ()


class Suspect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A candidate for the root cause."""

    component: Name
    probability: Probability

    def __post_init__(self) -> None:
        if not 0.0 <= self.probability <= 1.0:  # also not a number: it would become null, which no reader takes
            raise ValueError(f"a probability of {self.probability} for {self.component}")


class PlanStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step under the headline; verbs are rows of remediation/verbs.toml."""

    do: str
    target: Name
    phase: str  # know, contain, job, repair, people
    when: str = "now"  # now, at_checkpoint, when_idle
    interrupts: bool = False
    needs_approval: bool = True
    why: str = ""


class Affected(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the incident hit."""

    jobs: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()
    components: tuple[Name, ...] = ()


class Incident(Message, frozen=True, kw_only=True, tag="incident"):
    """One root cause. The id is that of its first evidence; a merged one points to where it went."""

    id: str
    verdict: Verdict
    component: Name
    fault: str
    severity: Severity
    probability: Probability
    action: Action
    plan: tuple[PlanStep, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    summary: str = ""
    test: str = ""  # for unknown: what would settle it
    evidence: tuple[Evidence, ...] = ()
    against: tuple[Evidence, ...] = ()
    dependants: tuple[Name, ...] = ()
    affected: Affected = Affected()
    onset_ms: int | None = None
    detected_ms: int | None = None
    state: str = "open"  # open, closed, merged
    merged_into: str = ""


def newest_sign_ms(incident: Incident) -> int | None:
    """When the part itself last showed the fault by an event, None where only windows or others tell of it."""
    own = (one for one in incident.evidence if (one.component, one.fault) == (incident.component, incident.fault))
    return max((one.onset_from_ms for one in own if one.onset_from_ms and one.window_end_ms is None), default=None)


AnyMessage: TypeAlias = Event | Identity | Edge | Placement | Progress | Step | Change | Evidence | Incident

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage, strict=True)


def encode(message: AnyMessage) -> bytes:
    """The message as JSON. A half character (a lone surrogate, from bytes that were no text) becomes `?`."""
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        return _encoder.encode(_whole(msgspec.to_builtins(message)))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole(key): _whole(part) for key, part in value.items()}
    return [_whole(part) for part in value] if isinstance(value, (list, tuple)) else value


def decode(payload: bytes) -> AnyMessage:
    """The message in `payload`. Raises msgspec.ValidationError (a ValueError) that says what is wrong and where."""
    try:
        message = _decoder.decode(payload)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError) as error:
        raise msgspec.ValidationError(str(error) or "nested too deeply") from None
    for field in message.__struct_fields__:
        value = getattr(message, field)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise msgspec.ValidationError(f"{type(message).__name__}.{field} does not fit 64 bits")
    return message


def replace(message: Any, /, **fields: Any) -> Any:
    """A copy with some fields changed, checked like a new one."""
    return msgspec.structs.replace(message, **fields)
