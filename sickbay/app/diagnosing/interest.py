"""Which rows a look is given: those that were marked, and what belongs to them as far as detectors look."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from diagnosis.screen import CARDS, HOSTS, LIVENESS, OPTICS, PORTS, Places
from sickbay.app.diagnosing.card_screen import Owners, hosts_of
from sickbay.app.diagnosing.window_table import WindowTable
from sickbay.components import Name
from sickbay.placement import Placements


class About(NamedTuple):
    """What a look is about, beside what windows tell. `renamed`: what `named` says changed. `far`: the other end of a
    port's link. `components`: those that events name; `parts`: those that open incidents rest on."""

    named: Callable[[Name], Name] = str
    renamed: bool = True
    placements: Placements = Placements()
    far: Callable[[Name], Name | None] = lambda port: None
    components: Iterable[Name] = ()
    parts: Iterable[Name] = ()


@dataclass(frozen=True, slots=True)
class Interest:
    """`until`: the newest window in which a row was marked; `owner`: the owner of each row; both by table. `pauses`:
    ports that send pause and ports that are held, by window."""

    tables: Mapping[str, WindowTable]
    owners: Owners
    owner: Mapping[str, Places]
    until: Mapping[str, Places]
    pauses: Mapping[int, tuple[Places, Places]]

    def rows(self, about: About, jobs: frozenset[str], ends: Mapping[str, list[int]]) -> dict[str, Places]:
        """The rows of interest by table."""
        found = {}
        for name in self.tables.keys() & {CARDS, PORTS, OPTICS, HOSTS, LIVENESS}:
            told = ends[name]
            marked = np.flatnonzero(self.until[name] >= (told[0] if told else 0))
            found[name] = [marked, self._places(name, (*about.components, *about.parts))]
        if CARDS in found:
            hosts = self._hosts_of(jobs, about.placements)
            found[CARDS].append(np.flatnonzero(np.isin(self.owner[CARDS], hosts)))
        if LIVENESS in found and HOSTS in found:
            silent = [self.tables[LIVENESS].names[row] for row in found[LIVENESS][0]]
            found[HOSTS].append(self._places(HOSTS, silent))
        if PORTS in found:
            found[PORTS] += [rows for end in ends[PORTS] for rows in self.pauses.get(end, ())]
        wanted = {name: np.unique(np.concatenate(rows)) for name, rows in found.items()}
        if OPTICS in wanted:
            names = [self.tables[OPTICS].names[row].partition(":")[2] for row in wanted[OPTICS]]
            far = [other for one in names if (other := about.far(f"{PORTS}:{one}"))]
            beside = self._places(OPTICS, (f"{OPTICS}:{one.partition(':')[2]}" for one in far))
            wanted[OPTICS] = np.union1d(wanted[OPTICS], beside)
        return self._with_pairs(wanted)

    def _with_pairs(self, wanted: dict[str, Places]) -> dict[str, Places]:
        """Ports and their modules tell of the same receiver: both or none."""
        if PORTS not in wanted or OPTICS not in wanted:
            return wanted
        rests = {self.tables[name].names[row].partition(":")[2] for name in (PORTS, OPTICS) for row in wanted[name]}
        for name in (PORTS, OPTICS):
            wanted[name] = np.union1d(wanted[name], self._places(name, (f"{name}:{one}" for one in rests)))
        return wanted

    def _places(self, name: str, components: Iterable[Name]) -> Places:
        places = self.tables[name].places
        return np.array(sorted({places[one] for one in components if one in places}), np.int64)

    def _hosts_of(self, jobs: frozenset[str], placements: Placements) -> list[int]:
        if not len(placements):
            return [*range(len(self.owners.names))] if jobs else []
        hosts = {host for one in placements if one.job in jobs for host in hosts_of(one)}
        return sorted(self.owners.number[host] for host in hosts if host in self.owners.number)
