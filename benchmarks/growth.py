"""What a value costs in clusters of three sizes, and what a second process of the windows stage brings.

The stages run as they do in `throughput`, at real time, each size for the same seconds. Their processor time while
nobody sends (ticks, polls, looks) is taken off, so that a small cluster is not made to look dear: what is left is
divided by the values. Broker and sender are told apart.

For the second part a backlog is laid into the log while no stage runs; one process, and then two on a half of the
partitions each, work it off. The log is filled anew in between, so that all read from the same warm pages.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from benchmarks import throughput
from benchmarks import throughput_site as site
from benchmarks.throughput_load import Load
from benchmarks.throughput_site import Watch
from sickbay.log import Log, Task, tasks_of
from sickbay.topics import TELEMETRY
from simulator.telemetry import PER_HOST, Fleet

SIZES = (1_000, 10_000, 100_000)
SECONDS, WARM_UP_S, IDLE_S, BACKLOG_S = 60, 40, 30, 30
STAGES = ("consume", "decode", "features", "peers", "detect", "commit", "other")  # broker and sender aside
DRAIN_S = 300.0
NO_IDLE: dict[str, Any] = {"cpu_s": dict.fromkeys(STAGES, 0.0), "seconds": 1.0}


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="accelerators")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of each measurement")
    parser.add_argument("--warm-up", type=int, default=WARM_UP_S)
    parser.add_argument("--idle", type=int, default=IDLE_S, help="seconds in which nobody sends; 0: leave out")
    parser.add_argument("--backlog", type=int, default=BACKLOG_S, help="seconds of telemetry to work off; 0: leave out")


def measure(size: int | None = None, **options: Any) -> dict[str, Any]:
    """The numbers. `size`: the greatest cluster, where the sizes are not told."""
    given = argparse.Namespace(**options)
    sizes = [one for one in given.sizes if size is None or one <= size] or [size or SIZES[0]]
    way = throughput.Way(sizes[0], 0, "hosts", 64, site.SPLIT)
    idle = throughput.once(way, 0.0, given.idle, min(10, given.warm_up)) if given.idle else NO_IDLE
    found = {str(one): throughput.once(way._replace(accelerators=one), 1.0, given.seconds, given.warm_up)
             for one in sizes}  # fmt: skip
    costs = {name: _cost_us(one, idle) for name, one in found.items()}
    drained = [_drained(sizes[-1], given.backlog, processes) for processes in (1, 2)] if given.backlog else []
    return {
        "cost_per_value_us": costs,
        "ratio": round(costs[str(sizes[-1])] / costs[str(sizes[0])], 2),
        "two_processes": round(drained[0]["seconds"] / drained[1]["seconds"], 2) if drained else None,
        "drained": drained,
        "sustained": {name: one["sustained"] for name, one in found.items()},
        "cpu_s": {name: one["cpu_s"] for name, one in found.items()},
        "idle_cores": round(_stages_s(idle) / idle["seconds"], 3),
        "peak_rss_mb": {name: one["peak_rss_mb"] for name, one in found.items()},
        "conditions": {
            "seconds": given.seconds,
            "warm_up_s": given.warm_up,
            "cost_is": "processor time of the stages, without what they take when nobody sends, by value",
            "backlog_s": given.backlog,
            "cpus": os.cpu_count(),
            "load_1m": round(os.getloadavg()[0], 1),
            "python": platform.python_version(),
            "machine": platform.machine(),
        },
    }


def _stages_s(numbers: dict[str, Any]) -> float:
    spent: dict[str, float] = numbers["cpu_s"]
    return sum(spent[part] for part in STAGES)


def _cost_us(numbers: dict[str, Any], idle: dict[str, Any]) -> float:
    took = float(numbers["seconds"])
    spent = _stages_s(numbers) - _stages_s(idle) * took / float(idle["seconds"])
    return round(spent / max(1.0, float(numbers["values_per_s"]) * took) * 1e6, 4)


def _drained(accelerators: int, backlog_s: int, processes: int) -> dict[str, Any]:
    """Seconds from the first to the last commit of a backlog, and what the machine did meanwhile."""
    hosts = max(1, accelerators // PER_HOST)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sickbay-growth-")))
        cluster = stack.enter_context(site.broker(folder))
        log = stack.enter_context(closing(site.prepared(cluster.brokers, Fleet(1, hosts), folder)))
        _fill(folder, Load(address=cluster.brokers, stats=str(folder / "load.stats"), hosts=hosts), backlog_s)
        children = site.stages(folder, ["ticker", *["windows"] * processes])
        stack.callback(site.end_all, children)
        return _timed(log, children, processes)


def _fill(folder: Path, load: Load, seconds: int) -> None:
    sender, _ = site.sender(folder, load)
    sender.say()
    time.sleep(seconds)
    sender.say()
    sender.process.wait(30)
    sender.end()


def _timed(log: Log, children: list[site.Child], processes: int) -> dict[str, Any]:
    watch, reader = Watch(log), log.reader()
    ends = sum(reader.bounds(Task(*task)).end for task in tasks_of(log.topics, [TELEMETRY]))
    site.until(lambda: watch.look().offset > 0, site.START_S, "first commit", children)
    began, first, before = time.monotonic(), watch.look().offset, site.accounts(children)
    site.until(lambda: watch.look().offset >= ends, DRAIN_S, "end of the backlog", children)
    took, after = time.monotonic() - began, site.accounts(children)
    spent = sum(after.values()) - sum(before.values())
    say(f"{processes} processes: {ends - first} records in {took:.1f} s")
    return {"processes": processes, "records": ends - first, "seconds": round(took, 2),
            "cores_of_stages": round(spent / took, 2)}  # fmt: skip


def say(text: str) -> None:
    """Progress."""
    print(f"growth: {text}", file=sys.stderr, flush=True)
