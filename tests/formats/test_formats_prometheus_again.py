"""An exporter is read quicker the second time, and no differently."""

from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.prometheus_text import Exporter
from collectors.formats.reading import Reading, Tally
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
