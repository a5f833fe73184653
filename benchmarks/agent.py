"""What an agent costs its host: 8 accelerators and 8 network ports at 1 Hz, a kernel log that grows, frames every 5 s.

The agent is the real command in a process of its own, on the embedded log; exporters and kernel log are simulated in
this process, the files of the host's adapters and bus lie below its root. node_exporter, where it is installed, is
scraped once a second in the same seconds, to compare.
"""

import os
import platform
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import agent_files
from simulator.live.site import Site

SECONDS = 60  # measured
START_S = 60  # for the first frame
WARM_UP_S = 2
HOST = "n1"
NODE_EXPORTERS = ("prometheus-node-exporter", "node_exporter")
_ORDINARY = "{at} n1 kernel: audit: type=1400 audit({n}): apparmor=ALLOWED operation=open pid={n}\n"
_TICKS = os.sysconf("SC_CLK_TCK")


def measure(size: int | None = None) -> dict[str, Any]:
    """Numbers over `size` seconds."""
    seconds = size or SECONDS
    with tempfile.TemporaryDirectory(prefix="sickbay-agent-") as folder:
        site = Site(Path(folder) / "site", (HOST,))
        agent_files.lay_out(site.root(HOST))
        site.start()
        try:
            with _agent(Path(folder), site) as process, _node_exporter() as other:
                _await_frame(Path(folder) / "spool" / "spool.sqlite")
                watched = _watched([process.pid, *([other.pid] if other else [])], seconds, _each_second(site, other))
            records = _records(Path(folder) / "log")
        finally:
            site.close()
    (used, rss_mb), (node_used, node_rss_mb) = [*watched, (None, None)][:2]
    return {
        "cpu_ratio": round((used or 0) / seconds, 5),
        "rss_mb": rss_mb,
        "node_exporter_cpu_ratio": None if node_used is None else round(node_used / seconds, 5),
        "node_exporter_rss_mb": node_rss_mb,
        "conditions": {
            "seconds": seconds,
            "accelerators": 8,
            "ports": 8,
            "sample_s": 1.0,
            "frame_s": 5.0,
            "log": "embedded, written by the agent itself",
            "records_in_log": records,
            "rss_is": "the most at any time (VmHWM)",
            "node_exporter": "scraped once a second in the same seconds",
            "cores": os.cpu_count(),
            "load_1min": round(os.getloadavg()[0], 2),
            "python": platform.python_version(),
            "machine": platform.machine(),
        },
    }


@contextmanager
def _agent(folder: Path, site: Site) -> Iterator["subprocess.Popen[bytes]"]:
    """The command at work."""
    settings = folder / "sickbay.toml"
    urls = [site.exporters.url(HOST, what) for what in ("accelerators", "node")]
    settings.write_text(
        f'[log]\nengine = "sqlite"\npath = "log"\n[agent]\nhost = "{HOST}"\nroot = "{site.root(HOST)}"\n'
        f'kernel_log = "var/log/kern.log"\nspool = "spool"\nexporters = {urls!r}\njob_logs = ["scratch/slurm-*.out"]\n'
        'steps_socket = "run/steps.sock"\nflight_recorders = ["scratch/dumps/*"]\nalerts = "http://127.0.0.1:9/"\n',
        encoding="utf-8",
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "sickbay", "agent", "--config", str(settings)]
    process = subprocess.Popen(command, env=environment)
    try:
        yield process
        if process.poll() is not None:
            raise RuntimeError(f"the agent ended by itself with status {process.returncode}")
    finally:
        process.terminate()
        process.wait(20)


def _await_frame(spool: Path) -> None:
    """Wait until the agent has numbered its first frame: its start is not what is measured."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if spool.exists():
            with closing(sqlite3.connect(spool)) as db, suppress(sqlite3.OperationalError):  # it is being made
                if db.execute("SELECT 1 FROM sequences WHERE topic LIKE '%telemetry%'").fetchone():
                    return
        time.sleep(0.2)
    raise RuntimeError(f"no frame within {START_S} s")


def _watched(
    pids: Sequence[int], seconds: int, each_second: Callable[[], None]
) -> list[tuple[float | None, float | None]]:
    """Processor seconds of each process in that time, and the most memory it ever had in MB."""
    time.sleep(WARM_UP_S)
    before, began = [_cpu_s(pid) for pid in pids], time.monotonic()
    for number in range(1, seconds + 1):
        each_second()
        time.sleep(max(0.0, began + number - time.monotonic()))
    return [(_cpu_s(pid) - used, _peak_mb(pid)) for pid, used in zip(pids, before, strict=True)]


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    peak_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return round(peak_kb / 1024, 1)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _print_ordinary(path: Path) -> None:
    at = time.strftime("%b %e %H:%M:%S", time.gmtime())
    with path.open("a", encoding="utf-8") as file:
        file.writelines(_ORDINARY.format(at=at, n=number) for number in range(5))


def _records(path: Path) -> int:
    from sickbay.log import tasks_of
    from sickbay.log.sqlite import SqliteLog

    log = SqliteLog(path)
    reader = log.reader()
    count = sum(reader.bounds(task).end for task in tasks_of(log.topics, log.topics))
    log.close()
    return count


class NodeExporter(NamedTuple):
    """One that runs, and where it answers."""

    pid: int
    url: str


@contextmanager
def _node_exporter() -> Iterator[NodeExporter | None]:
    """node_exporter at work, None where it is not installed."""
    program = next((found for name in NODE_EXPORTERS if (found := shutil.which(name))), None)
    if program is None:
        yield None
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen([program, f"--web.listen-address={address}"], stderr=subprocess.DEVNULL)
    try:
        yield NodeExporter(process.pid, f"http://{address}/metrics")
    finally:
        process.terminate()
        process.wait(10)


def _each_second(site: Site, other: NodeExporter | None) -> Callable[[], None]:
    def happens() -> None:
        _print_ordinary(site.kernel_log(HOST))
        if other:
            _scrape(other.url)

    return happens


def _scrape(url: str) -> None:
    with urllib.request.urlopen(url, timeout=5) as answer:
        answer.read()
