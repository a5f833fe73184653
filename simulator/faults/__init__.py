"""Faults, named as in faults.toml: what each does to sensors and jobs, what is printed, and the right answer.

Times are whole seconds of the night. A synchronous job stalls as a whole within a second; the ranks that print a
time-out do so one time-out later, and they are the ones that waited.
"""

from simulator.faults import card, facility, memory, network, optics, pause, program
from simulator.faults.kit import Faults

FAMILIES = (card, memory, network, optics, pause, facility, program)  # files of this folder, each with its FAULTS
FAULTS: Faults = {name: made for family in FAMILIES for name, made in family.FAULTS.items()}

# What switches, modules and units of power and cooling tell: a demo of hosts and jobs alone does not show these.
OF_THE_SITE = frozenset(
    {
        "power_lost", "cooling_lost", "storage_stall", "link_attenuated", "optic_fades", "optic_dark", "optic_shared",
        "pause_sent",
    }
)  # fmt: skip
