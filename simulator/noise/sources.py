"""Noise of what reads and sends: exporters start anew, agents die and come back."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from simulator.noise.kit import Spells, cards_of, column, told_of
from simulator.printing.lines import Printed
from simulator.world import Second

RESTARTS_PER_HOUR, RESTART_S = 0.02, (4, 40)  # per host
DEATHS_PER_HOUR, DEATH_S = 0.004, (30, 300)


def exporter_restarts(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """The accelerator exporter of a host is away for some seconds; the host itself tells that."""
    spells = Spells(RESTARTS_PER_HOUR * strength, *RESTART_S)
    for second in seconds:
        told = told_of(second)
        away, _, _ = spells.tick(rng, len(told.cluster.hosts))
        if not len(away):
            yield second
            continue
        seen, up = told.seen.copy(), column(told, "host", "accelerator_source_up")
        seen[cards_of(told, away)] = False
        tables = dict(told.tables)
        if up is not None:
            up[away] = 0.0
            tables["host"] = {**told.tables["host"], "accelerator_source_up": up}
        yield replace(second, samples=replace(told, seen=seen, tables=tables))


def agent_deaths(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """An agent is away for minutes: no readings; what its host printed meanwhile is read when it is back."""
    spells = Spells(DEATHS_PER_HOUR * strength, *DEATH_S)
    kept: dict[str, list[Printed]] = {}
    for second in seconds:
        told = told_of(second)
        away, _, back = spells.tick(rng, len(told.cluster.hosts))
        hosts = told.cluster.hosts
        gone = {hosts[row] for row in away.tolist()}
        late = [line for row in back.tolist() for line in kept.pop(hosts[row], [])]
        lines = list(second.lines)
        for line in second.lines if gone else ():
            if line.source == "kernel" and line.host in gone:
                kept.setdefault(line.host, []).append(line)
                lines.remove(line)
        up = told.up & ~np.isin(np.arange(len(hosts)), away)
        yield replace(second, samples=replace(told, up=up), lines=(*late, *lines))
