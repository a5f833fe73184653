"""The telemetry tables are declared soundly, and samples are whole."""

import re

import numpy as np
import pytest

from sickbay.components import Kind
from sickbay.schema import TABLES, Column, Samples, Table

COLUMNS = [(table, column) for table in TABLES.values() for column in table.columns]


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_a_table_speaks_of_one_kind_and_names_each_column_once(table: Table) -> None:
    assert TABLES[table.name] is table
    assert Kind(table.component)
    assert len(set(table.names)) == len(table.names)
    assert [table.column(name) for name in table.names] == list(table.columns)
    with pytest.raises(KeyError):
        table.column("no_such_column")


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=lambda part: part.name)
def test_a_column_is_named_and_explained(table: Table, column: Column) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", column.name)
    instant = column.name == "boot_time_seconds"  # a counter only for its int64: it is a time, no total
    assert column.name.endswith("_total") == (column.type == "counter" and not instant)
    assert column.unit
    assert column.meaning
    assert not (column.peer and column.type == "counter")


def test_samples_are_columns_of_one_length_that_the_table_has() -> None:
    at = np.zeros(2, np.int64)
    Samples("host", ["host:a", "host:b"], at, {"up": np.ones(2)})
    with pytest.raises(ValueError, match=r"different lengths: \[1, 2\]"):
        Samples("host", ["host:a"], at, {"up": np.ones(2)})
    with pytest.raises(ValueError, match="different lengths"):
        Samples("host", ["host:a", "host:b"], at, {"up": np.ones(3)})
    with pytest.raises(ValueError, match=r"not columns of host: \['speed'\]"):
        Samples("host", ["host:a", "host:b"], at, {"speed": np.ones(2)})
    with pytest.raises(KeyError):
        Samples("nothing", [], np.zeros(0, np.int64), {})
