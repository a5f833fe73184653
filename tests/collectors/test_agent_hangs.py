"""An agent of which half the sources hang: every other one is on time, and each that hangs is told as blind."""

import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.agent import courier
from collectors.agent.agent import Agent, start
from collectors.agent.catalogue import CATALOGUE, sources_of
from collectors.agent.source import Host
from collectors.agent.trying import tried
from collectors.host import accelerator_nvml
from collectors.host.child import Child
from sickbay import settings as settings_module
from sickbay.log import wall_ms
from sickbay.selfmetrics import SOURCE_STATE, SelfMetrics
from sickbay.settings import Config
from tests.collectors.agent_kit import XID, Gate, events, kernel_log, serving, wait_for, write
from tests.collectors.recorded import lay_out
from tests.collectors.test_agent_host_sources import LISTING, tables

HANGING_CALL = (
    "import json, sys, time\nfor _ in sys.stdin:\n print(json.dumps({'begins': 3}), flush=True)\n time.sleep(600)"
)
SENSOR = "Inlet Temp | 04h | ok | 7.1 | 23 degrees C"
MANAGEMENT = f"if [ \"$1\" = sel ]; then echo 'SEL has no entries'; else echo '{SENSOR}'; fi"
MUST_HANG = {"accelerator_exporter", "accelerator_nvml", "host_storage", "job_log", "nic_sysfs", "optic_ethtool"}


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Config, list[Path]]]:
    """A host with a mount, a file of /sys, a job log, an exporter, a tool and a driver that do not answer."""
    monkeypatch.setattr(courier, "RETRY_S", (0.05, 0.1))
    monkeypatch.setattr(accelerator_nvml, "FIRST_S", 0.5)
    monkeypatch.setattr(accelerator_nvml, "child", lambda: Child([sys.executable, "-c", HANGING_CALL]))
    root = lay_out(LISTING, tmp_path / "root")
    pipes = [
        root / "proc/self/mountstats",
        root / "sys/class/infiniband/mlx5_3/ports/1/counters/port_rcv_data",
        root / "scratch/slurm-4711.out",
    ]
    for pipe in pipes:
        pipe.parent.mkdir(parents=True, exist_ok=True)
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
    for tool, does in (("ethtool", "exec sleep 600"), ("nvme", "echo '{}'"), ("ipmitool", MANAGEMENT)):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / tool).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / "bin" / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    def silent(connection: socket.socket) -> None:
        time.sleep(30)

    with serving(silent) as url:
        told = settings_module.Agent(
            host="n7", root=str(root), spool=str(tmp_path / "spool"), kernel_log="var/log/kern.log", exporters=(url,),
            job_logs=("scratch/slurm-*.out",), frame_s=0.5, sample_s=0.2, timeout_s=1.0,
        )  # fmt: skip
        yield Config(agent=told), pipes
        for pipe in pipes:  # lets the readers go
            handle = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
            time.sleep(0.05)
            os.close(handle)


def stepped(agent: Agent, what: object, timeout_s: float) -> None:
    """Steps until `what()` is true."""
    wait_for(lambda: agent.step(wall_ms(), 0.02) is None or what(), timeout_s)  # type: ignore[operator]


@pytest.mark.slow
def test_what_hangs_is_told_within_ten_seconds_and_holds_up_nobody(hanging: tuple[Config, list[Path]]) -> None:
    config, _ = hanging
    gate, metrics = Gate(), SelfMetrics()
    path = kernel_log(config)
    agent = start(config, gate.connect, metrics=metrics)
    try:
        began = time.monotonic()
        stepped(
            agent, lambda: {one.attributes["source"] for one in events(gate.log, "monitor.blind")} >= MUST_HANG, 10.0
        )
        assert time.monotonic() - began < 10.0
        written = time.monotonic()
        write(path, f"[912344.1] {XID}\n")
        stepped(agent, lambda: events(gate.log, "accelerator.off_bus"), 2.0)
        assert time.monotonic() - written < 1.0
        stepped(agent, lambda: {("host", "host:n7"), ("accelerator", "accelerator:n7/0000:1b:00")} <= tables(gate), 5.0)
        states = {one.source: one for one in agent.states}
        assert {one for one, state in states.items() if state.word in ("hangs", "blind")} == MUST_HANG
        assert states["accelerator_nvml"].why.startswith("a call of the driver hangs at card 3")
        assert states["host_load"].word == states["host_pcie"].word == "ok"
        assert 'sickbay_collectors_state_sources{source="nic_sysfs",state="hangs"} 1.0' in metrics.text().decode()
        assert "nic_sysfs: a collection takes over" in agent.waiting
        ends = time.monotonic()
    finally:
        agent.close()
    assert time.monotonic() - ends < 8.0  # what hangs keeps no agent from its end


def test_with_default_settings_ten_seconds_are_kept() -> None:
    assert settings_module.Agent().timeout_s + 1.0 + 1.0 < 10.0  # limit of a collection, and the next look at it
    assert SOURCE_STATE.labels == ("source", "state")


@pytest.mark.slow
def test_trying_each_source_once_ends_in_time(hanging: tuple[Config, list[Path]]) -> None:
    config, _ = hanging
    made, left = sources_of(Host("n7", config.agent))
    began = time.monotonic()
    found = {one.source: one for one in tried(made, wall_ms, 2.0)}
    assert time.monotonic() - began < 4.5
    assert {one for one, state in found.items() if state.word == "hangs"} >= {
        "host_storage",
        "nic_sysfs",
        "accelerator_nvml",
    }
    assert found["host_load"].word == "ok"
    assert found["host_storage"].help
    assert {one.source for one in left} | found.keys() >= CATALOGUE.keys()
