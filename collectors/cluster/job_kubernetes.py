"""Pods as placements of jobs, a fold over what the watch tells: attempts, ranks, ends, and pods that a node refused.

An attempt is a set of lives of pods (a life: a pod and how often its container was started). It ends with the first of
them that ends; the next one begins when a new life runs. Its number is the maker's own count, or one more than before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.cluster.kubernetes_watch import Change as Seen
from collectors.formats.kubernetes_ends import GONE, end_events, ended
from collectors.formats.kubernetes_pods import Ending, Member
from collectors.formats.kubernetes_ranks import numbers_of, ranks_of
from collectors.formats.kubernetes_refusals import Refusals, refusals
from sickbay.components import Kind, name
from sickbay.messages import Change, Event, Placement, replace

MOST_OVER = 10_000  # jobs without a pod that are remembered
Life = tuple[str, int]


Recipes = Mapping[str, Mapping[str, str]]  # by role: what its first pod was made of


class Run(NamedTuple):
    """The newest attempt of a job: its placement, the lives in it, and what was run."""

    placement: Placement
    lives: frozenset[Life]
    recipes: Recipes
    before: Recipes  # of the attempt before


Pods = Mapping[str, tuple[str, Member]]  # by uid: the path that told it, and the pod


@dataclass(frozen=True, slots=True)
class Jobs:
    """The pods of each job, and its newest attempt."""

    pods: dict[str, Pods] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    refused: Refusals = field(default_factory=Refusals)
    sequence: int = 0


class Step(NamedTuple):
    """What one poll tells."""

    jobs: Jobs
    placements: Sequence[Placement]
    events: Sequence[Event]
    changes: Sequence[Change]


def polled(jobs: Jobs, seen: Iterable[Seen[Member]], read_ms: int) -> Step:
    """The state after what was seen, and what is new by it."""
    pods, runs, sequence = dict(jobs.pods), dict(jobs.runs), jobs.sequence
    told = _Told(runs, read_ms)
    rejected: list[Member] = []
    for change in together(seen):
        sequence = change.sequence
        rejected += [one for one in change.objects if one.refused and not change.gone]
        found = _by_job(change)
        for job in dict.fromkeys([*found, *(_looked_for(change.path, pods, runs) if change.full else ())]):
            lost = _taken(pods, job, found.get(job, []), change)
            told.look(job, [member for _, member in pods.get(job, {}).values()], lost)
    told.settle()
    refused, events = refusals(jobs.refused, rejected, read_ms)
    _prune(runs, pods)
    return Step(Jobs(pods, runs, refused, sequence), told.placements, [*told.events, *events], told.changes)


def together(seen: Iterable[Seen[Member]]) -> Iterator[Seen[Member]]:
    """Changes with those that follow each other and speak of different pods as one: thousands begin in one second."""
    held: Seen[Member] | None = None
    objects, uids = list[Member](), set[str]()
    for change in seen:
        new = {one.uid for one in change.objects}
        if held is not None and (change.full or change.gone or change.path != held.path or uids & new):
            yield held._replace(objects=objects)
            held = None
        if change.full or change.gone:
            yield change
            continue
        if held is None:
            objects, uids = [], set()
        objects += change.objects
        uids |= new
        held = change
    if held is not None:
        yield held._replace(objects=objects)


def remembered(placements: Iterable[Placement]) -> Jobs:
    """The state after what an earlier run told: attempts that it left open, and their numbers."""
    newest = {one.job: one for one in placements if "/" in one.job}
    return Jobs(runs={job: Run(one, frozenset(), {}, {}) for job, one in newest.items()})


def standing(jobs: Jobs) -> list[Placement]:
    """Attempts that run."""
    return [run.placement for _, run in sorted(jobs.runs.items()) if run.placement.to_ms is None]


def _by_job(change: Seen[Member]) -> dict[str, list[Member]]:
    found: dict[str, list[Member]] = {}
    for one in change.objects:
        if one.job:
            found.setdefault(one.job, []).append(one)
    return found


def _looked_for(path: str, pods: Mapping[str, Pods], runs: Mapping[str, Run]) -> Iterator[str]:
    """Jobs to look at when all of a path is told: with pods that it told, or left open by an earlier run."""
    yield from (job for job, own in pods.items() if any(told_by == path for told_by, _ in own.values()))
    for job, run in runs.items():
        namespace = f"/namespaces/{job.partition('/')[0]}/"
        if not run.lives and run.placement.to_ms is None and (namespace in path or "/namespaces/" not in path):
            yield job


def _taken(pods: dict[str, Pods], job: str, found: list[Member], change: Seen[Member]) -> dict[str, Member]:
    """Takes what a change tells of a job into `pods`; its pods that are no longer there, by uid."""
    own = dict(pods.get(job, {}))
    lost: dict[str, Member] = {}
    if change.gone:
        lost = {one.uid: one for one in found}
    elif change.full:
        there = {one.uid for one in found}
        lost = {uid: one for uid, (path, one) in own.items() if path == change.path and uid not in there}
    if not change.gone:
        own.update({one.uid: (change.path, one) for one in found})
    pods[job] = {uid: told for uid, told in own.items() if uid not in lost}
    if not pods[job]:
        del pods[job]
    return lost


def _prune(runs: dict[str, Run], pods: Mapping[str, Pods]) -> None:
    """Forgets the oldest jobs that are over, and so the number of their attempts."""
    over = [job for job, run in runs.items() if run.placement.to_ms is not None and job not in pods]
    for job in over[: max(0, len(over) - MOST_OVER)]:
        del runs[job]


class _Told:
    """What is told while one poll is folded in."""

    def __init__(self, runs: dict[str, Run], read_ms: int) -> None:
        self._runs, self._read_ms = runs, read_ms
        self.placements: list[Placement] = []
        self.events: list[Event] = []
        self.changes: list[Change] = []
        self._grown: dict[str, list[Member]] = {}  # attempts with more pods than their placement tells

    def settle(self) -> None:
        """Tell of attempts that have grown: once a poll, as the pods of a large job begin one by one."""
        for job in list(self._grown):
            self._settle(job)

    def _settle(self, job: str) -> None:
        running, run = self._grown.pop(job, None), self._runs[job]
        if running:
            grown = replace(_placed(job, run.placement.attempt, running), from_ms=run.placement.from_ms)
            self._keep(job, run._replace(placement=grown))

    def look(self, job: str, members: list[Member], lost: Mapping[str, Member]) -> None:
        """Ends the attempt of a job, begins its next one, or sees more of it."""
        run = self._runs.get(job)
        if run is not None and not run.lives and run.placement.to_ms is None:
            run = self._found_again(run, members)
        if (
            run is not None
            and run.placement.to_ms is None
            and (how := ended(dict(run.lives), members, lost, self._read_ms))
        ):
            self._settle(job)
            run = self._end(self._runs[job], *how)
        lives = frozenset((one.uid, one.life) for one in members if one.runs)
        running = [one for one in members if one.runs and one.holds_rank]
        if not running:
            return
        if run is None or run.placement.to_ms is not None:
            if run is None or not lives <= run.lives:
                self._begin(job, running, lives, run)
        elif lives - run.lives:
            self._runs[job] = self._compared(run._replace(lives=run.lives | lives), running)
            self._grown[job] = running

    def _found_again(self, run: Run, members: list[Member]) -> Run:
        """An attempt that an earlier run of the poller told: it goes on where its pods still run since then."""
        same = [one for one in members if one.runs]
        placed = _placed(run.placement.job, 0, [one for one in same if one.holds_rank])
        begun, now = run.placement.from_ms or 0, placed.from_ms
        if placed.hosts != run.placement.hosts or now is None or now > begun:
            return self._end(run, Ending(GONE), None)
        found = Run(run.placement, frozenset((one.uid, one.life) for one in same), _recipes(same), {})
        self._runs[run.placement.job] = found
        return found

    def _begin(self, job: str, running: list[Member], lives: frozenset[Life], before: Run | None) -> None:
        number = max((one.attempt for one in running), default=0)
        if before is not None:
            number = max(number, before.placement.attempt + 1)
        placement = _placed(job, number, running)
        if before is not None and before.placement.to_ms is not None:  # some of its pods may have outlived the last one
            begun = max(placement.from_ms or self._read_ms, before.placement.to_ms)
            placement = replace(placement, from_ms=begun)
        run = Run(placement, lives, {}, {**before.before, **before.recipes} if before is not None else {})
        self._keep(job, self._compared(run, running))

    def _compared(self, run: Run, running: list[Member]) -> Run:
        """The attempt with what its first pods of each role are made of; what differs from the one before is told."""
        recipes = dict(run.recipes)
        for role, recipe in _recipes(running).items():
            if role not in recipes:
                recipes[role] = recipe
                self.changes += _changes(run, run.before.get(role, {}), recipe)
        return run._replace(recipes=recipes)

    def _keep(self, job: str, run: Run) -> None:
        known = self._runs.get(job)
        if known is None or known.placement != run.placement:
            self.placements.append(run.placement)
        self._runs[job] = run

    def _end(self, run: Run, ending: Ending, member: Member | None) -> Run:
        at_ms = min(ending.at_ms or self._read_ms, self._read_ms)
        at_ms = max(at_ms, run.placement.from_ms or at_ms)
        over = run._replace(placement=replace(run.placement, to_ms=at_ms, state=ending.state))
        self._keep(run.placement.job, over)
        if member is not None:
            self.events += end_events(over.placement, ending, member, self._read_ms)
        return over


def _placed(job: str, attempt: int, running: list[Member]) -> Placement:
    numbered = zip(numbers_of(running), running, strict=True)
    ordered = [
        one for _, one in sorted(numbered, key=lambda pair: (pair[0], pair[1].place, pair[1].role, pair[1].name))
    ]
    hosts = tuple(dict.fromkeys(one.node for one in ordered))
    begun = [one.since_ms for one in running if one.since_ms is not None]
    return Placement(
        job=job, attempt=attempt, hosts=hosts, ranks=ranks_of(ordered), from_ms=min(begun, default=None),
        state="running", name=job.partition("/")[2][:200],
    )  # fmt: skip


def _recipes(running: Iterable[Member]) -> dict[str, dict[str, str]]:
    """What was run by the first pod of each role: the others are told their own place in it."""
    first = [one for one in running if not any(one.place[1:])]
    told = {one.role: {"image": one.image, "arguments": one.arguments, "code": one.revision} for one in first}
    return {role: {what: value for what, value in recipe.items() if value} for role, recipe in told.items()}


def _changes(run: Run, before: Mapping[str, str], recipe: Mapping[str, str]) -> Iterator[Change]:
    """What differs from the attempt before. An image whose digest was not told yet is the same image."""
    for what, new in recipe.items():
        old = before.get(what, "")
        bare = what == "image" and old.partition("@")[0] == new.partition("@")[0] and ("@" in old) != ("@" in new)
        if old and old != new and not bare:
            target, at_ms = name(Kind.JOB, run.placement.job), run.placement.from_ms
            yield Change(target=target, what=what, at_ms=at_ms, old=old, new=new)
