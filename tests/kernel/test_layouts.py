"""Layouts mean the same everywhere, and nobody can give an id another meaning."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay import layouts
from sickbay.layouts import MAX_COLUMNS, Layout, Schemas, UnknownLayout, decoded, layout_of
from sickbay.schema import TABLES, Table, gauge

columns = st.lists(st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True), unique=True, max_size=8)


def payload(layout: Layout, **change: object) -> bytes:
    told = msgspec.json.decode(layout.encoded())
    return msgspec.json.encode(told | change)


def test_an_id_never_changes() -> None:
    assert layout_of(TABLES["host"], ["up", "load_1m", "out_of_memory_kills_total"]).key == KNOWN


KNOWN = b"b3c64010e420b116"


@given(columns, st.integers(0, 8))
def test_a_layout_comes_back_as_it_was(names: list[str], cut: int) -> None:
    layout = Layout("host", tuple(names[:cut]), tuple(names[cut:]))
    assert decoded(layout.encoded()) == layout
    assert decoded(layout.encoded()).id == layout.id


@given(columns, columns, st.integers(0, 8), st.integers(0, 8))
def test_different_columns_have_different_ids(one: list[str], other: list[str], cut: int, cut_too: int) -> None:
    first = Layout("host", tuple(one[:cut]), tuple(one[cut:]))
    second = Layout("host", tuple(other[:cut_too]), tuple(other[cut_too:]))
    assert (first.id == second.id) == (first == second)


def test_a_column_called_like_a_type_makes_no_second_meaning() -> None:
    assert Layout("t", ("a", "counter"), ("b",)).id != Layout("t", ("a",), ("counter", "b")).id


def test_an_id_with_other_columns_is_refused() -> None:
    layout = layout_of(TABLES["host"])
    with pytest.raises(ValueError, match="not what it says"):
        decoded(payload(layout, id="0" * 16))
    with pytest.raises(ValueError, match="not what it says"):
        decoded(payload(layout, table="port"))


@pytest.mark.parametrize(
    "change",
    [
        {"columns": [{"name": "a", "type": "gauge"}] * 2},
        {"columns": [{"name": f"c{place}", "type": "gauge"} for place in range(MAX_COLUMNS + 1)]},
        {"columns": [{"name": "a b", "type": "gauge"}]},
        {"columns": [{"name": "a", "type": "text"}]},
        {"columns": None},
        {"table": "no\nword"},
    ],
)
def test_strange_columns_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (the words differ, the kind is the contract)
        decoded(payload(layout_of(TABLES["host"]), **change))


@pytest.mark.slow
@given(st.binary(max_size=80))
def test_no_bytes_do_more_than_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (the words differ, the kind is the contract)
        decoded(raw)


def test_a_reader_knows_its_own_tables_and_learns_others(monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = Schemas({"host": TABLES["host"]})
    strange = Layout("host", ("up", "new"), ())
    with pytest.raises(UnknownLayout) as caught:
        schemas.layout(strange.id)
    assert caught.value.layout_id == strange.id
    schemas.learn(strange)
    assert schemas.layout(strange.id) == strange
    assert schemas.own("port") is None
    monkeypatch.setattr(layouts, "MAX_LAYOUTS", 2)
    schemas.learn(strange)  # known already
    with pytest.raises(ValueError, match="makes them up"):
        schemas.learn(Layout("host", ("other",), ()))


def test_known_dictionaries_stay_within_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "MAX_DICTIONARY_BYTES", 100)
    schemas = Schemas()
    for number in range(50):
        schemas.keep_dictionary(b"host:%02d" % number, (f"host:{number:02d}",))
        assert sum(map(len, schemas.dictionaries)) <= 100
    assert b"host:49" in schemas.dictionaries


def test_a_layout_follows_the_tables_order_whatever_was_told() -> None:
    table = Table("t", "host", (gauge("b", "x", "x"), gauge("a", "x", "x")))
    assert layout_of(table, ["a", "b", "unknown"]).gauges == ("b", "a")
