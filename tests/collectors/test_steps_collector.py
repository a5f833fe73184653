"""The agent's end of the training hook: what ranks say becomes records; what nobody may say is counted."""

import array
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.agent import courier
from collectors.agent.agent import start
from collectors.agent.source import Host
from collectors.host import datagrams, job_steps, step_senders
from collectors.host.job_steps import JobSteps
from collectors.host.step_senders import GONE_MS, GROUPS_MS, OPEN_MS, Senders
from sickbay import messages
from sickbay import steps as hook
from sickbay.app.diagnosing.diagnoser import Diagnoser
from sickbay.log import driving, tick, wall_ms
from sickbay.messages import Event, Progress, Step
from sickbay.settings import Agent
from sickbay.steps import Steps
from tests.collectors.agent_kit import EVENTS, STEPS, Gate, settings, told, wait_for

NOW = 1_790_000_000_000
SOCKET = "run/sickbay/steps.sock"


def line(k: str = "step", **fields: Any) -> bytes:
    given = {"v": 1, "k": k, "job": "4471", "rank": 3, "start": NOW - 60_000, "at": NOW - 10, "step": 17}
    return msgspec.json.encode(given | fields) + b"\n"


def take(senders: Senders, *lines: bytes, uid: int = 1000, now_ms: int = NOW) -> list[Any]:
    return [one.record for one in senders.take(b"".join(lines), uid, 7, now_ms)]


def test_ends_of_steps_and_phases_are_told_at_once() -> None:
    senders = Senders()
    found = take(
        senders, line("begin"), line(ms=812.5, work=4096, loss=2.5, grad=0.1),
        line("phase", phase="checkpoint_begin"),
    )  # fmt: skip
    assert found == [
        Step(step=17, job="4471", rank=3, duration_ms=812.5, work=4096.0, loss=2.5, grad_norm=0.1),
        Step(step=17, job="4471", rank=3, phase="checkpoint_begin"),
    ]
    assert not +senders.refused


def test_a_step_is_told_as_begun_only_where_it_does_not_end() -> None:
    senders = Senders()
    take(senders, line("begin", step=1), line(step=1), line("begin", step=2, at=NOW))
    assert list(senders.due(NOW + OPEN_MS)) == []
    ((pid, one),) = senders.due(NOW + OPEN_MS + 1)
    assert (pid, one.record, one.at_ms) == (7, Step(step=2, job="4471", rank=3, phase="begin"), NOW)
    assert list(senders.due(NOW + 2 * OPEN_MS)) == []  # once
    take(senders, line("begin", step=3), line("phase", phase="exit"))
    assert list(senders.due(NOW + 2 * OPEN_MS)) == []


def test_groups_are_told_again_as_readers_forget() -> None:
    senders = Senders()
    (found,) = take(senders, line("group", group="tensor", ranks=[2, 3]))
    assert found == Progress(rank=3, job="4471", group="tensor:2", group_name="tensor", group_ranks=(2, 3))
    take(senders, line(at=NOW + GROUPS_MS), now_ms=NOW + GROUPS_MS)
    assert [one.record for _, one in senders.due(NOW + GROUPS_MS + 1)] == [found]
    assert not list(senders.due(NOW + GROUPS_MS + 1 + GONE_MS))  # it went away


def test_who_restarts_a_job_and_what_must_not_be_stopped_are_events_of_the_job() -> None:
    found = take(Senders(), line("owner", owner="framework"), line("no_stop", until=NOW + 60_000), line("no_stop"))
    assert [(one.kind, one.component, one.attributes) for one in found] == [
        ("job.restart_owner", "job:4471", {"owner": "framework"}),
        ("job.no_stop_until", "job:4471", {"until_ms": str(NOW + 60_000)}),
        ("job.no_stop_until", "job:4471", {"until_ms": "0"}),
    ]
    (far,) = take(Senders(), line("no_stop", until=2**52))
    assert far.attributes == {"until_ms": str(NOW + step_senders.MAX_STOP_MS)}  # nobody is kept for ever


def test_a_loss_that_is_no_number_is_told_when_it_begins() -> None:
    senders = Senders()
    found = take(senders, line(), line(odd=True, step=18), line(odd=True, step=19), line(), line(odd=True, step=21))
    odd = [one for one in found if isinstance(one, Event)]
    assert [(one.kind, one.attributes["step"]) for one in odd] == [
        ("job.loss_not_finite", "18"), ("job.loss_not_finite", "21"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\xff\x00garbage", "not of the hook"),
        (b"[" * 5_000, "not of the hook"),
        (line(v=2), "not of the hook"),
        (line("format the disk"), "not of the hook"),
        (line(rank=-1), "not of the hook"),
        (line(ms=-5), "not of the hook"),
        (line(phase="x" * 61), "not of the hook"),
        (line("phase", step=2**60), "not of the hook"),
        (line("owner"), "not of the hook"),
        (line("owner", owner="me", job=""), "not of the hook"),
        (line(rank=4, world=4), "no rank of its job"),
        (line(job="a/b"), "no job's name"),
        (line(job="x" * 200), "no job's name"),
        (line(job="é\n"), "no job's name"),
        (line(at=NOW - 3_600_000), "of another time"),
        (line(at=NOW + 60_000), "of another time"),
    ],
)
def test_what_nobody_may_say_is_counted_and_not_told(raw: bytes, why: str) -> None:
    senders = Senders()
    assert take(senders, raw) == []
    assert +senders.refused == {why: 1}
    assert len(take(senders, line())) == 1  # and stops nothing


def test_a_job_belongs_to_the_user_who_spoke_of_it_first() -> None:
    senders = Senders()
    assert len(take(senders, line())) == 1
    assert take(senders, line(), uid=1001) == []
    assert +senders.refused == {"of another user's job": 1}
    later = NOW + GONE_MS
    assert len(take(senders, line(at=later), uid=1001, now_ms=later)) == 1  # it was silent for long


def test_too_much_is_counted_and_takes_nothing_from_others() -> None:
    senders = Senders()
    many = [line(step=number) for number in range(190)]
    told_of = sum(len(take(senders, *many)) for _ in range(60))
    assert told_of == step_senders.PER_RANK * step_senders.BURST_S
    assert senders.refused["faster than a rank may send"] == 8_000 - told_of
    assert senders.refused["more than a user may send"] == 60 * 190 - 8_000
    assert len(take(senders, line(job="9"), uid=5)) == 1  # another user
    assert len(take(senders, line(at=NOW + 2_000), now_ms=NOW + 2_000)) == 1  # and later he himself
    take(senders, *[line() for _ in range(300)], uid=6)
    assert senders.refused["too many at once"] == 1


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_RANKS", "MAX_JOBS", "MAX_USERS"):
        monkeypatch.setattr(step_senders, name, 10)
    senders = Senders()
    for number in range(30):
        take(senders, line(job=str(number), rank=number), uid=number)
    assert (len(senders._ranks), len(senders._owners), len(senders._users)) == (10, 10, 10)
    assert senders.refused["more ranks than a host has"] == 20
    list(senders.due(NOW + GONE_MS + 1))
    assert senders._ranks == {}


def test_what_the_hook_lost_is_counted_once_and_anew_after_a_restart() -> None:
    senders = Senders()
    take(senders, line(lost=5, errors=1), line(lost=7, errors=1), line(lost=6, errors=1))
    take(senders, line(lost=2, start=NOW - 1_000), line(lost=9))  # the last one: an old line that came late
    assert +senders.refused == {"lost by the hook": 9, "calls of the hook that went wrong": 1}


@given(
    st.lists(st.one_of(st.binary(max_size=200), st.sampled_from([line(), line("begin"), line("group")])), max_size=8)
)
def test_any_bytes_give_records_that_can_be_written_or_counts(parts: list[bytes]) -> None:
    senders = Senders()
    for record in take(senders, *parts):
        assert messages.decode(messages.encode(record))


def host(folder: Path) -> Host:
    return Host("n1", Agent(host="n1", root=str(folder), steps_socket=f"/{SOCKET}"))


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[JobSteps]:
    made = JobSteps(host(tmp_path))
    made.collect(wall_ms())
    yield made
    made.close()


def drained(collector: JobSteps) -> tuple[list[Any], int, str]:
    found = collector.collect(wall_ms())
    assert found.problem == ""
    return [one.record for one in found.seen], found.lost, found.lost_why


def send(path: Path, data: bytes, *ancillary: Any) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(str(path))
        sender.sendmsg([data], ancillary)


def test_every_user_may_write_and_nobody_else_is_let_in(collector: JobSteps, tmp_path: Path) -> None:
    mode = (tmp_path / SOCKET).stat().st_mode
    assert mode & 0o777 == 0o666
    second = JobSteps(host(tmp_path)).collect(wall_ms())
    assert "another process listens there" in second.problem
    assert second.seen == ()


def test_hostile_datagrams_are_counted(collector: JobSteps, tmp_path: Path) -> None:
    path, now = tmp_path / SOCKET, wall_ms()
    opened = os.open(path.parent, os.O_RDONLY)
    before = len(os.listdir("/proc/self/fd"))
    send(path, b"\x00" * datagrams.MAX_BYTES + b"{}")
    send(path, b"")
    send(path, b"{" * 1_000)
    send(path, line(at=now), (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [opened] * 20)))
    records, lost, why = drained(collector)
    assert len(records) == 1
    assert (lost, len(os.listdir("/proc/self/fd"))) == (2, before)
    os.close(opened)
    assert "1 too long" in why
    assert "1 not of the hook" in why


@pytest.mark.slow
def test_a_name_that_was_left_behind_is_taken_and_a_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / SOCKET
    first = JobSteps(host(tmp_path))
    first.collect(wall_ms())
    first.close()
    assert path.exists()  # as after a kill
    second = JobSteps(host(tmp_path))
    assert second.collect(wall_ms()).problem == ""
    second.close()
    path.unlink()
    path.write_text("somebody's")
    third = JobSteps(host(tmp_path))
    assert "no socket" in third.collect(wall_ms()).problem
    assert path.read_text() == "somebody's"
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("no folder")
    assert third.collect(wall_ms()).problem
    third.close()


@pytest.mark.slow
def test_a_root_may_have_a_long_name_and_a_name_that_is_taken_away_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_steps, "CHECK_MS", 0)
    deep = tmp_path / ("d" * 120)
    one = JobSteps(host(deep))
    assert one.collect(wall_ms()).problem == ""
    (deep / SOCKET).unlink()
    one.collect(wall_ms())  # sees that nobody can reach it
    one.collect(wall_ms())
    assert (deep / SOCKET).exists()
    one.close()


def test_a_begun_step_of_a_process_that_is_gone_is_not_told(
    collector: JobSteps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_senders, "OPEN_MS", -1)
    monkeypatch.setattr(job_steps, "CHECK_MS", 0)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    begin = "import sys; sys.path.insert(0, sys.argv[1]); import os, steps; steps.Steps().begin(4); os._exit(0)"
    folder = str(Path(hook.__file__).parent)
    gone = subprocess.run(
        [sys.executable, "-S", "-c", begin, folder], env={"SICKBAY_STEPS": str(tmp_path / SOCKET), "SLURM_JOB_ID": "8"}
    )
    assert gone.returncode == 0
    Steps(path=str(tmp_path / SOCKET), rank=0).begin(5)
    time.sleep(0.01)
    records, lost, _ = drained(collector)
    assert records == [Step(step=5, job="7", rank=0, phase="begin")]
    assert lost == 0


TRAIN = """
import sys, time
sys.path.insert(0, sys.argv[1])
from steps import Steps
steps = Steps(world=8, groups={"data": range(8)})
for number in range(40):
    with steps.step(number, work=100):
        time.sleep(0.002)
steps.checkpoint_begin()
steps.checkpoint_commit()
for _ in range(200):
    if not steps._waiting:
        break
    time.sleep(0.01)
    steps.phase("over")
print(steps.lost, steps.errors)
"""


@pytest.fixture
def train(tmp_path: Path) -> Path:
    (tmp_path / "copy").mkdir()
    shutil.copy(hook.__file__, tmp_path / "copy" / "steps.py")
    (tmp_path / "copy" / "train.py").write_text(TRAIN)
    return tmp_path / "copy" / "train.py"


def begun(train: Path, path: Path, rank: int) -> "subprocess.Popen[str]":
    environment = {"SICKBAY_STEPS": str(path), "SLURM_JOB_ID": "4471", "RANK": str(rank)}
    command = [sys.executable, "-I", "-S", str(train), str(train.parent)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_eight_ranks_at_once_through_the_agent_into_diagnosis(
    tmp_path: Path, train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "RETRY_S", (0.05, 0.1))
    gate = Gate()
    agent = start(settings(tmp_path, kernel_log="", steps_socket=SOCKET), gate.connect)
    path = tmp_path / "n1" / SOCKET
    ranks = [begun(train, path, rank) for rank in range(8)]  # some before it listens

    def steps() -> list[Step]:
        agent.step(wall_ms(), 0.02)
        return [one for one in decoded(gate) if isinstance(one, Step)]

    try:
        wait_for(lambda: steps() and all(one.poll() is not None for one in ranks), 30)
        answers = [one.communicate()[0].split() for one in ranks]
        wait_for(lambda: sum(one.phase == "exit" for one in steps()) == 8, 10)
    finally:
        for one in ranks:
            one.kill()
            one.wait()
        agent.close()
    assert answers == [["0", "0"]] * 8  # nothing was lost, though the kernel's queue holds ten
    found = [one for one in decoded(gate) if isinstance(one, Step)]
    ends = Counter((one.rank, one.step) for one in found if not one.phase)
    assert ends == Counter((rank, step) for rank in range(8) for step in range(40))
    assert {one.job for one in found} == {"4471"}
    assert Counter(one.phase for one in found)["checkpoint_end"] == 8
    assert [event for event in told(gate.log, EVENTS) if b"monitor" in event.payload] == []
    assert sum(isinstance(one, Progress) for one in decoded(gate)) == 8

    diagnoser = Diagnoser(gate.log)
    gate.log.clock = lambda: wall_ms() + 2_000  # the next whole second is over
    tick(gate.log.appender(), gate.log.topics, driving(gate.log.topics))
    diagnoser.drain(wall_ms())
    seen = diagnoser.horizon.case(wall_ms())
    assert diagnoser.damaged == 0
    assert len([step for step in seen.steps if step.duration_ms and step.work == 100.0]) == 320
    assert {one.group_ranks for one in seen.progress} == {tuple(range(8))}


def decoded(gate: Gate) -> list[Any]:
    return [messages.decode(one.payload) for one in told(gate.log, STEPS)]
