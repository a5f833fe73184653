"""A real Prometheus for tests: history from OpenMetrics text, or live scrapes of given targets, on a free local port.

Where the binaries are missing the test is skipped, or fails with SERVICES=require.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services.process import Child, answers, found, free_port, retried, started

START_S = 60.0
FOREVER = "--storage.tsdb.retention.time=100y"  # histories are of any year


def binaries() -> tuple[str, str]:
    """Paths of `prometheus` and `promtool`; skips or fails the test where they are missing."""
    server, tool = found("prometheus", "promtool")
    return server, tool


@contextmanager
def running(openmetrics: str, folder: Path, *options: str) -> Iterator[str]:
    """The base address of a server whose history is `openmetrics` (stamps in seconds, `# EOF` at the end).

    The server is stopped at the end and keeps its data in `folder`.
    """
    _, tool = binaries()
    (folder / "history.txt").write_text(openmetrics)
    blocks = [tool, "tsdb", "create-blocks-from", "openmetrics", "history.txt", "data"]
    subprocess.run(blocks, cwd=folder, check=True, capture_output=True, timeout=60)
    with serving("global: {}\n", folder, FOREVER, *options) as address:
        yield address


@contextmanager
def serving(config: str, folder: Path, *options: str) -> Iterator[str]:
    """The base address of a server that runs with the text of a prometheus.yml and scrapes what that names."""
    (folder / "prometheus.yml").write_text(config)
    address = ""

    def start() -> Child:
        nonlocal address
        address, child = _child(folder, options)
        return started(child, lambda: answers(f"{address}/-/ready"), START_S)

    child = retried(start)
    try:
        yield address
    finally:
        child.stop()


def scraping(targets: dict[str, str], every_s: float = 1.0) -> str:
    """The text of a prometheus.yml that scrapes `{job: host:port}` every `every_s` seconds."""
    jobs = "".join(
        f"  - job_name: {job}\n    static_configs: [{{targets: ['{target}']}}]\n" for job, target in targets.items()
    )
    every = f"{round(every_s * 1000)}ms"
    return f"global: {{scrape_interval: {every}, scrape_timeout: {every}}}\nscrape_configs:\n{jobs}"


def _child(folder: Path, options: tuple[str, ...]) -> tuple[str, Child]:
    server, _ = binaries()
    listen = f"127.0.0.1:{free_port()}"
    command = [server, "--config.file=prometheus.yml", f"--web.listen-address={listen}", "--storage.tsdb.path=data"]
    return f"http://{listen}", Child([*command, *options], folder, folder / "prometheus.log")
