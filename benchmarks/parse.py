"""How fast an ordinary system log is read, with what memory, and how fast grep is on the same file.

The log is composed: lines that busy hosts print by the million, and one event in EVENT_EVERY lines. Reader and grep run
one after the other on the same file, each in a process of its own. Rates are per second of processor time, what one
core does, so that a busy machine does not change them; the time on the wall stands in the conditions.
"""

import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from collectors.formats import log

MEGABYTES = 512
EVENT_EVERY = 20_000  # lines; a troubled host's rate, a healthy one prints none
POOL_LINES = 200_000  # different lines, written over and over

_ORDINARY = (
    "systemd[1]: Started Session {n} of user root.",
    "systemd[1]: session-{n}.scope: Deactivated successfully.",
    "sshd[{n}]: Accepted publickey for deploy from 198.51.100.{b} port {n} ssh2: ED25519 SHA256:{h}",
    "CRON[{n}]: (root) CMD (/usr/lib/sysstat/sa1 1 1 > /dev/null 2>&1)",
    "kernel: [{t}] audit: type=1400 audit(1746540429.{b}:{n}): apparmor='ALLOWED' operation='open' pid={n}",
    "kernel: [{t}] docker0: port {b}(veth{h}) entered blocking state",
    "kernel: [{t}] IPv6: eth0: Received RA from fe80::{h} with lifetime {n}",
    "kubelet[{n}]: I0506 14:07:09.{n} {n} kubelet.go:2412] SyncLoop (PLEG): event for pod default/w-{b} {h}",
    "containerd[{n}]: time=\"2025-05-06T14:07:09.{n}Z\" level=info msg=\"shim disconnected\" id={h} namespace=k8s.io",
    "node_exporter[{n}]: ts=2025-05-06T14:07:09.{b}Z caller=collector.go:169 level=debug duration_s=0.{n}",
    "chronyd[{n}]: Selected source 198.51.100.{b} (ntp{b}.example)",
    "dhclient[{n}]: DHCPREQUEST for 198.51.100.{b} on eno1 to 198.51.100.1 port 67",
)  # fmt: skip
_EVENTS = (
    "kernel: [{t}] NVRM: Xid (PCI:0000:9a:00): 31, pid={n}, name=trainer, Ch 00000010, intr 00000000",
    "kernel: [{t}] pcieport 0000:64:01.0: AER: Corrected error received: 0000:65:00.0",
    "kernel: [{t}] EDAC MC2: 1 CE memory read error on DIMM_A1 (channel:1 slot:0 page:0x5a0b1 offset:0x40 grain:32)",
    "kernel: [{t}] nfs: server filer2 not responding, still trying",
    "kernel: [{t}] mlx5_core 0000:9a:00.0 ens7f0np0: Link down",
)

_READER = """
import json, resource, sys, time
from collectors.formats import log
from collectors.formats.reading import Tally

def chunks(path):
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(1 << 20):
            yield chunk

log.find_candidates()
tally = Tally()
started, used = time.perf_counter(), time.process_time()
records = sum(1 for _ in log.read(chunks(sys.argv[1]), tally))
wall, cpu = time.perf_counter() - started, time.process_time() - used
rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"wall": wall, "cpu": cpu, "records": records, "rss": rss}))
"""


def measure(size: int | None = None) -> dict[str, Any]:
    """Numbers for a log of `size` megabytes (10^6 bytes)."""
    with tempfile.TemporaryDirectory(prefix="sickbay-parse-") as folder:
        path = Path(folder) / "messages"
        lines, events = write_log(path, (size or MEGABYTES) * 1_000_000)
        megabytes = path.stat().st_size / 1e6
        patterns = Path(folder) / "patterns"
        literals = sorted({literal for module in log.modules().values() for literal in module.LITERALS})
        patterns.write_text("\n".join(literals) + "\n", encoding="utf-8")
        reader = _read(path)
        grep_cpu_s, grep_wall_s = _grep(patterns, path)
    return {
        "mb_per_s": round(megabytes / reader["cpu"], 1),
        "lines_per_s": round(lines / reader["cpu"]),
        "peak_rss_mb": round(reader["rss"], 1),
        "grep_mb_per_s": round(megabytes / grep_cpu_s, 1),
        "conditions": {
            "megabytes": round(megabytes, 1),
            "lines": lines,
            "events_written": events,
            "records_read": reader["records"],
            "reader_cpu_s": round(reader["cpu"], 2),
            "reader_wall_s": round(reader["wall"], 2),
            "grep_cpu_s": round(grep_cpu_s, 2),
            "grep_wall_s": round(grep_wall_s, 2),
            "rates_per": "second of processor time",
            "literals": len(literals),
            "grep": "LC_ALL=C grep -c -F -f (the same literals)",
            "cores": os.cpu_count(),
            "load_1min": round(os.getloadavg()[0], 2),
            "python": platform.python_version(),
            "machine": platform.machine(),
        },
    }


def write_log(path: Path, size: int, seed: int = 7) -> tuple[int, int]:
    """Writes a log of at least `size` bytes; returns its lines and how many of them are events."""
    rng = random.Random(seed)
    pool = [_line(rng, rng.choice(_ORDINARY)) for _ in range(POOL_LINES)]
    for at in range(EVENT_EVERY // 2, POOL_LINES, EVENT_EVERY):
        pool[at] = _line(rng, _EVENTS[at // EVENT_EVERY % len(_EVENTS)])
    blob = "".join(pool).encode()
    copies = -(-size // len(blob))
    with path.open("wb") as file:
        for _ in range(copies):
            file.write(blob)
    return copies * POOL_LINES, copies * len(range(EVENT_EVERY // 2, POOL_LINES, EVENT_EVERY))


def _line(rng: random.Random, form: str) -> str:
    text = form.format(
        n=rng.randrange(1000, 99_999),
        b=rng.randrange(256),
        h=f"{rng.getrandbits(48):012x}",
        t=f"{rng.uniform(1e3, 1e6):.6f}",
    )
    clock = f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"
    return f"May {rng.randrange(1, 29):2} {clock} node-{rng.randrange(64):03} {text}\n"


def _read(path: Path) -> dict[str, float]:
    environment = os.environ | {"POLARS_MAX_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    output = subprocess.run(
        [sys.executable, "-c", _READER, str(path)], env=environment, check=True, capture_output=True, text=True
    )
    numbers: dict[str, float] = json.loads(output.stdout)
    return numbers


def _grep(patterns: Path, path: Path) -> tuple[float, float]:
    """Processor and wall seconds of grep over the same file."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        ["grep", "-c", "-F", "-f", str(patterns), str(path)],
        env=os.environ | {"LC_ALL": "C"},
        check=False,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, time.perf_counter() - started
