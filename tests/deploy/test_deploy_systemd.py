"""The systemd units: their commands exist, they keep few rights, and they never give up."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from collectors.cluster.poll import CATALOGUE
from sickbay.app.running.stages import STAGES
from tests.deploy.command_lines import faults

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
DROP_INS = sorted(FOLDER.glob("*.service.d/*.conf"))
INSTANCES = {"sickbay-process@.service": tuple(STAGES), "sickbay-poll@.service": tuple(CATALOGUE)}
BINARY = "/opt/sickbay/bin/sickbay"
EXPOSURE = 3.0  # of systemd-analyze security, 0 to 10: below 4 is what it calls OK

Settings = Mapping[str, list[tuple[str, str]]]


def sections(text: str) -> Settings:
    """Section to (key, value), in order; a key may stand several times."""
    found: dict[str, list[tuple[str, str]]] = {}
    rows = found.setdefault("", [])
    for line in text.splitlines():
        if line.startswith("["):
            rows = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals, line
            rows.append((key, value))
    return found


def values(unit: Path, key: str, section: str = "Service") -> list[str]:
    return [value for name, value in sections(unit.read_text())[section] if name == key]


def instances(unit: Path) -> list[str]:
    """Names to give to systemd: of a template, one an instance."""
    if "@" not in unit.name:
        return [unit.name]
    return [unit.name.replace("@", f"@{name}") for name in INSTANCES[unit.name]]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_sections_are_those_of_a_service(unit: Path) -> None:
    found = sections(unit.read_text())
    assert [name for name in found if name] == ["Unit", "Service", "Install"]
    assert not found[""]
    assert values(unit, "WantedBy", "Install") == ["multi-user.target"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_commands_exist(unit: Path) -> None:
    (line,) = values(unit, "ExecStart")
    for name in INSTANCES.get(unit.name, ("",)):
        binary, *words = shlex.split(line.replace("%i", name))
        assert binary == BINARY
        assert faults(words) == []


def test_a_wrong_command_line_is_seen() -> None:
    assert faults(["agnet"])
    assert faults(["agent", "--confg", "x"])
    assert faults(["process", "widnows"]) == ["no process 'widnows'"]
    assert faults(["process", "windows", "--config", "x"]) == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_none_gives_up_and_none_is_root(unit: Path) -> None:
    assert values(unit, "Restart") == ["always"]
    assert values(unit, "StartLimitIntervalSec", "Unit") == ["0"]
    assert int(values(unit, "TimeoutStopSec")[0]) > 20  # what a service takes to drain its stages
    assert values(unit, "User") == ["sickbay"]
    assert values(unit, "NoNewPrivileges") == ["yes"]
    assert values(unit, "ProtectSystem") == ["strict"]


def test_only_the_agent_has_a_capability() -> None:
    rights = {unit.name: values(unit, "CapabilityBoundingSet") for unit in UNITS}
    assert rights.pop("sickbay-agent.service") == ["CAP_SYSLOG"]
    assert set(map(tuple, rights.values())) == {("",)}


def test_every_process_listens_on_a_port_of_its_own() -> None:
    told = [line for file in [*UNITS, *DROP_INS] for line in re.findall(r"SICKBAY_LISTEN=(\S+)", file.read_text())]
    assert len(told) == len(set(told))
    names = {name for unit in UNITS for name in instances(unit)}
    assert {drop_in.parent.name.removesuffix(".d") for drop_in in DROP_INS} == {name for name in names if "@" in name}
    assert len(told) == len(names)
    assert all(address.startswith("127.0.0.1:") for address in told)


def test_the_readme_tells_where_each_listens() -> None:
    text = (FOLDER.parent / "README.md").read_text()
    for drop_in in DROP_INS:
        name, port = drop_in.parent.name.removesuffix(".service.d"), drop_in.read_text().strip().rpartition(":")[2]
        assert f"{port} {name.partition('@')[2]}" in text or re.search(rf"`{name}` \\| {port} ", text), name


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units with a binary that is there, as `systemd-analyze` looks for it."""
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    for unit in tmp_path.glob("*.service"):
        unit.write_text(unit.read_text().replace(BINARY, sys.executable))
    return tmp_path


def analyze(folder: Path, *arguments: str) -> str:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not here")
    env = {"SYSTEMD_UNIT_PATH": f"{folder}:", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run([tool, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_systemd_finds_nothing_wrong(installed: Path) -> None:
    names = [name for unit in UNITS for name in instances(unit)]
    told = analyze(installed, "verify", "--man=no", *names)
    assert [line for line in told.splitlines() if "sickbay" in line] == []


def test_systemd_sees_little_exposure(installed: Path) -> None:
    for unit in UNITS:
        told = analyze(installed, "security", "--offline=yes", f"./{unit.name}")
        found = re.search(r"exposure level for \S+: ([\d.]+)", told)
        assert found, told
        assert float(found[1]) <= EXPOSURE, unit.name


def test_the_right_to_read_optics_is_opt_in_and_no_more_than_that(installed: Path) -> None:
    (optional,) = sorted((FOLDER / "optional").glob("*.conf"))
    assert optional not in DROP_INS
    assert sections(optional.read_text())["Service"] == [
        ("AmbientCapabilities", "CAP_NET_ADMIN"),
        ("CapabilityBoundingSet", "CAP_NET_ADMIN"),
        ("RestrictAddressFamilies", "AF_NETLINK"),
    ]
    folder = installed / "sickbay-agent.service.d"
    folder.mkdir()
    shutil.copy(optional, folder)
    told = analyze(installed, "verify", "--man=no", "sickbay-agent.service")
    assert [line for line in told.splitlines() if "sickbay" in line] == []


def test_the_agent_s_threads_fit_on_a_host_of_many_processors() -> None:
    unit = FOLDER / "sickbay-agent.service"
    assert "OPENBLAS_NUM_THREADS=1" in values(unit, "Environment")  # else up to 64 of them begin with numpy
    assert int(values(unit, "TasksMax")[0]) >= 100
    others = [unit for unit in UNITS if unit.name != "sickbay-agent.service"]
    assert all(int(values(unit, "TasksMax")[0]) >= 1000 for unit in others)
