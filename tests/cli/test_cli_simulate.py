"""`sickbay simulate`: the same seed gives the same bytes, and what it cannot do it says before it begins."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sickbay import wire
from sickbay.cli import main
from sickbay.layouts import Schemas, decoded


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["simulate", *arguments])
    told = capsys.readouterr()
    return status, told.out, told.err


def _summary(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    status, out, _ = _run(capsys, "--json", *arguments)
    assert status == 0
    found: dict[str, Any] = json.loads(out)
    return found


SMALL = ("--accelerators", "32", "--seconds", "12")


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = _summary(capsys, *SMALL, "--seed", "3", "--out", str(tmp_path / "a"))
    again = _summary(capsys, *SMALL, "--seed", "3", "--format", "none")
    other = _summary(capsys, *SMALL, "--seed", "4", "--format", "none")
    assert first["digest"] == again["digest"] != other["digest"]
    assert first["counts"] == again["counts"]
    assert (first["accelerators"], first["hosts"], first["seconds"]) == (32, 4, 12)
    assert [one["what"] for one in first["effects"]] != [one["what"] for one in other["effects"]]


def test_the_records_can_be_read_back(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told = _summary(capsys, *SMALL, "--fault", "accelerator_off_bus", "--out", str(tmp_path / "a"))
    schemas = Schemas()
    for line in (tmp_path / "a" / "schemas-000.jsonl").read_text().splitlines():
        schemas.learn(decoded(json.dumps(json.loads(line)["value"]).encode()))
    whole, at, values = (tmp_path / "a" / "telemetry-000.frames").read_bytes(), 0, 0
    while at < len(whole):
        size = int.from_bytes(whole[at + 8 : at + 12], "little")
        frame = wire.decode(whole[at : at + size], schemas)
        values += sum(one.gauges.size + one.counters.size for one in frame.tables)
        at += size
    assert values > 0
    events = [json.loads(line) for line in (tmp_path / "a" / "events-000.jsonl").read_text().splitlines()]
    assert any("fallen off the bus" in one["value"]["message"] for one in events)
    (effect,) = json.loads((tmp_path / "a" / "truth.json").read_text())["effects"]
    assert effect["what"] == "accelerator_off_bus"
    assert effect == told["effects"][0]


def test_raw_is_the_folder_that_diagnose_reads(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told = _summary(capsys, *SMALL, "--faults", "0", "--format", "raw", "--out", str(tmp_path / "a"))
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert {"scontrol_show_job.txt", "topology.conf", "DCGM_FI_DEV_POWER_USAGE.json", "truth.json"} <= names
    assert told["counts"]["files"] == len(names) - 1


def test_log_appends_to_the_log_of_the_settings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from sickbay.config import load
    from sickbay.log.opened import open_log
    from sickbay.topics import TELEMETRY
    from tests.process.kit import everything

    settings = tmp_path / "sickbay.toml"
    settings.write_text(f'[log]\nengine = "sqlite"\npath = "{tmp_path / "log"}"\n')
    told = _summary(capsys, *SMALL, "--format", "log", "--config", str(settings))
    log = open_log(load(settings).log)
    try:
        frames = [one for one in everything(log, TELEMETRY) if one.value and not one.is_tick]
    finally:
        log.close()
    assert len(frames) == told["counts"][TELEMETRY] > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--accelerators", "12", "--format", "none"), "multiple"),
        (("--accelerators", "0", "--format", "none"), "1 to"),
        (("--seconds", "0", "--format", "none"), "--seconds"),
        (("--seed", "-1", "--format", "none"), "--seed"),
        (("--format", "wire",), "--out"),
        (("--fault", "accelerator_of_bus", "--format", "none"), "accelerator_off_bus"),
        (("--start", "yesterday-ish", "--format", "none"), "yesterday-ish"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str) -> None:
    status, out, err = _run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert complaint in err


def test_nothing_is_written_into_a_folder_that_holds_something(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    status, _, err = _run(capsys, *SMALL, "--out", str(tmp_path))
    assert status == 2
    assert "empty" in err
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


@pytest.mark.slow
def test_bytes_depend_neither_on_the_process_nor_on_how_many_work() -> None:
    size = ("--accelerators", "8192", "--seconds", "7", "--seed", "5", "--faults", "5", "--format", "none", "--json")
    told = [
        json.loads(
            subprocess.run(
                [sys.executable, "-m", "sickbay", "simulate", *size, "--workers", workers],
                capture_output=True, check=True, timeout=300, env={**os.environ, "PYTHONHASHSEED": seed},
            ).stdout
        )
        for workers, seed in (("1", "3"), ("2", "77"))
    ]  # fmt: skip
    assert [one["workers"] for one in told] == [1, 2]
    assert told[0]["digest"] == told[1]["digest"]
    assert told[0]["counts"] == told[1]["counts"]
