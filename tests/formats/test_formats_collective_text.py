"""The status text of a collective library, in the form of its first and of its newest version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.collective_status import STALL_MS, Standing, news
from collectors.formats.collective_text import BEGIN, status
from diagnosis.waiting import absent_ranks, groups_of
from sickbay.messages import Event, Progress

T = 1_773_200_000_000
HEAD = """\
NCCL version 2.24.3+cuda12.4 compiled with CUDA 12.4
CUDA runtime version 12040, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.02s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  {errors}
    1         2         1         4         4         8   RUNNING      OK

Errors
======

"""
WARNINGS = "Warnings\n========\n\n"
LATE = """\
#0-0 (78db921d1c117b4a) MISMATCH
  Communicator ranks have different {op} operation counts
  7 ranks have launched up to operation {most}
  Rank 5 has launched up to operation 60 -- GPU 1 managed by process 1650 on node 10.0.0.2

"""


def text(errors: str = "", warnings: str = "", word: str = "OK") -> bytes:
    return (HEAD.format(errors=word) + errors + WARNINGS + warnings).encode()


def told(*polls: tuple[int, bytes]) -> list[Event | Progress]:
    standing, found = Standing(), list[Event | Progress]()
    for at_ms, raw in polls:
        standing, some = news(standing, status(raw), at_ms)
        found += some
    return found


def test_a_job_without_trouble_tells_nothing() -> None:
    read = status(text())
    assert (read.nccl_version, read.nodes, read.communicators) == ("2.24.3+cuda12.4", 2, [])
    assert told((T, text()), (T + STALL_MS, text())) == []


@pytest.mark.parametrize("op", ["collective", "AllReduce"])  # 2.24, and from 2.26 or so on
def test_the_rank_that_does_not_come_is_found_where_counts_stand_still(op: str) -> None:
    stuck = text(warnings=LATE.format(op=op, most=64), word="MISMATCH")
    found = told((T, stuck), (T + 20_000, stuck), (T + STALL_MS, stuck), (T + 2 * STALL_MS, stuck))
    progress = [one for one in found if isinstance(one, Progress)]
    assert len(progress) == len(found) == 8
    absent, circle = absent_ranks(groups_of(progress))
    assert (absent, circle) == ({5: frozenset({0, 1, 2, 3, 4, 6, 7})}, False)
    moving = [(T + n * 20_000, text(warnings=LATE.format(op=op, most=64 + n))) for n in range(9)]
    assert told(*moving) == []


def test_what_the_text_leaves_open_is_not_guessed() -> None:
    halves = LATE.format(op="AllReduce", most=64).replace("  7 ranks", "  4 ranks").splitlines()
    halves[3:4] = ["  4 ranks have launched up to operation 63"]
    part = "#1-0 (00000000000000aa) MISMATCH\n" + LATE.partition("\n")[2].format(op="AllGather", most=9).replace(
        "  7 ranks", "  3 ranks"
    )
    for warnings in ("\n".join(halves) + "\n\n", part):
        raw = text(warnings=warnings)
        assert told((T, raw), (T + STALL_MS, raw), (T + 2 * STALL_MS, raw)) == []


def test_dead_processes_and_missing_ranks_are_notices_in_both_forms() -> None:
    dead = "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
    dead += "  Process 1650 on node 10.0.0.2 managing GPU 1\n\n"
    block = "#0-0 (78db921d1c117b4a) INCOMPLETE\n  Missing communicator data from 1 rank\n"
    new = text(dead + block + "  Rank 5 -- GPU 1 managed by process 1650 on node 10.0.0.2\n\n", word="INCOMPLETE")
    (one,) = told((T, new), (T + STALL_MS, new))
    assert isinstance(one, Event)
    assert (one.kind, one.code, one.attributes["rank_in_group"]) == ("rank.collective_notice", "dead", "5")
    old = text(dead + block + "  The missing rank: 5\n\n", word="INCOMPLETE")
    codes = [(one.code, one.message) for one in told((T, old), (T + 1, old)) if isinstance(one, Event)]
    assert codes == [
        ("unresponsive", "status service: rank 5 of 8: unresponsive"),
        ("dead", "status service: process 1650 at 10.0.0.2: dead"),
    ]


def test_a_dead_rank_is_absent_where_the_others_wait() -> None:
    dead = "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
    dead += "  Process 1650 on node 10.0.0.2 managing GPU 1 (NVML 3)\n\n#0-0 (78db921d1c117b4a) INCOMPLETE\n"
    dead += (
        "  Missing communicator data from 1 rank\n  Rank 6 -- GPU 1 (NVML 3) managed by process 1650 on node ::1\n\n"
    )
    late = LATE.format(op="AllReduce", most=64).replace("  7 ranks", "  6 ranks")
    raw = text(dead.replace("10.0.0.2", "::1"), late, "INCOMPLETE,MISMATCH")
    progress = [one for one in told((T, raw), (T + STALL_MS, raw)) if isinstance(one, Progress)]
    assert {one.rank for one in progress if one.state == "absent"} == {6}


def test_errors_are_told_with_their_rank() -> None:
    block = "#0-0 (78db921d1c117b4a) ERROR\n  Initialization error on 1 rank\n"
    block += "  Rank 1 reported System error -- GPU 1 managed by process 11 on node 10.0.0.1\n"
    block += "  Asynchronous errors on 3 ranks\n  2 ranks reported Remote process error\n"
    block += "  Rank 2 -- GPU 2 managed by process 12 on node 10.0.0.1\n  Rank 3 -- [process information not found]\n"
    block += "  Rank 4 reported Unhandled CUDA error -- GPU 0 managed by process 14 on node 10.0.0.2\n\n"
    found = [one for one in told((T, text(block, word="ERROR"))) if isinstance(one, Event)]
    assert [(one.kind, one.attributes["rank_in_group"], one.code) for one in found] == [
        ("rank.collective_notice", "1", "initialization: system error"),
        ("rank.collective_error", "2", "remote process error"),
        ("rank.collective_error", "3", "remote process error"),
        ("rank.collective_error", "4", "unhandled device error"),
    ]


@pytest.mark.parametrize(
    "raw",
    [
        b"", BEGIN, text()[:-20], text().replace(b"Job summary", b"Job\n").replace(b"      2 ", b"      x "),
        text("  Something new of rank 5\n"), text(warnings="NEWS\n  8 ranks\n"), text("#7-0 (00aa) INCOMPLETE\n"),
        text("#0-0 (00aa) ERROR\n  Rank 1 reported Cosmic ray -- [process information not found]\n"),
    ],
)  # fmt: skip
def test_text_that_is_not_known_is_not_understood(raw: bytes) -> None:
    with pytest.raises(ValueError, match="not understood"):
        status(raw)


LINES = st.sampled_from([line for raw in (LATE, WARNINGS, HEAD) for line in raw.splitlines()]) | st.text(max_size=30)


@given(st.lists(LINES, max_size=12).map("\n".join))
def test_any_text_is_read_or_refused(tail: str) -> None:
    try:
        news(Standing(), status(text(tail.encode("utf-8", "replace").decode(), tail)), T)
    except ValueError:
        return
