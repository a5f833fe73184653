"""What sites post by themselves: changes that they made, and work that they plan.

    POST /v1/changes       {"target": "n1", "what": "driver", "old": "550.1", "new": "550.2", "at": "now"}, or a list
    POST /v1/maintenance   {"targets": ["n[1-4]"], "from": "now", "until": "2h", "note": "..."}

The rules are those of `sickbay change post` and `sickbay maintenance add`.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from collectors.cluster.poll import Outgoing
from collectors.formats.masking import struck
from collectors.listen import Allowed, Reader, Request, Told, Unfit
from sickbay import actions
from sickbay.app.asking.declaring import MAINTENANCE, Declared, moment, parts, work
from sickbay.components import MAX_NAME, Name
from sickbay.handover import Handed
from sickbay.messages import Change
from sickbay.topics import CHANGES, CONTROL

MAX_CHANGES = 1_000  # of one request
Short = Annotated[str, Meta(max_length=1_000)]


class _Change(Struct, frozen=True, forbid_unknown_fields=True):
    target: Short
    what: Annotated[str, Meta(min_length=1, max_length=1_000)]
    type: str = "change"  # as the record in the log has it
    at: Short = "now"
    at_ms: int | None = None
    who: Short = ""
    old: Short = ""
    new: Short = ""
    message: Short = ""


class _Work(Struct, frozen=True, forbid_unknown_fields=True):
    targets: tuple[Short, ...]
    until: Short
    from_: Annotated[str, Meta(max_length=1_000)] = msgspec.field(default="now", name="from")
    by: Short = ""
    note: Short = ""


def changes(zone: tzinfo | None) -> Reader:
    """What reads /v1/changes. `zone`: of times that tell none."""

    def read(request: Request, memory: Any, allowed: Allowed) -> Told:
        told = Told()
        for one in _all(request.body):
            change = _change(one, request, zone)
            if allowed(change.target):
                told.records.append(Outgoing(CHANGES, change.target, change))
                told.written += 1
            else:
                told.refuse("host", 1, f"{change.target[:120]} is not a part that this token may tell of", 403)
        return told

    return read


def _all(body: bytes) -> Sequence[_Change]:
    try:
        tree = msgspec.json.decode(body)
        found = msgspec.convert(tree if isinstance(tree, list) else [tree], list[_Change])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Unfit(f"not a change: {str(error)[:300]}") from None
    if len(found) > MAX_CHANGES:
        raise Unfit(f"{len(found)} changes, one request holds {MAX_CHANGES}", 413, "too_large")
    return found


def _change(one: _Change, request: Request, zone: tzinfo | None) -> Change:
    found = _checked(lambda: parts([one.target]))
    if len(found) != 1:
        raise Unfit(f"one part a change: {one.target[:80]!r} names {len(found)}")
    at_ms = one.at_ms if one.at_ms is not None else _checked(lambda: moment(one.at, request.now_ms, zone))
    if abs(at_ms) > 2**62:
        raise Unfit(f"no time: {at_ms}")
    who = f"{one.who} ({request.sender})" if one.who else request.sender
    return Change(
        target=found[0], what=one.what.strip(), at_ms=at_ms, who=who[:1000], old=struck(one.old), new=struck(one.new),
        message=struck(one.message),
    )  # fmt: skip


def maintenance(request: Request, allowed: Allowed, zone: tzinfo | None) -> tuple[list[Declared], list[Handed]]:
    """What /v1/maintenance declares, and the records of it. Raises Unfit."""
    try:
        said = msgspec.json.decode(request.body, type=_Work)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Unfit(f"no planned work: {str(error)[:300]}") from None
    targets = _checked(lambda: parts(said.targets))
    _all_allowed(targets, allowed)
    now_ms = request.now_ms
    from_ms = _checked(lambda: moment(said.from_, now_ms, zone))
    until_ms = _checked(lambda: moment(said.until, now_ms, zone))
    by = f"{said.by} ({request.sender})" if said.by else request.sender
    found = _checked(lambda: work(targets, from_ms, until_ms, by, said.note, now_ms))
    return found, [
        Handed(CONTROL, f"{MAINTENANCE}:{one.control.target[:MAX_NAME]}:{one.id}".encode(), actions.encode(one.control))
        for one in found
    ]


def _all_allowed(targets: Sequence[Name], allowed: Allowed) -> None:
    if not targets:
        raise Unfit("no targets")
    if strangers := [name for name in targets if not allowed(name)]:
        raise Unfit(f"{strangers[0][:120]} is not a part that this token may tell of", 403, "host")


def _checked(ask: Callable[[], Any]) -> Any:
    """What `declaring` says, its refusals as ours."""
    try:
        return ask()
    except ValueError as error:
        raise Unfit(str(error)[:500]) from None


def answer(found: Sequence[Declared]) -> Mapping[str, Any]:
    """What was declared, as `sickbay maintenance` tells it."""
    return {
        "schema": "sickbay.maintenance/1",
        "maintenance": [{"id": one.id, "control": msgspec.to_builtins(one.control)} for one in found],
    }
