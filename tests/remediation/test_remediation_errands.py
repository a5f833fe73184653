"""The release test and the saving of evidence: no shell, no hang, no flood, and never in the way of the rest."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from remediation.release_test import TAIL, ReleaseTest, Result
from tests.remediation.kit import ACT, Cluster, command_of, writes


def result(run: ReleaseTest, limit_s: float = 10.0) -> Result:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if (found := run.poll()) is not None:
            return found
        time.sleep(0.01)
    run.stop()
    return pytest.fail("the test does not end")


@pytest.mark.parametrize(("script", "passed"), [("exit 0", True), ("exit 3", False), ("exit 127", None)])
def test_the_status_tells(tmp_path: Path, script: str, passed: bool | None) -> None:
    assert result(ReleaseTest(command_of(tmp_path, script), "n1", 10)).passed is passed


def test_the_node_is_the_last_argument_and_nothing_is_expanded(tmp_path: Path) -> None:
    told = result(ReleaseTest((*command_of(tmp_path, 'echo "$@"'), "$(id)"), "n1", 10))
    assert "$(id) n1" in told.says


@pytest.mark.parametrize("node", ["-rf", "", "a b", "n1;reboot", "../n1", "n\n1"])
def test_a_name_that_may_be_an_option_or_more_is_not_passed_on(tmp_path: Path, node: str) -> None:
    told = result(ReleaseTest(command_of(tmp_path, f"touch {tmp_path}/ran"), node, 10))
    assert told.passed is None
    assert not (tmp_path / "ran").exists()


def test_a_command_that_is_not_there_settles_nothing() -> None:
    told = result(ReleaseTest(("/nowhere/test",), "n1", 10))
    assert told.passed is None
    assert "could not be started" in told.says


def test_a_flood_of_output_neither_blocks_nor_fills_memory(tmp_path: Path) -> None:
    told = result(
        ReleaseTest(command_of(tmp_path, "head -c 3000000 /dev/zero; printf '\\033[31mend\\r\\n'"), "n1", 20), 20
    )
    assert told.passed
    assert len(told.says) < TAIL + 100
    assert told.says.isprintable()
    assert "end" in told.says


@pytest.mark.slow
def test_one_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    script = f"sleep 77 & echo $! > {tmp_path}/child; wait"
    told = result(ReleaseTest(command_of(tmp_path, script), "n1", 0.5))
    assert told.passed is None
    child = int((tmp_path / "child").read_text())
    _until(lambda: b"sleep" not in _command_line(child))


def test_one_that_a_signal_ends_settles_nothing(tmp_path: Path) -> None:
    assert result(ReleaseTest(command_of(tmp_path, "kill -9 $$"), "n1", 10)).passed is None


def test_evidence_that_cannot_be_saved_holds_up_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    one = Cluster(replace(ACT, evidence=str(tmp_path / "file")))
    one.incident()
    one.run_slowly(20, until=lambda: bool(writes(one, "requeue")))
    assert one.states()["collect_evidence"] == "failed"
    assert one.scheduler.writes[0] == ("drain", "n1")
    assert writes(one, "requeue")


def test_evidence_that_takes_too_long_holds_up_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remediation.bundle.Saving._write", lambda saving: None)  # a disk that hangs
    one = Cluster(replace(ACT, evidence=str(tmp_path)))
    one.incident()
    one.run(29)
    assert one.scheduler.writes == [("drain", "n1")]
    one.run(5)
    assert writes(one, "requeue")
    assert "30 s" in one.line("collect_evidence").why


def _command_line(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
