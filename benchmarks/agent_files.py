"""Files of a host with 8 accelerators and 8 network adapters, as the kernel shows them below /sys and /proc."""

from collections.abc import Iterator
from pathlib import Path

COUNT = 8
_COUNTERS = (
    "port_rcv_data", "port_xmit_data", "port_rcv_errors", "port_xmit_discards", "symbol_error", "link_downed",
    "link_error_recovery", "port_xmit_wait",
)  # fmt: skip
_QUEUE_COUNTERS = (
    "local_ack_timeout_err", "packet_seq_err", "req_transport_retries_exceeded", "np_ecn_marked_roce_packets",
)  # fmt: skip


def lay_out(root: Path) -> None:
    """Write them below `root`."""
    for path, text in _files():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text + "\n", encoding="ascii")
    for path, target in _links():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)


def _device(number: int, what: int) -> str:
    return f"pci0000:{number}0/0000:{number}0:0{what}.0/0000:{number}{what}:00.0"


def _files() -> Iterator[tuple[str, str]]:
    stat = "\n".join(f"cpu{number} 1 2 3 4 5 6 7 8 9 0" for number in range(192))
    yield "proc/stat", f"{stat}\nbtime 1789990000\nprocs_blocked 0"
    yield "proc/loadavg", "1.00 1.00 1.00 1/4000 4711"
    yield "proc/meminfo", "MemTotal: 2113345536 kB\nMemAvailable: 1789345120 kB"
    for number in range(COUNT):
        for what, code in ((1, "0x030200"), (2, "0x020700")):
            for folder in (
                Path("sys/devices", _device(number, what)),
                Path("sys/devices", _device(number, what)).parent,
            ):
                yield f"{folder}/class", code if folder.name.endswith(f"{what}:00.0") else "0x060400"
                for end in ("current", "max"):
                    yield f"{folder}/{end}_link_width", "16"
                    yield f"{folder}/{end}_link_speed", "32.0 GT/s PCIe"
                for level in ("correctable", "nonfatal", "fatal"):
                    yield f"{folder}/aer_dev_{level}", "\n".join(f"Error{kind} 0" for kind in range(16))
        port = f"sys/class/infiniband/mlx5_{number}/ports/1"
        yield from ((f"{port}/state", "4: ACTIVE"), (f"{port}/phys_state", "5: LinkUp"))
        yield from ((f"{port}/rate", "400 Gb/sec (4X NDR)"), (f"{port}/link_layer", "InfiniBand"))
        yield from ((f"{port}/counters/{name}", "123456789") for name in _COUNTERS)
        yield from ((f"{port}/hw_counters/{name}", "12345") for name in _QUEUE_COUNTERS)
        folder = Path(f"sys/class/net/eth{number}")
        yield from ((f"{folder}/type", "1"), (f"{folder}/flags", "0x1003"), (f"{folder}/operstate", "up"))
        yield from ((f"{folder}/speed", "400000"), (f"{folder}/carrier_changes", "2"))
        names = ("rx_bytes", "tx_bytes", "rx_errors", "tx_dropped")
        yield from ((f"{folder}/statistics/{name}", "123456789") for name in names)


def _links() -> Iterator[tuple[str, str]]:
    for number in range(COUNT):
        for what in (1, 2):
            device = _device(number, what)
            yield f"sys/bus/pci/devices/{device.rpartition('/')[2]}", f"../../../devices/{device}"
            above = device.rpartition("/")[0]
            yield f"sys/bus/pci/devices/{above.rpartition('/')[2]}", f"../../../devices/{above}"
        for place in (f"infiniband/mlx5_{number}", f"net/eth{number}"):
            yield f"sys/class/{place}/device", f"../../../devices/{_device(number, 2)}"
