"""The site's inventory as one question to poll: lists in files and NetBox, each read whole or left as it was.

An edge that a list no longer tells ends, if all of that list was read and understood; where most of it is gone at once
(a file half written, a heading renamed) only once a second look says so too. What lists say against each
other, or against what others had told the log when the poller began, is told once, and which word is believed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from collectors.agent.naming import identity_key
from collectors.cluster import disagreements
from collectors.cluster.netbox_get import PATIENCE, objects
from collectors.cluster.poll import Outgoing, Polled, PollFailed, Source
from collectors.formats import inventory as rows
from collectors.formats import netbox
from collectors.formats.events import event
from collectors.formats.reading import Tally
from collectors.http_get import address_of
from collectors.port_names import PortNames
from sickbay.addresses import guarded
from sickbay.components import Kind, Name, name
from sickbay.config import ConfigError
from sickbay.edges import Conflict, Key, key_of, log_key
from sickbay.messages import MAX_MESSAGE, AnyMessage, Edge, Event, Identity, replace
from sickbay.settings import Config
from sickbay.topics import EVENTS, TOPOLOGY
from sickbay.topology import Topology

SOURCE = "inventory"
NETBOX = "netbox"  # the source of its edges
MAX_FILE = 256 << 20  # bytes
MOST = 0.5  # [house] of a list's edges: where more are gone, the list is asked again first


class Answer(NamedTuple):
    """What one list says now. `problem`: why it could not be read at all."""

    edges: Mapping[Key, Edge] = {}
    identities: tuple[Identity, ...] = ()
    unparsed: int = 0
    problem: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """What stands by list (the source of its edges), what others say, and what was said of it."""

    edges: Mapping[str, Mapping[Key, Edge]] = field(default_factory=dict)
    identities: Mapping[str, Identity] = field(default_factory=dict)
    others: tuple[Edge, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    doubted: Mapping[str, int] = field(default_factory=dict)  # lists of which most was gone: how many edges
    names: PortNames = field(default_factory=PortNames)  # of ports that others call otherwise than the lists
    hosts: frozenset[str] = frozenset()  # as others call them


def sources(config: Config) -> list[Source[State]]:
    """The one question of all lists. Raises ConfigError."""
    settings = config.inventory
    asks: dict[str, Callable[[], Answer]] = {f"{SOURCE}:{path}": partial(of_file, path) for path in settings.files}
    if settings.netbox_url:
        try:
            address_of(settings.netbox_url)
            token = guarded(settings.netbox_url, _token(settings.token_file))
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(f"[inventory] netbox_url: {error}") from None
        asks[NETBOX] = lambda: of_netbox(settings.netbox_url, token, settings.ca_file, settings.timeout_s)
    if not asks:
        raise ConfigError('[inventory] files, netbox_url: name nothing: write files = ["racks.csv"]')
    return [of(asks, settings.poll_s, settings.timeout_s)]


def of(asks: Mapping[str, Callable[[], Answer]], every_s: float, timeout_s: float) -> Source[State]:
    """The question to lists that `asks` reads, by the source of their edges."""
    return Source(
        SOURCE,
        every_s,
        State(),
        lambda state, now_ms: polled(state, {own: ask() for own, ask in asks.items()}, now_ms),
        standing,
        TOPOLOGY,
        lambda told: remembered(told, frozenset(asks)),
        limit_s=PATIENCE * timeout_s + 60,
    )


def _token(path: str) -> str:
    try:
        return Path(path).read_text("utf-8").strip() if path else ""
    except (OSError, ValueError) as error:
        raise ConfigError(f"[inventory] token_file {path}: {error}") from None


def of_file(path: str) -> Answer:
    """What a file says."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE + 1)
    except OSError as error:
        return Answer(problem=f"[inventory] files: {path}: {error.strerror or error}")
    if len(content) > MAX_FILE:
        return Answer(problem=f"[inventory] files: {path}: larger than {MAX_FILE >> 20} MiB")
    tally = Tally()
    found = [reading.record for reading in rows.read([content], tally, path)]
    return _answer(found, tally) if found else Answer(problem=f"[inventory] files: {path}: {_nothing(tally)}")


def of_netbox(url: str, token: str, ca_file: str, timeout_s: float) -> Answer:
    """What NetBox says."""
    try:
        told = objects(url, token, ca_file, timeout_s)
    except PollFailed as error:
        return Answer(problem=str(error))
    tally = Tally()
    found = list(netbox.records(told, tally, NETBOX))
    return _answer(found, tally) if found else Answer(problem=f"[inventory] netbox_url: {_nothing(tally)}")


def _nothing(tally: Tally) -> str:
    return "; ".join(["nothing in it tells what stands where", *tally.notes])[:300]


def _answer(found: Iterable[object], tally: Tally) -> Answer:
    edges = {key_of(one): one for one in found if isinstance(one, Edge)}
    return Answer(
        edges, tuple(one for one in found if isinstance(one, Identity)), tally.unparsed, "", tuple(tally.notes)
    )


def polled(state: State, answers: Mapping[str, Answer], now_ms: int) -> Polled[State]:
    """What has changed since the last look. Raises PollFailed where no list could be read."""
    problems = {own: one.problem for own, one in answers.items() if one.problem}
    if len(problems) == len(answers):
        raise PollFailed("; ".join(problems.values())[:500])
    edges, told, doubted = dict(state.edges), list[Edge](), dict[str, int]()
    for own, answer in answers.items():
        if not answer.problem:
            before = state.edges.get(own, {})
            gone = len(before.keys() - answer.edges.keys())
            if gone > MOST * len(before) and own not in state.doubted:
                doubted[own] = gone
            edges[own], changed = _list(before, answer, now_ms, whole=not answer.unparsed and own not in doubted)
            told += changed
    identities = dict(state.identities) | {identity_key(one): one for a in answers.values() for one in a.identities}
    known = [one for key, one in identities.items() if state.identities.get(key) != one]
    conflicts = _conflicts(edges, state) if told else state.conflicts
    notes = {**state.notes, **{own: _notes(one, state.hosts) for own, one in answers.items() if not one.problem}}
    events = [*_events(state, conflicts, problems, now_ms), *_doubts(state, doubted, notes, now_ms)]
    after = State(edges, identities, state.others, conflicts, problems, notes, doubted, state.names, state.hosts)
    outgoing = [*map(_edge, told), *map(_identity, known), *map(_event, events)]
    return Polled(after, outgoing, sum(answer.unparsed for answer in answers.values()))


def _list(
    before: Mapping[Key, Edge], answer: Answer, now_ms: int, *, whole: bool
) -> tuple[dict[Key, Edge], list[Edge]]:
    """The edges of one list now, and those that began or ended."""
    known = {} if whole else dict(before)
    known |= {key: before.get(key) or replace(one, seen_ms=now_ms) for key, one in answer.edges.items()}
    ended = [replace(before[key], to_ms=now_ms) for key in before.keys() - known.keys()]
    return known, [*ended, *(known[key] for key in known.keys() - before.keys())]


def _conflicts(edges: Mapping[str, Mapping[Key, Edge]], state: State) -> tuple[Conflict, ...]:
    own = (one for known in edges.values() for one in known.values())
    return disagreements.contradictions(Topology(map(state.names.edge, [*state.others, *own])).conflicts)


def _events(state: State, conflicts: tuple[Conflict, ...], problems: Mapping[str, str], now_ms: int) -> Iterable[Event]:
    """Contradictions that are news, and lists that can no longer be read."""
    if conflicts and set(map(str, conflicts)) != set(map(str, state.conflicts)):
        yield disagreements.told(conflicts, SOURCE, now_ms)
    for own in sorted(problems.keys() - state.problems.keys()):
        yield event("monitor.blind", _monitor(own), code="no answer", message=problems[own][:MAX_MESSAGE], at_ms=now_ms)


def _doubts(
    state: State, doubted: Mapping[str, int], notes: Mapping[str, tuple[str, ...]], now_ms: int
) -> Iterable[Event]:
    """Lists of which most is gone, and what of lists was not understood, when that is news."""
    for own, gone in doubted.items():
        text = f"{gone} of {len(state.edges[own])} edges are gone: they end if the next look says so too"
        message = "; ".join([text, *notes[own]])[:MAX_MESSAGE]
        yield event("monitor.partial_sweep", _monitor(own), code="few", message=message, at_ms=now_ms)
    for own, told in notes.items():
        if told and told != state.notes.get(own) and own not in doubted:
            message = "; ".join(told)[:MAX_MESSAGE]
            yield event("monitor.notice", _monitor(own), code="not all was read", message=message, at_ms=now_ms)


def _notes(answer: Answer, hosts: frozenset[str]) -> tuple[str, ...]:
    strange = disagreements.called_otherwise(answer.edges.values(), hosts)
    return (*answer.notes, strange) if strange else answer.notes


def _monitor(own: str) -> Name:
    return name(Kind.MONITOR, SOURCE, own.removeprefix(f"{SOURCE}:"))


def standing(state: State) -> list[Outgoing]:
    """All that a new reader would miss."""
    edges = [one for known in state.edges.values() for one in known.values()]
    return [*map(_edge, edges), *map(_identity, state.identities.values())]


def remembered(told: Iterable[AnyMessage], own: frozenset[str]) -> State:
    """What an earlier run told and did not end, and what others say."""
    newest: dict[tuple[object, ...], Edge] = {}
    identities = dict[str, Identity]()
    for message in told:
        if isinstance(message, Edge):
            newest[message.source, *key_of(message)] = message
        elif isinstance(message, Identity):
            identities[identity_key(message)] = message
    open_ = [one for one in newest.values() if one.to_ms is None]
    edges: dict[str, dict[Key, Edge]] = {}
    for one in open_:
        if one.source in own:
            edges.setdefault(one.source, {})[key_of(one)] = one
    others = tuple(one for one in open_ if one.source not in own)
    hosts = disagreements.hosts_in(others) | {one.host for one in identities.values() if one.kind != Kind.HOST}
    return State(edges, others=others, names=PortNames(identities.values()), hosts=hosts)


def _edge(edge: Edge) -> Outgoing:
    return Outgoing(TOPOLOGY, log_key(edge), edge)


def _identity(one: Identity) -> Outgoing:
    return Outgoing(TOPOLOGY, identity_key(one), one)


def _event(one: Event) -> Outgoing:
    return Outgoing(EVENTS, SOURCE, one)
