"""Readings as a table: both shapes, and every way in which a line can be wrong."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.reading import Reading, Tally
from collectors.formats.readings_csv import confidence, read
from collectors.inputs.sniff import sniff
from sickbay.messages import Event
from sickbay.schema import TABLES, Samples

LONG = """time,component,column,value
2026-03-11T04:20:00Z,cdu:c1,flow_litres_per_minute,402.5
2026-03-11T04:20:00Z,cdu:c1,supply_temperature_celsius,31.0
2026-03-11T04:20:10+00:00,cdu:c1,flow_litres_per_minute,96
1773202820,pdu:p1,current_amperes,0
"""
WIDE = """component;time;power_watts;current_amperes;remark
pdu:p1;1773202800;8100;36;
pdu:p1;1773202810;;0;breaker
"""


def taken(text: str) -> tuple[list[Reading], Tally]:
    tally = Tally()
    return list(read([text.encode()], tally)), tally


def cells(readings: list[Reading]) -> dict[tuple[str, int, str], float]:
    found = {}
    for record in (reading.record for reading in readings):
        if isinstance(record, Samples):
            for column, values in record.values.items():
                for component, at, value in zip(record.component, record.at_ms, values, strict=True):
                    if not math.isnan(value):
                        found[component, int(at), column] = float(value)
    return found


def test_one_value_a_line() -> None:
    readings, tally = taken(LONG)
    assert cells(readings) == {
        ("cdu:c1", 1773202800_000, "flow_litres_per_minute"): 402.5,
        ("cdu:c1", 1773202800_000, "supply_temperature_celsius"): 31.0,
        ("cdu:c1", 1773202810_000, "flow_litres_per_minute"): 96.0,
        ("pdu:p1", 1773202820_000, "current_amperes"): 0.0,
    }
    assert (tally.unparsed, tally.notes) == (0, [])


def test_one_row_a_line() -> None:
    readings, tally = taken(WIDE)
    assert cells(readings) == {
        ("pdu:p1", 1773202800_000, "power_watts"): 8100.0,
        ("pdu:p1", 1773202800_000, "current_amperes"): 36.0,
        ("pdu:p1", 1773202810_000, "current_amperes"): 0.0,
    }
    assert (tally.unparsed, tally.notes) == (0, ["columns that no table has: remark"])


@pytest.mark.parametrize("text", [LONG, WIDE, "\ufeff" + LONG, "# saved by hand\n" + LONG, LONG.replace("\n", "\r\n")])
def test_is_recognised_by_its_heading(text: str) -> None:
    assert sniff(text.encode(), "facility.csv").kind == "readings_csv"


@pytest.mark.parametrize("text", ["", "time,component\n", "host,rack,pdu_a\n", "a,b,c\n1\n", "time,component,mood\n"])
def test_other_tables_are_not_taken(text: str) -> None:
    assert confidence(text.encode(), "facility.csv") == 0.0


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-11T04:20:00,cdu:c1,leak,0",  # no zone
        "yesterday,cdu:c1,leak,0",
        "1773202800,c1,leak,0",
        "1773202800,rack:r1,leak,0",  # no table has rows of racks
        "1773202800,host:?,up,1",
        "1773202800,cdu:c1,power_watts,5",  # a column of another table
        "1773202800,cdu:c1,leak,wet",
        "1773202800,cdu:c1,leak,inf",
        "1773202800,cdu:c1,leak",
    ],
)
def test_a_wrong_line_is_counted_and_left_out(line: str) -> None:
    readings, tally = taken(f"time,component,column,value\n{line}\n1773202800,cdu:c2,leak,0\n")
    assert cells(readings) == {("cdu:c2", 1773202800_000, "leak"): 0.0}
    assert tally.unparsed == 1


def test_what_is_not_told_is_no_value() -> None:
    readings, tally = taken("time,component,column,value\n1773202800,cdu:c1,leak,N/A\n1773202800,cdu:c1,leak,\n")
    assert (readings, tally.unparsed) == ([], 0)


def test_another_unit_is_refused() -> None:
    text = "time,component,column,value,unit\n1773202800,pdu:p1,current_amperes,{},{}\n"
    assert cells(taken(text.format(3, "A"))[0]) == {("pdu:p1", 1773202800_000, "current_amperes"): 3.0}
    readings, tally = taken(text.format(3000, "mA"))
    assert (readings, tally.unparsed) == ([], 1)
    assert tally.notes == ["current_amperes is in A, not in 'mA'"]


def test_a_wet_detector_is_an_event_once_and_its_end_another() -> None:
    rows = "".join(f"{1773202800 + 10 * place},cdu:c1,leak,{wet}\n" for place, wet in enumerate((0, 1, 1, 0, 0)))
    events = [one.record for one in taken("time,component,column,value\n" + rows)[0] if isinstance(one.record, Event)]
    assert [(one.kind, one.at_ms) for one in events] == [
        ("cdu.leak", 1773202810_000),
        ("cdu.restored", 1773202830_000),
    ]


@given(
    st.lists(
        st.tuples(
            st.integers(1_600_000_000, 1_900_000_000),
            st.sampled_from(["a", "b"]),
            st.sampled_from(TABLES["cdu"].names),
            st.floats(-1e6, 1e6, allow_subnormal=False),
        ),
        max_size=30,
        unique_by=lambda row: row[:3],
    )
)
def test_what_is_written_is_read_back(rows: list[tuple[int, str, str, float]]) -> None:
    text = "time,component,column,value\n" + "".join(
        f"{at},cdu:{own},{name},{value!r}\n" for at, own, name, value in rows
    )
    told = {(f"cdu:{own}", at * 1000, name): value for at, own, name, value in rows}
    assert cells(taken(text)[0]) == told


def test_many_rows_come_in_batches() -> None:
    text = "time,component,leak\n" + "".join(f"{1_700_000_000 + at},cdu:c1,0\n" for at in range(20_000))
    batches = [one.record for one in taken(text)[0] if isinstance(one.record, Samples)]
    assert [len(one.at_ms) for one in batches] == [16_384, 3_616]
    assert np.all(np.diff(np.concatenate([one.at_ms for one in batches])) == 1000)
