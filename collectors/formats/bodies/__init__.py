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
    "accelerator_mthreads": "collectors.formats.bodies.accelerator_mthreads",
    "accelerator_nvidia": "collectors.formats.bodies.accelerator_nvidia",
    "ascend_collective": "collectors.formats.bodies.ascend_collective",
    "collective": "collectors.formats.bodies.collective",
    "disk": "collectors.formats.bodies.disk",
    "elastic": "collectors.formats.bodies.elastic",
    "filesystem": "collectors.formats.bodies.filesystem",
    "lifecycle": "collectors.formats.bodies.lifecycle",
    "lockup": "collectors.formats.bodies.lockup",
    "machine_check": "collectors.formats.bodies.machine_check",
    "memory_pressure": "collectors.formats.bodies.memory_pressure",
    "monitor": "collectors.formats.bodies.monitor",
    "nic": "collectors.formats.bodies.nic",
    "pcie": "collectors.formats.bodies.pcie",
    "scheduler": "collectors.formats.bodies.scheduler",
    "segfault": "collectors.formats.bodies.segfault",
    "training": "collectors.formats.bodies.training",
    "watchdog": "collectors.formats.bodies.watchdog",
}
