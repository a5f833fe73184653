"""An exporter is read quicker the second time, and no differently."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.prometheus_text import Exporter
from collectors.formats.reading import Reading, Tally
from sickbay.messages import Event
from sickbay.schema import Samples

AT = 1_796_000_000_000
CARD = 'gpu="{0}",UUID="GPU-{0}",pci_bus_id="00000000:C{0}:00.0",device="nvidia{0}",modelName="H100",Hostname="n1"'
SERIES = (
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_XID_ERRORS",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "x",
)
VALUES = (
    "0",
    "61",
    "300.5",
    "NaN",
    "1e3",
    "+Inf",
    "2147483632",
    "9223372036854775792",
    "",
    "79 1796000000000",
    "6_1",
    "-4",
)

LINE = st.tuples(st.sampled_from(SERIES), st.integers(0, 3), st.sampled_from(VALUES))
PAGE = st.lists(LINE, max_size=12).map(
    lambda rows: "".join(f"{name}{{{CARD.format(card)}}} {value}\n" for name, card, value in rows)
)


NUMBER = st.sampled_from(("0", "61", "79", "300.5", "NaN", "1e3", "+Inf", "-4", "2147483632", "1.2.3", "1796000000"))
HEADS = (
    *(f"{name}{{{CARD.format(card)}}}" for name in SERIES for card in range(2)),
    f'DCGM_FI_DEV_GPU_TEMP{{GPU_I_ID="1",GPU_I_PROFILE="1g",{CARD.format(0)}}}',
    'DCGM_FI_DEV_POWER_USAGE{nobody="0"}', f"DCGM_FI_DEV_GPU_TEMP{{{CARD.format(3)}}} 61", "# HELP of 10 and",
    "# TYPE x gauge\nx", "node_load1", "up", "timestamp:", "# EOF\nx", "DCGM_FI_DEV_GPU_TEMP{broken",
)  # fmt: skip


def told(readings: list[Reading]) -> list[tuple[object, ...]]:
    samples = [reading.record for reading in readings if isinstance(reading.record, Samples)]
    return [
        (
            one.table,
            tuple(one.component),
            tuple(one.at_ms.tolist()),
            str({k: v.tolist() for k, v in one.values.items()}),
        )
        for one in samples
    ]


@given(st.lists(PAGE, min_size=1, max_size=4), st.randoms())
def test_what_was_read_before_changes_no_value(pages: list[str], rng: object) -> None:
    exporter, fresh = Exporter(Tally()), Tally()
    for page in pages:
        again = told(list(exporter.scrape(page.encode(), AT)))
        assert again == told(list(Exporter(fresh).scrape(page.encode(), AT)))


def test_known_and_unreadable_lines_are_counted_as_before() -> None:
    body = "".join(f"DCGM_FI_DEV_GPU_TEMP{{{CARD.format(card)}}} 6{card}\n" for card in range(4)).encode()
    tally = Tally()
    exporter = Exporter(tally)
    for number in range(3):
        list(exporter.scrape(body + b"DCGM_FI_DEV_GPU_TEMP{broken\n", AT))
        assert exporter.known == 4 * (number + 1)
        assert tally.unparsed == number + 1


class Naive(Exporter):
    """Reads every line anew."""

    def scrape(self, body: bytes, at_ms: int) -> Iterator[Reading]:
        self._layout, self._between = None, []
        return super().scrape(body, at_ms)


@given(st.lists(st.sampled_from(HEADS), min_size=1, max_size=14), st.data())
def test_what_is_read_by_its_position_is_what_the_line_says(heads: list[str], data: st.DataObject) -> None:
    exporter, naive, tallies = Exporter(tally := Tally()), Naive(other := Tally()), []
    for number in range(5):
        values = data.draw(st.lists(NUMBER, min_size=len(heads), max_size=len(heads)))
        body = "".join(f"{head} {value}\n" for head, value in zip(heads, values, strict=True)).encode()
        read, wanted = (list(one.scrape(body, AT + number)) for one in (exporter, naive))
        assert merged(read) == merged(wanted)
        assert [(one.record, one.line) for one in read if isinstance(one.record, Event)] == [
            (one.record, one.line) for one in wanted if isinstance(one.record, Event)
        ]
        tallies.append((exporter.known, tally.unparsed, exporter.nameless))
        assert tallies[-1] == (naive.known, other.unparsed, naive.nameless)


def merged(readings: list[Reading]) -> dict[tuple[object, ...], float]:
    """Every cell that is told."""
    return {
        (one.table, component, at_ms, column): value
        for one in (reading.record for reading in readings)
        if isinstance(one, Samples)
        for column, values in one.values.items()
        for component, at_ms, value in zip(one.component, one.at_ms.tolist(), values.tolist(), strict=True)
        if value == value
    }


def test_an_answer_that_stays_the_same_is_read_by_its_positions() -> None:
    body = "".join(f"{name}{{{CARD.format(card)}}} 6{card}\n" for name in SERIES for card in range(4)).encode()
    exporter = Exporter(Tally())
    read = [told(list(exporter.scrape(body, AT))) for _ in range(4)]
    assert read[0] == read[1] == read[2] == read[3]
    assert exporter._layout is not None
    assert (len(exporter._layout.valued), len(exporter._layout.speaking)) == (4, 8)
    assert not exporter._layout.odd
