"""The status service of a collective library: what its answers mean, and how it is asked."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.agent.source import Host
from collectors.formats.collective_status import STALL_MS, Standing, news, status, world
from collectors.host.job_ras import ELSEWHERE_S, JobStatus, NobodyListens, NoStatus, ask, collectors
from diagnosis.waiting import absent_ranks, groups_of
from sickbay.messages import Event, Progress
from sickbay.settings import Agent

T = 1_773_200_000_000


def rank(number: int, count: int, host: str = "127.0.0.1", error: int = 0) -> dict[str, Any]:
    """A rank in the form of NCCL's JSON."""
    return {
        "rank": number, "host": host, "pid": 100 + number, "cuda_dev": number % 8, "nvml_dev": number % 8,
        "status": {"init_state": 0, "async_error": error, "finalize_called": False, "destroy_flag": False,
                   "abort_flag": False},
        "collective_counts": {"Broadcast": 2, "AllReduce": count, "SendRecv": number},
    }  # fmt: skip


def missing(number: int, *, dead: bool = True) -> dict[str, Any]:
    told = {"unresponsive": True, "considered_dead": dead}
    return {
        "rank": number,
        "host": "10.0.0.9",
        "pid": 100 + number,
        "cuda_dev": number % 8,
        "nvml_dev": 0,
        "status": told,
    }


def group(ranks: list[Any], lost: list[Any] | None = None, name: str = "0x1") -> dict[str, Any]:
    lost = lost or []
    return {
        "hash": name, "secondary_hash": "0x2:0x3", "size": len(ranks) + len(lost), "ranks_count": len(ranks),
        "missing_ranks_count": len(lost), "ranks": ranks, "missing_ranks": lost,
    }  # fmt: skip


def answer(*groups: dict[str, Any]) -> bytes:
    told = {"nccl_version": "2.28.7", "timestamp": "2026-03-11 03:33:20", "communicators": list(groups)}
    return json.dumps(told | {"ras": {"collection_time_sec": 0.1, "timeouts_count": 0}}).encode()


def told(*polls: tuple[int, bytes]) -> list[Event | Progress]:
    standing, found = Standing(), list[Event | Progress]()
    for at_ms, raw in polls:
        standing, some = news(standing, status(raw), at_ms)
        found += some
    return found


def test_counts_that_differ_for_a_moment_mean_nothing() -> None:
    moving = [(T + at * 20_000, answer(group([rank(0, 70 + at), rank(1, 69 + at)]))) for at in range(9)]
    assert told(*moving) == []
    idle = answer(group([rank(0, 70), rank(1, 70)]))
    assert told((T, idle), (T + STALL_MS, idle), (T + 9 * STALL_MS, idle)) == []


def test_a_rank_that_does_not_come_is_told_once_and_found_by_the_detectors_rule() -> None:
    stuck = answer(group([rank(number, 69 if number == 2 else 70) for number in range(4)]))
    found = told((T, stuck), (T + 20_000, stuck), (T + STALL_MS, stuck), (T + 2 * STALL_MS, stuck))
    progress = [one for one in found if isinstance(one, Progress)]
    assert [(one.rank, one.state, one.op) for one in progress] == [
        (0, "entered", "AllReduce"), (1, "entered", "AllReduce"), (3, "entered", "AllReduce"), (2, "", "AllReduce"),
    ]  # fmt: skip
    assert all(one.at_ms == T for one in progress)
    absent, circle = absent_ranks(groups_of(progress))
    assert (absent, circle) == ({2: frozenset({0, 1, 3})}, False)


def test_a_dead_process_is_a_notice_and_absent_where_the_others_wait() -> None:
    lost = answer(group([rank(0, 70), rank(1, 70)], [missing(2)]))
    first, *rest = told((T, lost), (T + STALL_MS, lost))
    assert isinstance(first, Event)
    assert (first.kind, first.component, first.code) == ("rank.collective_notice", "rank:?/2", "dead")
    absent, _ = absent_ranks(groups_of(one for one in rest if isinstance(one, Progress)))
    assert list(absent) == [2]


def test_errors_are_told_once_and_what_is_underway_is_none() -> None:
    raw = answer(group([rank(0, 70, error=6), rank(1, 70, error=7)]))
    (one,) = told((T, raw), (T + 20_000, raw))
    assert isinstance(one, Event)
    assert (one.kind, one.code) == ("rank.collective_error", "remote process error")


def test_ranks_of_a_part_are_the_jobs_only_where_one_group_holds_all() -> None:
    whole, part = group([rank(number, 70) for number in range(4)]), group([rank(0, 9), rank(1, 8)], name="0x9")
    for at, number in enumerate((2, 3)):  # the part's own numbers are others
        part["ranks"][at] |= {"pid": 100 + number, "cuda_dev": number}
    stuck = answer(whole, part)
    found = [one for one in told((T, stuck), (T + STALL_MS, stuck)) if isinstance(one, Progress)]
    assert [(one.rank, one.state, one.group_ranks) for one in found] == [(2, "entered", (2, 3)), (3, "", (2, 3))]
    alone = answer(group([rank(0, 70), rank(1, 70)]), group([rank(4, 9), rank(5, 8)], name="0x9"))
    assert world(status(alone)) == {}
    assert told((T, alone), (T + STALL_MS, alone)) == []


@pytest.mark.slow
@given(st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(
    lambda value: json.dumps({"communicators": value}).encode()))  # fmt: skip
def test_any_answer_is_read_or_refused(raw: bytes) -> None:
    with suppress(ValueError):
        news(Standing(), status(raw), T)


Answers = dict[str, bytes]
GOOD: Answers = {"CLIENT PROTOCOL 2": b"SERVER PROTOCOL 2\n", "SET FORMAT json": b"OK\n"}


@contextmanager
def service(answers: Answers, say: Callable[[socket.socket], None] = lambda _: None) -> Iterator[str]:
    """A status service that speaks line by line; `say` answers STATUS."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    asked = line.decode().strip()
                    if asked.endswith("STATUS"):
                        say(connection)
                        break
                    fallback = b"OK\n" if asked.startswith("TIMEOUT ") else b"ERROR\n"
                    connection.sendall(answers.get(asked, fallback))

    threading.Thread(target=run, daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def host(root: Path, *addresses: str) -> Host:
    return Host("n1", Agent(root=str(root), collective_status=addresses, timeout_s=1.0))


def test_it_is_asked_within_its_time_and_the_job_is_that_of_its_process(tmp_path: Path) -> None:
    (tmp_path / "proc" / "102").mkdir(parents=True)
    (tmp_path / "proc" / "102" / "environ").write_bytes(b"HOME=/\0SLURM_JOB_ID=4471\0SECRET=x\0")
    stuck = answer(group([rank(0, 70), rank(1, 69), rank(2, 70)]))
    with service(GOOD, lambda connection: connection.sendall(stuck)) as address:
        (source,) = collectors(host(tmp_path, address))
        assert source.collect(T).seen == []
        found = source.collect(T + STALL_MS)
        assert found.problem == ""
        assert {one.job for one in found.seen} == {"4471"}
        assert len(found.seen) == 3


def test_where_rank_0_runs_elsewhere_it_is_asked_seldom(tmp_path: Path) -> None:
    asked: list[int] = []

    def say(connection: socket.socket) -> None:
        asked.append(1)
        connection.sendall(answer(group([rank(0, 70, "203.0.113.7"), rank(1, 70, "evil.example")])))

    with service(GOOD, say) as address:
        source = JobStatus(host(tmp_path, address), address, "job_ras")
        for at_s in (0, 20, 200, ELSEWHERE_S):
            source.collect(round(T + at_s * 1000))
    assert len(asked) == 2


TEXT = """\
NCCL version 2.26.2+cuda12.8 compiled with CUDA 12.8

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      3          1            1          3        3

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         3         1         3         3   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (78db921d1c117b4a) MISMATCH
  Communicator ranks have different AllReduce operation counts
  2 ranks have launched up to operation 64
  Rank 1 has launched up to operation 60 -- GPU 0 managed by process 102 on node 127.0.0.1

"""


def test_a_library_that_tells_no_json_is_asked_for_its_text_and_less_often(tmp_path: Path) -> None:
    asked: list[int] = []

    def say(connection: socket.socket) -> None:
        asked.append(1)
        connection.sendall(TEXT.encode())

    with service({"CLIENT PROTOCOL 2": b"SERVER PROTOCOL 2\n"}, say) as address:
        (source,) = collectors(host(tmp_path, address))
        found = [source.collect(T + at_ms) for at_ms in (0, 20_000, STALL_MS)]
    assert len(asked) == 2
    assert [one.problem for one in found] == ["", "", ""]
    told = [one.record for one in found[-1].seen]
    assert {one.rank: one.state for one in told if isinstance(one, Progress)} == {0: "entered", 2: "entered", 1: ""}


def hang(connection: socket.socket) -> None:
    time.sleep(3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "say", "why"),
    [
        ({}, hang, "no status service"),
        ({"CLIENT PROTOCOL 2": b"SERVER PROTOCOL 2\n"}, hang, "no whole answer within 1 s"),
        ({"CLIENT PROTOCOL 2": b"SERVER PROTOCOL 2\n"}, lambda one: one.sendall(b"NCCL version 3\n"), "not understood"),
        (GOOD, lambda connection: connection.sendall(b'{"comm'), "truncated"),
        (GOOD, hang, "no whole answer within 1 s"),
    ],
)
def test_what_does_not_work_is_one_clear_word(
    answers: Answers, say: Callable[[socket.socket], None], why: str, tmp_path: Path
) -> None:
    with service(answers, say) as address:
        (source,) = collectors(host(tmp_path, address))
        began = time.monotonic()
        assert re.search(why, source.collect(T).problem)
        assert time.monotonic() - began < 1.5


def test_nobody_there_is_no_problem(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    (source,) = collectors(host(tmp_path, f"127.0.0.1:{free}"))
    assert source.collect(T).problem == ""
    assert "no job offers its status" in source.collect(T).absent
    with pytest.raises(NobodyListens):
        ask(f"127.0.0.1:{free}", 1.0)
    with pytest.raises(NoStatus, match=r"\[agent\] collective_status"):
        ask("localhost", 1.0)
