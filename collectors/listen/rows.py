"""Values told one series at a time, as rows of all columns of a component and time."""

from collections.abc import Sequence

import numpy as np

from sickbay.components import Name
from sickbay.schema import TABLES, Samples


def wide(batches: Sequence[Samples]) -> list[Samples]:
    """One row of all columns a component and time, instead of one a series; rows that tell nothing are left out.

    Where two series tell one cell, the worse one stands, as everywhere.
    """
    tables: dict[str, dict[tuple[Name, int], int]] = {}
    columns: dict[str, dict[str, list[tuple[list[int], list[float]]]]] = {}
    for batch in batches:
        places = tables.setdefault(batch.table, {})
        rows = [places.setdefault(key, len(places)) for key in zip(batch.component, batch.at_ms.tolist(), strict=True)]
        for column, values in batch.values.items():
            columns.setdefault(batch.table, {}).setdefault(column, []).append((rows, values.tolist()))
    return [
        made for table, places in tables.items() if (made := _table(table, list(places), columns[table])) is not None
    ]


def by_age(batches: Sequence[Samples], since_ms: int) -> tuple[list[Samples], list[Samples]]:
    """The rows since a time, and those before it."""
    parts = list[Samples](), list[Samples]()
    for batch in batches:
        for own, rows in zip(parts, (batch.at_ms >= since_ms, batch.at_ms < since_ms), strict=True):
            if rows.all():
                own.append(batch)
            elif rows.any():
                component = [one for one, yes in zip(batch.component, rows, strict=True) if yes]
                values = {name: column[rows] for name, column in batch.values.items()}
                own.append(Samples(batch.table, component, batch.at_ms[rows], values))
    return parts


def _table(
    table: str, keys: list[tuple[Name, int]], columns: dict[str, list[tuple[list[int], list[float]]]]
) -> Samples | None:
    values = {column: np.full(len(keys), np.nan) for column in columns}
    for column, pieces in columns.items():
        worse = np.fmin if TABLES[table].column(column).low else np.fmax
        for rows, told in pieces:
            values[column][rows] = worse(values[column][rows], told)
    known = ~np.all([np.isnan(column) for column in values.values()], axis=0)
    if not known.any():
        return None
    component = [name for (name, _), yes in zip(keys, known, strict=True) if yes]
    at_ms = np.array([at for _, at in keys], np.int64)[known]
    return Samples(table, component, at_ms, {column: told[known] for column, told in values.items()})
