"""Asks Slurm once more about each job that began: cards, the step's own layout, and what it was started with.

Two commands a job, a few jobs a poll, and none any more in a poll after one that failed. A job in a script begins its
step some time after itself, so the layout is asked for a few times.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from collectors.cluster.job_slurm import Detailed, Jobs, Recipe, ranks_of
from collectors.cluster.poll import PollFailed
from collectors.formats import slurm_detail
from collectors.formats.reading import Tally
from sickbay.components import Kind, name
from sickbay.messages import Change, Placement, RankPlace
from sickbay.messages import replace as changed

MOST = 8  # jobs of one poll
TRIES = 4
MOST_RECIPES = 10_000

Ask = Callable[..., str]


class Asked(NamedTuple):
    """The state after it, and what is told."""

    jobs: Jobs
    placements: tuple[Placement, ...] = ()
    changes: tuple[Change, ...] = ()


def asked(ask: Ask, jobs: Jobs, read_ms: int, limit_s: float, tally: Tally) -> Asked:
    """Ask about some jobs that run and were not asked about yet, for no longer than `limit_s`."""
    began, placements, changes = time.monotonic(), list[Placement](), list[Change]()
    for placement in _wanted(jobs):
        if time.monotonic() - began > limit_s:
            break
        try:
            jobs, told, differs = _one(ask, jobs, placement, tally)
        except PollFailed:
            detail = jobs.details.get(placement.job, Detailed(placement.attempt))
            jobs = _with(jobs, placement, Detailed(placement.attempt, detail.ranks, detail.tries + 1))
            break
        placements += told
        changes += differs
    return Asked(jobs, tuple(placements), tuple(changes))


def _wanted(jobs: Jobs) -> list[Placement]:
    found = []
    for job, placement in jobs.told.items():
        detail = jobs.details.get(job)
        tries = detail.tries if detail and detail.attempt == placement.attempt else 0
        if placement.to_ms is None and placement.state == "running" and job in jobs.rows and tries < TRIES:
            found.append((tries, placement))
    return [placement for _, placement in sorted(found, key=lambda pair: pair[0])[:MOST]]


def _one(ask: Ask, jobs: Jobs, placement: Placement, tally: Tally) -> tuple[Jobs, list[Placement], list[Change]]:
    job, hosts = placement.job, placement.hosts
    known = jobs.details.get(job)
    first = known is None or known.attempt != placement.attempt
    detail = slurm_detail.shown(ask("scontrol", "show", "job", "-d", job), hosts, tally)
    queued = jobs.rows[job]
    tasks = _layout(ask, job, hosts) if queued.tasks > len(hosts) else ()
    ranks = _ranks(placement, tasks, queued.tasks, queued.tasks_per_node, detail.cards)
    tries = TRIES if tasks or queued.tasks <= len(hosts) else (0 if first or known is None else known.tries) + 1
    jobs = _with(jobs, placement, Detailed(placement.attempt, ranks, tries))
    told = []
    if ranks and ranks != placement.ranks:
        placement = changed(placement, ranks=ranks)
        jobs = replace(jobs, told={**jobs.told, job: placement})
        told = [placement]
    before = jobs.recipes.get((placement.user, placement.name)) if first else None
    return _recipe(jobs, placement, detail.recipe), told, list(_changes(placement, before, detail.recipe))


def _layout(ask: Ask, job: str, hosts: tuple[str, ...]) -> tuple[str, ...]:
    """The host of each task of the job's first step; empty where there is none yet, or we may not ask."""
    try:
        return slurm_detail.layout(ask("sattach", "--layout", f"{job}.0"), hosts)
    except PollFailed:
        return ()


def _ranks(
    placement: Placement, tasks: tuple[str, ...], number: int, a_host: int, cards: slurm_detail.Cards
) -> tuple[RankPlace, ...]:
    """As the step's own layout tells where it holds all tasks of the job, else in blocks."""
    if len(tasks) != number:
        tasks = tuple(place.host for place in ranks_of(placement.hosts, number, a_host))
    return slurm_detail.places(tasks, cards)


def _with(jobs: Jobs, placement: Placement, detail: Detailed) -> Jobs:
    return replace(jobs, details={**jobs.details, placement.job: detail})


def _recipe(jobs: Jobs, placement: Placement, recipe: Recipe) -> Jobs:
    recipes = {key: one for key, one in jobs.recipes.items() if key != (placement.user, placement.name)}
    for key in list(recipes)[: max(0, len(recipes) - MOST_RECIPES)]:
        del recipes[key]
    return replace(jobs, recipes={**recipes, (placement.user, placement.name): recipe})


def _changes(placement: Placement, before: Recipe | None, recipe: Recipe) -> Iterator[Change]:
    """What differs from what the same user last ran under the same name: an attempt or a job before."""
    for what, new in recipe.items():
        old = (before or {}).get(what, "")
        if before is not None and old != new:
            target = name(Kind.JOB, placement.job)
            yield Change(target=target, what=what, at_ms=placement.from_ms, who=placement.user, old=old, new=new)
