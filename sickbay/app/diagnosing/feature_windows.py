"""Windows of features as live diagnosis keeps them: all of them as columns, and rows of those that a look may be about.

100,000 accelerators and as many ports tell 36 million rows in half an hour. No detector needs more than those of the
jobs, hosts and links at which something may be wrong (`diagnosis.screen`), and a few numbers about all (`Wide`). A
table with few rows is given out whole.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl

from diagnosis import screen
from diagnosis.frames import names_of
from diagnosis.screen import CARDS, HOSTS, LIVENESS, OPTICS, PORTS, READ, Mask, OpticScreen, Places, PortScreen
from diagnosis.wide import SEES, TOLD, Wide
from sickbay.app.answering.plots import SHOWN
from sickbay.app.diagnosing.card_screen import EVER_MS, CardScreen, Owners, values_of
from sickbay.app.diagnosing.interest import About, Interest
from sickbay.app.diagnosing.wide_windows import WideWindows
from sickbay.app.diagnosing.window_table import WindowTable
from sickbay.components import Kind, Name
from sickbay.messages import Identity
from streams.feature_record import Block

NAMED = frozenset({PORTS, OPTICS})  # tables of parts that sources call by several names
WHOLE = frozenset({"pdu", "cdu"})  # few of them, and all are looked at
FEW_ROWS = 100_000  # of a table: it is given out whole
MOST_ROWS = 3_000_000  # of a table: if more are of interest only the newest windows are given out


class Told(NamedTuple):
    """What a case is told of the windows: see there."""

    features: dict[str, pl.DataFrame]
    wide: Wide
    whole_jobs: frozenset[str] | None


@dataclass(slots=True)
class FeatureWindows:
    """What was told, by table. `few_rows`, `most_rows`: see `FEW_ROWS`, `MOST_ROWS`."""

    window_ms: int = 10_000
    few_rows: int = FEW_ROWS
    most_rows: int = MOST_ROWS
    cut: int = 0  # windows of interest that the newest look left out
    _tables: dict[str, WindowTable] = field(default_factory=dict)
    _owners: Owners = field(default_factory=Owners)
    _owner: dict[str, Places] = field(default_factory=dict)  # by table: the owner of each row
    _generation: dict[str, int] = field(default_factory=dict)
    _seen: dict[str, dict[int, Places]] = field(default_factory=dict)  # by sign and window: owners with a row
    _until: dict[str, Places] = field(default_factory=dict)  # by table and row: the newest window of interest
    _pauses: dict[int, tuple[Places, Places]] = field(default_factory=dict)  # by window: ports that send, that are held
    _models: dict[Name, str] = field(default_factory=dict)
    _model_numbers: dict[str, int] = field(default_factory=dict)
    _cards: CardScreen | None = None
    _ports: PortScreen = field(default_factory=PortScreen)
    _optics: OpticScreen = field(default_factory=OpticScreen)
    _before_ms: int = 0
    _span_ms: int = 0  # how long a time all windows take that are kept

    @property
    def size(self) -> int:
        """Bytes of all that is kept of windows, each array once."""
        arrays = {
            id(values): values.nbytes
            for table in self._tables.values()
            for window in table.windows.values()
            for values in (window.present, *window.columns.values())
        }
        return sum(arrays.values())

    def add(self, block: Block) -> None:
        """Some more rows of a window."""
        if block.end_ms >= self._before_ms:
            self._table(block.table).add(block)

    def learn(self, one: Identity) -> None:
        """The model of an accelerator: only those of one model are compared."""
        if one.kind != Kind.ACCELERATOR or not one.model:
            return
        for name in names_of(one):
            if self._models.get(name) != one.model:
                self._models[name] = one.model
                place = self._table(CARDS).places.get(name)
                if self._cards and place is not None and place < self._cards.model.size:
                    self._cards.model[place] = self._model(name)
                    self._cards.learned(_owner(name))

    def forget(self, before_ms: int) -> None:
        """Lets go of windows that end before a time."""
        if before_ms <= self._before_ms:
            return
        self._before_ms = before_ms
        for table in self._tables.values():
            table.forget(before_ms)
        self._pauses = {end: rows for end, rows in self._pauses.items() if end >= before_ms}
        for sign, kept in self._seen.items():
            self._seen[sign] = {end: owners for end, owners in kept.items() if end >= before_ms}
        if self._cards:
            self._cards.forget(before_ms)

    def look(self, frontier_ms: int | None, about: About | None = None) -> Told:
        """What windows that end then or before (None: all) tell of what is of interest."""
        about = about or About()
        fresh: dict[str, list[int]] = {}
        for name, table in self._tables.items():
            several = name in NAMED
            table.settle(about.named if several else str, all_of_them=several and about.renamed)
            self._number(name, table)
            fresh[name] = [end for end in table.ends(frontier_ms) if not table.windows[end].whole]
        newest = max((end for ends in fresh.values() for end in ends), default=0)
        self._span_ms = max(self._span_ms, newest - self._before_ms if self._before_ms else EVER_MS)
        for name, ends in fresh.items():
            for end in ends:
                self._take(name, self._tables[name], end)
        whole_jobs, self.cut = self._jobs(about, frontier_ms, fresh.get(CARDS, [])), 0
        for name, ends in fresh.items():
            table = self._tables[name]
            for end in ends:
                before = table.windows.get(end - self.window_ms)
                table.windows[end].share(before if before and before.whole else None)
        due = {name: table.ends(frontier_ms) for name, table in self._tables.items()}
        interest = Interest(self._tables, self._owners, self._owner, self._until, self._pauses)
        wanted = interest.rows(about, whole_jobs, due)
        features = {}
        for name, table in self._tables.items():
            rows = self._everything(table, due[name]) if self._is_small(name, due[name]) else wanted.get(name)
            frame = self._rows(table, rows, due[name]) if rows is not None and rows.size and due[name] else None
            if frame is not None and frame.height:
                features[name] = frame
        small = self._is_small(CARDS, due.get(CARDS, []))
        wide = WideWindows(self._tables, due, self._owners, self._owner, self._seen)
        return Told(features, wide, None if small else whole_jobs)

    def _table(self, name: str) -> WindowTable:
        if name not in self._tables:
            kept = frozenset((*READ[name], *SHOWN[name])) if name in (CARDS, PORTS) else None
            self._tables[name] = WindowTable(kept)
        return self._tables[name]

    def _number(self, name: str, table: WindowTable) -> None:
        """Owners, models and marks of rows that are new."""
        if self._generation.setdefault(name, table.generation) != table.generation:
            self._generation[name] = table.generation
            self._owner.pop(name, None)
            self._until.pop(name, None)
            self._reset(name)
        known = self._owner.get(name, np.empty(0, np.int64))
        new = table.names[known.size :]
        if new or name not in self._owner:
            owners = np.array([self._owners.of(_owner(one)) for one in new], np.int64)
            self._owner[name] = np.concatenate([known, owners])
            until = self._until.get(name, np.empty(0, np.int64))
            self._until[name] = np.concatenate([until, np.full(len(new), -1)])
        if name == CARDS:
            self._cards = self._cards or CardScreen(table, self._owners, self.window_ms)
            self._cards.owner = self._owner[name]
            if new:
                self._cards.model = np.concatenate([self._cards.model, np.array([*map(self._model, new)], np.int64)])

    def _reset(self, name: str) -> None:
        if name == CARDS:
            self._cards = None
        elif name == PORTS:
            self._ports, self._pauses = PortScreen(), {}
        elif name == OPTICS:
            self._optics = OpticScreen()

    def _model(self, name: Name) -> int:
        model = self._models.get(name, "")
        return self._model_numbers.setdefault(model, len(self._model_numbers) + 1) if model else 0

    def _take(self, name: str, table: WindowTable, end_ms: int) -> None:
        """Marks what is of interest in a window that was not looked at yet."""
        window, rows = table.windows[end_ms], len(table.names)
        window.grow(rows)
        values = values_of(window, rows, window.columns)
        self._see(name, end_ms, window.present)
        if name == CARDS:
            self._see(SEES, end_ms, screen.sees(values, window.present), CARDS)
            assert self._cards
            found = screen.device(values, rows) | screen.narrow_of_model(values, self._cards.model)
        elif name == HOSTS:
            self._see(TOLD, end_ms, screen.told(values, window.present), HOSTS)
            found = screen.clocks_off(values, rows)
        elif name == LIVENESS:
            found = screen.silent(values, rows)
        elif name == PORTS:
            found = self._ports.take(values, rows, end_ms, self._span_ms, self.window_ms, self._paired(name))
            _, senders, held = screen.pauses(values, rows, self.window_ms)
            self._pauses.pop(end_ms, None)
            if senders.size:
                self._pauses[end_ms] = (senders, held)
        elif name == OPTICS:
            found = self._optics.take(values, rows, end_ms, self._span_ms, self._paired(name))
        else:
            return
        self._until[name][found] = np.maximum(self._until[name][found], end_ms)

    def _see(self, sign: str, end_ms: int, has: Mask, name: str = "") -> None:
        owners = np.unique(self._owner[name or sign][np.flatnonzero(has)])
        self._seen.setdefault(sign, {})[end_ms] = owners

    def _paired(self, name: str) -> Callable[[Places], Mask]:
        """Which ports have a module that is known too, and the other way round."""
        other = OPTICS if name == PORTS else PORTS
        places, names = self._table(other).places if other in self._tables else {}, self._tables[name].names

        def paired(rows: Places) -> Mask:
            known = [f"{other}:{names[row].partition(':')[2]}" in places for row in rows] if places else []
            return np.array(known, np.bool_) if known else np.zeros(rows.size, np.bool_)

        return paired

    def _jobs(self, about: About, frontier_ms: int | None, fresh: list[int]) -> frozenset[str]:
        ends = self._tables[CARDS].ends(frontier_ms) if CARDS in self._tables else []
        return self._cards.jobs(about.placements, ends, fresh) if self._cards else frozenset()

    def _is_small(self, name: str, ends: list[int]) -> bool:
        """Whether a table is given out whole."""
        table = self._tables.get(name)
        if table is None or name in WHOLE:
            return True
        return sum(int(table.windows[end].present.sum()) for end in ends) <= self.few_rows

    @staticmethod
    def _everything(table: WindowTable, ends: list[int]) -> Places:
        used = np.zeros(len(table.names), np.bool_)
        for end in ends:
            present = table.windows[end].present
            used[: present.size] |= present
        return np.flatnonzero(used)

    def _rows(self, table: WindowTable, rows: Places, ends: list[int]) -> pl.DataFrame:
        most = max(1, self.most_rows // rows.size)
        self.cut += max(0, len(ends) - most)
        return table.rows(rows, ends[-most:])


def _owner(component: Name) -> str:
    """The first word after the kind, as `frames.table` takes it."""
    return component.partition(":")[2].partition("/")[0]
