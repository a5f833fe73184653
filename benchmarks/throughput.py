"""How much telemetry the stages keep up with, broker and sender on the same machine: the rate at which lag is still.

100,000 accelerators at 1 Hz are 12,500 hosts that send a frame every 5 s. At R times real time R times as many hosts
send (`--by hosts`), in as many more jobs: rows, windows, comparisons with peers and looks of diagnosis all become R
times as many, as a machine that is R times as fast would have to do in catching up. `--by pace` lets the same hosts
sample and send R times as fast instead: windows hold R times the rows, but there are no more of them, so that it is the
easier one. The log's append time is the broker's in both, so all windows close in real time.

Sustained means: in the last sixth of the time the stages were never further behind than in the second sixth, but for
two seconds, and the sender was on time.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from benchmarks import throughput_site as site
from benchmarks.accounting import cpu_s, peak_rss_mb
from benchmarks.throughput_load import Load
from benchmarks.throughput_site import Child, Look, Watch
from simulator.telemetry import PER_HOST, Fleet

ACCELERATORS, SECONDS, WARM_UP_S = 100_000, 300, 40
RELAYED = 16  # hosts a record of a relay
TRIAL_S, TRIALS = 45, 4  # of the search for the rate
LOWEST, HIGHEST = 0.25, 16.0
LEAST_LOOKS = 10  # compared: diagnosis tells how far it is every 5 s
STILL_S = 2.0  # so much further behind is noise: windows close every 10 s, diagnosis tells how far it is every 5 s
BEHIND_S = 15.0  # further behind than this nothing is sustained, whatever its slope
LEAST_FREE = 20 << 30  # bytes of disk
PARTS = ("broker", "consume", "decode", "features", "peers", "detect", "commit", "generator")


class Way(NamedTuple):
    """How the load is made."""

    accelerators: int
    relayed: int
    by: str
    connections: int
    split: tuple[str, ...]


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--accelerators", type=int, default=ACCELERATORS)
    parser.add_argument("--log", choices=["kafka"], default="kafka")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of the final measurement")
    parser.add_argument("--warm-up", type=int, default=WARM_UP_S, help="seconds before it")
    parser.add_argument("--ratio", type=float, help="times real time; without it the greatest sustained is looked for")
    parser.add_argument("--relayed-ratio", type=float, help="the same behind relays")
    parser.add_argument("--mode", choices=["direct", "relayed", "both"], default="both")
    parser.add_argument("--by", choices=["hosts", "pace"], default="hosts", help="what becomes more with the ratio")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--split", action="append", help="stages of one process, a comma between; once for each")


def measure(size: int | None = None, **options: Any) -> dict[str, Any]:
    """The numbers. `size`: accelerators, where the option does not say."""
    given = argparse.Namespace(**options)
    way = Way(size or given.accelerators, 0, given.by, given.connections, tuple(given.split or site.SPLIT))
    found: dict[str, dict[str, Any]] = {}
    if given.mode != "relayed":
        found["direct"] = _sustained(way, given.ratio, given)
    if given.mode != "direct":
        found["relayed"] = _sustained(way._replace(relayed=RELAYED), given.relayed_ratio, given)
    first = found.get("direct") or found["relayed"]
    return {
        "values_per_s": first["values_per_s"],
        "realtime_ratio": found["direct"]["realtime_ratio"] if "direct" in found else None,
        "relayed_realtime_ratio": found["relayed"]["realtime_ratio"] if "relayed" in found else None,
        "peak_rss_mb": max(one["peak_rss_mb"] for one in found.values()),
        "cpu_s": first["cpu_s"],
        "by_mode": found,
        "conditions": _conditions(way, given),
    }


def _conditions(way: Way, given: argparse.Namespace) -> dict[str, Any]:
    return {
        "accelerators": way.accelerators,
        "ports": way.accelerators,
        "columns": "all of the accelerator, port and host tables, at 1 Hz, a frame a host every 5 s, unsigned",
        "ratio_is": f"more {way.by}",
        "connections": way.connections,
        "hosts_a_record_relayed": RELAYED,
        "processes": list(way.split),
        "seconds": given.seconds,
        "warm_up_s": given.warm_up,
        "log": "Kafka 4.4, one broker, on the same cores",
        "broker": site.BROKER | {"jvm": site.JVM, "data_on": site.filesystem(Path(tempfile.gettempdir()))},
        "placement": "as Slurm tells it; links of every port",
        "peak_rss_is": "of all stages together, each at its greatest; without broker and sender",
        "cpus": os.cpu_count(),
        "load_1m": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def say(text: str) -> None:
    """Progress."""
    print(f"throughput: {text}", file=sys.stderr, flush=True)


def _sustained(way: Way, ratio: float | None, given: argparse.Namespace) -> dict[str, Any]:
    """The numbers at the ratio, or at the greatest that is found to be sustained."""
    name = "relayed" if way.relayed else "direct"

    def tried(one: float, seconds: int) -> dict[str, Any]:
        numbers = once(way, one, seconds, given.warm_up)
        say(f"{name} at {one:.2f}x: {'sustained' if numbers['sustained'] else 'not sustained'}, {numbers['lag_s']}")
        return numbers

    if ratio is not None:
        return tried(ratio, given.seconds)
    best = search(lambda one: bool(tried(one, TRIAL_S)["sustained"]), 4.0 if way.relayed else 2.0)
    numbers = tried(best, given.seconds)
    while not numbers["sustained"] and best > LOWEST:  # a trial is shorter than the measurement
        best = max(LOWEST, best * 0.85)
        numbers = tried(best, given.seconds)
    return numbers


def search(sustained: Callable[[float], bool], first: float, trials: int = TRIALS) -> float:
    """The greatest ratio found in so many trials: outwards by twice, then halving what is left in between."""
    good, bad, ratio = 0.0, 0.0, first
    for _ in range(trials):
        if sustained(ratio):
            good = ratio
        else:
            bad = ratio
        ratio = (good * bad) ** 0.5 if good and bad else ratio * 2 if good else ratio / 2
        if not LOWEST <= ratio <= HIGHEST:
            break
    return good or max(LOWEST, bad / 2)


def once(way: Way, ratio: float, seconds: int, warm_up_s: int) -> dict[str, Any]:
    """One run with everything anew; at ratio 0 nobody sends."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sickbay-throughput-")))
        if (free := shutil.disk_usage(folder).free) < LEAST_FREE:
            raise RuntimeError(f"{free >> 30} GiB free below {folder}: the broker needs some {LEAST_FREE >> 30}")
        hosts = max(1, round(way.accelerators / PER_HOST * (ratio if way.by == "hosts" else 1)))
        hosts = max(hosts, way.relayed)
        load = Load(address="", stats=str(folder / "load.stats"), hosts=hosts, relayed=way.relayed,
                    pace=ratio if way.by == "pace" else 1.0, connections=way.connections)  # fmt: skip
        cluster = stack.enter_context(site.broker(folder))
        log = stack.enter_context(closing(site.prepared(cluster.brokers, Fleet(load.seed, hosts), folder)))
        sender, facts = site.sender(folder, msgspec.structs.replace(load, address=cluster.brokers))
        stack.callback(sender.end)
        children = site.stages(folder, way.split)
        stack.callback(site.end_all, children)
        return _watched(Run(log, cluster.nodes[0].pid, sender, children, facts, ratio), seconds, warm_up_s)


class Run(NamedTuple):
    """What runs."""

    log: Any
    broker: int
    sender: Child
    children: list[Child]
    facts: dict[str, Any]
    ratio: float


class Taken(NamedTuple):
    """Processor seconds and position at one moment."""

    at_s: float
    cpu: dict[str, float]
    processes: dict[str, float]
    offset: int


def _watched(run: Run, seconds: int, warm_up_s: int) -> dict[str, Any]:
    watch = Watch(run.log)
    site.ready(watch, run.children)
    if run.ratio:
        run.sender.say()
    _looks(run, watch, warm_up_s)
    before = _taken(run, watch)
    looks = _looks(run, watch, seconds)
    after = _taken(run, watch)
    sent = json.loads(run.sender.file("stats").read_text()) if run.ratio else {"refused": 0, "late_s": 0.0}
    peaks_mb = {child.name: peak_rss_mb(child.pid) for child in run.children}
    run.sender.say()
    return _numbers(run, before, after, looks, sent) | {
        "peak_rss_mb": round(sum(peaks_mb.values()), 1),
        "peak_rss_mb_by_process": peaks_mb,
        "cores_by_process": {
            name: round((seconds - before.processes[name]) / (after.at_s - before.at_s), 2)
            for name, seconds in after.processes.items()
        },
    }


def _taken(run: Run, watch: Watch) -> Taken:
    cpu = site.accounts(run.children)
    cpu |= {"broker": cpu_s(run.broker), "generator": cpu_s(run.sender.pid)}
    processes = {child.name: cpu_s(child.pid) for child in run.children}
    return Taken(time.monotonic(), cpu, processes, watch.look().offset)


def _looks(run: Run, watch: Watch, seconds: int) -> list[Look]:
    """One each second."""
    looks, began = list[Look](), time.monotonic()
    for number in range(seconds):
        time.sleep(max(0.0, began + number + 1 - time.monotonic()))
        for child in (run.sender, *run.children):
            child.alive()
        looks.append(watch.look())
        if number % 10 == 9:
            last = looks[-1]
            say(f"  {number + 1} s: windows {last.windows_s:.1f} s behind, diagnosis {last.judged_s or 0:.1f} s")
    return looks


def _numbers(run: Run, before: Taken, after: Taken, looks: Sequence[Look], sent: dict[str, Any]) -> dict[str, Any]:
    took = after.at_s - before.at_s
    ticks = round(took) * 16  # records of telemetry that carry only time
    per_record = run.facts["values_per_frame"] * (run.facts["frames_per_request"])
    records = max(0, after.offset - before.offset - ticks)
    lag = _lag(looks)
    cpu = {part: round(after.cpu.get(part, 0.0) - before.cpu.get(part, 0.0), 2) for part in (*PARTS, "other")}
    total = sum(cpu.values())
    values_per_s = records * per_record / took
    offered = run.facts["requests"] * per_record / run.facts["every_s"]
    sustained = all(one["still"] for one in lag.values()) and sent["refused"] == 0 and sent["late_s"] < STILL_S
    return {
        "values_per_s": round(values_per_s),
        "realtime_ratio": round(run.ratio if sustained else min(run.ratio, run.ratio * values_per_s / offered), 2),
        "offered_ratio": run.ratio,
        "sustained": sustained,
        "cpu_s": cpu,
        "cores": {"all": round(total / took, 2), "without_generator": round((total - cpu["generator"]) / took, 2)},
        "us_per_value": round((total - cpu["generator"]) / max(1, records * per_record) * 1e6, 4),
        "lag_s": lag,
        "incidents_open": looks[-1].open,
        "sender": sent | run.facts,
        "seconds": round(took, 1),
    }


def _lag(looks: Sequence[Look]) -> dict[str, dict[str, Any]]:
    found = {}
    for name, values in {
        "windows": [look.windows_s for look in looks],
        "diagnosis": [look.judged_s or 0.0 for look in looks],
    }.items():
        piece = min(len(values), max(len(values) // 6, LEAST_LOOKS))
        early, late = (max(part, default=0.0) for part in (values[piece : 2 * piece] or values, values[-piece:]))
        still = late <= early + STILL_S and late < BEHIND_S
        found[name] = {"at_a_third": round(early, 1), "at_end": round(late, 1), "median": round(median(values), 1),
                       "most": round(max(values), 1), "still": still}  # fmt: skip
    return found
