"""Which jobs' accelerators a look may be about: kept up to date window by window, as placements come and go.

Peers are compared within a job: a job is of interest where one of its cards is slower than the others, or where all of
them may have stood still. Both are remembered by window; what a placement that is told late changes is looked at anew.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from diagnosis import screen
from diagnosis.detectors.peers_idle import COLUMNS
from diagnosis.frames import last_jobs
from diagnosis.screen import CARDS, READ, Doubles, Floats, Places
from sickbay.app.diagnosing.window_table import Window, WindowTable
from sickbay.messages import Placement
from sickbay.placement import Placements
from streams import peers

EVER_MS = 2**62
TOGETHER = 16  # jobs that change at once, beyond which windows are looked at anew once for all, not once for each
MANY = 2_000  # jobs beside those that are placed, before numbers are given anew
NO_JOBS = ""  # where no placement is known everything counts as one job of that name


def values_of(window: Window, rows: int, columns: Iterable[str]) -> dict[str, Floats]:
    """Columns of a window, each of so many rows."""
    return {one: window.of(one, rows) for one in columns if one in window.columns}


@dataclass(slots=True)
class Owners:
    """Numbers of hosts and switches, and those of the rows of a table."""

    number: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def of(self, owner: str) -> int:
        """The number of an owner, a new one where it has none."""
        found = self.number.setdefault(owner, len(self.names))
        if found == len(self.names):
            self.names.append(owner)
        return found


@dataclass(slots=True)
class CardScreen:
    """The state of the sieve. `owner` is the owner's number of each row, `model` that of its model (0: unknown)."""

    table: WindowTable
    owners: Owners
    window_ms: int
    owner: Places = field(default_factory=lambda: np.empty(0, np.int64))
    model: Places = field(default_factory=lambda: np.empty(0, np.int64))
    _jobs: dict[str, int] = field(default_factory=dict)
    _slow: dict[int, Places] = field(default_factory=dict)  # by window: rows that are slower
    _until: dict[str, int] = field(default_factory=dict)  # by job: the newest window in which it was of interest
    _medians: dict[int, Doubles] = field(default_factory=dict)  # by window: [jobs, COLUMNS]
    _assigned: Places = field(default_factory=lambda: np.empty(0, np.int64))
    _runs_until: Places = field(default_factory=lambda: np.empty(0, np.int64))
    _placed: dict[tuple[str, int], Placement] = field(default_factory=dict)
    _placements: Placements = field(default_factory=Placements)
    _as_of: tuple[int, int] = (0, -1)  # the placements and the moment that the assignment is of
    _other_models: set[str] = field(default_factory=set)  # owners whose models became known

    def learned(self, owner: str) -> None:
        """The models of an owner's cards are others than before."""
        self._other_models.add(owner)

    def jobs(self, placements: Placements, ends: list[int], fresh: list[int]) -> frozenset[str]:
        """The jobs of interest, of windows of which some are fresh."""
        if not ends:
            return frozenset()
        old = [end for end in ends if end not in set(fresh)]
        for hosts, since_ms in self._changed(placements):
            self._again(placements, hosts, [end for end in old if end > since_ms])
        for end in fresh:
            rows = np.arange(len(self.table.names))
            self._mark(end, rows, self._running(placements, end, rows))
        self._assign(placements, ends)
        for end in fresh:
            self._take_medians(end, None)
        stood = self._stood(ends)
        first = ends[0]
        self._until = {job: end for job, end in self._until.items() if end >= first}
        return frozenset({*stood, *self._until})

    def forget(self, before_ms: int) -> None:
        """Lets go of windows that end before a time."""
        self._slow = {end: rows for end, rows in self._slow.items() if end >= before_ms}
        self._medians = {end: known for end, known in self._medians.items() if end >= before_ms}

    def _number(self, job: str) -> int:
        return self._jobs.setdefault(job, len(self._jobs))

    def _changed(self, placements: Placements) -> list[tuple[set[str], int]]:
        """(hosts, since when) whose peers are others than when their windows were looked at."""
        found = list[tuple[set[str], int]]()
        if placements is not self._placements:
            now = {(one.job, one.attempt): one for one in placements}
            if bool(now) != bool(self._placed):
                found.append((set(self.owners.names), -1))
            for key, one in now.items():
                before = self._placed.get(key)
                if before is not one and before != one:
                    found.append(({*hosts_of(one), *(hosts_of(before) if before else ())}, _since(before, one)))
            if len(found) > TOGETHER:
                found = [(set().union(*(hosts for hosts, _ in found)), min(since_ms for _, since_ms in found))]
            self._placed, self._placements = now, placements
        if self._other_models:
            found.append((self._other_models, -1))
            self._other_models = set()
        return found

    def _again(self, placements: Placements, hosts: set[str], ends: list[int]) -> None:
        """Looks at windows anew, for all that shared a job with some hosts."""
        if not ends:
            return
        if len(placements):
            placements = placements.of_hosts(hosts)
            hosts = {host for one in placements for host in hosts_of(one)}
        numbers = [self.owners.number[host] for host in hosts if host in self.owners.number]
        rows = np.flatnonzero(np.isin(self.owner, numbers))
        for end in ends:
            self._slow[end] = np.setdiff1d(self._slow.get(end, rows[:0]), rows)
            self._mark(end, rows, self._running(placements, end, rows))

    def _mark(self, end_ms: int, rows: Places, jobs: Places) -> None:
        """Slow rows of a window; a second time in a row makes their jobs of interest."""
        window = self.table.windows[end_ms]
        known = values_of(window, len(self.table.names), READ[CARDS])
        values = {column: told[rows] for column, told in known.items()}
        kinds = int(self.model.max(initial=0)) + 1
        jobs = np.where(window.has(rows), jobs, -1)
        groups = np.where(jobs >= 0, jobs * kinds + self.model[rows], -1)
        slow = rows[screen.slower(values, groups, len(self._jobs) * kinds)]
        self._slow[end_ms] = np.union1d(self._slow.get(end_ms, slow[:0]), slow)
        if not slow.size:
            return
        near = [self._slow.get(end_ms + sign * self.window_ms, slow[:0]) for sign in (-1, 1)]
        twice = np.isin(rows, slow) & np.isin(rows, np.concatenate(near))
        names = [*self._jobs]
        for job in np.unique(jobs[twice & (jobs >= 0)]):
            self._until[names[job]] = max(end_ms, self._until.get(names[job], 0))

    def _running(self, placements: Placements, end_ms: int, rows: Places) -> Places:
        """The job on each row's part at the end of a window, -1 for none."""
        if not len(placements):
            return np.full(rows.size, self._number(NO_JOBS))
        view = placements.at(end_ms - 1)
        alone = view.alone()
        by_owner = np.full(len(self.owners.names) + 1, -1)
        for host, job in alone.items():
            if (number := self.owners.number.get(host)) is not None:
                by_owner[number] = self._number(job)
        found = by_owner[self.owner[rows]]
        several = [self.owners.number[host] for host in view.shared() if host in self.owners.number]
        for place in np.flatnonzero(np.isin(self.owner[rows], several)) if several else ():
            if (told := self.table.names[rows[place]]) and (one := view.job_of(told)):
                found[place] = self._number(one.job)
        return found

    def _assign(self, placements: Placements, ends: list[int]) -> None:
        """Each card's job now, or the last one it had: see `frames.with_last_jobs`."""
        rows, first, last = len(self.table.names), ends[0], ends[-1]
        freed = self._runs_until[self._runs_until < EVER_MS]
        as_of = (id(placements), placements.epoch(last - 1))
        if as_of == self._as_of and self._assigned.size == rows and not (freed <= first).any():
            return
        self._as_of = as_of
        everyone = np.arange(rows)
        jobs, until = self._running(placements, last, everyone), np.full(rows, EVER_MS)
        idle = [self.owners.names[one] for one in np.unique(self.owner[jobs < 0]) if one >= 0]
        ran = {host for host in idle if placements.of_hosts([host]).changes(first, last)}
        numbers = [self.owners.number[host] for host in ran]
        places = np.flatnonzero((jobs < 0) & np.isin(self.owner, numbers))
        names = {self.table.names[place]: place for place in places}
        for name, job, moment in last_jobs(placements, names, first, last):
            jobs[names[name]], until[names[name]] = self._number(job), moment
        before = np.concatenate([self._assigned, np.full(rows - self._assigned.size, -1)])
        until_before = np.concatenate([self._runs_until, np.full(rows - self._runs_until.size, EVER_MS)])
        moved = (before != jobs) | (until_before != until)
        self._assigned, self._runs_until = jobs, until
        touched = np.unique(np.concatenate([before[moved], jobs[moved]]))
        touched = touched[touched >= 0]
        if touched.size:
            for end in [end for end in ends if end in self._medians]:
                self._take_medians(end, touched)

    def _take_medians(self, end_ms: int, only: Places | None) -> None:
        window, count = self.table.windows[end_ms], len(self._jobs)
        rows = np.arange(self._assigned.size) if only is None else np.flatnonzero(np.isin(self._assigned, only))
        runs = window.has(rows) & (end_ms <= self._runs_until[rows])
        groups = np.where(runs, self._assigned[rows], -1)
        told = [peers.medians(window.of(column, len(self.table.names))[rows], groups, count) for column in COLUMNS]
        fresh = np.stack(told, axis=1)
        known = _taller(self._medians.get(end_ms, fresh), count)
        if only is None:
            known = fresh
        else:
            known = known.copy()
            known[only] = fresh[only]
        self._medians[end_ms] = known

    def _stood(self, ends: list[int]) -> list[str]:
        count = len(self._jobs)
        history = [_taller(self._medians[end], count) for end in ends if end in self._medians]
        if not history or not count:
            return []
        names = [*self._jobs]
        found = [names[job] for job in np.flatnonzero(screen.standing(np.stack(history)))]
        if count > MANY + 2 * len(self._placed):
            self._renumber()
        return found

    def _renumber(self) -> None:
        """Lets go of jobs that are placed no more."""
        kept = {job for job, _ in self._placed} | {NO_JOBS}
        names = [job for job in self._jobs if job in kept]
        old = [self._jobs[job] for job in names]
        self._medians = {end: _taller(known, len(self._jobs))[old] for end, known in self._medians.items()}
        numbers = np.full(len(self._jobs) + 1, -1)
        numbers[old] = np.arange(len(old))
        self._assigned = numbers[self._assigned]
        self._jobs = {job: place for place, job in enumerate(names)}


def hosts_of(one: Placement) -> set[str]:
    """All hosts that a placement names."""
    return {*one.hosts, *(place.host for place in one.ranks)}


def _since(before: Placement | None, now: Placement) -> int:
    """The first moment that a word on a placement changes."""
    if before and (before.from_ms, before.hosts, before.ranks) == (now.from_ms, now.hosts, now.ranks):
        return min(before.to_ms or EVER_MS, now.to_ms or EVER_MS)
    times = [-1 if one.from_ms is None else one.from_ms for one in (before, now) if one]
    return min(times)


def _taller(known: Doubles, jobs: int) -> Doubles:
    if len(known) >= jobs:
        return known
    return np.concatenate([known, np.full((jobs - len(known), known.shape[1]), np.nan)])
