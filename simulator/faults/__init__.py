"""Faults, named as in faults.toml: what each does to sensors and jobs, what is printed, and the right answer.

Times are whole seconds of the night. A synchronous job stalls as a whole within a second; the ranks that print a
time-out do so one time-out later, and they are the ones that waited.
"""

from simulator.faults import (
    card,
    card_codes,
    card_memory,
    card_slow,
    card_start,
    card_told,
    cooling,
    cpu,
    disk,
    facility,
    host,
    link,
    memory,
    modules,
    network,
    nic,
    optics,
    pause,
    pcie,
    program,
    scale_up,
    software,
    storage,
    switch,
    telemetry,
    workload,
)
from simulator.faults.kit import Faults

# Files of this folder, each with its FAULTS.
FAMILIES = (
    card, card_memory, card_codes, card_slow, card_start, card_told, scale_up, pcie, cpu, disk, host, memory,
    network, switch, nic, link, optics, modules, pause, storage, facility, cooling, program, software, workload,
    telemetry,
)  # fmt: skip
FAULTS: Faults = {name: made for family in FAMILIES for name, made in family.FAULTS.items()}

# What switches, modules and units of power and cooling tell: a demo of hosts and jobs alone does not show these.
SITE = (network, nic, link, optics, modules, pause, storage, facility, cooling, telemetry)
OF_THE_SITE = frozenset(name for family in (*SITE, switch) for name in family.FAULTS) - {"switch_down"}
