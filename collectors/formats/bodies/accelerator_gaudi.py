"""Intel's driver of Gaudi accelerators (habanalabs): lost heartbeats, resets, failed starts, events of the device."""

import re
from collections.abc import Iterable, Iterator

from collectors.codes.lines import rules
from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from collectors.formats.speaking import ADDRESS, kernel_speaks, told
from sickbay.components import UNKNOWN, Kind, name, pci_address

LITERALS = (
    "Device heartbeat failed", "is NOT usable", " reset device", "reset the device", "finished resetting the",
    "_SERR", "_DERR", "_SEI_SEVERE", "_SEI_NON_SEVERE", "_PLL_LOCK_ERR", "PKT_QUEUE_OUT_SYNC", "CPU_PKT_SANITY_FAILED",
    "CPLD_SHUTDOWN_", "FIX_THERMAL_ENV_S", "FIX_POWER_ENV_S", "PCIE_FATAL_ERR", "_KERNEL_ERR",
)  # fmt: skip

_DEVICE = re.compile(rf"^(?:habanalabs|accel) (?P<pci>{ADDRESS})?:? ?(?P<number>(?:hl|accel)\d{{1,3}})?: (?P<text>.*)$")
_TABLE = "gaudi_lines.toml"


class GRAMMAR:
    """One event a line."""

    def read(self, line: Line) -> Iterator[Record]:
        """What the driver says of a device."""
        match = _DEVICE.match(line.body[:1000]) if kernel_speaks(line) else None
        if match is None or not (match["pci"] or match["number"]):
            return
        component = name(Kind.ACCELERATOR, UNKNOWN, pci_address(match["pci"] or "") or match["number"])
        for rule in rules(_TABLE):
            if rule.found(match["text"]):
                severity = {"severity": rule.severity} if rule.severity else {}
                yield told(rule.kind, component, code=rule.code, scope="device", advice=rule.advice, **severity)
                return

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing stays open."""
        return ()


def _expect(kind: str, device: str, **fields: object) -> dict[str, object]:
    return {"type": "event", "kind": kind, "component": f"accelerator:?/{device}", **fields}


SAMPLES = (
    Sample(
        "habanalabs hl3: Device heartbeat failed!\nhabanalabs hl3: Going to reset device\n"
        "habanalabs hl3: Successfully finished resetting the 0000:b3:00.0 device",
        (
            _expect("accelerator.firmware_hang", "hl3"),
            _expect("accelerator.reset_begun", "hl3"),
            _expect("accelerator.reset_done", "hl3"),
        ),
    ),
    Sample(
        "habanalabs 0000:b3:00.0: Device heartbeat failed! PCI link is broken",
        (_expect("accelerator.off_bus", "0000:b3:00", advice="reboot_host"),),
    ),
    Sample(
        "habanalabs hl3: Failed to reset! Device is NOT usable",
        (_expect("accelerator.reset_failed", "hl3", advice="reboot_host"),),
    ),
    Sample(
        "habanalabs hl3: HBM2_MC1_SEI_SEVERE: err cause: parity\nhabanalabs hl3: TPC4_SERR: corrected\n"
        'habanalabs hl4: Received H/W interrupt 91 ["PCIE_CORE_DERR"]\nhabanalabs hl4: FIX_THERMAL_ENV_S\n'
        "habanalabs hl4: FIX_THERMAL_ENV_E\nhabanalabs hl4: nothing of TPC4_SERR",
        (
            _expect("accelerator.memory_uncorrectable", "hl3", advice="reset_device"),
            _expect("accelerator.memory_corrected", "hl3"),
            _expect("accelerator.memory_uncorrectable", "hl4", code="double-bit error"),
            _expect("accelerator.thermal_slowdown", "hl4", severity="warning"),
        ),
    ),
    Sample("habanalabs hl3: Successfully loaded firmware to device", ()),
)
