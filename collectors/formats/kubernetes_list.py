"""`kubectl get nodes|pods|events -o json`: what stands against nodes, where jobs run and how they ended, refused pods.

A list is one moment: what its objects say is dated by themselves. Pods of one job that run are its newest attempt.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from collectors.codes.kubernetes import table
from collectors.formats import kubernetes_objects as objects
from collectors.formats.kubernetes_ends import end_events, ended
from collectors.formats.kubernetes_events import spoken
from collectors.formats.kubernetes_nodes import fewer, node_word
from collectors.formats.kubernetes_pods import Member, Refused, member
from collectors.formats.kubernetes_ranks import numbers_of, ranks_of
from collectors.formats.kubernetes_refusals import Refusals, refusals
from collectors.formats.masking import struck
from collectors.formats.reading import Reading, Record, Tally
from sickbay.clock import NO_STAMP, Clock, Stamp
from sickbay.messages import Event, Placement, replace

MAX_BYTES = 512 << 20  # 20,000 pods with their managed fields
_KIND = re.compile(rb"\"kind\":\s{0,8}\"(?:Pod|Node|Event)(?:List)?\"")
_VERSION = re.compile(rb"\"apiVersion\":\s{0,8}\"v1\"")


class _Kind(msgspec.Struct):
    kind: str = ""


class _List(msgspec.Struct):
    kind: str = ""
    items: list[Raw] | None = None


@dataclass(slots=True)
class _Found:
    """What objects told so far."""

    jobs: dict[str, list[Member]] = field(default_factory=dict)
    refused: list[Member] = field(default_factory=list)


def confidence(head: bytes, name: str) -> float:
    """High for JSON of the core API with nodes, pods or Event objects in it."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return 0.96 if start[:1] == b"{" and _KIND.search(start) and _VERSION.search(start) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """Events of hosts and jobs, placements, and edges that labels of nodes tell."""
    found = _Found()
    for raw in _objects(chunks, tally):
        try:
            records = list(_taken(raw, found))
        except (ValueError, RecursionError):
            tally.unparsed += 1
            tally.note("an object that is none of the API's")
            continue
        yield from (_reading(one, tally) for one in records)
    for job, members in found.jobs.items():
        yield from (_reading(one, tally) for one in _job(job, members))
    last_ms = max((one.refused.at_ms or 0 for one in found.refused if one.refused), default=0)
    for told in refusals(Refusals(), found.refused, last_ms)[1]:
        yield _reading(told if last_ms else replace(told, at_ms=None, until_ms=None, seen_ms=None), tally)


def _objects(chunks: Iterable[bytes], tally: Tally) -> Iterator[Raw | bytes]:
    raw = bytearray()
    for chunk in chunks:
        raw += chunk
        if len(raw) > MAX_BYTES:
            tally.unparsed += 1
            tally.note(f"larger than {MAX_BYTES >> 20} MiB: not read")
            return
    whole = bytes(raw).removeprefix(b"\xef\xbb\xbf")
    try:
        told = objects.decoded(whole, _List)
    except (ValueError, UnicodeDecodeError) as problem:
        tally.unparsed += 1
        tally.note(f"not JSON of the API: {problem}"[:200])
        return
    yield from [whole] if told.items is None else told.items


def _taken(raw: Raw | bytes, found: _Found) -> Iterator[Record]:
    kind = objects.decoded(raw, _Kind).kind
    if kind == "Node":
        yield from _node(raw)
    elif kind == "Pod":
        one = member(objects.decoded(raw, objects.Pod))
        if one.refused:
            found.refused.append(one)
        else:
            found.jobs.setdefault(one.job or one.name, []).append(one)
    elif kind == "Event":
        told = objects.decoded(raw, objects.EventObject)
        if one_refused := _refused(told):
            found.refused.append(one_refused)
        elif word := spoken(told):
            yield replace(word.event, at_ms=word.last_ms, count=word.times)


def _node(raw: Raw | bytes) -> Iterator[Record]:
    word = node_word(objects.decoded(raw, objects.Node))
    yield from (replace(one.event, at_ms=one.since_ms) for one in word.against.values())
    for resource, count in word.capacity.items():
        if (free := word.allocatable.get(resource, 0)) < count:
            yield fewer(word.host, resource, free, count)
    yield from word.edges


def _refused(told: objects.EventObject) -> Member | None:
    """A pod that a kubelet says it does not take."""
    host = told.source.host or told.reporting_instance
    kubelet = "kubelet" in (told.source.component, told.reporting_component)
    if not (kubelet and host and told.reason.startswith(table().rejections)):
        return None
    at_ms = objects.at_ms(told.last_timestamp or told.event_time or told.first_timestamp)
    why = Refused(told.reason[:120], struck(told.message)[:400], at_ms)
    pod = f"{told.involved_object.namespace}/{told.involved_object.name}"
    return Member(told.metadata.uid or pod, pod, "", "", "", (), False, host, refused=why)


def _job(job: str, members: Sequence[Member]) -> Iterator[Record]:
    """Where it runs, or how it ended."""
    there = [one for one in members if one.node]
    if not there:
        return
    numbered = sorted(zip(numbers_of(there), there, strict=True), key=lambda pair: (pair[0], pair[1].name))
    hosts = tuple(dict.fromkeys(one.node for _, one in numbered))
    running = [one for one in there if one.runs and one.holds_rank]
    begun = min((one.since_ms for one in running if one.since_ms is not None), default=None)
    told = Placement(job=job, attempt=max(one.attempt for one in there), hosts=hosts, from_ms=begun)
    how = ended({one.uid: one.life for one in there}, there, {}, 0)
    if how is not None:
        ending, first = how
        over = replace(told, to_ms=ending.at_ms, state=ending.state)
        if first.job:
            yield over
        yield from end_events(over, ending, first, ending.at_ms or 0)
    elif there[0].job and running:
        yield replace(told, state="running", ranks=ranks_of(running))


def _reading(record: Record, tally: Tally) -> Reading:
    tally.records += 1
    at_ms = record.at_ms if isinstance(record, Event) else None
    host = record.component.partition(":")[2] if isinstance(record, Event) and record.component[:5] == "host:" else ""
    return Reading(record, 0, NO_STAMP if at_ms is None else Stamp(Clock.ABSOLUTE, at_ms), host=host)
