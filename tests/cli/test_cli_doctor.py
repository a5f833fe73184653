"""`sickbay doctor --config`: one line a source of this host, each really tried, and what to do; nothing holds it up."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.collectors.recorded import lay_out
from tests.collectors.test_agent_host_sources import LISTING


def told(config: Path, *options: str) -> tuple[subprocess.CompletedProcess[str], float]:
    began = time.monotonic()
    command = [sys.executable, "-m", "sickbay.cli", "doctor", "--config", str(config), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done, time.monotonic() - began


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A host of which a mount does not answer, and whose kernel log is not where the settings say."""
    root = lay_out(LISTING, tmp_path / "root")
    (root / "proc/self/mountstats").unlink()
    os.mkfifo(root / "proc/self/mountstats")
    path = tmp_path / "sickbay.toml"
    path.write_text(
        f'[agent]\nroot = "{root}"\nspool = "{tmp_path}/spool"\nkernel_log = "var/log/none"\ntimeout_s = 0.5\n'
        'driver_calls = false\nsteps_socket = "run/steps.sock"\n'
    )
    return path


@pytest.mark.slow
def test_each_source_is_tried_once_and_one_that_hangs_holds_up_nothing(config: Path) -> None:
    done, took_s = told(config, "--json")
    assert took_s < 12.0
    assert done.returncode == 1
    checks = {one["name"]: one for one in json.loads(done.stdout)}
    says = {name.removeprefix("agent "): one["says"] for name, one in checks.items() if name.startswith("agent ")}
    assert says["host_load"] == "ok"
    assert says["host_storage"] == "hangs: a collection takes over 1.5 s"
    assert says["accelerator_exporter"] == "absent: [agent] exporters is empty"
    assert says["accelerator_nvml"] == "off: [agent] driver_calls = false"
    assert says["job_steps"] == "waits: listens only, and was not tried"
    assert says["kernel_log"].startswith("blind: ")
    assert "set kernel_log in [agent]" in checks["agent kernel_log"]["do"]
    assert "no exporter is set in [agent] exporters" in says["accelerator_bus"]
    assert not (config.parent / "root/run/steps.sock").exists()
    assert not (config.parent / "spool").exists()


@pytest.mark.slow
def test_people_get_one_line_a_source(config: Path) -> None:
    done, _ = told(config)
    lines = [line for line in done.stdout.splitlines() if " agent " in line]
    assert len(lines) >= 20
    (line,) = [line for line in lines if "agent accelerator_exporter" in line]
    assert line.split(None, 3) == ["note", "agent", "accelerator_exporter", "absent: [agent] exporters is empty"]
