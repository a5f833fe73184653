"""Liveness: when each host or component was last heard, by append time, told by ticks.

A fold over batches of records; the clock is the ticks' own, so that silence is told even where nothing is sent any
more. What is told is a function of the records before the tick. Nothing heard at all is not silence: who was never
heard is not here.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sickbay.components import Name

MOST = 400_000  # names; beyond it the longest silent are forgotten
FORGET_MS = 86_400_000  # what was silent for a day was taken away
NEVER = -(1 << 62)

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """All that the fold remembers: `at_ms` (int64 [names]) is when each was last heard, in the order of first hearing;
    `by_name` the order by name, made by the tick after a new one."""

    names: tuple[Name, ...] = ()
    at_ms: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    place: Mapping[Name, int] = field(default_factory=dict)
    by_name: NDArray[np.intp] | None = None
    tick_ms: int = 0  # of the last tick


class Liveness(NamedTuple):
    """What one tick tells, sorted by name: when each was last heard, whether that was within the last window, and which
    of the silent were not yet so at the tick before."""

    names: tuple[Name, ...]
    heard_ms: Ints
    alive: NDArray[np.bool_]
    fell: NDArray[np.bool_]


def heard(state: Heard, names: Sequence[Name], append_ms: Sequence[int] | Ints) -> Heard:
    """The state after records of `names`, appended at `append_ms`, in any order and repeated at will."""
    latest: dict[Name, int] = {}
    for name, at in zip(names, np.asarray(append_ms, np.int64).tolist(), strict=True):
        latest[name] = max(at, latest.get(name, at))
    state = _with(state, latest.keys() - state.place.keys())
    places = np.fromiter((state.place[name] for name in latest), np.intp, len(latest))
    at_ms = state.at_ms.copy()
    at_ms[places] = np.maximum(at_ms[places], np.fromiter(latest.values(), np.int64, len(latest)))
    return _bounded(replace(state, at_ms=at_ms))


def _with(state: Heard, fresh: Set[Name]) -> Heard:
    if not fresh:
        return state
    names = (*state.names, *sorted(fresh))
    place = {**state.place, **{name: at for at, name in enumerate(names[len(state.names) :], len(state.names))}}
    at_ms = np.concatenate([state.at_ms, np.full(len(fresh), NEVER, np.int64)])
    return Heard(names, at_ms, place, None, state.tick_ms)


def ticked(state: Heard, tick_ms: int, window_ms: int) -> tuple[Heard, Liveness]:
    """What a tick tells: alive is who was heard less than `window_ms` before it. The clock never runs back."""
    now = max(tick_ms, state.tick_ms)
    kept = _only(state, state.at_ms > now - FORGET_MS)
    order = kept.by_name
    if order is None:
        order = np.array(sorted(range(len(kept.names)), key=kept.names.__getitem__), np.intp)
    heard_ms = kept.at_ms[order]
    alive = heard_ms > now - window_ms
    fell = ~alive & (heard_ms > state.tick_ms - window_ms)
    names = tuple(kept.names[at] for at in order.tolist())
    return replace(kept, by_name=order, tick_ms=now), Liveness(names, heard_ms, alive, fell)


def _bounded(state: Heard) -> Heard:
    over = len(state.names) - MOST
    if over <= 0:
        return state
    kept = np.ones(len(state.names), np.bool_)
    names = np.array(state.names)
    kept[np.lexsort((names, state.at_ms))[:over]] = False  # of those heard at once by name, not by who came first
    return _only(state, kept)


def _only(state: Heard, kept: NDArray[np.bool_]) -> Heard:
    if bool(kept.all()):
        return state
    names = tuple(state.names[at] for at in np.flatnonzero(kept).tolist())
    return Heard(names, state.at_ms[kept], {name: at for at, name in enumerate(names)}, None, state.tick_ms)
