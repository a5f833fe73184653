"""What the kernel prints of network adapters and their modules, as the mlx5 driver and the network core word it."""

from collections.abc import Iterator

from simulator.parts.cluster import Card
from simulator.printing.lines import Printed, job, kernel


def _of(at_ms: int, card: Card, text: str) -> Printed:
    return kernel(at_ms, card.host, f"mlx5_core {card.nic_pci}: {text}")


def firmware_dead(at_ms: int, card: Card) -> Iterator[Printed]:
    """The driver's poll of the firmware's health gives up: it looks every 2 s, and counts three misses."""
    for plus, text in (
        (0, "print_health_info:455:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:"),
        (1, "poll_health:788:(pid 0): Fatal error 1 detected"),
        (1, "poll_health:739:(pid 0): device's health compromised - reached miss count"),
        (90, "mlx5_error_sw_reset:235:(pid 991): start"),
    ):
        yield _of(at_ms + plus, card, text)


def recovery(at_ms: int, card: Card, *, succeeds: bool) -> Printed:
    """How the driver's own try to revive it ended."""
    text = "succeeded" if succeeds else "flow aborted, PCI reads still not working"
    return _of(at_ms, card, f"mlx5_health_try_recover:338:(pid 991): health recovery {text}")


def gone(at_ms: int, card: Card) -> Printed:
    """The adapter does not answer on its slot."""
    return _of(at_ms, card, "poll_health:771:(pid 0): PCI slot is unavailable")


def hot(at_ms: int, card: Card) -> Iterator[Printed]:
    """The adapter is too warm."""
    yield _of(at_ms, card, "temp_warn:178:(pid 402): High temperature on sensors with bit set 0 1")
    text = "print_health_info:455:(pid 0): Health issue observed, High temperature, severity(4) WARNING:"
    yield _of(at_ms + 2, card, text)


def queue_stuck(at_ms: int, card: Card, queue: int) -> Iterator[Printed]:
    """The network core's watchdog on a queue that sends nothing, then the driver's own word."""
    waited = 5_000 + at_ms % 900
    yield kernel(
        at_ms,
        card.host,
        f"NETDEV WATCHDOG: CPU: 31: {card.interface} (mlx5_core): transmit queue {queue} timed out {waited} ms",
    )
    yield kernel(at_ms + 1, card.host, f"mlx5_core {card.nic_pci} {card.interface}: TX timeout detected")


def underpowered(at_ms: int, card: Card) -> Printed:
    """The slot gives less than the adapter needs."""
    return _of(at_ms, card, "mlx5_pcie_event:317:(pid 404): Detected insufficient power on the PCIe slot (27W).")


def module(at_ms: int, card: Card, what: str) -> Printed:
    """`what`: `unplugged`, `plugged`, or the reason of an error."""
    if what in ("unplugged", "plugged"):
        return _of(at_ms, card, f"Port module event: module 0, Cable {what}")
    return _of(at_ms, card, f"Port module event[error]: module 0, Cable error, {what}")


def slower(at_ms: int, job_id: str, card: Card, old: int, new: int) -> Printed:
    """The collective library's word that a port came back slower, in Mb/s."""
    text = f"{card.host}:48122:48577 [{card.index}] NCCL INFO NET/IB : {card.rdma}:1 speed change detected"
    return job(at_ms, job_id, f"{text}: {old} -> {new} Mbps")
