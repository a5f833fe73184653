"""A second look at the source of each hard event of this host, within 3 s, and what was seen then as evidence.

Files of the bus and of ports are read at once; the driver is asked again by who asks it anyway (`accelerator_nvml`),
and not at all while it hangs. What stands is told (`monitor.reread`, `confirmed` yes, no or unknown), and the readings
are kept beside the spool (`monitor.evidence_saved`).
"""

import json
import os
import queue
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors import rows
from collectors.agent.bell import Bell
from collectors.agent.evidence import Evidence
from collectors.agent.source import Collected, Host, Seen
from collectors.formats.events import event as made
from collectors.formats.pcie_files import ERROR_FILES, LINK_FILES, columns, link_of
from collectors.formats.second_look import OFF_BUS, UNKNOWN, confirmed
from collectors.host.adapters import NET, RDMA
from collectors.host.tree import Tree
from sickbay.components import Kind, Name, kind_of, name, parts_of, pci_address
from sickbay.messages import MAX_MESSAGE, Event

IDLE_S = 10.0  # while nothing is to be looked after
INTERVAL_S = 0.45  # while a look waits for the driver: it and DRIVER_MS are within 3 s
DRIVER_MS = 2_000  # that the driver's answer is waited for: all is told within 3 s
AGAIN_MS = 60_000  # between two looks for one component and kind
MOST_AT_ONCE = 8
MOST_KNOWN = 1_024
KERNEL_BYTES = 64 << 10  # of the kernel's last messages
MOST_RECORDS = 50_000
DEVICES = "sys/bus/pci/devices"
_PORT_FILES = ("state", "phys_state", "rate", "operstate", "speed", "flags", "carrier", "carrier_changes")
_FOLDERS = ("counters", "hw_counters", "statistics")

Texts = dict[str, str]


@dataclass(slots=True)
class Look:
    """One hard event that is looked after. `device`: None where the bus has no such device."""

    event: Event
    began_ms: int
    address: str = ""
    device: Texts | None = None
    above: Texts = field(default_factory=dict)
    port: Texts = field(default_factory=dict)


class SecondLook:
    """The collector `second_look`."""

    name = "second_look"
    asks_driver = False  # it asks nobody: who asks a driver anyway is told to ask again

    def __init__(self, host: Host) -> None:
        self._host, self._tree = host, Tree(host.root)
        settings = host.settings
        self._evidence = Evidence(Path(f"{settings.spool.rstrip('/')}-evidence"), settings.evidence_max_bytes)
        self._looks: list[Look] = []
        self._bell = host.shared.bell = Bell()
        self._looked_ms: dict[tuple[Name, str], int] = {}
        self._passed_over, self._problem = 0, ""

    def collect(self, now_ms: int) -> Collected:
        """Begin a look for each new hard event, and end those that have heard all they can."""
        seen = [one for event in self._fresh(now_ms) for one in self._begin(event, now_ms)]
        for look in [one for one in self._looks if self._heard(one, now_ms)]:
            self._looks.remove(look)
            seen += [Seen(one, now_ms, DEVICES, host=self._host.name) for one in self._end(look, now_ms)]
        lost, self._passed_over = self._passed_over, 0
        return Collected(seen, problem=self._problem, lost=lost, lost_why="hard events without a second look: too many")

    @property
    def interval_s(self) -> float:
        """Often only while a look waits, or its end could not be kept: of the next event a bell tells."""
        return INTERVAL_S if self._looks or self._problem else IDLE_S

    @property
    def handle(self) -> int:
        """Rings at each hard event."""
        return self._bell.handle

    def close(self) -> None:
        """Nothing is held open."""

    def _fresh(self, now_ms: int) -> Iterator[Event]:
        self._bell.silence()
        with suppress(queue.Empty):
            while True:
                event = self._host.shared.hard.get_nowait()
                key = (event.component, event.kind)
                if 0 <= now_ms - self._looked_ms.get(key, -AGAIN_MS) < AGAIN_MS:
                    continue
                if len(self._looks) >= MOST_AT_ONCE:
                    self._passed_over += 1
                    continue
                if len(self._looked_ms) >= MOST_KNOWN:
                    self._looked_ms.clear()
                self._looked_ms[key] = now_ms
                yield event

    def _begin(self, event: Event, now_ms: int) -> list[Seen]:
        """The files as they are now; the bus' own values are told at once."""
        self._host.shared.reread_ms = now_ms
        look = Look(event, now_ms, self._address(event.component))
        self._looks.append(look)
        look.port = dict(self._port(event.component))
        if look.address and self._tree.exists(f"{DEVICES}/{look.address}"):
            look.device = self._texts(look.address)
            pieces = self._tree.leads_to(f"{DEVICES}/{look.address}")
            above = pci_address(pieces[-2], function=True) if len(pieces) > 1 else None
            look.above = self._texts(above) if above else {}
        self._tree.blind()  # what cannot be read is missing here: who reads it anyway says so
        if look.device is None or kind_of(event.component) is not Kind.ACCELERATOR:
            return []
        cells = {event.component: columns(link_of(look.device), link_of(look.above))}
        return [Seen(one, now_ms, DEVICES, host=self._host.name) for one in rows.samples("accelerator", cells, now_ms)]

    def _heard(self, look: Look, now_ms: int) -> bool:
        """Whether there is nothing more to wait for."""
        if kind_of(look.event.component) is not Kind.ACCELERATOR or not self._host.settings.driver_calls:
            return True
        shared = self._host.shared
        return shared.driver[0] > look.began_ms or not 0 <= now_ms - look.began_ms < DRIVER_MS

    def _end(self, look: Look, now_ms: int) -> Iterator[Event]:
        card, event = self._card(look), look.event
        stands, saw = confirmed(event, look.device, look.above, look.port, card)
        if not look.address and event.kind in OFF_BUS:
            stands, saw = UNKNOWN, "nothing tells its place on the bus"
        facts = {"about": event.component, "of": event.kind, "code": event.code, "confirmed": stands}
        component = name(Kind.MONITOR, self._host.name, self.name)
        yield made("monitor.reread", component, facts, code=stands, message=f"{event.component}: {saw}"[:MAX_MESSAGE])
        if path := self._save(look, facts, saw, card, now_ms):
            told = {"about": event.component, "of": event.kind, "path": str(path)}
            yield made("monitor.evidence_saved", component, told, message=str(path)[:MAX_MESSAGE])

    def _save(self, look: Look, facts: Texts, saw: str, card: Mapping[str, Any] | None, now_ms: int) -> Path | None:
        if not self._host.settings.evidence_max_bytes:
            return None
        readings = {
            "event": {key: str(getattr(look.event, key)) for key in ("kind", "component", "code", "message", "at_ms")},
            "looked_ms": look.began_ms, "told_ms": now_ms, **facts, "saw": saw, "address": look.address,
            "device": look.device, "above": look.above, "port": look.port, "driver": card or self._unheard(),
        }  # fmt: skip
        files = {
            "readings.json": json.dumps(readings, indent=1).encode(),
            "kernel.txt": last_messages(self._host.root / self._host.settings.kernel_log, KERNEL_BYTES),
        }
        try:
            path = self._evidence.save(f"{look.event.kind}-{look.event.component}", now_ms, files)
        except OSError as error:
            self._problem = f"evidence cannot be kept: {error.strerror or error}"
            return None
        self._problem = ""
        return path

    def _unheard(self) -> str:
        """Why the driver said nothing."""
        if not self._host.settings.driver_calls:
            return "not asked: driver_calls = false"
        return self._host.shared.hangs or "no answer of the driver since"

    def _card(self, look: Look) -> Mapping[str, Any] | None:
        """What the driver said of the card since."""
        at_ms, cards = self._host.shared.driver
        if at_ms <= look.began_ms or not look.address:
            return None
        wanted = pci_address(look.address)
        return next((card for card in cards if pci_address(str(card.get("pci", ""))) == wanted), None)

    def _address(self, component: Name) -> str:
        """The device on the bus, with its function."""
        kind, part = kind_of(component), (parts_of(component)[1:] or [""])[0]
        if address := pci_address(part, function=True):
            return address
        if kind in (Kind.ACCELERATOR, Kind.PCIE):
            return self._by_index(part)
        for folder in (RDMA, NET):
            if part and "/" not in part and (pieces := self._tree.leads_to(f"{folder}/{part}/device")):
                return pci_address(pieces[-1], function=True) or ""
        return ""

    def _by_index(self, index: str) -> str:
        cards = self._host.shared.driver[1]
        told = next((str(one.get("pci", "")) for one in cards if index == str(one.get("card"))), "")
        return pci_address(told, function=True) or ""

    def _port(self, component: Name) -> Iterator[tuple[str, str]]:
        """The files of a port and their texts."""
        if kind_of(component) not in (Kind.PORT, Kind.NIC, Kind.OPTIC):
            return
        device, *number = parts_of(component)[1:] or [""]
        folder = f"{RDMA}/{device}/ports/{number[0] if number else '1'}"
        if not self._tree.exists(folder):
            folder = f"{NET}/{device}"
        for below in ("", *_FOLDERS):
            names = _PORT_FILES if not below else self._tree.names(f"{folder}/{below}")[:200]
            for file in names:
                if text := self._tree.read(f"{folder}/{below}/{file}", 200):
                    yield f"{below}/{file}".lstrip("/"), text

    def _texts(self, address: str) -> Texts:
        files = (*LINK_FILES, *ERROR_FILES, "class", "vendor", "device", "power_state", "enable")
        return {file: text for file in files if (text := self._tree.read(f"{DEVICES}/{address}/{file}", 2_000))}


def last_messages(path: Path, most: int) -> bytes:
    """The end of the kernel's log: of its ring, or of the file; empty where it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return b""
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISREG(mode):
            return os.pread(handle, most, max(0, os.fstat(handle).st_size - most))
        return _ring(handle, most) if stat.S_ISCHR(mode) else b""
    except OSError:
        return b""
    finally:
        os.close(handle)


def _ring(handle: int, most: int) -> bytes:
    kept: list[bytes] = []
    size = 0
    for _ in range(MOST_RECORDS):
        try:
            record = os.read(handle, 16 << 10)
        except BlockingIOError:
            break
        except BrokenPipeError:
            continue
        if not record:
            break
        kept.append(record)
        size += len(record)
        while size > most and len(kept) > 1:
            size -= len(kept.pop(0))
    return b"".join(kept)


def collectors(host: Host) -> Sequence[SecondLook]:
    """One."""
    return (SecondLook(host),)
