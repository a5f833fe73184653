"""One file per finding: `NAME`, `VERSION` and a pure `claims(case)`. Adding one is a file and a line here.

`load` imports a detector when it is first asked for.
"""

from importlib import import_module

from diagnosis.case import Detector

CATALOGUE: dict[str, str] = {
    "explicit_code": "diagnosis.detectors.explicit_code",
    "looked_again": "diagnosis.detectors.looked_again",
    "recovery_advice": "diagnosis.detectors.recovery_advice",
    "link_down": "diagnosis.detectors.link_down",
    "path_broken": "diagnosis.detectors.path_broken",
    "storage_stall": "diagnosis.detectors.storage_stall",
    "out_of_memory": "diagnosis.detectors.out_of_memory",
    "collective_stall": "diagnosis.detectors.collective_stall",
    "host_blind": "diagnosis.detectors.host_blind",
    "peers_idle": "diagnosis.detectors.peers_idle",
    "odd_one_out": "diagnosis.detectors.odd_one_out",
    "bus_width": "diagnosis.detectors.bus_width",
    "device_state": "diagnosis.detectors.device_state",
    "hosts_lost": "diagnosis.detectors.hosts_lost",
    "power_lost": "diagnosis.detectors.power_lost",
    "cooling_lost": "diagnosis.detectors.cooling_lost",
    "pause_sent": "diagnosis.detectors.pause_sent",
    "rank_error": "diagnosis.detectors.rank_error",
    "same_step": "diagnosis.detectors.same_step",
    "slow_accelerator": "diagnosis.detectors.slow_accelerator",
    "link_errors": "diagnosis.detectors.link_errors",
    "optic_power": "diagnosis.detectors.optic_power",
    "loss_anomaly": "diagnosis.detectors.loss_anomaly",
    "uneven_work": "diagnosis.detectors.uneven_work",
    "slow_checkpoint": "diagnosis.detectors.slow_checkpoint",
    "maintenance": "diagnosis.detectors.maintenance",
    "clock_off": "diagnosis.detectors.clock_off",
}


def load(name: str) -> Detector:
    """The detector of that name. Raises KeyError."""
    detector: Detector = import_module(CATALOGUE[name]).claims
    return detector
