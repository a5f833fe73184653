"""Children of the tests: started, asked, stopped by id with all that they started; failures show the log's tail."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.services import process
from tests.services.process import Child, NotReady, await_ready, free_port, missing, retried, started

PRINTS_READY = "import time; print('ready', flush=True); time.sleep(60)"
WITH_CHILD = "import subprocess, sys; c = subprocess.Popen(['sleep', '60']); print(c.pid, flush=True); c.wait()"


def child(folder: Path, code: str, **env: str) -> Child:
    return Child([sys.executable, "-c", code], folder, folder / "log", env)


def shows(one: Child, text: str = "ready") -> bool:
    return text in one.tail()


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def within(limit_s: float, check: object) -> bool:
    deadline = time.monotonic() + limit_s
    assert callable(check)
    while not check() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(check())


def test_a_child_runs_and_is_stopped(tmp_path: Path) -> None:
    one = child(tmp_path, PRINTS_READY)
    one = started(one, lambda: shows(one), 10)
    assert one.alive()
    assert one.status is None
    one.stop()
    assert not one.alive()
    assert one.status == -signal.SIGTERM
    one.stop()  # again does nothing


def test_what_a_child_started_ends_with_it(tmp_path: Path) -> None:
    one = child(tmp_path, WITH_CHILD).start()
    await_ready(lambda: one.tail().strip().isdigit(), one, 10)
    grandchild = int(one.tail())
    one.stop()
    assert gone(grandchild)


def test_what_outlives_a_crashed_leader_is_stopped_too(tmp_path: Path) -> None:
    one = child(tmp_path, WITH_CHILD).start()
    await_ready(lambda: one.tail().strip().isdigit(), one, 10)
    grandchild = int(one.tail())
    os.kill(one.pid, signal.SIGKILL)
    assert within(5, lambda: not one.alive())
    assert not gone(grandchild)
    one.stop()
    assert within(5, lambda: gone(grandchild))


@pytest.mark.slow
def test_one_that_ignores_term_is_killed_when_its_time_is_up(tmp_path: Path) -> None:
    one = child(tmp_path, "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + PRINTS_READY)
    one = started(one, lambda: shows(one), 10)
    one.stop(limit_s=0.3)
    assert one.status == -signal.SIGKILL


@pytest.mark.slow
def test_a_paused_child_holds_its_place_and_can_be_stopped(tmp_path: Path) -> None:
    one = child(tmp_path, PRINTS_READY)
    one = started(one, lambda: shows(one), 10)
    one.pause()
    assert within(5, lambda: Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    assert one.alive()
    one.resume()
    one.pause()
    one.stop(limit_s=5)
    assert one.status == -signal.SIGTERM


def test_a_killed_child_can_be_started_again_with_the_same_log(tmp_path: Path) -> None:
    one = child(tmp_path, PRINTS_READY)
    one = started(one, lambda: shows(one), 10)
    one.kill()
    assert one.status == -signal.SIGKILL
    one.start()
    await_ready(lambda: one.tail().count("ready") == 2, one, 10)
    with pytest.raises(RuntimeError, match="already running"):
        one.start()
    one.stop()


def test_a_child_that_fails_to_start_says_so_with_its_log(tmp_path: Path) -> None:
    broken = child(tmp_path, "import sys; sys.exit('the settings are wrong')")
    with pytest.raises(NotReady, match=r"ended with 1 before it was ready:\nthe settings are wrong"):
        started(broken, lambda: False, 10)


@pytest.mark.slow
def test_a_child_that_hangs_is_given_up_and_stopped(tmp_path: Path) -> None:
    silent = child(tmp_path, PRINTS_READY)
    with pytest.raises(NotReady, match="was not ready within 1 s"):
        started(silent, lambda: False, 0.6)
    assert not silent.alive()


def test_only_a_taken_port_is_tried_again(tmp_path: Path) -> None:
    tries: list[int] = []

    def start() -> Child:
        tries.append(free_port())
        if len(tries) < 3:
            raise NotReady("listen tcp 127.0.0.1:1: bind: address already in use")
        return child(tmp_path, PRINTS_READY)

    retried(start)
    assert len(tries) == 3

    def refuse() -> Child:
        tries.append(0)
        raise NotReady("bad flag")

    tries.clear()
    with pytest.raises(pytest.fail.Exception, match="bad flag"):
        retried(refuse)
    assert len(tries) == 1


def test_free_ports_lie_below_those_of_clients() -> None:
    ports = {free_port() for _ in range(20)}
    assert len(ports) > 10
    assert all(process.LOWEST <= port < process.HIGHEST for port in ports)


def test_what_is_missing_skips_or_fails_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICES", "")
    with pytest.raises(pytest.skip.Exception, match="make services"):
        missing("a service")
    monkeypatch.setenv("SERVICES", "require")
    with pytest.raises(pytest.fail.Exception, match="no-such-command-at-all is not installed"):
        process.found("no-such-command-at-all")
