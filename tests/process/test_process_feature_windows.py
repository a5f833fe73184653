"""Windows that come in pieces, are joined, slide and are forgotten: always what a plain table of all of them holds."""

from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay.app.diagnosing import window_table
from sickbay.app.diagnosing.feature_windows import FeatureWindows
from sickbay.app.diagnosing.interest import About
from streams.feature_record import Block

W = 10
COLUMNS = ("up", "tx_pause_total__increase", "nobody_reads_this")
Step = tuple[int, list[int], int, int, int]  # end, components, columns, frontier behind the newest, windows kept


def name(one: int) -> str:
    return f"port:h{one % 4}/eth{one}"


def block(end_ms: int, components: list[int], columns: tuple[str, ...], value: float = 0.0) -> Block:
    values = [[value or 100.0 * place + one % 3 for one in components] for place, _ in enumerate(columns)]
    return Block("port", end_ms, tuple(map(name, components)), columns, np.array(values, np.float32))


@dataclass
class Plain:
    """A row for each component and window, of each column the first word."""

    rows: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)

    def add(self, told: Block) -> None:
        for place, component in enumerate(told.names):
            row = self.rows.setdefault((component, told.end_ms), {})
            for column, values in zip(told.columns, told.values, strict=True):
                if column != "nobody_reads_this":
                    row.setdefault(column, float(values[place]))

    def until(self, end_ms: int) -> list[tuple[str, int, dict[str, float]]]:
        return [(*key, self.rows[key]) for key in sorted(self.rows) if key[1] <= end_ms]


def rows_of(frame: pl.DataFrame) -> list[tuple[str, int, dict[str, float]]]:
    numbers = frame.with_columns(pl.exclude("component", "end_ms").fill_nan(None))
    return [
        (row.pop("component"), row.pop("end_ms"), {one: value for one, value in row.items() if value is not None})
        for row in numbers.iter_rows(named=True)
    ]


steps = st.lists(
    st.tuples(
        st.integers(-2, 2),
        st.lists(st.integers(0, 12), min_size=1, max_size=6),
        st.integers(1, 7),
        st.sampled_from([0, 1, 2, 99]),
        st.integers(3, 5),
    ),
    max_size=12,
)


@pytest.mark.slow
@given(steps, st.booleans())
def test_like_a_plain_table_of_everything(told: list[Step], places_change: bool) -> None:
    many, window_table.MANY = window_table.MANY, 0 if places_change else window_table.MANY
    try:
        found, plain, newest = FeatureWindows(W), Plain(), 100
        for ahead, components, chosen, behind, keep in told:
            end = newest + W * ahead
            newest = max(newest, end)
            columns = tuple(one for place, one in enumerate(COLUMNS) if chosen >> place & 1)
            one = block(end, components, columns)
            found.add(one)
            if end >= newest - keep * W:
                plain.add(one)
            found.forget(newest - keep * W)
            plain.rows = {key: row for key, row in plain.rows.items() if key[1] >= newest - keep * W}
            given_out = found.look(newest - behind * W).features.get("port")
            wanted = plain.until(newest - behind * W)
            assert (rows_of(given_out) if given_out is not None else []) == wanted
    finally:
        window_table.MANY = many


def look(found: FeatureWindows, renamed: bool = True, **names: str) -> pl.DataFrame:
    told = {f"port:h/{one}": f"port:h/{stands}" for one, stands in names.items()}
    return found.look(None, About(lambda one: told.get(one, one), renamed)).features["port"]


def two(end_ms: int, **values: float) -> Block:
    names = tuple(f"port:h/{one}" for one in values)
    return Block("port", end_ms, names, ("up",), np.array([[*values.values()]], np.float32))


def test_what_two_names_told_stands_under_one() -> None:
    found = FeatureWindows(W)
    found.add(two(10, a=1.0, b=0.0))
    assert look(found)["component"].to_list() == ["port:h/a", "port:h/b"]
    assert look(found, b="a").rows() == [("port:h/a", 10, 1.0)]
    found.add(two(20, b=0.5))
    assert look(found, renamed=False, b="a").rows() == [("port:h/a", 10, 1.0), ("port:h/a", 20, 0.5)]


def test_names_that_come_later_move_what_was_told_before() -> None:
    found = FeatureWindows(W)
    found.add(two(10, a=1.0))
    found.add(two(20, a=0.0))
    look(found)
    assert look(found, a="z").rows() == [("port:h/z", 10, 1.0), ("port:h/z", 20, 0.0)]


def test_of_silent_hosts_all_their_own_rows_are_given_out() -> None:
    found = FeatureWindows(W, few_rows=0)
    hosts = ("host:a", "host:b")
    found.add(Block("host", 10, hosts, ("load_1m",), np.ones((1, 2), np.float32)))
    assert "host" not in found.look(None).features
    found.add(Block("liveness", 20, hosts, ("silent_ms", "frames"), np.array([[500, 41_000], [9, 0]], np.float32)))
    told = found.look(None).features
    assert told["host"]["component"].to_list() == ["host:b"]
    assert told["liveness"].rows() == [("host:b", 20, 41_000.0, 0.0)]


def test_columns_that_say_the_same_are_kept_once() -> None:
    found = FeatureWindows(W)
    for end in (10, 20, 30):
        found.add(two(end, a=1.0, b=1.0))
        look(found)
    windows = found._tables["port"].windows
    assert windows[30].columns["up"] is windows[10].columns["up"]
    found.add(two(20, c=0.0))
    assert sorted(look(found)["up"]) == [0.0, *[1.0] * 6], "a late row changes its own window only"


def test_too_many_rows_of_interest_leave_the_newest_windows() -> None:
    found = FeatureWindows(W, few_rows=0, most_rows=4)
    for end in (10, 20, 30, 40):
        found.add(two(end, a=float(end == 10), b=float(end == 10)))
    assert look(found)["end_ms"].to_list() == [30, 40, 30, 40]
    assert found.cut == 2
