"""`sickbay incidents`, `ledger` and `remediate`: what they show, whom they answer, what they say when it cannot be."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from sickbay import actions, messages
from sickbay.actions import JUDGED_KEY, Action, ActionState, Control, Judged
from sickbay.cli import main
from sickbay.log.sqlite import SqliteLog
from tests.remediation.kit import found

NOW = time.time_ns() // 1_000_000
WAITS = Action(
    id="aa11", incident="8f3c01", do="drain_host", target="host:n1", state=ActionState.WAITING, why="approval: asks",
    at_ms=NOW, expires_ms=NOW + 24 * 3_600_000,
)  # fmt: skip
LATE = Action(
    id="aa22", incident="8f3c02", do="requeue", target="job:1", state=ActionState.WAITING, at_ms=NOW - 9,
    expires_ms=NOW - 1,
)  # fmt: skip
HELD = Action(id="bb33", incident="8f3c02", do="drain_host", target="host:n2", state=ActionState.VERIFIED, at_ms=NOW)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteLog]:
    monkeypatch.chdir(tmp_path)
    made = SqliteLog(tmp_path / "sickbay-log")
    put = made.appender()
    for key in ("8f3c01", "8f3c02"):
        put.append("sickbay.incidents.v1", key.encode(), messages.encode(found(key, NOW)))
    for line in (WAITS, LATE, HELD):
        put.append("sickbay.actions.v1", line.id.encode(), actions.encode(line))
    put.flush()
    yield made
    made.close()


def controls(log: SqliteLog) -> list[Control]:
    from sickbay.app.asking.ledger_lines import CONTROL

    told = [actions.decode(record.value or b"") for record in log.reader().read(CONTROL, 0)]
    return [one for one in told if isinstance(one, Control)]


def test_the_list_shows_incidents_with_their_actions(log: SqliteLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["incidents", "list"]) == 0
    shown = capsys.readouterr().out
    assert "8f3c01" in shown
    assert "waiting" in shown


def test_json_can_be_read_by_a_script(log: SqliteLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["incidents", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {one["incident"]["id"] for one in told} == {"8f3c01", "8f3c02"}
    assert main(["incidents", "show", "8f3c01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["actions"][0]["state"] == "waiting"
    assert main(["ledger", "--json"]) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)["held"]] == ["bb33"]


def test_show_has_plan_actions_and_how_to_answer(log: SqliteLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["incidents", "show", "8f3c01"]) == 0
    shown = capsys.readouterr().out
    assert "power_cycle" in shown
    assert "sickbay incidents approve aa11" in shown


@pytest.mark.parametrize("key", ["aa11", "aa1", "8f3c01"])
def test_a_yes_is_written_for_the_action_that_waits(log: SqliteLog, key: str) -> None:
    assert main(["incidents", "approve", key, "--by", "carol", "--note", "seen"]) == 0
    said = controls(log)
    assert [(one.kind, one.target, one.by, one.note) for one in said] == [("approval", "aa11", "carol", "seen")]


def test_a_no_is_written_as_a_rejection(log: SqliteLog) -> None:
    assert main(["incidents", "reject", "aa11"]) == 0
    assert controls(log)[0].kind == "rejection"


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["show", "zz"], 2, "no incident 'zz'"),
        (["show", "8f3c"], 2, "8f3c01, 8f3c02"),
        (["approve", "aa"], 2, "give more of the id"),
        (["approve", "nope"], 2, "no action or incident"),
        (["approve"], 2, "which one"),
        (["approve", "aa22"], 1, "that time is over"),
        (["approve", "bb33"], 1, "drain_host is verified"),
    ],
)
def test_errors_say_what_to_do(
    log: SqliteLog, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, says: str
) -> None:
    assert main(["incidents", *arguments]) == status
    assert says in capsys.readouterr().err
    assert controls(log) == []


@pytest.mark.slow
def test_remediate_prints_each_change_and_ends_on_a_signal(log: SqliteLog, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sickbay", "remediate", "--mode", "act"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as process:
        heartbeat = Judged(as_of_ms=time.time_ns() // 1_000_000, open=("8f3c01",))
        put = log.appender()
        put.append("sickbay.incidents.v1", JUDGED_KEY, actions.encode(heartbeat))
        put.flush()
        assert process.stdout is not None
        guard = threading.Timer(30, process.kill)  # a test that waits for ever says nothing
        guard.start()
        try:
            lines = list(_until("drain_host host:n1: owners: no scheduler", process.stdout))
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        guard.cancel()
    assert "incident 8f3c01" in lines[-1]


def _until(words: str, lines: IO[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if words in line:
            return
