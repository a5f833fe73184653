"""Kubernetes' word on hosts as events, a fold over what the watch tells: what is new, and what is over.

A plugin that starts again offers no device for some seconds: that none is left counts after a minute, that some are
missing at once. Fewer than before counts as well as fewer than the node has: a plugin may forget a lost one wholly.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from collectors.cluster.kubernetes_watch import Change as Seen
from collectors.formats.events import event
from collectors.formats.kubernetes_events import Spoken
from collectors.formats.kubernetes_nodes import SOURCE, NodeWord, Word, fewer
from sickbay.components import Kind, name
from sickbay.messages import Change, Edge, Event
from sickbay.messages import replace as changed

HOLD_MS = 60_000  # that a node must be without all its accelerators
MOST_SPOKEN = 50_000  # Event objects that are remembered: the server keeps them for an hour
MOST_DELETED = 20_000  # nodes that are remembered: a cluster of rented hosts makes new ones all day
LATE_MS = 600_000  # an Event object older than this when first seen was told by an earlier run, or is of no use
Key: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Host:
    """One node as it was last told. `most`: the most accelerators it offered; `none_since`: without any, since when."""

    path: str
    told: dict[str, Event]
    word: NodeWord
    most: dict[str, int]
    none_since: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hosts:
    """All nodes, and up to where the feed is folded in."""

    hosts: dict[str, Host] = field(default_factory=dict)
    edges: dict[Key, Edge] = field(default_factory=dict)
    sequence: int = 0
    deleted: dict[str, Event] = field(default_factory=dict)  # what was told of nodes that are not there any more


class Step(NamedTuple):
    """What one poll tells: an event for each change, software that was changed, edges that begin or end."""

    hosts: Hosts
    events: Sequence[Event] = ()
    changes: Sequence[Change] = ()
    edges: Sequence[Edge] = ()


def remembered(told: Iterable[Edge]) -> Hosts:
    """The state after what an earlier run told of the topology."""
    newest = {_key(one): one for one in told if one.source == SOURCE}
    return Hosts(edges={key: one for key, one in newest.items() if one.to_ms is None})


def polled(state: Hosts, seen: Iterable[Seen[NodeWord]], read_ms: int) -> Step:
    """The state after what was seen, and what is new by it."""
    hosts, deleted = dict(state.hosts), dict(state.deleted)
    events, changes, sequence = list[Event](), list[Change](), state.sequence
    for change in seen:
        sequence = change.sequence
        there = {word.host for word in change.objects}
        if change.full or change.gone:
            lost = {host for host, known in hosts.items() if known.path == change.path and host not in there}
            for host in sorted(lost if change.full else there & hosts.keys()):
                deleted[host] = _deleted(host, read_ms)
                events.append(deleted[host])
                del hosts[host]
        for word in () if change.gone else change.objects:
            known = hosts.get(word.host)
            if was := deleted.pop(word.host, None):
                events.append(_back(word.host, "the node object is there again", was, read_ms))
            changes += _changed(known, word, read_ms)
            hosts[word.host] = _looked(known, word, change.path, read_ms, events)
    for host, known in hosts.items():  # what only time tells
        if known.none_since:
            hosts[host] = _looked(known, known.word, known.path, read_ms, events)
    edges, told = state.edges, list[Edge]()
    if sequence != state.sequence:
        edges, told = _edges(state.edges, hosts, read_ms)
    for host in list(deleted)[: max(0, len(deleted) - MOST_DELETED)]:
        del deleted[host]
    return Step(Hosts(hosts, edges, sequence, deleted), events, changes, told)


def _edges(known: dict[Key, Edge], hosts: dict[str, Host], read_ms: int) -> tuple[dict[Key, Edge], list[Edge]]:
    """The edges that all nodes tell now, and those that begin or end by it."""
    now = {_key(one): one for host in hosts.values() for one in host.word.edges}
    new = {key: changed(one, seen_ms=read_ms) for key, one in now.items() if key not in known}
    ended = [changed(one, to_ms=read_ms) for key, one in known.items() if key not in now]
    return {**{key: one for key, one in known.items() if key in now}, **new}, [*ended, *new.values()]


def _key(edge: Edge) -> Key:
    return edge.child, edge.parent, edge.relation.value


def _looked(known: Host | None, word: NodeWord, path: str, read_ms: int, events: list[Event]) -> Host:
    """The node after this word; its news are added to `events`."""
    most = {**(known.most if known and not word.parted else {})}
    for resource, count in (*word.allocatable.items(), *word.capacity.items()):
        most[resource] = max(most.get(resource, 0), count)
    before = known.none_since if known else {}
    none_since = {
        resource: before.get(resource, read_ms)
        for resource, count in most.items()
        if count and not word.allocatable.get(resource, 0)
    }
    told = dict(known.told) if known else {}
    standing = {**word.against, **dict(_missing(word, most, none_since, read_ms))}
    for about, one in standing.items():
        if about not in told or _differs(told[about], one.event):
            dated = read_ms if one.since_ms is None else min(one.since_ms, read_ms)
            told[about] = changed(one.event, at_ms=dated, seen_ms=read_ms)
            events.append(told[about])
    still = {f"accelerators {resource}" for resource in none_since}  # none, but not for long yet
    over = sorted(told.keys() - standing.keys() - still)
    events += [_back(word.host, about, told.pop(about), read_ms) for about in over]
    return Host(path, told, word, most, none_since)


def _missing(
    word: NodeWord, most: dict[str, int], none_since: dict[str, int], read_ms: int
) -> Iterator[tuple[str, Word]]:
    for resource, count in most.items():
        free = word.allocatable.get(resource, 0)
        if free < count and (free or read_ms - none_since.get(resource, read_ms) >= HOLD_MS):
            yield f"accelerators {resource}", Word(fewer(word.host, resource, free, count), none_since.get(resource))


def _differs(told: Event, now: Event) -> bool:
    return (told.kind, told.code, told.attributes) != (now.kind, now.code, now.attributes)


def _back(host: str, about: str, told: Event, read_ms: int) -> Event:
    facts = {"was": told.kind, "reason": about}
    return event("scheduler.host_back", name(Kind.HOST, host), facts, code=told.code, at_ms=read_ms, seen_ms=read_ms)


def _deleted(host: str, read_ms: int) -> Event:
    facts = {"reason": "the node object was deleted"}
    component = name(Kind.HOST, host)
    return event("scheduler.host_drained", component, facts, code="deleted", at_ms=read_ms, seen_ms=read_ms)


def _changed(known: Host | None, word: NodeWord, read_ms: int) -> Iterator[Change]:
    for what, new in word.versions.items():
        old = known.word.versions.get(what, "") if known else ""
        if old and old != new:
            yield Change(target=name(Kind.HOST, word.host), what=what, at_ms=read_ms, old=old, new=new)


@dataclass(frozen=True, slots=True)
class Said:
    """How often each Event object was told."""

    counts: dict[str, int] = field(default_factory=dict)
    sequence: int = 0


def said(state: Said, seen: Iterable[Seen[Spoken | None]], read_ms: int) -> tuple[Said, tuple[Event, ...]]:
    """The state after Event objects were seen, and what they say anew."""
    counts, events = dict(state.counts), list[Event]()
    after = replace(state)
    for change in seen:
        after = replace(after, sequence=change.sequence)
        for one in change.objects:
            if one is None or change.gone:
                continue
            known = counts.pop(one.uid, 0)
            counts[one.uid] = max(known, one.times)  # the newest last
            new = one.times - known
            last = read_ms if one.last_ms is None else min(one.last_ms, read_ms)
            if new > 0 and last >= read_ms - LATE_MS:
                events.append(changed(one.event, at_ms=last, seen_ms=read_ms, count=new))
    for uid in list(counts)[: max(0, len(counts) - MOST_SPOKEN)]:
        del counts[uid]
    return Said(counts, after.sequence), tuple(events)
