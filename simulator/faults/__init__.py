"""Faults, named as in faults.toml: what each does to sensors and jobs, what is printed, and the right answer.

Times are whole seconds of the night. A synchronous job stalls as a whole within a second; the ranks that print a
time-out do so one time-out later, and they are the ones that waited.
"""

from collections.abc import Callable

from simulator.faults.card import FirmwareHang, NarrowBus, OffBus, Thermal
from simulator.faults.facility import CoolingLost, PowerLost, StorageStall
from simulator.faults.kit import Happening
from simulator.faults.memory import HostMemory, UserMemory
from simulator.faults.network import LeafReboot
from simulator.faults.optics import DeadLaser, Dirt, ModuleDies, WeakLaser
from simulator.faults.pause import PauseStorm
from simulator.faults.program import Deadlock

FAULTS: dict[str, Callable[..., Happening]] = {
    "accelerator_off_bus": OffBus,
    "accelerator_firmware_hang": FirmwareHang,
    "accelerator_thermal": Thermal,
    "pcie_degraded": NarrowBus,
    "switch_down": LeafReboot,
    "application_out_of_memory": UserMemory,
    "host_out_of_memory": HostMemory,
    "collective_mismatch": Deadlock,
    "power_lost": PowerLost,
    "cooling_lost": CoolingLost,
    "storage_stall": StorageStall,
    "link_attenuated": Dirt,
    "optic_fades": WeakLaser,
    "optic_dark": DeadLaser,
    "optic_shared": ModuleDies,
    "pause_sent": PauseStorm,
}

# What switches, modules and units of power and cooling tell: a demo of hosts and jobs alone does not show these.
OF_THE_SITE = frozenset(
    {
        "power_lost", "cooling_lost", "storage_stall", "link_attenuated", "optic_fades", "optic_dark", "optic_shared",
        "pause_sent",
    }
)  # fmt: skip
