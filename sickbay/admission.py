"""Who may say what: opens frames and JSON records of agents, and refuses what is not from whom it says.

A host speaks for itself only: its name in the seal or the frame's header must be the record's key, and the devices it
tells of must be its own. Where the cluster's key is known, signatures are checked; where they are required, nothing
unsigned of an agent comes in. What is refused goes to the dead letters, with the reason.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sickbay import messages, wire
from sickbay.components import MAX_NAME, UNKNOWN, Kind, Name, ends_of, host_of, kind_of, name, parts_of
from sickbay.config import ConfigError
from sickbay.frames import UNCLEAN, Frame
from sickbay.layouts import Schemas
from sickbay.log import Record
from sickbay.messages import AnyMessage, Change, Edge, Event, Identity, Message, Placement
from sickbay.seal import Seal, host_key, opened
from sickbay.settings import Security
from sickbay.topics import BACKFILL, EVENTS, STEPS, TELEMETRY

AGENTS = frozenset({TELEMETRY, BACKFILL, EVENTS, STEPS})  # what agents may write to
HEARSAY = frozenset({"job", "rank", "process", "path"})  # domains of kinds that blame no device
OF_JOB = frozenset({Kind.JOB, Kind.RANK, Kind.PROCESS, Kind.PATH})  # what hearsay may be about: no host, no device
UNITS = frozenset({Kind.PDU, Kind.CDU})  # of no host: whoever asks them speaks in their names
_KINDS = frozenset(Kind)
LEAST_KEY = 16  # bytes
MAX_CHECKED = 200_000  # hosts, and name lists known to be their sender's own: one or two a host
MAX_NAMES_CHECKED = 4_000_000  # in these lists together: a sender that makes names up must not fill the memory


class Refused(ValueError):
    """The record is not let in; the text says why."""


class Admitted(NamedTuple):
    """A message and the seal it came under, None where it had none."""

    message: AnyMessage
    seal: Seal | None


@dataclass(slots=True)
class Admission:
    """What is let in. `key`: the cluster's; None: signatures are not looked at. `controllers`: see [security]."""

    key: bytes | None = None
    require_signed: bool = False
    controllers: frozenset[str] = frozenset()
    _checked: set[tuple[str, tuple[Name, ...]]] = field(default_factory=set)
    _names_checked: int = 0
    _keys: dict[str, bytes] = field(default_factory=dict)

    def key_of(self, host: str) -> bytes | None:
        """A host's secret, None where no key is known."""
        if self.key is None:
            return None
        known = self._keys.get(host)
        if known is None:
            if len(self._keys) >= MAX_CHECKED:
                self._keys.clear()
            known = self._keys[host] = host_key(self.key, host)
        return known

    def message(self, record: Record) -> Admitted:
        """The message in a record. Raises ValueError for what cannot be read or is not let in."""
        found = opened(record.value or b"", None if self.key is None else self.key_of)
        if self.require_signed and record.topic in AGENTS and not found.proved:
            raise Refused("unsigned: [security] require_signed is on")
        message = messages.decode(found.payload)
        named(message)
        if found.seal is not None:
            if record.topic in AGENTS:
                same_sender(found.seal.host, record)
            own_word(message, found.seal.host, found.proved, self.controllers)
        return Admitted(message, found.seal)

    def frame(self, record: Record, schemas: Schemas, *, packed: bool = False) -> Frame:
        """The frame in a record. Raises ValueError, and layouts.UnknownLayout (read the schemas topic, try again).

        `packed`: it is a member of a relay's pack, whose key is the pod's: the sender is who the frame says it is.
        """
        payload = record.value or b""
        signed = wire.is_signed(payload)
        if self.require_signed and not signed:
            raise Refused("unsigned: [security] require_signed is on")
        frame = wire.decode(payload, schemas, key=self.key_of if self.key is not None and signed else None)
        if self.require_signed and not frame.verified:
            raise Refused("its signature cannot be checked: name the cluster's key in [security] key_file")
        if not packed:
            same_sender(frame.host, record)
        for matrix in frame.tables:
            self._own(frame.host, matrix.names)
        return frame

    def _own(self, host: str, names: tuple[Name, ...]) -> None:
        if (host, names) in self._checked:
            return
        for one in names:
            if speaker_of(one) not in (None, host):
                raise Refused(f"{host} speaks for {one}")
        self._names_checked += len(names)
        if len(self._checked) >= MAX_CHECKED or self._names_checked > MAX_NAMES_CHECKED:
            self._checked.clear()
            self._names_checked = len(names)
        self._checked.add((host, names))


def named(message: Message) -> None:
    """Everything that it speaks of has the name of a component: else Refused. Who reads it later asks for its kind."""
    match message:
        case Event():
            told: Iterable[Name] = (message.component, *((message.peer,) if message.peer else ()))
        case Edge():
            told = (message.child, message.parent)
        case Placement():
            told = (place.component for place in message.ranks if place.component)
        case Change():
            told = (message.target,)
        case _:
            return
    for one in told:
        kind, _, rest = one.partition(":")
        if kind not in _KINDS or not rest or len(one) > MAX_NAME or UNCLEAN.search(one):
            raise Refused(f"{one[:MAX_NAME]!r} is no component")


def about(message: Message) -> tuple[tuple[Name, ...], ...]:
    """What one must have the right to speak of, to say this: one part of each group. Empty: nothing of anybody."""
    match message:
        case Event():
            host = () if message.host in (None, "", UNKNOWN) else (name(Kind.HOST, message.host),)
            own = (message.component,) if speaker_of(message.component) else ends_of(message.component)
            return tuple(group for group in (host, own) if group)
        case Identity():
            return () if message.host in ("", UNKNOWN) else ((name(Kind.HOST, message.host),),)
    return ()


def is_hearsay(message: Message) -> bool:
    """Whether it is what a job's log says of other ranks: useful, as such logs lie on storage that all hosts share and
    one of the hosts reads them; whoever runs a job writes them, so it may be about jobs and their processes only."""
    return (
        isinstance(message, Event)
        and message.kind.partition(".")[0] in HEARSAY
        and kind_of(message.component) in OF_JOB
    )


def speaker_of(component: Name) -> str | None:
    """Who alone may speak of a component: its host or switch; of a power or coolant unit its own name."""
    if kind_of(component) not in UNITS:
        return host_of(component)
    unit = parts_of(component)[0]
    return None if unit in ("", UNKNOWN) else unit


def own_word(message: Message, sender: str, proved: bool, controllers: frozenset[str] = frozenset()) -> None:
    """Whoever signs speaks of its own devices only: else Refused. A scheduler's controller speaks of its hosts."""
    if isinstance(message, Event) and (not proved or is_hearsay(message)):
        return
    of_scheduler = isinstance(message, Event) and message.kind.startswith("scheduler.")
    if of_scheduler and sender in controllers:
        return
    for group in about(message):
        told = {speaker_of(one) for one in group}
        if sender not in told:
            hint = ": [security] controllers names the hosts of schedulers" if of_scheduler else ""
            raise Refused(f"{sender} speaks for {min(filter(None, told), default='nobody')}{hint}")


def same_sender(host: str, record: Record) -> None:
    """A record's key is its sender: else Refused."""
    if host.encode() != record.key:
        raise Refused(f"{host} speaks under the key {record.key[:64]!r}")


def admission(settings: Security) -> Admission:
    """The admission that the settings ask for. Raises ConfigError where the key cannot be read."""
    key = secret(settings.key_file) if settings.key_file else None
    return Admission(key, settings.require_signed, frozenset(settings.controllers))


def secret(path: str) -> bytes:
    """The secret in a file, written in hex. Raises ConfigError that says what to do."""
    try:
        text = Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise ConfigError(f"[security] key_file {path}: {error.strerror or error}") from None
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < LEAST_KEY:
        raise ConfigError(f"[security] key_file {path}: must hold at least {2 * LEAST_KEY} hex digits")
    return key
