"""Every call of NVIDIA's management library that is made, all of which only read; a process of its own makes them.

A call into a driver that hangs cannot be ended, not even by ending the process. So nothing of the agent is in here:
`python -m collectors.host.nvml_calls` takes a question a line ("names", "fast" or "slow") and answers in lines of JSON:

    {"begins": 0}                            before a card is asked: the last one of these names the card that hangs
    {"card": 0, "pci": ..., "values": {...}, "failed": {"power": [999, "Unknown Error"]}}
    {"card": 3, "pci": ..., "error": [15, "GPU is lost"]}
    {"end": 8}                               or {"fatal": [9, "Driver Not Loaded"]}

Numbers are as the library gives them; codes/exporters/nvidia.toml says what they mean. Only the standard library and
pynvml are imported.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

MOST_CARDS = 64
MISSING = "nvidia-ml-py is not installed"
# What a card does not have is no trouble: not supported, not found, no data, an older library, a library's own limits.
NOTHING = frozenset({2, 3, 6, 13, 21, 24, 25, 26})
NO_CARD = frozenset({15, 28})  # lost, or not found any more: nothing else can be asked of it
ALL_LINKS = 0xFFFFFFFF  # nvml.h: a scope of UINT_MAX sums up all links
_SIZES = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}  # nvmlValueType_t

Answer = dict[str, Any]


class Calls:
    """The library. `nvml`: the module pynvml, or what stands in for it."""

    def __init__(self, nvml: Any) -> None:
        self._nvml, self._open, self._names = nvml, False, dict[int, Answer]()

    def answer(self, question: str) -> Iterator[Answer]:
        """The lines of one answer."""
        nvml = self._nvml
        try:
            if not self._open:
                nvml.nvmlInit()
                self._open = True
            count = min(nvml.nvmlDeviceGetCount(), MOST_CARDS)
        except nvml.NVMLError as error:
            self._open = False
            yield {"fatal": _told(error)}
            return
        for index in range(count):
            yield {"begins": index}
            yield self._card(index, question)
        yield {"end": count}

    def _card(self, index: int, question: str) -> Answer:
        nvml, names = self._nvml, self._names.get(index, {})
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            if question == "names" or not names:
                names = self._names[index] = self._identity(handle)
            values, failed = self._values(handle, slow=question == "slow")
        except nvml.NVMLError as error:
            return {"card": index, **names, "error": _told(error)}
        return {"card": index, **names, "values": values, "failed": failed}

    def _identity(self, handle: Any) -> Answer:
        nvml = self._nvml
        told: Answer = {"pci": _text(nvml.nvmlDeviceGetPciInfo(handle).busId)}
        asked = (
            ("uuid", nvml.nvmlDeviceGetUUID),
            ("serial", nvml.nvmlDeviceGetSerial),
            ("model", nvml.nvmlDeviceGetName),
        )
        for key, call in asked:
            try:
                told[key] = _text(call(handle))
            except nvml.NVMLError as error:
                if _told(error)[0] in NO_CARD:
                    raise
        return told

    def _values(self, handle: Any, *, slow: bool) -> tuple[Answer, Answer]:
        """(name -> number, name -> why it could not be read). Raises NVMLError for a card that is gone."""
        values: Answer = {}
        failed: Answer = {}
        calls = {**FAST, **(SLOW if slow else {})}
        for key, call in calls.items():
            try:
                values |= call(self._nvml, handle, key)
            except self._nvml.NVMLError as error:
                code = _told(error)
                if code[0] in NO_CARD:
                    raise
                if code[0] not in NOTHING:
                    failed[key] = code
        fields = {**FAST_FIELDS, **(SLOW_FIELDS if slow else {})}
        try:
            values |= self._fields(handle, fields)
        except self._nvml.NVMLError as error:
            if _told(error)[0] not in NOTHING:
                failed["fields"] = _told(error)
        return values, failed

    def _fields(self, handle: Any, fields: dict[str, tuple[int, int]]) -> Answer:
        told = self._nvml.nvmlDeviceGetFieldValues(handle, list(fields.values()))
        return {
            key: getattr(one.value, _SIZES[one.valueType])
            for key, one in zip(fields, told, strict=True)
            if one.nvmlReturn == 0 and one.valueType in _SIZES
        }


Call = Callable[[Any, Any, str], Answer]


def _plain(function: str, *arguments: int) -> Call:
    """A call that gives one number."""
    return lambda nvml, handle, key: {key: getattr(nvml, function)(handle, *arguments)}


def _parts(function: str, *parts: str) -> Call:
    """A call that gives a structure."""

    def call(nvml: Any, handle: Any, key: str) -> Answer:
        told = getattr(nvml, function)(handle)
        return {f"{key}.{part}": getattr(told, part) for part in parts}

    return call


def _held_back(policy: int) -> Call:
    """Nanoseconds for which a policy held the clocks back."""
    return lambda nvml, handle, key: {key: nvml.nvmlDeviceGetViolationStatus(handle, policy).violationTime}


def _rows(nvml: Any, handle: Any, key: str) -> Answer:
    names = ("corrected", "uncorrected", "pending", "failed")
    return {f"{key}.{name}": value for name, value in zip(names, nvml.nvmlDeviceGetRemappedRows(handle), strict=True)}


def _fabric(nvml: Any, handle: Any, key: str) -> Answer:
    info = nvml.c_nvmlGpuFabricInfoV_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, info)
    return {f"{key}.state": info.state} if info.state else {}  # 0: this card has no such fabric


# name -> call. Clocks: 1 of the processors, 2 of the memory; temperature: 0 of the processor; errors: 0 corrected,
# 1 uncorrected, since the driver was loaded; policies: 0 power, 1 heat (nvml.h).
FAST: dict[str, Call] = {
    "power": _plain("nvmlDeviceGetPowerUsage"),
    "utilization": _parts("nvmlDeviceGetUtilizationRates", "gpu", "memory"),
    "temperature": _plain("nvmlDeviceGetTemperature", 0),
    "clock.processors": _plain("nvmlDeviceGetClockInfo", 1),
    "clock.memory": _plain("nvmlDeviceGetClockInfo", 2),
    "clocks_event_reasons": _plain("nvmlDeviceGetCurrentClocksEventReasons"),
    "memory": _parts("nvmlDeviceGetMemoryInfo", "used", "total"),
    "energy": _plain("nvmlDeviceGetTotalEnergyConsumption"),
}
SLOW: dict[str, Call] = {
    "power_limit": _plain("nvmlDeviceGetEnforcedPowerLimit"),
    "pcie.width": _plain("nvmlDeviceGetCurrPcieLinkWidth"),
    "pcie.width_max": _plain("nvmlDeviceGetMaxPcieLinkWidth"),
    "pcie.generation": _plain("nvmlDeviceGetCurrPcieLinkGeneration"),
    "pcie.generation_max": _plain("nvmlDeviceGetMaxPcieLinkGeneration"),
    "pcie.replays": _plain("nvmlDeviceGetPcieReplayCounter"),
    "held_back.power": _held_back(0),
    "held_back.heat": _held_back(1),
    "ecc.corrected": _plain("nvmlDeviceGetTotalEccErrors", 0, 0),
    "ecc.uncorrected": _plain("nvmlDeviceGetTotalEccErrors", 1, 0),
    "remapped_rows": _rows,
    "fabric": _fabric,
}
# name -> (field, scope), nvml.h
FAST_FIELDS = {
    "temperature.memory": (82, 0),
    "nvlink.sent_kib": (138, ALL_LINKS),
    "nvlink.received_kib": (139, ALL_LINKS),
}
SLOW_FIELDS = {
    "nvlink.replays": (161, ALL_LINKS),
    "nvlink.recoveries": (162, ALL_LINKS),
    "nvlink.crc_errors": (163, ALL_LINKS),
    "recovery_action": (230, 0),
}


def _told(error: Any) -> tuple[int, str]:
    return int(getattr(error, "value", 999)), str(error)[:200]


def _text(told: object) -> str:
    return (told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told))[:128]


def serve(calls: Calls, questions: IO[str], out: IO[str]) -> None:
    """Answer until nobody asks any more."""
    for question in questions:
        for line in calls.answer(question.strip()):
            out.write(json.dumps(line) + "\n")
            out.flush()


def main() -> None:
    """The process."""
    try:
        import pynvml
    except ImportError:
        for _ in sys.stdin:
            print(json.dumps({"fatal": [0, MISSING]}), flush=True)
        return
    serve(Calls(pynvml), sys.stdin, sys.stdout)


if __name__ == "__main__":
    main()
