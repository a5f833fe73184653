"""Listings of port files: numbers are numbers, words are words, and "not available" is neither zero nor an error."""

import math
import random

import pytest

from collectors.formats import sysfs_listing
from collectors.formats.reading import Tally
from sickbay.messages import Event, Identity
from sickbay.schema import Samples

IB = "/sys/class/infiniband/mlx5_4/ports/1"
LISTING = f"""\
{IB}/state:4: ACTIVE
{IB}/phys_state:5: LinkUp
{IB}/rate:200 Gb/sec (2X NDR)
{IB}/counters/symbol_error:3
{IB}/counters/link_downed:255
{IB}/counters/port_rcv_data:1000
{IB}/hw_counters/local_ack_timeout_err:5
{IB}/hw_counters/packet_seq_err:9
{IB}/hw_counters/lifespan:10
/sys/class/net/ens1f0/operstate:down
/sys/class/net/ens1f0/speed:-1
/sys/class/net/ens1f0/carrier_changes:6
/sys/class/net/ens1f0/statistics/rx_errors:0
/sys/class/net/lo/carrier_changes:0
"""


def read(text: str | bytes) -> tuple[list[dict[tuple[str, str], float]], Tally]:
    """One table of (port, column) -> value per listing found."""
    tally = Tally()
    data = text.encode() if isinstance(text, str) else text
    found = []
    for reading in sysfs_listing.read([data], tally):
        record = reading.record
        if isinstance(record, Event):
            continue
        assert isinstance(record, Samples)
        assert record.at_ms.tolist() == [0] * len(record.component)
        found.append(
            {
                (component, name): float(column[row])
                for name, column in record.values.items()
                for row, component in enumerate(record.component)
                if not math.isnan(column[row])
            }
        )
    return found, tally


def test_a_listing_becomes_one_row_per_port() -> None:
    found, tally = read(LISTING)
    port, net = "port:?/mlx5_4/1", "port:?/ens1f0"
    assert found == [
        {
            (port, "up"): 1,
            (port, "speed_gigabits_per_second"): 200,
            (port, "symbol_errors_total"): 3,
            (port, "rx_bytes_total"): 4000,
            (port, "retransmits_total"): 9,
            (net, "up"): 0,
            (net, "carrier_changes_total"): 6,
            (net, "rx_errors_total"): 0,
        }
    ]
    assert tally.unparsed == 0
    assert any("255" in note for note in tally.notes)
    assert sysfs_listing.confidence(LISTING.encode(), "x") > 0.9


def test_a_port_s_addresses_tell_its_interface_but_not_its_vlans() -> None:
    listed = [f"trn-09: {IB}/gid_attrs/ndevs/{n}:{one}" for n, one in enumerate(("ens1", "ens1", "ens1.100"))]
    readings = list(sysfs_listing.read(["\n".join(listed).encode()], Tally()))
    assert [one.record for one in readings] == [
        Identity(host="trn-09", kind="port", index="mlx5_4/1", name="ens1")
    ]  # fmt: skip
    assert sysfs_listing.confidence("\n".join(listed).encode(), "x") > 0.9


def test_not_available_is_missing_and_told() -> None:
    found, tally = read("/sys/class/infiniband/irdma0/ports/1/counters/link_downed:N/A (no PMA)\n")
    assert found == []
    assert tally.unparsed == 0
    assert any("N/A" in note for note in tally.notes)


@pytest.mark.parametrize(
    ("line", "port"),
    [
        (f"trn-09: {IB}/counters/symbol_error:1", "port:trn-09/mlx5_4/1"),
        ("bundle/sys/class/infiniband/mlx5_4/ports/1/counters/symbol_error:1", "port:?/mlx5_4/1"),
        ("/sys/devices/pci0000:16/0000:16:01.0/infiniband/mlx5_4/ports/1/counters/symbol_error:1", None),
        (f"==> {IB}/counters/symbol_error <==\n1", "port:?/mlx5_4/1"),
    ],
)
def test_other_ways_to_list(line: str, port: str | None) -> None:
    found, _ = read(line + "\n")
    assert found == ([{(port, "symbol_errors_total"): 1}] if port else [])


def test_a_file_told_again_begins_the_next_listing() -> None:
    found, _ = read(LISTING + LISTING.replace("symbol_error:3", "symbol_error:4"))
    assert [listing["port:?/mlx5_4/1", "symbol_errors_total"] for listing in found] == [3, 4]


def test_other_texts_are_not_taken_for_listings() -> None:
    for text in ("a:1\n", "/etc/hosts:127.0.0.1\n", "[1.0] mlx5_core 0000:c1:00.0: Port 1 down\n", ""):
        assert sysfs_listing.confidence(text.encode(), "x") < 0.3


@pytest.mark.slow
def test_mutations_never_crash_and_never_give_what_is_no_number() -> None:
    chance, source = random.Random(3), LISTING.encode()
    for _ in range(5_000):
        data = bytearray(source)
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(data))
            if chance.random() < 0.5:
                data[place] = chance.randrange(256)
            else:
                del data[place : place + chance.randrange(60)]
        found, _ = read(bytes(data))
        assert all(math.isfinite(value) for listing in found for value in listing.values())
