"""The fabric over many sweeps: which links stand, which ended, and which ports went down. A pure fold.

An edge ends after two whole sweeps without it, and never within ten minutes: a switch that reboots is back by then, and
until then diagnosis must know what hangs on it. A port is told down only by its own switch, in a clean sweep.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.cluster import fabric_edges
from collectors.cluster.fabric_edges import Held, Key, end_missing, ended_ports, key_of, share, with_found
from collectors.cluster.fabric_ports import Told, believed, links_of, sampled, unreachable
from collectors.cluster.fabric_sweep import LEAST_SHARE, Answer, Judged, Known, Sweep
from collectors.formats.events import event
from collectors.formats.ibnetdiscover import End, Names, edges
from collectors.formats.reading import Tally
from collectors.formats.text import clean_text
from sickbay.components import Kind, Name, name
from sickbay.messages import MAX_MESSAGE, AnyMessage, Edge, Event, Relation
from sickbay.messages import replace as changed
from sickbay.schema import Samples

SOURCE = "infiniband"  # of its edges
SETTLED_MS = 86_400_000  # [house] after a day the lesser part that is reached counts as the fabric
NOTICE_MS = 600_000  # a notice that stands is told again


@dataclass(frozen=True, slots=True)
class Versions:
    """Everything that sweeps told so far."""

    known: Known = field(default_factory=Known)
    held: Mapping[Key, Held] = field(default_factory=dict)
    ended: frozenset[Name] = frozenset()  # ports that once had another link: a new one has a beginning
    ports: Mapping[End, Told] = field(default_factory=dict)
    dark: frozenset[str] = frozenset()  # switches, by GUID, that were told to be unreachable
    notice: tuple[str, int] = ("", 0)  # what is wrong with the sweeps, and when that was told
    few_since_ms: int | None = None
    doubles: frozenset[str] = frozenset()  # names that were told to be claimed by several


class Step(NamedTuple):
    """One sweep's outcome."""

    versions: Versions
    edges: tuple[Edge, ...] = ()
    events: tuple[Event, ...] = ()
    samples: tuple[Samples, ...] = ()


def remembered(told: Iterable[AnyMessage]) -> Versions:
    """The state after what an earlier run told: its edges stand until sweeps say otherwise."""
    return Versions(held=fabric_edges.remembered(told, SOURCE))


def swept(before: Versions, answer: Answer, now_ms: int) -> Step:
    """The state after one more sweep, read at `now_ms`, and what it tells."""
    sweep = Sweep(answer, before.known)
    names = sweep.names(fresh=sweep.clean)
    found = _found(sweep, names, before)
    shown = share(found, before.held)
    judged = _settled(sweep.judged(shown), before, now_ms)
    excused = {names.ports[end] for end in sweep.silent if end in names.ports}
    held, told = with_found(before.held, found, before.ended, SOURCE, now_ms)
    if judged.whole:
        told += end_missing(held, found, excused, now_ms)
    links = links_of(held)
    ports, events = believed(sweep, before.ports, names, links, now_ms) if judged.clean else (before.ports, [])
    dark = unreachable(sweep, before.dark) if judged.whole else {}
    events += [changed(one, at_ms=now_ms, seen_ms=now_ms) for one in dark.values()]
    notice, said = _notice(before.notice, judged, sweep, now_ms)
    said += _doubled(sweep.doubles - before.doubles, now_ms)
    after = Versions(
        _known(sweep, before.known, names, held),
        held,
        before.ended | ended_ports(told),
        ports,
        (before.dark | dark.keys()) - sweep.switches,
        notice,
        None if shown >= LEAST_SHARE else before.few_since_ms or now_ms,
        sweep.doubles if sweep.clean else before.doubles | sweep.doubles,
    )
    samples = sampled(sweep, names, links, now_ms) if judged.clean else []
    return Step(after, tuple(told), (*events, *said), tuple(samples))


def standing(versions: Versions) -> list[Edge]:
    """Every edge in force."""
    return [held.edge for held in versions.held.values()]


def _found(sweep: Sweep, names: Names, before: Versions) -> dict[Key, Edge]:
    """The sweep's edges. Which switch is above which is not read from a part of the fabric, if better is known."""
    told = (reading.record for reading in edges(sweep.fabric, Tally(), names))
    found = {key_of(one): one for one in told if isinstance(one, Edge)}
    if sweep.clean or not any(held.edge.relation is Relation.ATTACHED_TO for held in before.held.values()):
        return found
    return {key: one for key, one in found.items() if one.relation is not Relation.ATTACHED_TO}


def _settled(judged: Judged, before: Versions, now_ms: int) -> Judged:
    since = before.few_since_ms
    if judged.clean and since is not None and now_ms - since >= SETTLED_MS:
        return judged._replace(whole=True)
    return judged


def _known(sweep: Sweep, before: Known, names: Names, held: Mapping[Key, Held]) -> Known:
    pairs = {pair for key in held for pair in (key[:2], key[1::-1])}
    left = {
        end: far
        for end, far in before.links.items()
        if not {end, far} & sweep.links.keys() and (before.names.get(end, ""), before.names.get(far, "")) in pairs
    }
    return Known(
        {**{end: before.names[end] for end in left}, **names.ports},
        {**left, **sweep.links},
        before.switches | sweep.switches,
        {**before.described, **{guid: text for guid, text in sweep.described.items() if text}},
        sweep.answer.managers[1] or before.manager,
    )


def _notice(before: tuple[str, int], judged: Judged, sweep: Sweep, now_ms: int) -> tuple[tuple[str, int], list[Event]]:
    """A sweep that does not show all is said when that begins, when its reason changes, and now and then."""
    if judged.whole:
        return ("", 0), []
    why = "; ".join(judged.why)
    kind = "".join(letter for letter in why if not letter.isdigit())
    if kind == before[0] and 0 <= now_ms - before[1] < NOTICE_MS:
        return before, []
    facts = {
        "nodes": str(len(sweep.nodes)),
        "known_nodes": str(len(sweep.nodes | {end.node for end in sweep.known.links})),
        "links": str(len(sweep.links) // 2),
        "known_links": str(len(sweep.known.links) // 2),
    }
    code = "states believed" if judged.clean else "nothing missing is believed"
    monitor = name(Kind.MONITOR, SOURCE, "sweep")
    told = event("monitor.partial_sweep", monitor, facts, code=code, message=why[:MAX_MESSAGE])
    return (kind, now_ms), [changed(told, at_ms=now_ms, seen_ms=now_ms)]


def _doubled(names: frozenset[str], now_ms: int) -> list[Event]:
    """Names that are claimed by several now: none of them stands for a part any more."""
    if not names:
        return []
    shown = ", ".join(clean_text(one) for one in sorted(names)[:8])
    text = f"{len(names)} names are claimed by several nodes, which are told by their GUIDs instead: {shown}"
    monitor = name(Kind.MONITOR, SOURCE, "names")
    told = event("monitor.notice", monitor, code="same name", message=text[:MAX_MESSAGE])
    return [changed(told, at_ms=now_ms, seen_ms=now_ms)]
