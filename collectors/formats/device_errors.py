"""Device errors in the words of the runtimes (CUDA, HIP, MUSA, NVML, XLA), as programs of any kind print them."""

import re
from typing import Any

from collectors.codes.collective import DEVICE_ERRORS, SETTINGS
from collectors.formats.events import event, rank_name
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Action, Blame, Event

_DEVICE_ERROR = re.compile(
    r"(?:(?:CUDA|Cuda|cuda|HIP|hip|MUSA|XPU)(?: driver| runtime)? ?(?:[Ee]rror|failure)(?: ?\(?\d{1,4}\)?)? ?[:,]?"
    r"|(?:CUDA|HIP)_ERROR_[A-Z_]{3,60}:|THCudaCheck FAIL [^:]{1,300}:|cudaGetDeviceCount.{1,200}?Error \d{1,4}:)"
    r" ?'?(?P<what>[^'\"\n]{4,120})"
)
_LOST = "NVMLError_GpuIsLost"
_MEMORY = re.compile(
    r"(?:CUDA|HIP|MUSA|NPU|MLU|XPU) out of memory|(?:CUDA|HIP|MUSA|hip|cuda) error: out of memory"
    r"|failure \d{0,4} ?'out of memory'|(?:CUDA|HIP)_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED: Out of memory"
)

DEVICE_WORDS = (
    "out of memory",
    "_ERROR_OUT_OF_MEMORY",
    "RESOURCE_EXHAUSTED: Out of memory",
    _LOST,
    *(text for text, _, _ in DEVICE_ERRORS),
)


def device_error(text: str, host: str, rank: int, facts: dict[str, str]) -> Event | None:
    """What the runtime says of a device or its memory, in any writer's line; None where it says nothing."""
    if _MEMORY.search(text):
        facts = facts | {"rank": str(rank) if rank >= 0 else ""}
        return event("job.out_of_memory", name(Kind.JOB, UNKNOWN), facts, code="device memory", host=host)
    if _LOST in text:  # the vendor's own text: "Reboot the system to recover this GPU"
        lost = {"code": "GPU is lost", "blame": Blame.HARDWARE, "advice": Action.REBOOT_HOST, "host": host}
        return event("rank.device_error", rank_name(rank), facts, **lost)
    match = _DEVICE_ERROR.search(text)
    for words, blame, severity in DEVICE_ERRORS if match else ():
        if match and words in match["what"]:
            advice = Action.FIX_SOFTWARE if words in SETTINGS else None
            told: dict[str, Any] = {"code": words, "blame": blame, "severity": severity, "advice": advice, "host": host}
            return event("rank.device_error", rank_name(rank), facts, **told)
    return None
