"""What effects make sensors read in one second, by table and column: for all that has no field of its own in
`Conditions`. Counters remember what was added to them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sickbay.schema import TABLES

Floats: TypeAlias = NDArray[np.float64]
Columns: TypeAlias = dict[str, Floats]
Rows: TypeAlias = int | slice | Sequence[int] | NDArray[np.int64]
Values: TypeAlias = float | Floats


@dataclass(slots=True)
class Overlay:
    """Of one second. Rows count as in the cluster: cards for `accelerator` and `port`, hosts for `host`."""

    _put: list[tuple[str, str, Rows, Values]] = field(default_factory=list)
    _scaled: list[tuple[str, str, Rows, Values]] = field(default_factory=list)
    _more: list[tuple[str, str, Rows, Values]] = field(default_factory=list)
    _hidden: list[tuple[str, tuple[str, ...], Rows]] = field(default_factory=list)
    _frozen: list[tuple[str, tuple[str, ...], Rows]] = field(default_factory=list)

    def put(self, table: str, column: str, rows: Rows, value: Values) -> None:
        """These rows read this value."""
        self._put.append((table, _known(table, column), rows, value))

    def scale(self, table: str, column: str, rows: Rows, factor: Values) -> None:
        """These rows read so many times what they would have read."""
        self._scaled.append((table, _known(table, column), rows, factor))

    def count(self, table: str, column: str, rows: Rows, more: Values) -> None:
        """A counter grew by so much more in this second, and shows it from now on."""
        self._more.append((table, _known(table, column), rows, more))

    def hide(self, table: str, rows: Rows, columns: tuple[str, ...] = ()) -> None:
        """These rows have no value, in these columns or in all."""
        for column in columns:
            _known(table, column)
        self._hidden.append((table, columns, rows))

    def freeze(self, table: str, rows: Rows, columns: tuple[str, ...] = ()) -> None:
        """These rows read what they read in the second before, in these columns or in all."""
        for column in columns:
            _known(table, column)
        self._frozen.append((table, columns, rows))

    def over(self, table: str, columns: Columns, added: Columns, last: Columns | None = None) -> Columns:
        """`columns` with all of it. `added`: what counters were given so far; it grows. `last`: what was read in the
        second before."""
        size = len(next(iter(columns.values())))
        for which, column, rows, more in self._more:
            if which == table:
                added.setdefault(column, np.zeros(size))[rows] += more
        for column, total in added.items():
            # Whoever tells a column that nobody else has tells it of the rows that it counted for.
            columns[column] = columns[column] + total if column in columns else np.where(total > 0, total, np.nan)
        for which, column, rows, factor in self._scaled:
            if which == table:
                columns[column] = np.array(columns.get(column, np.full(size, np.nan)), float)
                columns[column][rows] *= factor
        for which, column, rows, value in self._put:
            if which == table:
                columns[column] = np.array(columns.get(column, np.full(size, np.nan)), float)
                columns[column][rows] = value
        for which, names, rows in self._frozen if last else ():
            for column in (set(names or columns) & set(columns) & set(last or ())) if which == table else ():
                columns[column] = np.array(columns[column], float)
                columns[column][rows] = (last or {})[column][rows]
        for which, names, rows in self._hidden:
            for column in (names or tuple(columns)) if which == table else ():
                columns[column] = np.array(columns.get(column, np.zeros(size)), float)
                columns[column][rows] = np.nan
        return columns


def _known(table: str, column: str) -> str:
    """The column. Raises KeyError."""
    return TABLES[table].column(column).name
