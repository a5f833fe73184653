"""Records that agents hand over: who may say what is settled before anything enters the log.

A record's key is its sender, whom the token must be bound to; seals and signatures are checked as everywhere else
(`admission`). What is not let in becomes a dead letter with the reason, as it would behind a broker, so that one record
does not stop its agent for ever. What was taken before is known by its sender and number, and not stored again.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.agent.naming import identity_key
from sickbay import layouts, messages, wire
from sickbay.admission import Admission, Refused, about, is_hearsay
from sickbay.app.listening.tokens import Grant
from sickbay.app.running.frame_layouts import Layouts
from sickbay.components import Kind
from sickbay.handover import TOO_LARGE, Handed
from sickbay.layouts import UnknownLayout
from sickbay.log import LogError, Record, TooLarge
from sickbay.messages import Change, Identity, Message
from sickbay.topics import BACKFILL, CHANGES, EVENTS, SCHEMAS, STEPS, TELEMETRY, TOPICS, TOPOLOGY
from streams.dead_letters import DeadLetters

REMEMBERED = 200_000  # numbers of records that were taken
NOT_HERS = "not a host that this token may tell of"

Number = tuple[str, str, int, int]  # topic, sender, incarnation, sequence


class _NotAllowed(Exception):
    """The token is not bound to that host; the text says so."""


class _Seen(NamedTuple):
    """A record that was looked at: what to store, where it has a number that number, why it is not taken."""

    store: Handed | None
    number: Number | None = None
    digest: int = 0
    reason: str = ""


@dataclass(slots=True)
class Handing:
    """Takes what agents hand over. `stored` puts records into the log and tells what became of each."""

    admission: Admission
    frames: Layouts
    stored: Callable[[Sequence[Handed]], list[LogError | None]]
    _taken: OrderedDict[Number, int] = field(default_factory=OrderedDict)
    _letters: DeadLetters = field(default_factory=DeadLetters)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, records: Sequence[Handed], grant: Grant, now_ms: int) -> list[str]:
        """Why each record was not taken, empty where it was."""
        layouts_ = [one for one in records if one.topic == SCHEMAS]
        if layouts_ and len(layouts_) < len(records):  # first, as frames behind them are read with them
            found = dict(zip(layouts_, self.take(layouts_, grant, now_ms), strict=True))
            others = iter(self.take([one for one in records if one.topic != SCHEMAS], grant, now_ms))
            return [found[one] if one.topic == SCHEMAS else next(others) for one in records]
        with self._lock:
            seen = [self._look(one, grant, now_ms) for one in records]
        outcomes = iter(self.stored([one.store for one in seen if one.store is not None]))
        with self._lock:
            return [one.reason if one.store is None else self._settled(one, next(outcomes)) for one in seen]

    def _settled(self, one: _Seen, error: LogError | None) -> str:
        if error is not None:
            return f"{TOO_LARGE}: {error}" if isinstance(error, TooLarge) else f"{type(error).__name__}: {error}"
        if one.number is not None:
            self._taken[one.number] = one.digest
            while len(self._taken) > REMEMBERED:
                self._taken.popitem(last=False)
        return ""

    def _look(self, told: Handed, grant: Grant, now_ms: int) -> _Seen:
        record = Record(told.topic, 0, 0, now_ms, told.key, told.value)
        digest = 0
        try:
            number = self._checked(record, grant)
            if number is not None:
                digest = _digest(record)
                if number in self._taken:
                    _same(self._taken[number], digest, number)
                    return _Seen(None)
        except (_NotAllowed, UnknownLayout) as error:
            return _Seen(None, reason=str(error)[:300])
        except ValueError as error:
            letter = self._letters.letter(record, str(error))
            return _Seen(None if letter is None else Handed(letter.topic, letter.key, letter.value))
        return _Seen(told, number, digest)

    def _checked(self, record: Record, grant: Grant) -> Number | None:
        """The record's number, None for a fact that has none. Raises _NotAllowed, UnknownLayout, ValueError."""
        if record.topic in (TELEMETRY, BACKFILL):
            _hers(f"{Kind.HOST}:{_text(record.key)}", grant)
            frame = self.frames.frame(record)
            return record.topic, frame.host, frame.incarnation, frame.sequence
        if record.topic in (EVENTS, STEPS):
            _hers(f"{Kind.HOST}:{_text(record.key)}", grant)
            found = self.admission.message(record)
            _own(found.message, grant)  # a seal without a signature proves nothing
            seal = found.seal
            if seal is None:
                return None
            return record.topic, seal.host, seal.incarnation, seal.sequence
        _fact(record, grant)
        return None


def _digest(record: Record) -> int:
    """What tells a record from another; 0 for the empty frame that stands in an old one's place, beside itself."""
    value = record.value or b""
    return 0 if record.topic == TELEMETRY and wire.is_emptied(value) else hash(value)


def _same(known: int, digest: int, number: Number) -> None:
    """A repeat is what was told before: else Refused, as readers would pass over it in silence."""
    if known and digest and known != digest:
        raise Refused(f"{number[1]} uses its number {number[3]} again, for something else: was its spool put back?")


def _fact(record: Record, grant: Grant) -> None:
    """What an agent tells of itself beside its readings. Raises _NotAllowed, and ValueError for what is none."""
    value, key = record.value or b"", _text(record.key)
    if record.topic == SCHEMAS:
        if layouts.decoded(value).key != record.key:
            raise Refused("the key is not the layout's")
    elif record.topic == TOPOLOGY:
        message = messages.decode(value)
        if not isinstance(message, Identity) or identity_key(message) != key:
            raise Refused("agents tell of the identities of their own devices only")
        _hers(f"{Kind.HOST}:{message.host}", grant)
    elif record.topic == CHANGES:
        change = messages.decode(value)
        if not isinstance(change, Change) or change.target != key:
            raise Refused("not a change under the key of its target")
        if not grant.allowed(change.target):  # a line of a log may tell of anything: its agent must not wait for ever
            raise Refused(f"{change.target[:120]} is {NOT_HERS}")
    elif record.topic not in TOPICS:  # of a newer agent: it must not wait for ever
        raise Refused(f"there is no topic {record.topic[:80]!r} here")
    else:
        raise _NotAllowed(f"nobody may write to {record.topic!r} here")


def _own(message: Message, grant: Grant) -> None:
    """Whoever has a token speaks of what it is bound to, but for what a job's log says of others: else Refused, as
    one event must not stop its agent for ever."""
    if is_hearsay(message):
        return
    for group in about(message):
        if not any(map(grant.allowed, group)):
            raise Refused(f"{group[0][:120]} is {NOT_HERS}")


def _hers(component: str, grant: Grant) -> None:
    if not grant.allowed(component):
        raise _NotAllowed(f"{component[:120]} is {NOT_HERS}")


def _text(key: bytes) -> str:
    return key.decode("utf-8", "replace")
