"""Pods that a node refused, folded per node and reason: an empty broken node draws all work, hundreds an hour."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from collectors.formats.bodies.scheduler import Scheduler
from collectors.formats.events import event
from collectors.formats.kubernetes_pods import Member, Refused
from collectors.formats.reading import Line
from sickbay.components import Kind, name
from sickbay.messages import MAX_MESSAGE, Action, Event, Severity
from sickbay.messages import replace as changed
from sickbay.vocabulary import event_kinds

EVERY_MS = 60_000  # the first is told at once, those after it once a minute
MANY, ASKERS = 20, 3  # [house] so many pods of so many different jobs: it is the node, whatever its books say
_OWN_PART = re.compile(r"-(?:[a-z0-9]{5}|\d{1,6})$")
MOST_KNOWN = 50_000  # pods that are remembered, to count each once


@dataclass(frozen=True, slots=True)
class Count:
    """Refusals of one node for one reason. `told_ms`: when last told; `waiting`: those since then; `askers`: whose."""

    told_ms: int
    waiting: int
    first_ms: int
    last_ms: int
    example: Refused
    pods: int = 0
    askers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Refusals:
    """What was counted: pods by uid, and counts by node and reason."""

    pods: dict[str, None] = field(default_factory=dict)
    counts: dict[tuple[str, str], Count] = field(default_factory=dict)


def refusals(before: Refusals, rejected: Iterable[Member], read_ms: int) -> tuple[Refusals, list[Event]]:
    """The state after these, and what is to be told now."""
    pods, counts = dict(before.pods), dict(before.counts)
    for one in rejected:
        if one.refused is None or one.uid in pods:
            continue
        pods[one.uid] = None
        key = (one.node, one.refused.reason)
        at_ms = min(one.refused.at_ms or read_ms, read_ms)
        known = counts.get(key)
        first = min(known.first_ms, at_ms) if known and known.waiting else at_ms
        told_ms = known.told_ms if known else read_ms - EVERY_MS
        last = max(known.last_ms, at_ms) if known and known.waiting else at_ms
        number, askers = (known.pods, known.askers) if known else (0, frozenset[str]())
        askers = askers if len(askers) >= ASKERS else askers | {one.job or _asker(one.name)}
        counts[key] = Count(told_ms, (known.waiting if known else 0) + 1, first, last, one.refused, number + 1, askers)
    events: list[Event] = []
    for key, count in list(counts.items()):
        if count.waiting and not 0 <= read_ms - count.told_ms < EVERY_MS:  # also where the clock was set back
            events.append(_event(key[0], count, read_ms))
            counts[key] = replace(count, told_ms=read_ms, waiting=0)
        elif read_ms - count.told_ms >= 10 * EVERY_MS:
            del counts[key]
    for uid in list(pods)[: max(0, len(pods) - MOST_KNOWN)]:
        del pods[uid]
    return Refusals(pods, counts), events


def _asker(pod: str) -> str:
    """Who asked for a pod that names no job: a replica set's pods differ in their last part."""
    return _OWN_PART.sub("", pod)


def _event(host: str, count: Count, read_ms: int) -> Event:
    """A kubelet that says how many devices are left tells of missing ones, or of a scheduler that gave one out twice:
    a reason to look, no more, until it refuses many pods of different jobs. Other refusals are its condition."""
    refused, component = count.example, name(Kind.HOST, host)
    line = Line(f"Warning  {refused.reason}  {refused.message}", 0, host=host)
    told = next((one for one in Scheduler().read(line) if isinstance(one, Event)), None)
    facts = {"reason": refused.reason, "refused": str(count.waiting), "refused_in_all": str(count.pods)}
    draws_all = told is not None and count.pods >= MANY and len(count.askers) >= ASKERS
    doubt: dict[str, Any] = {"severity": Severity.WARNING, "advice": Action.WATCH}
    found = told or event("scheduler.host_condition", component, code=refused.reason, advice=Action.WATCH)
    if draws_all:
        row = event_kinds()[found.kind]
        doubt = {"severity": row.severity, "advice": None}
    folded: Event = changed(
        found,
        component=component,
        **doubt,
        attributes={**found.attributes, **facts},
        count=count.waiting,
        at_ms=count.first_ms,
        until_ms=count.last_ms if count.waiting > 1 else None,
        seen_ms=read_ms,
        message=f"{refused.reason}: {refused.message}"[:MAX_MESSAGE],
    )
    return folded
