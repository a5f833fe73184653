"""`install` and `missing`: quiet where all is there, one failing part does not stop the others, and the end says which.

The commands that fetch and build are stand-ins here: what is tested is the script around them.
"""

import os
import subprocess
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
VERSIONS = dict(line.split("=") for line in (FOLDER / "versions").read_text().splitlines() if "=" in line)
DEBIAN = (
    "prometheus", "promtool", "prometheus-alertmanager", "amtool", "slurmctld", "slurmd", "scontrol", "ibsim", "opensm",
    "ibnetdiscover", "chromium", "openssl",
)  # fmt: skip
FETCHING = ("java", "mvn", "go", "python3", "apt-get")


@pytest.fixture
def bin(tmp_path: Path) -> Path:
    """Stand-ins for the services' commands; those that fetch and build fail."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in DEBIAN:
        script(folder / name, "exit 0")
    for name in FETCHING:
        script(folder / name, f'echo "{name} $*" >> {tmp_path}/called; exit 3')
    script(folder / "go", f'[ "$1" = env ] && echo go1.26.8 && exit; echo "go $*" >> {tmp_path}/called; exit 3')
    script(folder / "java", """echo 'openjdk version "17.0.1" 2021-10-19' >&2""")
    return folder


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run(name: str, cache: Path, bin: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "SICKBAY_SERVICES": str(cache), "PATH": f"{bin}:{os.environ['PATH']}", "HOME": str(bin)}
    command = [str(FOLDER / name), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def full(cache: Path) -> Path:
    (cache / "kafka" / "1" / "libs").mkdir(parents=True)
    for path in (f"etcd/{VERSIONS['etcd']}/bin/etcd", f"kubernetes/{VERSIONS['kubernetes']}/kube-apiserver"):
        (cache / path).parent.mkdir(parents=True)
        script(cache / path, "exit 0")
    return cache


def test_nothing_is_done_where_all_is_there(tmp_path: Path, bin: Path) -> None:
    began = time.monotonic()
    done = run("install", full(tmp_path / "cache"), bin)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - began < 2
    assert not (tmp_path / "called").exists()
    assert run("missing", tmp_path / "cache", bin).stderr == ""


@pytest.mark.slow
def test_a_part_that_fails_does_not_stop_the_others_and_is_named(tmp_path: Path, bin: Path) -> None:
    done = run("install", tmp_path / "cache", bin, "kafka", "kubernetes")
    assert done.returncode == 1
    for name in ("Debian packages python3-venv", "kafka", "etcd", "kubernetes"):
        assert f"services: {name}: FAILED after" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("services: NOT all there: failed: Debian packages python3-venv kafka etcd kubernetes;")
    called = (tmp_path / "called").read_text()
    assert "mvn" in called
    assert "go build" in called
    left = [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert "kube-apiserver" not in left
    assert not list((tmp_path / "cache").rglob(".new-*")), "half-done work is taken away"


def test_only_what_is_asked_for_is_looked_at(tmp_path: Path, bin: Path) -> None:
    assert run("missing", tmp_path / "cache", bin, "--cached", "thread").stdout.split() == ["kafka"]
    assert run("missing", tmp_path / "cache", bin, "--cached", "kubernetes").stdout.split() == ["etcd", "kubernetes"]
    assert run("install", tmp_path / "cache", bin, "prometheus", "browser").returncode == 0
    wrong = run("install", tmp_path / "cache", bin, "kafak")
    assert wrong.returncode == 2
    assert "no service kafak" in wrong.stderr


def test_what_is_missing_is_named_and_no_error(tmp_path: Path, bin: Path) -> None:
    done = run("missing", tmp_path / "cache", bin)
    assert done.returncode == 0
    assert "the tests that need kafka etcd kubernetes" in done.stderr
