"""The training hook: never raises, never waits, loses nothing untold; alone as one copied file."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sickbay import steps as hook
from sickbay.steps import Callback, Steps

FOREIGN = (*hook.JOBS, *hook.RANKS, *hook.WORLDS, "SICKBAY_STEPS")


class Ear:
    """A socket as an agent has it; `heard` reads all there is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.setblocking(False)

    def heard(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            try:
                found += [json.loads(line) for line in self.socket.recv(65_536).splitlines()]
            except BlockingIOError:
                return found

    def close(self) -> None:
        self.socket.close()


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FOREIGN:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    made = Ear(tmp_path / "s")
    yield made
    made.close()


def made(ear: Ear, **fields: Any) -> Steps:
    told: dict[str, Any] = {"job": "4471", "rank": 3} | fields
    return Steps(path=str(ear.path), **told)


def short(lines: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(one["k"], *(one[key] for key in ("step", "phase") if key in one)) for one in lines]


def test_a_step_is_told_with_its_time_work_and_loss(ear: Ear) -> None:
    steps = made(ear, world=16)
    steps.begin(17)
    time.sleep(0.02)
    steps.end(work=4096, loss=2.5, grad_norm=float("nan"))
    begin, end = ear.heard()
    assert {key: begin[key] for key in ("v", "k", "job", "rank", "world", "step")} == {
        "v": 1, "k": "begin", "job": "4471", "rank": 3, "world": 16, "step": 17,
    }  # fmt: skip
    assert (end["k"], end["step"], end["work"], end["loss"], end["odd"]) == ("step", 17, 4096.0, 2.5, True)
    assert 20 <= end["ms"] < 10_000
    assert abs(end["at"] - time.time() * 1000) < 10_000
    assert (steps.lost, steps.errors) == (0, 0)


def test_a_step_that_fails_has_no_end_and_its_exception_goes_on(ear: Ear) -> None:
    steps = made(ear)
    with pytest.raises(ZeroDivisionError), steps.step(1):
        _ = 1 / 0
    with steps.step(2, work=8):
        pass
    assert ("step", 1) not in short(ear.heard())


def test_checkpoints_phases_groups_owner_and_no_stop(ear: Ear) -> None:
    steps = made(ear, rank=0, groups={"tensor": (1, 0), "data": range(0, 8, 2)})
    with steps.step(5):
        steps.checkpoint_begin()
    steps.checkpoint_commit(5)
    steps.phase("evaluate")
    steps.restart_owner("framework")
    steps.no_stop_until(1_790_000_000.5)
    steps.close()
    steps.close()  # once is enough
    lines = ear.heard()
    assert short(lines) == [
        ("group",), ("group",), ("begin", 5), ("phase", 5, "checkpoint_begin"), ("step", 5),
        ("phase", 5, "checkpoint_end"), ("phase", 5, "evaluate"), ("owner",), ("no_stop",), ("phase", 5, "exit"),
    ]  # fmt: skip
    assert (lines[0]["ranks"], lines[1]["ranks"]) == ([0, 1], [0, 2, 4, 6])
    assert (lines[-3]["owner"], lines[-2]["until"]) == ("framework", 1_790_000_000_500)


def test_rank_zero_alone_speaks_for_the_job(ear: Ear) -> None:
    steps = made(ear, rank=1)
    steps.restart_owner("scheduler")
    steps.no_stop_until(2e9)
    assert ear.heard() == []


@pytest.mark.parametrize(
    ("told", "job", "rank", "world"),
    [
        ({"SLURM_JOB_ID": "99", "SLURM_PROCID": "2", "SLURM_NTASKS": "4"}, "99", 2, 4),
        ({"SLURM_JOB_ID": "99", "SLURM_PROCID": "0", "RANK": "7", "WORLD_SIZE": "8"}, "99", 7, 8),
        ({"SICKBAY_JOB": "mine", "SLURM_JOB_ID": "99", "RANK": "x"}, "mine", None, None),
        ({}, "", None, None),
    ],
)
def test_job_and_rank_are_the_environments(
    ear: Ear, monkeypatch: pytest.MonkeyPatch, told: dict[str, str], job: str, rank: int | None, world: int | None
) -> None:
    for name, value in (told | {"SICKBAY_STEPS": str(ear.path)}).items():
        monkeypatch.setenv(name, value)
    Steps().begin(1)
    (line,) = ear.heard()
    assert (line["job"], line.get("rank"), line.get("world")) == (job, rank, world)


def test_whatever_is_wrong_nothing_is_raised_and_it_is_counted(ear: Ear, tmp_path: Path) -> None:
    steps = made(ear)
    bad: Any = object()
    wrong: list[Callable[[], object]] = [
        lambda: steps.end(), lambda: steps.begin(bad), lambda: steps.begin(1, 2, 3), lambda: steps.phase(bad, bad),  # type: ignore[call-arg]
        lambda: steps.group("g", bad), lambda: steps.no_stop_until(bad), lambda: steps.group("g", range(10_000)),
    ]  # fmt: skip
    for call in wrong:
        call()
    steps.begin(2)
    steps.end(loss=bad)
    assert steps.errors >= 6
    steps.begin(3)
    steps.phase("x")
    assert ear.heard()[-1]["errors"] == steps.errors
    Steps(path=bad, rank=bad, groups=bad).begin(1)
    Steps(path="x" * 500, job="1").begin(1)
    Steps(path=str(tmp_path), job="1").begin(1)  # a folder
    Callback(bad).on_train_batch_start(bad)


def test_what_cannot_be_sent_waits_then_is_dropped_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "AGAIN_S", 0.0)
    steps = Steps(path=str(tmp_path / "s"), job="1", rank=0)
    for number in range(hook.KEPT + 5):
        steps.phase("load", number)
    assert steps.lost == 5
    ear = Ear(tmp_path / "s")  # the agent comes later
    steps.phase("load", 1_000)
    found = ear.heard()
    assert [one["step"] for one in found] == [*range(6, hook.KEPT + 5), 1_000]
    assert found[-1]["lost"] == steps.lost == 6
    ear.close()
    again = Ear(tmp_path / "s")  # and is started anew
    steps.phase("load", 2_000)
    steps.phase("load", 2_001)
    assert [one["step"] for one in again.heard()] == [2_000, 2_001]
    again.close()


def test_a_full_queue_stops_nobody(ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "FULL_S", 0.0)
    steps = made(ear)
    began = time.monotonic()
    for number in range(3_000):  # nobody reads
        steps.phase("load", number)
    assert time.monotonic() - began < 20
    first = ear.heard()
    steps.phase("load", 3_000)
    steps.phase("load", 3_001)
    rest = ear.heard()
    assert rest[-1]["step"] == 3_001
    assert len(first) + len(rest) + steps.lost == 3_002
    assert rest[-1]["lost"] == steps.lost > 0


def drained(found: list[dict[str, Any]], quiet_s: float = 0.2) -> None:
    """Waits until the reader has caught up: what finds the socket full is lost, as it must be."""
    for _ in range(100):
        before = len(found)
        time.sleep(quiet_s)
        if len(found) == before:
            return


@pytest.mark.slow
def test_threads_and_forks(ear: Ear) -> None:
    steps = made(ear, rank=0)
    steps.phase("load", 1)
    (own,) = ear.heard()
    stop, found = threading.Event(), list[dict[str, Any]]()

    def read() -> None:
        while not stop.is_set():
            found.extend(ear.heard())

    reader = threading.Thread(target=read)
    reader.start()
    writers = [threading.Thread(target=lambda: [steps.phase("load", 7) for _ in range(300)]) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    drained(found)
    pid = os.fork()
    if pid == 0:  # a child: its own socket, its own counts, no word of the parent's
        try:
            steps.phase("child", 8)
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    drained(found)
    stop.set()
    reader.join()
    steps.phase("load", 9)
    found += ear.heard()
    assert sum(one["step"] == 7 for one in found) + steps.lost >= 1_200 - hook.KEPT
    (child,) = [one for one in found if one["step"] == 8]
    assert child["start"] >= own["start"]
    assert "lost" not in child


ALONE = """
import sys
from steps import Steps, Callback
assert sys.flags.isolated and sys.flags.no_site
steps = Steps(groups={"data": range(4)})
for number in range(3):
    with steps.step(number, work=10):
        pass
steps.checkpoint_commit()
steps.begin(3)
loaded = {name.partition(".")[0] for name in sys.modules} - {"steps"}
print(sorted(loaded - set(sys.stdlib_module_names) - {"__main__", "encodings"}))
"""


def test_one_copied_file_runs_without_anything_else(ear: Ear, tmp_path: Path) -> None:
    shutil.copy(hook.__file__, tmp_path / "steps.py")
    (tmp_path / "train.py").write_text(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{ALONE}")
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", str(tmp_path / "train.py")],
        env={"SICKBAY_STEPS": str(ear.path), "SLURM_JOB_ID": "7", "RANK": "2"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (run.returncode, run.stderr, run.stdout.strip()) == (0, "", "[]")
    lines = ear.heard()
    assert [one["step"] for one in lines if one["k"] == "step"] == [0, 1, 2]
    assert {one["job"] for one in lines} == {"7"}
    assert lines[-1]["phase"] == "exit"  # the interpreter ended, and no one had to say so


def test_a_signal_in_the_middle_of_a_call_deadlocks_nobody(ear: Ear) -> None:
    steps = made(ear)
    before = signal.signal(signal.SIGALRM, lambda number, frame: steps.phase("signal"))
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    try:
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            steps.phase("load")
            ear.heard()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    steps.phase("over")
    assert steps.errors == 0


def test_the_callback_by_the_names_of_three_frameworks(ear: Ear) -> None:
    callback = Callback(made(ear, rank=0), work=32)
    trainer = SimpleNamespace(global_step=41)
    callback.on_train_batch_start(trainer, None, "batch", 0)
    callback.on_train_batch_end(trainer, None, {}, "batch", 0)
    callback.on_save_checkpoint(trainer, None, {})
    state = SimpleNamespace(global_step=42)
    callback.on_step_begin("arguments", state, "control", model=None)
    callback.on_step_end("arguments", state, "control")
    context = SimpleNamespace(original_args=lambda: SimpleNamespace(cur_step_num=43))
    callback.on_train_step_begin(context)
    callback.on_train_step_end(context)
    callback.on_train_batch_start()  # nobody tells a number: it counts
    callback.on_train_batch_end()
    callback.on_train_end()
    lines = ear.heard()
    assert [(one["step"], one["work"]) for one in lines if one["k"] == "step"] == [
        (41, 32.0), (42, 32.0), (43, 32.0), (44, 32.0),
    ]  # fmt: skip
    assert [one[1:] for one in short(lines) if one[0] == "phase"] == [
        (41, "checkpoint_begin"), (41, "checkpoint_end"), (44, "exit"),
    ]  # fmt: skip
    assert callback.errors == callback.steps.errors == 0


def test_the_callback_goes_with_a_class_of_a_framework(ear: Ear) -> None:
    class Theirs:
        def __init__(self) -> None:
            self.ready = True

        def on_train_batch_start(self, *told: Any) -> None:
            raise AssertionError("ours comes first")

        def on_fit_start(self) -> str:
            return "theirs"

    class Hook(Callback, Theirs):
        pass

    both = Hook(made(ear))
    both.on_train_batch_start(SimpleNamespace(global_step=1))
    assert both.ready
    assert both.on_fit_start() == "theirs"
    assert short(ear.heard()) == [("begin", 1)]
