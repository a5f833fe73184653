"""Slurm's reservations as declared work, and its timers as changes: two more questions to poll."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from collectors.cluster.poll import Outgoing, Polled, PollFailed, Source
from collectors.formats.events import event
from collectors.formats.reading import Tally
from collectors.formats.slurm_site import BY, MAINTENANCE, MOST_TARGETS, Reservation, reservations, timers
from sickbay.actions import Control
from sickbay.components import Kind, name, part
from sickbay.messages import MAX_MESSAGE, Change
from sickbay.settings import Slurm
from sickbay.topics import CHANGES, CONTROL, EVENTS

RESERVATIONS_S = 30.0
TIMERS_S = 300.0
LONGEST_MS = 30 * 86_400_000  # a longer one is no window, it is blindness: as for `sickbay maintenance add`
NO_HOST = "scheduler"
RETURNS_ANY = "2"  # ReturnToService: a node that comes back takes work whatever took it away
UNTESTED = "ReturnToService=2: a node that was lost, also by a loss of power, takes work again without a test"

Ask = Callable[..., str]


@dataclass(frozen=True, slots=True)
class Declared:
    """The work that reservations declare, by its key in the log."""

    work: dict[str, Control] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Timers:
    """Timers as last told."""

    told: dict[str, str] = field(default_factory=dict)


def sources(ask: Ask, settings: Slurm) -> list[Source[Any]]:
    """Both questions."""
    return [
        Source(
            "slurm_reservations", RESERVATIONS_S, Declared(),
            lambda state, now_ms: _reserved(ask, state, now_ms),
            remembers=CONTROL, remembered=remembered, limit_s=settings.timeout_s,
        ),
        Source(
            "slurm_timers", TIMERS_S, Timers(),
            lambda state, now_ms: _timed(ask("scontrol", "show", "config"), state, now_ms),
            limit_s=settings.timeout_s,
        ),
    ]  # fmt: skip


def remembered(told: Iterable[Any]) -> Declared:
    """The work that an earlier run declared and did not end."""
    newest = {_key(one): one for one in told if isinstance(one, Control) and one.by.startswith(BY)}
    return Declared(newest)


def declared(
    state: Declared, found: Iterable[Reservation], read_ms: int, whole: bool
) -> tuple[Declared, list[Control]]:
    """The work after an answer, and what is new in it. `whole`: all of it was understood: what is missing is over."""
    work = {key: one for key, one in state.work.items() if (one.until_ms or 0) > read_ms}
    told: list[Control] = []
    there: set[str] = set()
    for one in found:
        if one.until_ms <= read_ms or one.until_ms - one.from_ms > LONGEST_MS:
            continue
        for host in one.hosts[:MOST_TARGETS]:
            control = _control(one, host, read_ms)
            key = _key(control)
            there.add(key)
            if key not in work or (work[key].until_ms, work[key].note) != (control.until_ms, control.note):
                work[key] = control
                told.append(control)
    for key in sorted(work.keys() - there) if whole else ():
        over = work.pop(key)
        begun = over.from_ms if over.from_ms is not None else over.at_ms
        told.append(Control(kind=over.kind, target=over.target, by=over.by, at_ms=over.at_ms, from_ms=over.from_ms,
                            until_ms=max(read_ms, begun), note=over.note))  # fmt: skip
    return Declared(work), told


def _control(one: Reservation, host: str, read_ms: int) -> Control:
    note = f"Slurm reservation {one.name}" + (f" of {one.users}" if one.users else "")
    by = f"{BY} {one.name}"[:240]
    return Control(kind=MAINTENANCE, target=name(Kind.HOST, host), by=by, at_ms=read_ms, from_ms=one.from_ms,
                   until_ms=one.until_ms, note=note[:500])  # fmt: skip


def _key(control: Control) -> str:
    """A reservation that repeats is one declaration each time."""
    own = part(control.by.removeprefix(BY).strip())[:80]
    return f"{MAINTENANCE}:{control.target}:slurm-{own}-{(control.from_ms or 0) // 1000}"


def _reserved(ask: Ask, state: Declared, now_ms: int) -> Polled[Declared]:
    tally = Tally()
    found = list(reservations(ask("scontrol", "show", "reservation", "-o"), tally))
    after, told = declared(state, found, now_ms, not tally.unparsed)
    return Polled(after, [Outgoing(CONTROL, _key(one), one) for one in told], tally.unparsed)


def _timed(text: str, state: Timers, now_ms: int) -> Polled[Timers]:
    """All timers when first seen, later what differs; and a warning where nodes come back untested."""
    found = timers(text)
    if "ReturnToService" not in found:
        raise PollFailed("scontrol show config: no timers in its answer")
    target = name(Kind.CLUSTER, found.get("ClusterName", "") or "slurm")
    told = []
    if not state.told:
        message = " ".join(f"{key}={value}" for key, value in found.items())[:MAX_MESSAGE]
        told.append(_event("scheduler.timers", target, found, "timers", message, now_ms))
    if found["ReturnToService"] == RETURNS_ANY != state.told.get("ReturnToService"):
        facts = {"ReturnToService": RETURNS_ANY, "SlurmdTimeout": found.get("SlurmdTimeout", "")}
        told.append(_event("scheduler.returns_untested", target, facts, "ReturnToService=2", UNTESTED, now_ms))
    for key, value in found.items() if state.told else ():
        if value != state.told.get(key, ""):
            old = state.told.get(key, "")
            change = Change(target=target, what=f"scheduler {key}", at_ms=now_ms, old=old, new=value)
            told.append(Outgoing(CHANGES, target, change))
    return Polled(Timers(found), told)


def _event(kind: str, target: str, facts: dict[str, str], code: str, message: str, now_ms: int) -> Outgoing:
    said = event(kind, target, facts, code=code, message=message, at_ms=now_ms, seen_ms=now_ms)
    return Outgoing(EVENTS, NO_HOST, said)
