"""Placement: which attempt of which job ran which rank where, and when.

Records arrive in parts (one init line per rank, one row per job) and are merged per (job, attempt). A later attempt of
a job ends the earlier one where no end is told. `at` gives the state of one moment; it keeps the last few.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from sickbay.components import UNKNOWN, Kind, Name, host_of, kind_of, name
from sickbay.messages import Placement, RankPlace, replace

OVER = frozenset(
    {"completed", "failed", "cancelled", "timeout", "node_fail", "preempted", "boot_fail", "deadline", "out_of_memory"}
)  # states after which nothing runs any more
WAITING = frozenset({"pending", "requeued", "requeue_hold", "special_exit"})  # states before anything runs

_BEGIN, _END = -(2**63), 2**63
_KEPT_VIEWS = 8  # moments that one round of diagnosis asks for: window ends and a few onsets
_KEPT_PARTS = 64  # groups of hosts that are asked for again


class _Attempt:
    """One merged placement and its look-ups, built when first asked for."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        told = (*self.placement.hosts, *(place.host for place in self.placement.ranks))
        return tuple(dict.fromkeys(host for host in told if host and host != UNKNOWN))

    @cached_property
    def by_rank(self) -> dict[int, RankPlace]:
        return {place.rank: place for place in self.placement.ranks}

    @cached_property
    def by_component(self) -> dict[Name, list[RankPlace]]:
        found: dict[Name, list[RankPlace]] = {}
        for place in self.placement.ranks:
            if place.component:
                found.setdefault(place.component, []).append(place)
        return found

    @cached_property
    def by_host(self) -> dict[str, list[RankPlace]]:
        found: dict[str, list[RankPlace]] = {}
        for place in self.placement.ranks:
            found.setdefault(place.host, []).append(place)
        return found

    @cached_property
    def by_role(self) -> dict[str, list[RankPlace]]:
        found: dict[str, list[RankPlace]] = {}
        for place in self.placement.ranks:
            found.setdefault(place.role, []).append(place)
        return found

    def rank_name(self, place: RankPlace) -> Name:
        return name(Kind.RANK, self.placement.job, str(place.rank))


class PlacementView:
    """What ran where at one moment."""

    def __init__(self, attempts: Iterable[_Attempt]) -> None:
        self._attempts = tuple(attempts)
        self._by_job: dict[str, _Attempt] = {}
        self._on_host: dict[str, list[_Attempt]] = {}
        for attempt in self._attempts:
            self._by_job[attempt.placement.job] = attempt  # attempts come in order: the latest stays
            for host in attempt.hosts:
                self._on_host.setdefault(host, []).append(attempt)

    def jobs(self) -> tuple[Placement, ...]:
        """Every attempt that runs then."""
        return tuple(attempt.placement for attempt in self._attempts)

    def alone(self) -> dict[str, str]:
        """Host -> the job on it, of hosts on which just one attempt runs: it is that of each of their parts."""
        return {host: found[0].placement.job for host, found in self._on_host.items() if len(found) == 1}

    def shared(self) -> list[str]:
        """Hosts on which several attempts run."""
        return [host for host, found in self._on_host.items() if len(found) > 1]

    def jobs_of(self, component: Name) -> tuple[Placement, ...]:
        """The attempts that run on a component: those whose ranks name it, else all on its host."""
        return tuple(attempt.placement for attempt in self._of(component))

    def job_of(self, component: Name) -> Placement | None:
        """The attempt that runs on a component; None where there is none or more than one (see `jobs_of`)."""
        found = self.jobs_of(component)
        if len(found) > 1:
            found = tuple(placement for placement in found if placement.state not in OVER)
        return found[0] if len(found) == 1 else None

    def ranks_of(self, component: Name) -> tuple[Name, ...]:
        """Ranks on a component: of an accelerator only where ranks name it, of other parts those of its host."""
        if _kind(component) is Kind.RANK:
            return (component,) if self.component_of(component) else ()
        return tuple(
            attempt.rank_name(place) for attempt in self._of(component) for place in _places(attempt, component)
        )

    def component_of(self, rank: Name) -> Name | None:
        """The accelerator of `rank:job/12`, its host where only that is known, None where neither is."""
        attempt = self._by_job.get(rank.partition(":")[2].rpartition("/")[0])
        place = attempt.by_rank.get(_number(rank)) if attempt else None
        return _component(place) if place else None

    def hosts_of(self, job: str) -> tuple[str, ...]:
        """Hosts of a job (`job:4471` or `4471`), in rank order where that is known."""
        attempt = self._by_job.get(job.removeprefix(f"{Kind.JOB}:"))
        return attempt.hosts if attempt else ()

    def peers_of(self, component: Name) -> tuple[Name, ...]:
        """Parts of the same kind that ought to behave alike: same role in the same attempts, else same attempts."""
        found: dict[Name, None] = {}
        for attempt in self._of(component):
            found.update(dict.fromkeys(_peers(attempt, component)))
        found.pop(component, None)
        return tuple(found)

    def _of(self, component: Name) -> list[_Attempt]:
        kind = _kind(component)
        if kind in (Kind.JOB, Kind.RANK):
            job = component.partition(":")[2]
            attempt = self._by_job.get(job if kind is Kind.JOB else job.rpartition("/")[0])
            return [attempt] if attempt else []
        host = host_of(component) if kind else None
        on_host = self._on_host.get(host, []) if host else []
        return [attempt for attempt in on_host if component in attempt.by_component] or on_host


class _Span(NamedTuple):
    begin: int
    end: int
    newest: bool  # no later attempt of the job is known
    attempt: _Attempt


class Placements:
    """All placements that are known. Immutable; `add` gives a new one."""

    def __init__(self, placements: Iterable[Placement] = ()) -> None:
        self._known = _merged({}, placements)
        self._views: dict[int, PlacementView] = {}
        self._parts: dict[frozenset[str], Placements] = {}

    def __iter__(self) -> Iterator[Placement]:
        """The merged placements, by job and attempt."""
        return (self._known[key].placement for key in sorted(self._known))

    def __len__(self) -> int:
        return len(self._known)

    def add(self, placements: Iterable[Placement]) -> "Placements":
        """These and more: parts of a known attempt are merged into it, the later word wins."""
        grown = Placements()
        grown._known = _merged(self._known, placements)
        return grown

    def after(self, at_ms: int) -> "Placements":
        """Those that had not ended before that time: what a live horizon keeps."""
        kept = Placements()
        kept._known = {
            (span.attempt.placement.job, span.attempt.placement.attempt): span.attempt
            for span in self._spans
            if span.end > at_ms or span.end == _BEGIN
        }
        return kept

    def of_hosts(self, hosts: Iterable[str]) -> "Placements":
        """Those of every job that ever ran on one of the hosts: all that tells what ran there."""
        jobs = frozenset(job for host in hosts for job in self._jobs_on.get(host, ()))
        if jobs not in self._parts:
            while len(self._parts) >= _KEPT_PARTS:
                self._parts.pop(next(iter(self._parts)))
            self._parts[jobs] = part = Placements()
            keys = sorted(key for job in jobs for key in self._attempts[job])
            part._known = {key: self._known[key] for key in keys}
        return self._parts[jobs]

    def changes(self, after_ms: int, before_ms: int) -> list[int]:
        """When attempts begin or end between two times, in order."""
        return self._changes[bisect_right(self._changes, after_ms) : bisect_left(self._changes, before_ms)]

    def epoch(self, at_ms: int) -> int:
        """The same number for times between which no attempt begins or ends."""
        return bisect_right(self._changes, at_ms)

    def at(self, at_ms: int | None = None) -> PlacementView:
        """What ran at that time; None = now, after everything known (what is over without a told end runs no more)."""
        epoch = len(self._changes) if at_ms is None else bisect_right(self._changes, at_ms)
        key = -1 if at_ms is None else epoch
        if key not in self._views:
            while len(self._views) >= _KEPT_VIEWS:
                self._views.pop(next(iter(self._views)))
            self._views[key] = PlacementView(self._running(at_ms))
        return self._views[key]

    @cached_property
    def _jobs_on(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for (job, _), attempt in self._known.items():
            for host in attempt.hosts:
                found.setdefault(host, set()).add(job)
        return found

    @cached_property
    def _attempts(self) -> dict[str, list[tuple[str, int]]]:
        found: dict[str, list[tuple[str, int]]] = {}
        for key in self._known:
            found.setdefault(key[0], []).append(key)
        return found

    @cached_property
    def _spans(self) -> list[_Span]:
        found: list[_Span] = []
        ends: dict[str, int] = {}  # of a job: when its next attempt began
        for key in sorted(self._known, reverse=True):
            placement = self._known[key].placement
            begin = _BEGIN if placement.from_ms is None else placement.from_ms
            end = ends.get(placement.job, _END) if placement.to_ms is None else placement.to_ms
            found.append(_Span(begin, end, placement.job not in ends, self._known[key]))
            waits = placement.state in WAITING and placement.from_ms is None
            ends[placement.job] = min(ends.get(placement.job, _END), _END if waits else begin)
        return found[::-1]

    @cached_property
    def _changes(self) -> list[int]:
        return sorted({time for span in self._spans for time in (span.begin, span.end)} - {_BEGIN, _END})

    def _running(self, at_ms: int | None) -> Iterator[_Attempt]:
        for begin, end, newest, attempt in self._spans:
            state = attempt.placement.state
            if at_ms is None:
                runs = newest and end == _END and state not in OVER and state not in WAITING
            else:  # one that waits has no start
                runs = begin <= at_ms < end and not (state in WAITING and begin == _BEGIN)
            if runs:
                yield attempt


def _kind(component: Name) -> Kind | None:
    try:
        return kind_of(component)
    except ValueError:
        return None


def _component(place: RankPlace) -> Name | None:
    known = place.host and place.host != UNKNOWN
    return place.component or (name(Kind.HOST, place.host) if known else None)


def _places(attempt: _Attempt, component: Name) -> list[RankPlace]:
    """The ranks of an attempt on a component."""
    kind = _kind(component)
    if kind is Kind.JOB:
        return list(attempt.placement.ranks)
    if component in attempt.by_component:
        return attempt.by_component[component]
    return [] if kind is Kind.ACCELERATOR else attempt.by_host.get(host_of(component) or "", [])


def _peers(attempt: _Attempt, component: Name) -> Iterator[Name]:
    kind = _kind(component)
    if kind is Kind.RANK:
        own = attempt.by_rank.get(_number(component))
        roles = {own.role} if own else {""}
    else:
        roles = {place.role for place in _places(attempt, component)}
    roles.discard("")
    alike = (place for role in sorted(roles) for place in attempt.by_role[role])
    for place in alike if roles else attempt.placement.ranks:
        if kind is Kind.RANK:
            yield attempt.rank_name(place)
        elif kind is Kind.ACCELERATOR and place.component:
            yield place.component
        elif kind is Kind.HOST and place.host:
            yield name(Kind.HOST, place.host)
    if kind is Kind.HOST and not roles:
        yield from (name(Kind.HOST, host) for host in attempt.hosts)


def _number(rank: Name) -> int:
    number = rank.rpartition("/")[2]
    return int(number) if len(number) < 10 and number.isascii() and number.isdigit() else -1


def _merged(known: dict[tuple[str, int], _Attempt], placements: Iterable[Placement]) -> dict[tuple[str, int], _Attempt]:
    """Attempts by job and number; untouched ones are shared with `known`, their look-ups too."""
    parts: dict[tuple[str, int], list[Placement]] = {}
    for placement in placements:
        parts.setdefault((placement.job, placement.attempt), []).append(placement)
    earlier = {key: [known[key].placement] if key in known else [] for key in parts}
    return {**known, **{key: _Attempt(_merge([*earlier[key], *same])) for key, same in parts.items()}}


def _merge(parts: list[Placement]) -> Placement:
    """One placement of several of the same attempt: the later word wins, the first start and the last end count."""
    if len(parts) == 1:
        return parts[0]
    ranks: dict[int, RankPlace] = {}
    for placement in parts:
        for place in placement.ranks:
            ranks[place.rank] = _better(ranks.get(place.rank), place)
    starts = [part.from_ms for part in parts if part.from_ms is not None]
    ends = [part.to_ms for part in parts if part.to_ms is not None]
    merged: Placement = replace(
        parts[-1],
        hosts=tuple(dict.fromkeys(host for part in parts for host in part.hosts)),
        ranks=tuple(ranks[rank] for rank in sorted(ranks)),
        from_ms=min(starts, default=None),
        to_ms=max(ends, default=None),
        state=next((part.state for part in reversed(parts) if part.state), ""),
        user=next((part.user for part in reversed(parts) if part.user), ""),
        name=next((part.name for part in reversed(parts) if part.name), ""),
        exclusive=any(part.exclusive for part in parts),
    )
    return merged


def _better(old: RankPlace | None, new: RankPlace) -> RankPlace:
    """The later word, keeping what it leaves out and the earlier one told of the same host."""
    if old is None or old.host != new.host:
        return new
    return RankPlace(rank=new.rank, host=new.host, component=new.component or old.component, role=new.role or old.role)
