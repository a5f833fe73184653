"""What people declare: planned work on parts, and changes that they made. Text in, records out, and into the log.

A time is RFC 3339 (without a zone: in the cluster's, else this machine's), `now`, or so long from now: 90s, 30m, 7d.
"""

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import NamedTuple

from msgspec.structs import replace

from collectors.formats import hostlist
from sickbay import actions, messages
from sickbay.actions import Control
from sickbay.app.asking.ledger_lines import CONTROL, controls_of
from sickbay.clock import rfc3339
from sickbay.components import MAX_NAME, UNKNOWN, Kind, Name, name, part
from sickbay.log import Log
from sickbay.log.reading import records
from sickbay.messages import Change
from sickbay.plain import plain
from sickbay.topics import CHANGES

MAINTENANCE = "maintenance"
MOST_TARGETS = 2_000  # of one declaration
LONGEST_MS = 30 * 86_400_000  # of declared work: a longer one is no window, it is blindness
_EARLIEST_MS = 7 * 86_400_000  # before now that work may have begun
_SPAN = re.compile(r"(\d{1,6})([smhd])")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Unfit(ValueError):
    """What was asked for cannot be declared; the text says why and what would be right."""


class Declared(NamedTuple):
    """Declared work on one part, and the id that `end` takes: that of all parts of one declaration."""

    id: str
    control: Control


def moment(text: str, now_ms: int, zone: tzinfo | None = None) -> int:
    """The time that a text tells; `zone` None: this machine's. Raises Unfit."""
    if text == "now":
        return now_ms
    if span := _SPAN.fullmatch(text):
        return now_ms + int(span[1]) * _UNITS_MS[span[2]]
    try:
        told = datetime.fromisoformat(text)
        return round((told if told.tzinfo else told.replace(tzinfo=zone)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise Unfit(f"no time: {text[:60]!r}: write 2026-03-11T04:00:00Z, now, 30m, 2h or 7d") from None


def parts(texts: Iterable[str]) -> list[Name]:
    """Names of components from names (`rack:r7`), hosts (`n1`) and lists of hosts (`n[1-4]`). Raises Unfit."""
    found: dict[Name, None] = {}
    for text in texts:
        found.update(dict.fromkeys(_parts(text)))
        if len(found) > MOST_TARGETS:
            raise Unfit(f"more than {MOST_TARGETS} parts: name what they hang on, such as a rack or a switch")
    return list(found)


def _parts(text: str) -> list[Name]:
    kind, colon, rest = text.partition(":")
    if colon:
        if kind not in Kind.__members__.values() or not rest or rest[0] in f"{UNKNOWN}/" or part(text) != text:
            raise Unfit(f"no part: {text[:80]!r}: write KIND:NAME, such as host:n1, rack:r7 or switch:leaf-2")
        return [text]
    try:
        hosts = hostlist.expand(text, MOST_TARGETS)
    except ValueError as error:
        raise Unfit(f"no host: {text[:80]!r}: {error}") from None
    if not hosts or any(part(host) != host or not host or "/" in host for host in hosts):
        raise Unfit(f"no host: {text[:80]!r}")
    return [name(Kind.HOST, host) for host in hosts]


def work(targets: Sequence[Name], from_ms: int, until_ms: int, by: str, note: str, now_ms: int) -> list[Declared]:
    """Planned work on parts, as it is declared. Raises Unfit."""
    if until_ms <= max(from_ms, now_ms):
        raise Unfit("it ends before it begins, or is over: set --until later")
    if until_ms - from_ms > LONGEST_MS:
        raise Unfit("longer than 30 days: declare it anew when that time has come")
    if from_ms < now_ms - _EARLIEST_MS:
        raise Unfit("it began more than 7 days ago: what was is judged already")
    own = uuid.uuid4().hex[:8]
    return [
        Declared(own, Control(kind=MAINTENANCE, target=target, by=by[:240], at_ms=now_ms, from_ms=from_ms,
                              until_ms=until_ms, note=note[:1000]))
        for target in targets
    ]  # fmt: skip


def ended(known: Iterable[Declared], which: Sequence[str], by: str, now_ms: int) -> list[Declared]:
    """The work of these ids or parts, ended now. Raises Unfit where one of them names nothing that still holds."""
    open_ = [one for one in known if one.control.until_ms is None or one.control.until_ms > now_ms]
    found: list[Declared] = []
    for text in which:
        wanted = set() if _is_id(text, open_) else set(parts([text]))
        own = [one for one in open_ if one.id == text or one.control.target in wanted]
        if not own:
            raise Unfit(
                f"nothing that holds or is to come: {text[:80]!r}: sickbay maintenance list shows what there is"
            )
        found += [one for one in own if one not in found]
    return [Declared(one.id, _over(one.control, by, now_ms)) for one in found]


def _is_id(text: str, known: Iterable[Declared]) -> bool:
    return any(one.id == text for one in known)


def _over(control: Control, by: str, now_ms: int) -> Control:
    words = f"{control.note} (ended by {by[:240]})".strip()
    begin_ms = control.at_ms if control.from_ms is None else control.from_ms
    return replace(control, until_ms=max(now_ms, begin_ms), note=words[:1300])


def declared_work(log: Log) -> list[Declared]:
    """All work that the log knows of, by its begin."""
    known = controls_of(records(log.reader(), CONTROL), {})
    found = [Declared(_id_of(key), one) for key, one in known.items() if one.kind == MAINTENANCE]
    return sorted(found, key=lambda one: (one.control.from_ms or one.control.at_ms, one.id, one.control.target))


def _id_of(key: bytes) -> str:
    return key.decode("utf-8", "replace").rpartition(":")[2]


def tell_work(log: Log, told: Iterable[Declared]) -> None:
    """Into the log. Raises LogError."""
    values = {
        f"{MAINTENANCE}:{one.control.target[:MAX_NAME]}:{one.id}".encode(): actions.encode(one.control) for one in told
    }
    _append(log, CONTROL.topic, values)


def tell_change(log: Log, change: Change) -> None:
    """Into the log. Raises LogError."""
    _append(log, CHANGES, {change.target.encode(): messages.encode(change)})


def _append(log: Log, topic: str, values: Mapping[bytes, bytes]) -> None:
    appender = log.appender()
    try:
        for key, value in values.items():
            appender.append(topic, key, value)
        appender.flush()
    finally:
        appender.close()


def line_of(one: Declared, now_ms: int) -> str:
    """A line for people."""
    said = one.control
    begin_ms = said.at_ms if said.from_ms is None else said.from_ms
    over = said.until_ms is not None and said.until_ms <= now_ms
    state = "over" if over else "holds" if begin_ms <= now_ms else "to come"
    note = f"  {said.note}" if said.note else ""
    return plain(
        f"{one.id}  {state:<7}  {said.target}  {rfc3339(begin_ms)} to {rfc3339(said.until_ms)}  {said.by}{note}"
    )
