"""Watchdog lines: who waited where; cut and torn lines; teardown noise."""

from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.bodies.watchdog import Watchdog
from collectors.formats.reading import Line, Record
from sickbay.messages import Event, Progress, Severity

CAUGHT = (
    "[rank{rank}]:[E712 01:02:03.408271257 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, "
    "Timeout(ms)=600000) ran for 600060 milliseconds before timing out."
)
STATUS = (
    "[rank{rank}]:[E712 01:02:03.5 ProcessGroupNCCL.cpp:1664] [PG 1 Rank {rank}] Exception (either an error or "
    "timeout) detected by watchdog at work: {seq}, last enqueued NCCL work: {enqueued}, "
    "last completed NCCL work: {completed}"
)


def read(*lines: str) -> list[Record]:
    body = Watchdog()
    return [record for number, line in enumerate(lines, 1) for record in body.read(Line(line, number))]


def progress(*lines: str) -> list[Progress]:
    return [record for record in read(*lines) if isinstance(record, Progress)]


def test_a_status_line_is_completed_by_the_time_out_of_the_same_rank() -> None:
    status = STATUS.format(rank=5, seq=77, enqueued=79, completed=76)
    (_, last) = progress(CAUGHT.format(rank=5, seq=77), status)
    assert (last.group, last.op, last.size, last.timeout_ms) == ("1", "ALLREDUCE", "4096/4096", 600_000)
    assert (last.last_enqueued, last.last_completed) == (79, 76)
    (other,) = progress(STATUS.format(rank=6, seq=77, enqueued=79, completed=76))
    assert (other.rank, other.op, other.state) == (6, "", "waiting")


@given(st.integers(min_value=1, max_value=len(CAUGHT)))
def test_a_cut_line_never_tells_a_wrong_number(at: int) -> None:
    cut = CAUGHT.format(rank=5, seq=1580)[:at]
    for record in progress(cut):
        assert record.rank == 5
        assert record.seq in (-1, 1580)
        assert record.timeout_ms in (None, 600_000)
        assert record.size in ("", "4096/4096")
        assert record.state == "waiting"


@given(st.integers(min_value=1, max_value=250))
def test_a_cut_status_line_never_tells_a_rank_further_behind(at: int) -> None:
    cut = STATUS.format(rank=5, seq=1580, enqueued=1582, completed=1579)[:at]
    for record in progress(cut):
        assert record.seq in (-1, 1580)
        assert record.last_enqueued in (-1, 1582)
        assert record.last_completed in (-1, 1579)


def test_the_launcher_rank_outranks_the_one_counted_within_a_group() -> None:
    (record,) = progress(
        "[rank44]:[E712 01:02:03 ProcessGroupNCCL.cpp:2271] [PG ID 2 PG GUID 9(TENSOR_MODEL_PARALLEL_GROUP) Rank 4]  "
        "failure detected by watchdog at work sequence id: 10 PG status: last enqueued work: 12, last completed work: 9"
    )
    assert (record.rank, record.group, record.group_name) == (44, "9", "TENSOR_MODEL_PARALLEL_GROUP")


def test_two_writers_torn_into_one_line_are_both_heard() -> None:
    both = CAUGHT.format(rank=1, seq=9) + CAUGHT.format(rank=2, seq=9)
    assert [record.rank for record in progress(both)] == [1, 2]


def test_other_libraries_fields() -> None:
    (record,) = progress(
        "[Rank 3] Watchdog caught collective operation timeout: WorkCNCL(SeqNum=4, c10d::OpType=ALLGATHER, "
        "TensorShape=[2, 8], Timeout(ms)=1800000) ran for 1800011 milliseconds before timing out."
    )
    assert (record.op, record.size, record.timeout_ms) == ("ALLGATHER", "[2, 8]", 1_800_000)


def test_teardown_is_information_only() -> None:
    found = read(
        "[rank7]:[E712 01:02:03 ProcessGroupNCCL.cpp:695] [Rank 7] To avoid data inconsistency, we are taking the "
        "entire process down.",
        "[rank8]:[F712 01:02:03 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 8] Terminating the process "
        "after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.",
        "[rank8]:[E712 01:02:03 ProcessGroupNCCL.cpp:667] Stack trace of the failed collective not found, potentially "
        "because FlightRecorder is disabled.",
    )
    assert [type(record) for record in found] == [Event, Event]
    assert all(isinstance(record, Event) and record.severity is Severity.INFO for record in found)


def test_ranks_that_a_report_names() -> None:
    absent = progress("     [0, 3] finished collective #41, but didn't join collective #42 (count from 1)")
    assert [(record.rank, record.seq, record.state, record.last_enqueued) for record in absent] == [
        (0, 42, "absent", 41),
        (3, 42, "absent", 41),
    ]
    barrier = progress("[Rank 0]: Ranks 2, 5 failed to pass monitoredBarrier in 30000 ms")
    assert [(record.rank, record.state, record.timeout_ms) for record in barrier] == [
        (2, "absent", 30_000),
        (5, "absent", 30_000),
    ]
    assert (
        progress("ranks [6] are the lagging ranks that caused this timeout. They never joined any collectives")[0].rank
        == 6
    )
