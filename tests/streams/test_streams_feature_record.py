"""Feature records: what goes in comes out, whatever the shape."""

import polars as pl
import pytest

from streams.feature_record import decode, encode


@pytest.mark.parametrize("rows", range(1, 10))
@pytest.mark.parametrize("columns", range(1, 10))
def test_windows_of_any_shape_come_back(rows: int, columns: int) -> None:
    names = [f"host:h{row}" for row in range(rows)]
    told = {f"c{place}": [row + 100.0 * place for row in range(rows)] for place in range(columns)}
    frame = pl.DataFrame({"component": names, "end_ms": [7] * rows, **told})
    table, end_ms, back = decode(encode("host", 7, frame))
    assert (table, end_ms) == ("host", 7)
    assert back["component"].to_list() == names
    assert {name: back[name].to_list() for name in told} == told
