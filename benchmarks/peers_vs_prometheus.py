"""One rule in two systems over the same series: how far each accelerator is from the middle of its job's peers.

A real Prometheus scrapes the series once a second and works the rule out as recording rules every 10 s: the mean of
10 s, the median of the job, the median distance from it, and the distance in those. It runs once with the rules and
once without, so that they can be told from the storing. Our processor gets the same values in frames.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.accounting import cpu_s, peak_rss_mb
from benchmarks.peers_processor import COLUMNS, CYCLE_S, WIDTH_S, Task, jobs_of, layout, write
from simulator.telemetry import BEGIN_S, Fleet

ACCELERATORS, SECONDS = 4_000, 60
TARGETS = 4  # exporters that tell of a part of the hosts each
WARM_UP_S = 15
START_S = 60.0
ROBUST = 1.4826
ODD = 100.0  # deviations beyond are of columns that hardly differ: a float32 makes much of them


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--accelerators", type=int, default=ACCELERATORS)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of each run")
    parser.add_argument("--warm-up", type=int, default=WARM_UP_S, help="seconds before it")


def measure(size: int | None = None, **options: Any) -> dict[str, Any]:
    """The numbers. `size`: accelerators, where the option does not say."""
    given = argparse.Namespace(**options)
    fleet = Fleet(1, max(TARGETS, (size or given.accelerators) // 8))
    with tempfile.TemporaryDirectory(prefix="sickbay-peers-") as folder:
        with_rules, recorded = _prometheus(fleet, Path(folder) / "with", given, RULES)
        without, _ = _prometheus(fleet, Path(folder) / "without", given, "")
        ours = _ours(fleet, Path(folder), given.seconds)
    per_value = {name: one["cpu_s"] / one["values"] for name, one in
                 {"prometheus": with_rules, "stored_only": without, "sickbay": ours}.items()}  # fmt: skip
    return {
        "values_per_s_per_core": {name: round(1 / cost) for name, cost in per_value.items()},
        "times_as_many": round(per_value["prometheus"] / per_value["sickbay"], 1),
        "rss_mb": {
            "prometheus": with_rules["rss_mb"],
            "stored_only": without["rss_mb"],
            "sickbay": ours["peak_rss_mb"],
        },
        "agreement": _agreement(fleet, recorded),
        "conditions": {
            "accelerators": fleet.hosts * 8,
            "columns": list(COLUMNS),
            "jobs": len(fleet.jobs),
            "seconds": given.seconds,
            "prometheus": "scrapes at 1 Hz, rules every 10 s; storage in memory and its log, as it comes",
            "sickbay": "frames of 5 s, windows of 10 s; decoding, windows and peers, without a log",
            "agreement_is": "correlation of both systems' deviations from the means that Prometheus recorded",
            "cpus": os.cpu_count(),
            "load_1m": round(os.getloadavg()[0], 1),
            "python": platform.python_version(),
            "machine": platform.machine(),
        },
    }  # fmt: skip


def _rule(column: str) -> str:
    by, of = "by (training)", "on (training) group_left ()"
    return f"""
  - {{record: "mean:{column}", expr: "avg_over_time({column}[{WIDTH_S}s])"}}
  - {{record: "median:{column}", expr: "quantile {by} (0.5, mean:{column})"}}
  - {{record: "away:{column}", expr: "mean:{column} - {of} median:{column}"}}
  - {{record: "mad:{column}", expr: "quantile {by} (0.5, abs(away:{column}))"}}
  - {{record: "deviation:{column}", expr: "away:{column} / {of} ({ROBUST} * mad:{column})"}}"""


RULES = f"groups:\n- name: peers\n  interval: {WIDTH_S}s\n  rules:" + "".join(map(_rule, COLUMNS)) + "\n"


def say(text: str) -> None:
    """Progress."""
    print(f"peers: {text}", file=sys.stderr, flush=True)


def _values(fleet: Fleet) -> NDArray[np.float32]:
    """[columns, hosts, seconds of the cycle, cards]: what is told in the second after each full ten."""
    block = fleet.block("accelerator", range(fleet.hosts), BEGIN_S, CYCLE_S)
    places = [block.layout.gauges.index(name) for name in layout().gauges]
    return np.moveaxis(block.gauges[..., places], -1, 0)


def bodies(fleet: Fleet) -> list[list[bytes]]:
    """What each target tells in each second of the cycle."""
    values, jobs = _values(fleet), jobs_of(fleet)
    parts = np.array_split(np.arange(fleet.hosts), TARGETS)
    return [[_body(fleet, values[:, part, second], part, jobs) for second in range(CYCLE_S)] for part in parts]


def _body(fleet: Fleet, values: NDArray[np.float32], part: NDArray[np.intp], jobs: NDArray[np.int64]) -> bytes:
    label = '{{host="{}",card="{}",training="{}"}} '
    labels = [label.format(fleet.host(row), card, jobs[row]) for row in part for card in range(8)]
    lines = list[str]()
    for column, told in zip(layout().gauges, values, strict=True):
        lines.append(f"# TYPE {column} gauge\n")
        lines += [f"{column}{one}{value!r}\n" for one, value in zip(labels, told.ravel().tolist(), strict=True)]
    return "".join(lines).encode()


@contextmanager
def _targets(fleet: Fleet) -> Iterator[list[str]]:
    """Exporters in this process: their time is nobody's here."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), partial(_Exporter, told)) for told in bodies(fleet)]
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(0.2,), daemon=True).start()
    try:
        yield [f"127.0.0.1:{server.server_port}" for server in servers]
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


class _Exporter(BaseHTTPRequestHandler):
    def __init__(self, told: list[bytes], *rest: Any) -> None:
        self._told = told
        super().__init__(*rest)

    def do_GET(self) -> None:
        body = self._told[int(time.time()) % CYCLE_S]
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _prometheus(
    fleet: Fleet, folder: Path, given: argparse.Namespace, rules: str
) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """Processor time, values and memory of a real one; and what it recorded last, see `_recorded`."""
    from tests.services.process import Child, answers, found, free_port, started

    folder.mkdir()
    with _targets(fleet) as targets:
        (folder / "rules.yml").write_text(rules or "groups: []\n")
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 10s}\nrule_files: [rules.yml]\n"
            f"scrape_configs:\n- job_name: cards\n  static_configs: [{{targets: {targets}}}]\n"
        )
        address = f"127.0.0.1:{free_port()}"
        command = [found("prometheus")[0], "--config.file=prometheus.yml", f"--web.listen-address={address}",
                   "--storage.tsdb.path=data"]  # fmt: skip
        child = started(Child(command, folder, folder / "log"), lambda: answers(f"http://{address}/-/ready"), START_S)
        try:
            time.sleep(given.warm_up)
            before = cpu_s(child.pid), _samples(address)
            say(f"Prometheus {'with' if rules else 'without'} rules: {given.seconds} s")
            time.sleep(given.seconds)
            used, values = cpu_s(child.pid) - before[0], _samples(address) - before[1]
            recorded = _recorded(address, fleet) if rules else np.empty((2, 0, 0))
            return {"cpu_s": used, "values": max(1.0, values), "rss_mb": peak_rss_mb(child.pid)}, recorded
        finally:
            child.stop()


def _samples(address: str) -> float:
    """Values scraped so far: recorded ones are not counted."""
    found = _asked(address, "sum(sum_over_time(scrape_samples_scraped[1h]))")
    return float(found[0]["value"][1]) if found else 0.0


def _asked(address: str, query: str, at_s: float | None = None) -> list[dict[str, Any]]:
    asked = {"query": query} | ({} if at_s is None else {"time": f"{at_s:.3f}"})
    with urlopen(f"http://{address}/api/v1/query?{urlencode(asked)}", timeout=20) as answer:
        found: list[dict[str, Any]] = msgspec.json.decode(answer.read())["data"]["result"]
        return found


def _recorded(address: str, fleet: Fleet) -> NDArray[np.float64]:
    """Means and deviations of one evaluation, [2, columns, cards]: of some seconds ago, so that it is whole."""
    table, at_s = np.full((2, len(COLUMNS), fleet.hosts * 8), np.nan), time.time() - WIDTH_S / 2
    rows = {fleet.host(row): row for row in range(fleet.hosts)}
    for what, rule in enumerate(("mean", "deviation")):
        for place, column in enumerate(COLUMNS):
            for one in _asked(address, f"{rule}:{column}", at_s):
                card = rows[one["metric"]["host"]] * 8 + int(one["metric"]["card"])
                table[what, place, card] = float(one["value"][1])
    return table


def _ours(fleet: Fleet, folder: Path, seconds: int) -> dict[str, Any]:
    task = Task(file=str(folder / "frames"), hosts=fleet.hosts, second=BEGIN_S, seconds=seconds // WIDTH_S * WIDTH_S)
    write(fleet, task)
    say(f"our processor: {task.seconds} s of the same")
    command = [sys.executable, "-m", "benchmarks.peers_processor", msgspec.json.encode(task).decode()]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, timeout=600)
    numbers: dict[str, Any] = msgspec.json.decode(done.stdout)
    return numbers


def _agreement(fleet: Fleet, recorded: NDArray[np.float64]) -> float | None:
    """How alike both systems' deviations from the same means are."""
    from streams.peers import compared

    means, theirs = recorded
    ours = compared(means.astype(np.float32), np.repeat(jobs_of(fleet), 8)).deviation
    both = np.isfinite(ours) & np.isfinite(theirs) & (np.abs(theirs) < ODD)
    if both.sum() < 2:
        return None
    return round(float(np.corrcoef(ours[both], theirs[both])[0, 1]), 4)
