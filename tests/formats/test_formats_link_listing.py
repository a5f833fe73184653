"""Ports of switches one a line: what each part of a line means, queries that nobody answered, any bytes."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.link_listing import Port, ports
from collectors.formats.reading import Tally

UP = (
    '0x0000000000200001 "                       leaf2"      3    1[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>'
    '  0x0000000000100005      6    1[  ] "n3 mlx5_0" ( )'
)
DOWN = (
    '0x0000000000200001 "                       leaf2"      3    4[  ] ==(                Down/ Polling)==>'
    '             [  ] "" ( )'
)


def read(text: str) -> tuple[list[Port], int]:
    tally = Tally()
    return list(ports([text.encode("utf-8", "replace")], tally)), tally.unparsed


def one(text: str) -> Port:
    ((port,), unparsed) = read(text)
    assert unparsed == 0
    return port


def test_a_port_that_is_up_tells_its_far_end_and_its_rate() -> None:
    port = one(UP)
    assert port == Port(
        "0x0000000000200001", "leaf2", 1, "Active", "LinkUp", 4, 50.0, "0x0000000000100005", 1, "n3 mlx5_0"
    )
    assert port.rate == 200.0
    assert one(UP.replace("( )", "(Could be 12X Could be 10.0 Gbps)")).better


def test_a_port_that_is_down_tells_no_rate_and_no_far_end() -> None:
    port = one(DOWN)
    assert (port.state, port.physical, port.far, port.rate) == ("Down", "Polling", "", 0.0)


@pytest.mark.parametrize(
    ("link", "rate", "state"),
    [
        (" 4X       106.25 Gbps Active/  LinkUp", 400.0, "Active"),
        (" 4X      25.78125 Gbps Active/  LinkUp", 100.0, "Active"),
        (" 4X          10.0 Gbps Active/  LinkUp", 40.0, "Active"),
        (" 4X         FDR10 Active/  LinkUp", 40.0, "Active"),
        (" 1X       14.0625 Gbps Initialize/  LinkUp", 14.0, "Initialize"),
        ("undefined (0)     Extended speed NoChange/NoChange", 0.0, "NoChange"),
        ("                Down/Disabled", 0.0, "Down"),
    ],
)
def test_rates_are_what_the_kernel_calls_them(link: str, rate: float, state: str) -> None:
    port = one(UP.replace(" 4X        53.125 Gbps Active/  LinkUp", link))
    assert (port.rate, port.state) == (rate, state)


def test_a_far_end_that_nobody_answered_is_none() -> None:
    port = one(DOWN.replace("                Down/ Polling", " 4X        53.125 Gbps Active/  LinkUp"))
    assert (port.state, port.far) == ("Active", "")
    assert one(UP.replace('"n3 mlx5_0"', '""')).far_description == ""


def test_a_description_may_hold_anything_but_decides_nothing() -> None:
    bad = 'x" ( ) ==( 4X 2.5 Gbps Down/ Polling)==> [ ] "" ( )'
    assert one(UP.replace("n3 mlx5_0", bad)).state == "Active"
    assert one(UP.replace("n3 mlx5_0", 'h"7 mlx5_0')).far_description == 'h"7 mlx5_0'
    assert read(UP.replace("n3 mlx5_0", "x" * 5000)) == ([], 1)
    assert one(UP.replace("n3 mlx5_0", "n3\x1b[31m\u202emlx5_0")).far_description == "n3mlx5_0"


@given(st.lists(st.one_of(st.text(max_size=200), st.sampled_from([UP, DOWN]), st.just(UP[:90]))))
def test_lines_of_another_form_are_counted_and_hide_no_other(rows: Iterable[str]) -> None:
    told = [" ".join(row.split()) if row not in (UP, DOWN) else row for row in rows]
    found, unparsed = read("\n".join(told))
    assert len(found) == sum(row in (UP, DOWN) for row in told)
    assert unparsed <= len(told)


@pytest.mark.parametrize(
    "row", ['0x1 "' * 9000, UP[:30] + " " * 60_000 + "!", "==(" * 20_000, '"' * 60_000, "0x" + "1" * 60_000]
)
def test_no_line_takes_long(row: str) -> None:
    assert read(row + "\n" + UP)[0] == [one(UP)]
