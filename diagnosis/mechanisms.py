"""The mechanism table: which fault can make which other show, over which edge, after which delay.

Data in mechanisms.toml, loaded and checked once. `@stops` and the like are sets of faults that act alike.
"""

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from sickbay.vocabulary import faults

Edge: TypeAlias = Literal[
    "same",  # the same component
    "told",  # the symptom's own source names the cause's component
    "part_of_host",  # both are parts of one host, or one is the host itself
    "attached_to",  # the symptom's component hangs below the cause's (one host, where no topology tells)
    "same_domain",  # one scale-up domain: a host, a fabric, a rack; else one job is assumed
    "same_group",  # both work for one attempt
    "placed_on",  # one attempt, or one host where no placement tells
    "lights",  # the symptom's module receives the light that the cause weakens
    "link_end",  # two ends of a link, or an optic and its port
    "shared_part",  # the symptom's component hangs below the cause's
    "powered_by",
    "cooled_by",
    "managed_by",
    "routed_over",  # the symptom, or its job, is on a host that the cause holds up or whose leaf routes over it
    "mounts",  # the symptom names the cause's storage target, or its host mounts it
    "runs",  # the symptom's host runs the version that the cohort shares
]

SETS: dict[str, frozenset[str]] = {
    "@stops": frozenset(
        {
            "accelerator_off_bus", "accelerator_memory_uncorrectable", "accelerator_memory_contained",
            "accelerator_memory_repair_failed", "accelerator_firmware_hang", "accelerator_engine_hang",
            "accelerator_context_timeout", "accelerator_link_down", "accelerator_init_failed", "accelerator_internal",
            "accelerator_recovery_needed", "accelerator_blind", "fabric_fault",
        }
    ),
    "@host_stops": frozenset(
        {
            "host_panic", "host_lockup", "host_down", "host_blind", "pcie_fatal", "cpu_fault", "dimm_uncorrectable",
            "orderly_shutdown", "power_lost",
        }
    ),
    "@network": frozenset(
        {
            "link_down", "link_flap", "link_errors", "optic_fault", "link_attenuated", "nic_failed", "nic_degraded",
            "switch_down", "path_broken",
        }
    ),
}  # fmt: skip


class Mechanism(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row. Delays run from the cause's onset to the symptom's."""

    name: str
    row: int
    cause: frozenset[str]
    edge: Edge
    symptom: frozenset[str]
    least_ms: int
    greatest_ms: int
    probability: float
    names: Literal["cause", "symptom"] = "cause"
    waits: bool = False
    note: str = ""


def _expanded(words: Iterable[str]) -> list[str]:
    classes: set[str] = set()
    for word in words:
        classes |= SETS[word] if word.startswith("@") else {word}
    if unknown := classes - set(faults()):
        raise ValueError(f"not fault classes: {sorted(unknown)}")
    return sorted(classes)


@cache
def mechanisms() -> tuple[Mechanism, ...]:
    """All rows, by row number. Raises ValueError for a class that faults.toml lacks."""
    table = tomllib.loads(resources.files("diagnosis").joinpath("mechanisms.toml").read_text(encoding="utf-8"))
    rows = []
    for name, row in table.items():
        sets = {side: _expanded(row[side]) for side in ("cause", "symptom")}
        rows.append(msgspec.convert(row | sets | {"name": name}, Mechanism))
    return tuple(sorted(rows, key=lambda mechanism: mechanism.row))


@cache
def rows_between(cause: str, symptom: str) -> tuple[Mechanism, ...]:
    """The rows through which `cause` can explain `symptom`."""
    return tuple(row for row in mechanisms() if cause in row.cause and symptom in row.symptom)
