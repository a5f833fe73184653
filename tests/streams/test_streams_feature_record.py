"""Feature records: what goes in comes out, whatever the shape; the same names are the same tuple."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.feature_record import (
    Block,
    Clock,
    clock_key,
    decode,
    decode_clock,
    encode,
    encode_clock,
    encode_frame,
    frame_of,
    is_clock,
)
from streams.upstream import Upstreams


@pytest.mark.parametrize("rows", range(1, 10))
@pytest.mark.parametrize("columns", range(1, 10))
def test_windows_of_any_shape_come_back(rows: int, columns: int) -> None:
    names = [f"host:h{row}" for row in range(rows)]
    told = {f"c{place}": [row + 100.0 * place for row in range(rows)] for place in range(columns)}
    frame = pl.DataFrame({"component": names, "end_ms": [7] * rows, **told})
    block = decode(encode_frame("host", 7, frame))
    back = frame_of(block)
    assert (block.table, block.end_ms) == ("host", 7)
    assert back["component"].to_list() == names
    assert {name: back[name].to_list() for name in told} == told


def test_the_same_names_are_the_same_tuple_and_values_are_a_view() -> None:
    names, columns = ("port:h1/a", "port:h1/b"), ("n", "up")
    values = np.array([[5, 4], [1, np.nan]], np.float32)
    first, second = (decode(encode(Block("port", at, names, columns, values, True, 3))) for at in (10_000, 20_000))
    assert first.names is second.names == names
    assert (first.columns, first.stale, first.upstream, second.end_ms) == (columns, True, 3, 20_000)
    assert np.array_equal(first.values, values, equal_nan=True)
    assert not first.values.flags.writeable
    assert frame_of(first)["up"].to_list() == [1.0, None]
    assert frame_of(first)["n"].dtype == pl.Int64


def test_a_clock_is_told_apart_and_has_no_rows() -> None:
    payload = encode_clock(Clock(7, 123_456, True))
    assert is_clock(clock_key(7))
    assert not is_clock(b"port/7")
    assert decode_clock(payload) == Clock(7, 123_456, True)
    assert frame_of(decode(payload)).height == 0
    with pytest.raises(ValueError, match="no clock"):
        decode_clock(encode(Block("port", 1, (), (), np.empty((0, 0), np.float32))))


@given(st.lists(st.tuples(st.integers(-1, 4), st.integers(0, 50))))
def test_a_partition_is_complete_up_to_the_slowest_of_those_who_write_into_it(told: list[tuple[int, int]]) -> None:
    upstreams = Upstreams(3)
    for upstream, clock_ms in told:
        upstreams.heard(upstream, clock_ms)
    newest = [max((clock for one, clock in told if one == upstream), default=-1) for upstream in range(3)]
    assert upstreams.complete_ms == max(0, min(newest))
    assert upstreams.behind(25) == tuple(one for one in range(3) if newest[one] < 25)
