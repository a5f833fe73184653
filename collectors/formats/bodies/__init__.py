"""Body grammars of log lines, one file per speaker. Adding one: a file here, its samples in it, one line below.

`SAMPLES` of a module: tuple of `Sample(text, records)`; `text` may hold several lines; `records` are the records
expected, each as a dict of the fields that matter (`type` of the record first). tests/formats/ reads every sample in
every envelope, and proves that each survives the prefilter and that no other grammar takes it.
"""

from typing import NamedTuple


class Sample(NamedTuple):
    """A line (or block) that real writers print, composed, and the records it must give."""

    text: str
    records: tuple[dict[str, object], ...]


CATALOGUE: dict[str, str] = {
    "accelerator_amd": "collectors.formats.bodies.accelerator_amd",
    "accelerator_ascend": "collectors.formats.bodies.accelerator_ascend",
    "accelerator_gaudi": "collectors.formats.bodies.accelerator_gaudi",
    "accelerator_metax": "collectors.formats.bodies.accelerator_metax",
    "accelerator_mthreads": "collectors.formats.bodies.accelerator_mthreads",
    "accelerator_nvidia": "collectors.formats.bodies.accelerator_nvidia",
    "accelerator_nvidia_text": "collectors.formats.bodies.accelerator_nvidia_text",
    "actors": "collectors.formats.bodies.actors",
    "ascend_collective": "collectors.formats.bodies.ascend_collective",
    "collective": "collectors.formats.bodies.collective",
    "collective_report": "collectors.formats.bodies.collective_report",
    "config_run": "collectors.formats.bodies.config_run",
    "disk": "collectors.formats.bodies.disk",
    "elastic": "collectors.formats.bodies.elastic",
    "fabric_manager": "collectors.formats.bodies.fabric_manager",
    "filesystem": "collectors.formats.bodies.filesystem",
    "kubernetes": "collectors.formats.bodies.kubernetes",
    "lifecycle": "collectors.formats.bodies.lifecycle",
    "link": "collectors.formats.bodies.link",
    "lockup": "collectors.formats.bodies.lockup",
    "machine_check": "collectors.formats.bodies.machine_check",
    "machine_check_tools": "collectors.formats.bodies.machine_check_tools",
    "memory_pressure": "collectors.formats.bodies.memory_pressure",
    "monitor": "collectors.formats.bodies.monitor",
    "nic": "collectors.formats.bodies.nic",
    "pcie": "collectors.formats.bodies.pcie",
    "rendezvous": "collectors.formats.bodies.rendezvous",
    "scheduler": "collectors.formats.bodies.scheduler",
    "segfault": "collectors.formats.bodies.segfault",
    "slurm_daemon": "collectors.formats.bodies.slurm_daemon",
    "straggler": "collectors.formats.bodies.straggler",
    "switch_config": "collectors.formats.bodies.switch_config",
    "time_service": "collectors.formats.bodies.time_service",
    "training": "collectors.formats.bodies.training",
    "transport": "collectors.formats.bodies.transport",
    "watchdog": "collectors.formats.bodies.watchdog",
}
