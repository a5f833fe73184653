"""The Compose file: every image pinned and looked after, every name in it there, nothing open to the network."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sickbay.config import load
from sickbay.settings import PATHS
from tests.deploy.command_lines import faults

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy"
FILE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("sickbay:")}
SETTABLE = re.compile(r"\$\{\w+:-(\w+)\}")  # a variable of the environment and its default
PROFILES = ("simulated", "site", "poll")


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_pinned_watched_and_waits_for_what_is_there(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"[a-z0-9/.-]+:v?\d+\.\d+\.\d+", service["image"]), "a whole version, never latest"
    assert service["restart"] == "unless-stopped"
    assert {"test", "interval", "timeout", "retries"} <= set(service["healthcheck"])
    for other, how in service.get("depends_on", {}).items():
        assert other in SERVICES
        assert how == {"condition": "service_healthy"}
        # What has no profile always runs; else both would have to be of the same one.
        assert SERVICES[other].get("profiles", []) in ([], service.get("profiles", []))


@pytest.mark.parametrize("name", SERVICES)
def test_each_mount_exists_and_each_port_is_local(name: str) -> None:
    for volume in SERVICES[name].get("volumes", []):
        source, _, rest = volume.partition(":")
        if source.startswith("."):
            assert (FOLDER / source).exists(), source
            assert rest.endswith(":ro"), f"{source} is the checkout's"
        else:
            assert source in FILE["volumes"]
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


def test_all_volumes_are_used() -> None:
    used = {volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert set(FILE["volumes"]) <= used


@pytest.mark.parametrize("name", OURS)
def test_our_commands_exist_and_have_few_rights(name: str) -> None:
    service = OURS[name]
    assert faults([SETTABLE.sub(r"\1", word) for word in service["command"]]) == []
    assert service["command"][-2:] == ["--config", "/etc/sickbay/sickbay.toml"]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["profiles"] in ([profile] for profile in PROFILES)
    assert service["networks"]["default"]["aliases"] == ["sickbay"]  # what prometheus.yml looks up


def test_the_processes_of_a_site_run_each_stage_once() -> None:
    from sickbay.app.running.stages import STAGES

    words = [service["command"][:-2] for service in OURS.values() if service["profiles"] == ["site"]]
    run = [stage for command, *stages in words if command == "process" for stage in stages]
    assert sorted(run) == sorted(STAGES)
    assert ["remediate"] in words


def test_the_settings_name_what_compose_runs() -> None:
    config = load(FOLDER / "compose" / "sickbay.toml")
    assert config.log.brokers == "kafka:9092"
    assert config.log.replication == 1
    assert "INSIDE://kafka:9092" in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert config.alerts.url == "http://alertmanager:9093"
    assert config.remediation.mode == "observe"
    assert config.metrics.listen == "0.0.0.0:9410"
    kept = [getattr(getattr(config, section), key) for section, keys in PATHS.items() for key in keys]
    outside = [path for path in kept if path and not path.startswith(("/var/lib/sickbay", "/etc/sickbay"))]
    assert [path for path in outside if "compose/" not in path] == []


def test_the_broker_is_the_one_of_the_tests() -> None:
    version = re.search(r"^version=(\S+)", (ROOT / "tests" / "services" / "install-kafka").read_text(), re.M)
    assert version
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{version[1]}"


def test_grafana_finds_its_data_and_its_boards() -> None:
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    (data,) = yaml.safe_load((FOLDER / "compose" / "datasource.yml").read_text())["datasources"]
    assert (data["type"], data["url"]) == ("prometheus", "http://prometheus:9090")
    (boards,) = yaml.safe_load((FOLDER / "compose" / "boards.yml").read_text())["providers"]
    assert boards["options"]["path"] == mounts["./grafana"]
    home = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (FOLDER / "grafana" / home.name).is_file()


def test_the_image_holds_the_packages_of_the_wheel() -> None:
    import tomllib

    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lines = (FOLDER / "Dockerfile").read_text().splitlines()
    copied = [line.split()[1] for line in lines if line.startswith("COPY") and len(line.split()) == 3]
    packages = told["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert set(packages) <= set(copied)
    let_in = {
        line[1:] for line in (FOLDER / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")
    }
    assert {*packages, "requirements.lock", "pyproject.toml", "README.md", "LICENSE"} == let_in
    bases = [line.split()[1] for line in lines if line.startswith("FROM")]
    assert all(re.fullmatch(r"python:\d\.\d+-slim", base) for base in bases)
    assert any(line == "USER sickbay" for line in lines)
    assert all(service["image"] == f"sickbay:{told['project']['version']}" for service in OURS.values())


def test_compose_itself_agrees() -> None:
    tool = shutil.which("docker")
    if tool is None or subprocess.run([tool, "compose", "version"], capture_output=True, timeout=30).returncode:
        pytest.skip("docker compose is not here")
    profiles = [word for profile in PROFILES for word in ("--profile", profile)]
    command = [tool, "compose", "-f", "deploy/compose.yaml", *profiles, "config", "-q"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
