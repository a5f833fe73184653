"""People and machines at work on hosts that no job uses: with no idle host nothing of this happens."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from sickbay.actions import Control
from sickbay.components import Kind, name
from simulator.noise.kit import HOUR_S, Idle, Rows, cards_of, column, told_of
from simulator.parts.cluster import Card
from simulator.printing import host_lines, lines
from simulator.printing.lines import Printed
from simulator.world import Second

PER_HOUR = 0.1  # of each kind, per idle host
AWAY_S = (90, 400)  # from going down until the first word after the boot
RELOAD_S = 8
DOWN_AFTER_S = 5  # from the word that it goes down


@dataclass(slots=True)
class _Away:
    """Hosts that are at work: since when, and until when, by row; and when those that are back were started."""

    since: dict[int, int] = field(default_factory=dict)
    until: dict[int, int] = field(default_factory=dict)
    booted: dict[int, int] = field(default_factory=dict)

    def end(self, at_s: int) -> list[int]:
        """Hosts that are back in this second."""
        back = [row for row, until in self.until.items() if until <= at_s]
        for row in back:
            self.booted[row] = at_s - 25
            del self.since[row], self.until[row]
        return back


def _begins(idle: Rows, busy: dict[int, int], rate: float, rng: np.random.Generator) -> list[int]:
    """At most one idle host at which it begins in this second."""
    drawn, place = rng.random(), rng.random()
    if drawn >= rate * len(idle) / HOUR_S or not len(idle):
        return []
    row = int(idle[int(place * len(idle))])
    return [] if row in busy else [row]


def _restarts(seconds: Iterator[Second], strength: float, rng: np.random.Generator, declared: bool) -> Iterator[Second]:
    """Idle hosts go down in order and come back."""
    idle, away = Idle(), _Away()
    for at_s, second in enumerate(seconds):
        hosts = told_of(second).cluster.hosts
        printed, controls = list[Printed](), list[Control]()
        for row in _begins(idle.rows(second), away.until, PER_HOUR * strength, rng):
            away.since[row], away.until[row] = at_s, at_s + int(rng.integers(*AWAY_S))
            printed += host_lines.goes_down(second.at_ms, hosts[row], again=declared)
            if declared:
                controls.append(_control(hosts[row], second.at_ms, second.at_ms + 1000 * (AWAY_S[1] + 120)))
        printed += [host_lines.boots(second.at_ms + 5, hosts[row]) for row in away.end(at_s)]
        gone = [row for row, since in away.since.items() if at_s - since >= DOWN_AFTER_S]
        told = _without(second, gone, away.booted, at_s) if gone or away.booted else second
        yield replace(told, lines=(*second.lines, *printed), declared=(*second.declared, *controls))


def _control(host: str, at_ms: int, until_ms: int) -> Control:
    return Control(
        kind="maintenance", target=name(Kind.HOST, host), by="carol", at_ms=at_ms, from_ms=at_ms, until_ms=until_ms,
        note="new firmware",
    )  # fmt: skip


def _without(second: Second, gone: list[int], booted: dict[int, int], at_s: int) -> Second:
    """The second without these hosts; those that are back tell when they booted."""
    told = told_of(second)
    up, tables = told.up.copy(), dict(told.tables)
    up[gone] = False
    boot = column(told, "host", "boot_time_seconds")
    if boot is not None and booted:
        boot[list(booted)] = [second.at_ms // 1000 - (at_s - one) for one in booted.values()]
        tables["host"] = {**told.tables["host"], "boot_time_seconds": boot}
    return replace(second, samples=replace(told, up=up, tables=tables))


def maintenance(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """Declared work on idle hosts: each restarts within its window."""
    return _restarts(seconds, strength, rng, declared=True)


def shutdowns(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """Somebody switches idle hosts off for minutes, and told nobody."""
    return _restarts(seconds, strength, rng, declared=False)


def driver_reloads(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """The driver of an idle host goes and comes: its cards are away for some seconds."""
    idle, until = Idle(), dict[int, int]()
    for at_s, second in enumerate(seconds):
        told = told_of(second)
        until = {row: end for row, end in until.items() if end > at_s}
        printed = list[Printed]()
        for row in _begins(idle.rows(second), until, PER_HOUR * strength, rng):
            until[row] = at_s + RELOAD_S
            printed += host_lines.driver_loads(second.at_ms, told.cluster.hosts[row])
        if not until:
            yield second
            continue
        seen = told.seen.copy()
        seen[cards_of(told, np.array(list(until), np.int64))] = False
        yield replace(second, samples=replace(told, seen=seen), lines=(*second.lines, *printed))


def bring_up_storms(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """An idle host is brought up: within half a minute it prints what would alarm on any other day."""
    idle, since = Idle(), dict[int, int]()
    for at_s, second in enumerate(seconds):
        cluster = told_of(second).cluster
        since = {row: began for row, began in since.items() if at_s - began < 30}
        for row in _begins(idle.rows(second), since, PER_HOUR * strength, rng):
            since[row] = at_s
        printed = [
            line
            for row, began in since.items()
            for line in _storm(second.at_ms, cluster.of(cluster.hosts[row]), at_s - began)
        ]
        yield replace(second, lines=(*second.lines, *printed)) if printed else second


def _storm(at_ms: int, cards: tuple[Card, ...], since: int) -> Iterator[Printed]:
    """The kernel's first line, links that train twice, errors that the hardware corrected."""
    if since == 0:
        yield host_lines.boots(at_ms, cards[0].host)
    states = {8: "Down", 11: "Up", 14: "Down", 18: "Up"}
    for place, card in enumerate(cards if since in states else ()):
        yield lines.link(at_ms + 20 * place, card, states[since])
    for place, card in enumerate(cards[:3] if since in (6, 9) else ()):
        yield from lines.corrected_bus_error(at_ms + 40 * place, card)


WORK: dict[str, Callable[[Iterator[Second], float, np.random.Generator], Iterator[Second]]] = {
    "maintenance": maintenance,
    "shutdowns": shutdowns,
    "driver_reloads": driver_reloads,
    "bring_up_storms": bring_up_storms,
}
