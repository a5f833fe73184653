"""What /proc says of a host: load, memory, tasks that wait, pressure, the moment of its boot.

Source: Linux Documentation/filesystems/proc.rst and Documentation/accounting/psi.rst.
"""

import math
import re
from collections.abc import Iterator, Mapping

_BOOT = re.compile(r"^btime (\d{1,12})$", re.MULTILINE)
_BLOCKED = re.compile(r"^procs_blocked (\d{1,9})$", re.MULTILINE)
_MEMORY = re.compile(r"^(MemTotal|MemAvailable):[ \t]{1,40}(\d{1,15}) kB$", re.MULTILINE)
_KILLS = re.compile(r"^oom_kill (\d{1,15})$", re.MULTILINE)
_SOME = re.compile(r"^some avg10=(\d{1,3}\.\d{1,4}) ", re.MULTILINE)
_LOAD = re.compile(r"(\d{1,7}\.\d{1,4}) ")
_MEMORY_COLUMNS = {"MemTotal": "memory_total_bytes", "MemAvailable": "memory_available_bytes"}
FILES = ("stat", "loadavg", "meminfo", "vmstat", "pressure/cpu", "pressure/memory", "pressure/io")


def columns(texts: Mapping[str, str]) -> dict[str, float]:
    """Columns of the host table from the files of /proc by name; a file that tells nothing leaves its columns out."""
    return {column: value for column, value in _columns(texts) if math.isfinite(value)}


def _columns(texts: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    for file, pattern, column in (
        ("stat", _BOOT, "boot_time_seconds"),
        ("stat", _BLOCKED, "tasks_blocked"),
        ("vmstat", _KILLS, "out_of_memory_kills_total"),
    ):
        if found := pattern.search(texts.get(file, "")):
            yield column, float(found[1])
    if found := _LOAD.match(texts.get("loadavg", "")):
        yield "load_1m", float(found[1])
    for what, kilobytes in _MEMORY.findall(texts.get("meminfo", "")):
        yield _MEMORY_COLUMNS[what], float(kilobytes) * 1024
    for what in ("cpu", "memory", "io"):
        if found := _SOME.search(texts.get(f"pressure/{what}", "")):
            yield f"pressure_{what}_ratio", min(1.0, float(found[1]) / 100)
