"""What the kernel and the fabric manager print of scale-up links and of the switches between the cards of a board."""

from collections.abc import Iterator

from simulator.parts.cluster import Card
from simulator.printing.host_lines import of_program
from simulator.printing.lines import Printed, kernel, xid

SWITCH_PCI = "0000:9c:00"
MANAGER = "nv-fabricmanager[2114]"


def link_died(at_ms: int, card: Card, link: int) -> Printed:
    """A link of the card went down for good, as the card at its own end tells it."""
    words = "(0x00400010 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
    return xid(at_ms, card, 149, f"NETIR_LINK_DOWN Fatal XC0 i0 Link {link:02d} {words}")


def link_died_older(at_ms: int, card: Card, link: int) -> Printed:
    """The same of earlier generations."""
    return xid(at_ms, card, 74, f"NVLink: fatal error detected on link {link}(0x0, 0x0, 0x2, 0x0, 0x40000, 0x0, 0x0)")


def peer_complains(at_ms: int, card: Card) -> Printed:
    """A card whose request found no way: a victim (`XC1`)."""
    words = "(0x00000082 0x00000004 0x00000000 0x00000000 0x00000000 0x00000000)"
    return xid(at_ms, card, 145, f"RLW_REMAP Nonfatal XC1 i0 Link -1 {words}")


def link_errs(at_ms: int, card: Card, link: int) -> Printed:
    """A link that lost its signal for a moment and was trained again."""
    words = "(0x00400021 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
    return xid(at_ms, card, 149, f"NETIR_LINK_EVT Nonfatal XC0 i0 Link {link:02d} {words}")


def switch_dies(at_ms: int, host: str, link: int) -> Iterator[Printed]:
    """A switch of the board gives up: the driver's three lines, and the manager's."""
    head = f"nvidia-nvswitch1: SXid (PCI:{SWITCH_PCI}.0): 20034"
    for text in (
        f"{head}, Fatal, Link {link:02d} LTSSM Fault Up (First)",
        f"{head}, Severity 5 Engine instance {link:02d} Sub-engine instance 00",
        f"{head}, Data {{0x00000001, 0x00000001, 0x00000000, 0x00000000}}",
    ):
        yield kernel(at_ms, host, text)
    text = (
        "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:9C:00.0 physical id 2 "
        f"port {link}"
    )
    yield of_program(at_ms + 40, host, MANAGER, text)


def switch_errs(at_ms: int, host: str, link: int) -> Iterator[Printed]:
    """A switch of the board sent something again."""
    text = f"nvidia-nvswitch1: SXid (PCI:{SWITCH_PCI}.0): 20001, Non-fatal, Link {link:02d} TX Replay Error"
    yield kernel(at_ms, host, text)
    text = (
        "detected NVSwitch non-fatal error 20001 on NodeId 0 on NVSwitch pci bus id 00000000:9C:00.0 physical id 2 "
        f"port {link}"
    )
    yield of_program(at_ms + 35, host, MANAGER, text)


def manager_dies(at_ms: int, host: str) -> Iterator[Printed]:
    """The manager lost its own service, and systemd tells of its end."""
    yield of_program(at_ms, host, MANAGER, "[ERROR] [tid 1569] the connection to the local node was lost")
    text = "nvidia-fabricmanager.service: Main process exited, code=exited, status=1/FAILURE"
    yield of_program(at_ms + 700, host, "systemd[1]", text)


def manager_unlike(at_ms: int, host: str, new: str = "570.11.01", old: str = "570.10.20") -> Printed:
    """The manager's version is not the driver's."""
    text = f"fabric manager NVIDIA GPU driver interface version {new} don't match with driver version {old}."
    return of_program(at_ms, host, MANAGER, text)


def driver_unlike(at_ms: int, host: str, new: str = "570.86.15", old: str = "550.90.07") -> Iterator[Printed]:
    """The kernel's driver and the programs that call it are of different versions."""
    for text in (
        f"NVRM: API mismatch: the client has the version {new}, but",
        f"NVRM: this kernel module has the version {old}.  Please",
        "NVRM: make sure that this kernel module and all NVIDIA driver",
        "NVRM: components have the same version.",
    ):
        yield kernel(at_ms, host, text)
