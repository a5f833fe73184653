"""What an effect changes, and nothing more: the same scenario is run with it and without it, and told apart.

seen = signature("accelerator_thermal", at_s=30, until_s=100)
seen.first("accelerator", card.component, "clock_megahertz")    # first second that differs, None: never
seen.changed("accelerator")                                     # component -> column -> (first, last) second
seen.added, seen.lost                                           # lines (second, Printed) that differ
[event.kind for event in seen.events("kernel")]                 # as the collectors read the added lines
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from collectors.formats import log
from collectors.formats.reading import Tally
from sickbay.components import Kind, Name, name, placed
from sickbay.messages import Event
from sickbay.schema import Samples
from simulator.parts.cluster import Card, Cluster
from simulator.parts.told import Told
from simulator.printing.envelopes import ENVELOPES
from simulator.printing.lines import Printed
from simulator.scenario import Scenario, scenario
from simulator.truth.expectation import Expectation
from simulator.world import Second, seconds

TOLD = "(told)"  # stands for a column where a component is told of in one run only, as when its host is gone
Changes = dict[Name, dict[str, tuple[int, int]]]
Values = NDArray[np.float64]


@dataclass
class Signature:
    """How a night with an effect differs from the same night without it. Times are seconds of the night."""

    scenario: Scenario
    target: object  # what the effect was given: a card, a host, a leaf ...
    added: list[tuple[int, Printed]]  # lines that are printed because of it
    lost: list[tuple[int, Printed]]  # lines that are not printed because of it
    tables: dict[str, Changes]
    expectation: Expectation = field(init=False)

    def __post_init__(self) -> None:
        self.expectation = self.scenario.expectations()[0]

    @property
    def card(self) -> Card:
        """The target, of an effect on a card."""
        assert isinstance(self.target, Card)
        return self.target

    @property
    def host(self) -> str:
        """The target host, or the target card's."""
        assert isinstance(self.target, Card | str)
        return self.target.host if isinstance(self.target, Card) else self.target

    def changed(self, table: str) -> Changes:
        """component -> column -> (first, last second that differs), of one table of `sickbay.schema`."""
        return self.tables.get(table, {})

    def first(self, table: str, component: Name, column: str) -> int | None:
        """The first second in which a column differs; None where it never does."""
        found = self.changed(table).get(component, {}).get(column)
        return found[0] if found else None

    def began(self) -> int | None:
        """The first second in which anything differs."""
        times = [first for table in self.tables.values() for row in table.values() for first, _ in row.values()]
        return min([*times, *(at_s for at_s, _ in self.added + self.lost)], default=None)

    def parts(self) -> set[Name]:
        """All components of which any column differs."""
        return {component for table in self.tables.values() for component in table}

    def hosts(self) -> set[str]:
        """Hosts of which anything differs, the lines of their kernels included."""
        kinds = ("host:", "accelerator:", "port:", "optic:")
        named = {part.partition(":")[2].partition("/")[0] for part in self.parts() if part.startswith(kinds)}
        named |= {line.host for _, line in self.added if line.source == "kernel"}
        return named & set(self.scenario.cluster.hosts)

    def job_hosts(self) -> set[str]:
        """Hosts of the job that the target belongs to, itself included."""
        jobs = [job for job in self.scenario.jobs if self.host in job.hosts]
        return {self.host, *(host for job in jobs for host in job.hosts)}

    def texts(self, source: str) -> list[str]:
        """Added lines of one source."""
        return [line.text for _, line in self.added if line.source == source]

    def events(self, *sources: str, envelope: str = "syslog") -> list[Event]:
        """The added lines of these sources (none given: all), as the collectors read them."""
        wanted = [line for _, line in self.added if not sources or line.source in sources]
        return read_back(wanted, self.scenario.start_ms, envelope)


def signature(
    what: str, *, seed: int = 5, at_s: int = 30, until_s: int = 100, on: object = None, site: bool = False,
    hosts: int = 4, timeout_s: int = 30, feeds: int = 1,
    **settings: object,
) -> Signature:  # fmt: skip
    """What the effect `what`, put on the time line at `at_s`, changes. `site`: of cables, power and cooling too."""
    made = _scenario(seed, hosts, timeout_s, feeds)
    made.add(what, at_s, on, dict(settings))  # type: ignore[arg-type]
    target = next(value for key, value in made.recipes[0][1].items() if key not in {"at", *settings})
    calm = _calm(seed, hosts, timeout_s, until_s, site, feeds)
    told = [_kept(second, site) for second in _seconds(made, until_s, site)]
    added, lost = _lines(calm, told)
    return Signature(made, target, added, lost, _changes(calm, told, made.cluster))


def read_back(lines: Iterable[Printed], start_ms: int, envelope: str = "syslog") -> list[Event]:
    """Printed lines through the reader of logs, a log per host, switch, scheduler and job; owners filled in."""
    logs: dict[tuple[str, str], list[str]] = {}
    for line in sorted(lines, key=lambda one: one.at_ms):
        logs.setdefault((line.host, line.job), []).append(_text(line, start_ms, envelope))
    return [event for owner, texts in logs.items() for event in _read(*owner, texts)]


def unread(lines: Iterable[Printed], start_ms: int) -> list[Printed]:
    """The lines that, read alone, tell the collectors nothing at all: neither events nor steps."""
    return [line for line in lines if not any(log.read([_text(line, start_ms).encode() + b"\n"], Tally(), "a.log"))]


def _text(line: Printed, start_ms: int, envelope: str = "syslog") -> str:
    return ENVELOPES[envelope](line, start_ms) if line.source == "kernel" else line.text


def _read(host: str, job: str, texts: Sequence[str]) -> Iterator[Event]:
    for reading in log.read([("\n".join(texts) + "\n").encode()], Tally(), f"{host or job}.log"):
        if isinstance(reading.record, Event):
            yield replace(reading.record, component=placed(reading.record.component, host or "?", job or "?"))


def _scenario(seed: int, hosts: int, timeout_s: int, feeds: int) -> Scenario:
    return scenario(seed=seed, hosts=hosts, timeout_s=timeout_s, feeds=feeds)


def _seconds(made: Scenario, until_s: int, site: bool) -> Iterator[Second]:
    return seconds(
        made.cluster, made.jobs, made.effects(), seed=made.seed, until_s=until_s, site=site, feeds=made.feeds
    )


@dataclass(frozen=True)
class _Kept:
    """One second: table -> (names, column -> values), rows not told are NaN; and the lines."""

    tables: dict[str, tuple[list[Name], dict[str, Values]]]
    lines: tuple[Printed, ...]


@lru_cache(maxsize=8)
def _calm(seed: int, hosts: int, timeout_s: int, until_s: int, site: bool, feeds: int) -> list[_Kept]:
    return [_kept(second, site) for second in _seconds(_scenario(seed, hosts, timeout_s, feeds), until_s, site)]


def _kept(second: Second, site: bool) -> _Kept:
    told = second.samples
    assert isinstance(told, Told)
    tables = {table: _of_hosts(told, table) for table in told.tables}
    if site and second.cables:
        at_ms = second.at_ms
        more = (*second.site, second.cables.modules(at_ms), second.cables.leaf_ports(at_ms))
        more = (*more, second.cables.uplink_ports(at_ms))
        tables |= {f"{one.table}#{place}": _of_samples(one) for place, one in enumerate(more)}
        tables["port#wire"] = _of_samples(second.cables.host_ports(at_ms))
    return _Kept(tables, second.lines)


def _of_hosts(told: Told, table: str) -> tuple[list[Name], dict[str, Values]]:
    cluster: Cluster = told.cluster
    up = np.asarray(told.up, bool)
    if table == "host":
        names, here = [name(Kind.HOST, host) for host in cluster.hosts], up
    else:
        here = np.repeat(up, cluster.per_host)
        here = here & told.seen if table == "accelerator" else here
        names = cluster.components if table == "accelerator" else cluster.ports
    columns = {key: np.where(here, np.asarray(values, float), np.nan) for key, values in told.tables[table].items()}
    return names, columns | {TOLD: np.where(here, 1.0, np.nan)}


def _of_samples(one: Samples) -> tuple[list[Name], dict[str, Values]]:
    return one.component, dict(one.values) | {TOLD: np.ones(len(one.component))}


def _changes(calm: Sequence[_Kept], told: Sequence[_Kept], cluster: Cluster) -> dict[str, Changes]:
    found: dict[str, Changes] = {}
    for at_s, (before, after) in enumerate(zip(calm, told, strict=True)):
        for table in {**before.tables, **after.tables}:
            for part, column in _differ(before.tables.get(table), after.tables.get(table)):
                row = found.setdefault(table.partition("#")[0], {}).setdefault(part, {})
                row[column] = (row.get(column, (at_s, at_s))[0], at_s)
    return found


_Table = tuple[list[Name], dict[str, Values]]


def _differ(before: _Table | None, after: _Table | None) -> Iterator[tuple[Name, str]]:
    """Component and column of all that differs. Where one run does not have a column, a counter has counted nothing."""
    names, old = before or ([], {})
    others, new = after or ([], {})
    if names != others:
        yield from ((part, TOLD) for part in set(names) ^ set(others))
        both = [part for part in names if part in set(others)]
        keep, kept = [names.index(part) for part in both], [others.index(part) for part in both]
        names, old = both, {key: values[keep] for key, values in old.items()}
        new = {key: values[kept] for key, values in new.items()}
    for column in {**old, **new}:
        a, b = old.get(column), new.get(column)
        if a is None or b is None:
            given = b if a is None else a
            assert given is not None
            unlike = ~(np.isnan(given) | ((given == 0.0) & column.endswith("_total")))
        else:
            unlike = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        yield from ((names[row], column) for row in np.nonzero(unlike)[0].tolist())


def _lines(calm: Sequence[_Kept], told: Sequence[_Kept]) -> tuple[list[tuple[int, Printed]], list[tuple[int, Printed]]]:
    before = [(at_s, line) for at_s, second in enumerate(calm) for line in second.lines]
    after = [(at_s, line) for at_s, second in enumerate(told) for line in second.lines]
    more, less = Counter(after) - Counter(before), Counter(before) - Counter(after)
    return [one for one in after if one in more], [one for one in before if one in less]
