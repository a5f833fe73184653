"""Where the processor time of a process goes, by what it works on: an account of each thread, told as a file.

Some functions are wrapped; time counts for the innermost of them that runs. That costs two readings of the thread's
clock a call, so only such are wrapped as do much at a time. Threads of libraries are told by their own names.
"""

import importlib
import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from types import FunctionType
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
# What is wrapped: "module:name", and what its time counts for. A module alone: all functions that it defines.
PLACES = {
    "sickbay.log.kafka_tasks:KafkaTasks.poll": "consume",
    "sickbay.log.kafka_tasks:KafkaTasks.seek": "consume",
    "sickbay.log.kafka_reader:KafkaReader.read": "consume",
    "sickbay.log.kafka_tasks:KafkaTasks.commit": "commit",
    "sickbay.wire:decode": "decode",
    "sickbay.packs:unpack": "decode",
    "sickbay.app.running.frame_layouts:Layouts.frame": "decode",
    "sickbay.app.running.live:FrameReader.__call__": "decode",
    "sickbay.app.running.stages:Windows.step": "features",
    "streams.peers": "peers",
    "sickbay.app.running.stages:Diagnosis.step": "detect",
    "sickbay.app.running.stages:Explicit.step": "detect",
}
THREADS = {"rdk:": "consume", "polars": "features"}  # by the beginning of a thread's own name


class Account:
    """Seconds of processor time by what they were for."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._local = threading.local()

    def wrapped(self, function: Callable[..., Any], what: str) -> Callable[..., Any]:
        """The function, its time counted for `what` but for that of other wrapped ones inside it."""
        local, spent, clock = self._local, self.spent, time.thread_time

        @wraps(function)
        def counted(*args: Any, **named: Any) -> Any:
            stack = local.__dict__.setdefault("stack", [])
            if stack:
                spent[stack[-1]] += clock() - local.since
            stack.append(what)
            local.since = clock()
            try:
                return function(*args, **named)
            finally:
                now = clock()
                spent[stack.pop()] += now - local.since
                local.since = now

        return counted

    def wrap_all(self, places: Mapping[str, str] = PLACES) -> list[str]:
        """Wraps what is there. Returns the places that are not: whose names have changed."""
        return [place for place, what in places.items() if not self._wrap(place, what)]

    def _wrap(self, place: str, what: str) -> bool:
        module_name, _, path = place.partition(":")
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            return False
        if not path:
            own = [one for one in vars(module).values() if isinstance(one, FunctionType)]
            for one in own:
                if one.__module__ == module_name and one.__name__[0] != "_":
                    _replace(one, self.wrapped(one, what))
            return True
        owner_path, _, name = path.rpartition(".")
        owner = getattr(module, owner_path, None) if owner_path else module
        function = getattr(owner, name, None)
        if function is None:
            return False
        if owner_path:
            setattr(owner, name, self.wrapped(function, what))
        else:
            _replace(function, self.wrapped(function, what))
        return True

    def told(self) -> dict[str, float]:
        """Seconds by what they were for; "other" is what is left of the process' own."""
        found = defaultdict(float, self.spent)
        for name, seconds in _threads():
            for beginning, what in THREADS.items():
                if name.startswith(beginning):
                    found[what] += seconds
        found["other"] = max(0.0, time.process_time() - sum(found.values()))
        return {what: round(seconds, 2) for what, seconds in found.items()}


def _replace(function: Callable[..., Any], by: Callable[..., Any]) -> None:
    """Wherever a module of ours holds it under a name."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("sickbay", "streams", "diagnosis"):
            for key, value in list(vars(module).items()):
                if value is function:
                    setattr(module, key, by)


def _threads() -> list[tuple[str, float]]:
    """Names and processor seconds of all threads of this process."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            head, _, tail = (task / "stat").read_text().rpartition(")")
        except OSError:  # it ended meanwhile
            continue
        fields = tail.split()
        found.append((head.partition("(")[2], (int(fields[11]) + int(fields[12])) / TICKS))
    return found


def main() -> int:
    """`python -m benchmarks.accounting FILE STAGE...`: `sickbay process` with an account in FILE, once a second."""
    file, stages = Path(sys.argv[1]), sys.argv[2:]
    from sickbay.commands.process import process

    importlib.import_module("sickbay.app.running.stages")
    account = Account()
    missing = account.wrap_all()

    def tell() -> None:
        while True:
            told = {"cpu_s": account.told(), "missing": missing, "peak_rss_mb": peak_rss_mb()}
            file.with_suffix(".new").write_text(json.dumps(told))
            os.replace(file.with_suffix(".new"), file)
            time.sleep(1)

    threading.Thread(target=tell, daemon=True).start()
    return process(*stages, config=Path("sickbay.toml"))


def peak_rss_mb(pid: int | str = "self") -> float:
    """The most memory that a process ever had."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return round(next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024, 1)


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    sys.exit(main())
