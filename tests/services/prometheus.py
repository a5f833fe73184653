"""A real Prometheus for tests: history from OpenMetrics text, served on a free local port.

Where the binaries are missing the test is skipped, or fails with SERVICES=require.
"""

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

START_S = 60.0


def binaries() -> tuple[str, str]:
    """Paths of `prometheus` and `promtool`; skips or fails the test where they are missing."""
    found = shutil.which("prometheus"), shutil.which("promtool")
    if not all(found):
        text = "prometheus and promtool are not installed (make services)"
        (pytest.fail if os.environ.get("SERVICES") == "require" else pytest.skip)(text)
    return str(found[0]), str(found[1])


@contextmanager
def running(openmetrics: str, folder: Path, *options: str) -> Iterator[str]:
    """The base address of a server whose history is `openmetrics` (stamps in seconds, `# EOF` at the end).

    The server is stopped at the end and keeps its data in `folder`.
    """
    server, tool = binaries()
    (folder / "history.txt").write_text(openmetrics)
    (folder / "prometheus.yml").write_text("global: {}\n")
    blocks = [tool, "tsdb", "create-blocks-from", "openmetrics", "history.txt", "data"]
    subprocess.run(blocks, cwd=folder, check=True, capture_output=True, timeout=60)
    port = _free_port()
    flags = [f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.path=data", "--storage.tsdb.retention.time=100y"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [server, "--config.file=prometheus.yml", *flags, *options], cwd=folder, stdout=log, stderr=log
        )
        try:
            _await(f"http://127.0.0.1:{port}/-/ready", process, folder / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=2):
                return
        except OSError:
            pass
        time.sleep(0.1)
    pytest.fail(f"prometheus did not start: {log.read_text(errors='replace')[-2000:]}")
