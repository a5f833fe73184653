"""From an event to its evidence while telemetry comes in: the stages in the processes that `throughput` found best."""

import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks import latency
from benchmarks import throughput_site as site
from benchmarks.throughput_load import Load
from benchmarks.throughput_site import Watch
from simulator.telemetry import PER_HOST, Fleet

WARM_UP_S = 20


def numbers(accelerators: int, count: int) -> dict[str, Any]:
    """Over `count` events on hosts of the cluster that sends telemetry."""
    hosts = max(1, accelerators // PER_HOST)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sickbay-latency-")))
        cluster = stack.enter_context(site.broker(folder))
        log = stack.enter_context(closing(site.prepared(cluster.brokers, Fleet(1, hosts), folder)))
        load = Load(address=cluster.brokers, stats=str(folder / "load.stats"), hosts=hosts)
        sender, _ = site.sender(folder, load)
        stack.callback(sender.end)
        children = site.stages(folder)
        stack.callback(site.end_all, children)
        watch = Watch(log)
        site.ready(watch, children)
        sender.say()
        print(f"latency: telemetry of {accelerators} accelerators", file=sys.stderr, flush=True)
        time.sleep(WARM_UP_S)
        before = watch.look()
        cuts = quantiles(latency.timed(log, count, "x{}"), n=100, method="inclusive")
        after = watch.look()
    return {
        "half_load_p50_ms": round(median(cuts), 1),
        "half_load_p99_ms": round(cuts[98], 1),
        "half_load_lag_s": [round(before.windows_s, 1), round(after.windows_s, 1)],  # of windows, before and after
    }
