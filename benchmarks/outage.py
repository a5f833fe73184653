"""How soon all is as it was: after a killed process, after stages that were away, after a broker that was away.

In one run over a whole cluster's telemetry: the windows stage is killed and started again (what it holds is rebuilt
from the log); all stages are killed, and started again when the log has grown for so long; the broker is killed, and
started again after so long. While it is away agents keep what they have: what is older than the lateness goes the slow
way later (backfill, for the archive only), so that here it is not sent at all.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks import throughput_site as site
from benchmarks.accounting import peak_rss_mb
from benchmarks.throughput_load import Load
from benchmarks.throughput_site import Child, Watch
from sickbay.log import LogBusy
from sickbay.topics import MIB, TELEMETRY
from simulator.telemetry import PER_HOST, Fleet

ACCELERATORS, AWAY_S, BEHIND_S, WARM_UP_S = 100_000, 600, 60, 40
BACK_S = 5.0  # the lag that counts as back; diagnosis tells how far it is every 5 s, so twice that there
LIMIT_S = 900.0
RETENTION = 512 * MIB  # a partition: a minute of the whole cluster is 2.5 GB


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--accelerators", type=int, default=ACCELERATORS)
    parser.add_argument("--away", type=int, default=AWAY_S, help="seconds without a broker")
    parser.add_argument("--behind", type=int, default=BEHIND_S, help="seconds without stages, while the log grows")
    parser.add_argument("--warm-up", type=int, default=WARM_UP_S, help="seconds before the first kill")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds until it is given up")


class _Run(NamedTuple):
    folder: Path
    watch: Watch
    limit_s: float
    children: list[Child]


def measure(size: int | None = None, **options: Any) -> dict[str, Any]:
    """The numbers. `size`: accelerators, where the option does not say."""
    given = argparse.Namespace(**options)
    accelerators = size or given.accelerators
    hosts = max(1, accelerators // PER_HOST)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sickbay-outage-")))
        cluster = stack.enter_context(site.broker(folder))
        retention = site.RETENTION | {TELEMETRY: RETENTION}
        log = stack.enter_context(closing(site.prepared(cluster.brokers, Fleet(1, hosts), folder, retention)))
        load = Load(address=cluster.brokers, stats=str(folder / "load.stats"), hosts=hosts)
        sender, _ = site.sender(folder, load)
        stack.callback(sender.end)
        run = _Run(folder, Watch(log), given.limit, site.stages(folder))
        stack.callback(site.end_all, run.children)
        site.ready(run.watch, run.children)
        sender.say()
        time.sleep(given.warm_up)
        numbers = {"rebuild_s": _rebuilt(run)}
        numbers["catch_up_s"] = _caught_up(run, given.behind)
        numbers["lag_back_s"] = _back(run, cluster, given.away)
        numbers["peak_rss_mb"] = round(sum(peak_rss_mb(child.pid) for child in run.children), 1)
        lost = msgspec.json.decode(sender.file("stats").read_bytes())["lost"]
    return numbers | {"conditions": _conditions(accelerators, given, lost)}


def _conditions(accelerators: int, given: argparse.Namespace, lost: int) -> dict[str, Any]:
    return {
        "accelerators": accelerators,
        "away_s": given.away,
        "behind_s": given.behind,
        "rebuild_is": "from the start of a killed windows stage to a lag below 5 s",
        "catch_up_is": "from the start of all stages, with so much backlog, to a lag below 5 s; telemetry goes on",
        "lag_back_is": "from the moment the broker answers again to a lag below 5 s",
        "frames_not_sent": lost,
        "cpus": os.cpu_count(),
        "load_1m": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def say(text: str) -> None:
    """Progress."""
    print(f"outage: {text}", file=sys.stderr, flush=True)


def _rebuilt(run: _Run) -> float | None:
    place = next(place for place, child in enumerate(run.children) if child.name.endswith("-windows"))
    return _again(run, [place], 0.0, "windows stage killed")


def _caught_up(run: _Run, behind_s: float) -> float | None:
    return _again(run, list(range(len(run.children))), behind_s, f"all stages killed, away for {behind_s:.0f} s")


def _again(run: _Run, places: list[int], away_s: float, what: str) -> float | None:
    say(what)
    for place in places:
        run.children[place].kill()
    time.sleep(away_s)
    began = time.monotonic()
    for place in places:
        run.children[place] = run.children[place].again()
    return _until_back(run, began)


def _back(run: _Run, cluster: Any, away_s: float) -> float | None:
    say(f"broker killed, away for {away_s:.0f} s")
    cluster.kill()
    time.sleep(away_s)
    cluster.start()
    return _until_back(run, time.monotonic())


def _until_back(run: _Run, began: float) -> float | None:
    """Seconds until windows and diagnosis are in the present; None where the limit comes first."""
    told_s = 0.0
    while (took := time.monotonic() - began) < run.limit_s:
        for child in run.children:
            child.alive()
        try:
            look = run.watch.look()
        except LogBusy:  # the broker answers, but has not yet found its groups
            continue
        judged_s = took if look.judged_s is None else look.judged_s
        if look.windows_s < min(BACK_S, took) and judged_s < min(2 * BACK_S, took):  # of what came since then
            say(f"  back after {took:.1f} s")
            return round(took, 1)
        if took - told_s > 10:
            told_s = took
            say(f"  {took:.0f} s: windows {look.windows_s:.1f} s behind, diagnosis {look.judged_s or 0:.1f} s")
        time.sleep(0.2)
    return None
