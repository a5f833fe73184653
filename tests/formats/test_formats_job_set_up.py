"""Jobs that do not start, transports, Ray and reports: what becomes a fact, and what must not."""

import pytest

from collectors.formats.log import read
from collectors.formats.reading import Tally
from sickbay.messages import Action, Blame, Event, Progress, Severity


def events(*lines: str) -> list[Event]:
    readings = read(["\n".join(lines).encode() + b"\n"], Tally())
    return [reading.record for reading in readings if isinstance(reading.record, Event)]


@pytest.mark.parametrize(
    "line",
    [
        "g1:100:205 [3] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
        "g1:100:205 [3] NCCL INFO [Service thread] Connection closed by localRank 3",
        "  Rank=3 Node=g1 Score=0.94",
        "  Rank=3 Node=g1 Score=1.00",
        "[W331 20:50:12.6 socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98)",
        "The loss is not nan yet",
        "the process is now DEAD",
        "    pid: 4411",
        "    ip: 192.0.2.8",
    ],
)
def test_noise_is_no_event(line: str) -> None:
    assert events(line) == []


def test_any_other_warning_of_the_library_is_told_and_judged_by_nobody() -> None:
    (found,) = events("g1:100:205 [3] proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x55a5")
    assert (found.kind, found.severity) == ("rank.collective_notice", Severity.INFO)


def test_a_setting_asks_for_a_repair_of_the_software() -> None:
    (found,) = events("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was "
                      "attempted on non supported HW")  # fmt: skip
    assert (found.blame, found.advice) == (Blame.APPLICATION, Action.FIX_SOFTWARE)


def test_ray_names_the_process_that_died_once() -> None:
    lines = ["ray.exceptions.ActorDiedError: The actor died.", "\tpid: 71", "\tip: 192.0.2.8", "\tpid: 72"]
    (found,) = events(*lines)
    assert found.component == "process:192.0.2.8/71"


def test_ranks_of_a_straggler_warning_are_those_in_its_brackets() -> None:
    found = events("STRAGGLER DETECTION WARNING: Some GPUs performance dropped. Affected ranks: [162, 79]")
    assert [one.component for one in found] == ["rank:?/162", "rank:?/79"]


def test_a_report_line_outside_a_report_is_no_fact() -> None:
    assert events("  Process 5511 on node 192.0.2.12 managing GPU 5") == []


def test_the_ranks_that_an_analysis_found_missing_are_absent() -> None:
    table = "INFO:__main__:PGID | Process Group Desc | Op Type | Size | Dtype | {missing_or_completed} Ranks"
    row = "INFO:__main__:38     | TENSOR_MODEL_PARALLEL_GROUP | nccl:all_reduce | 8192x1 | BFloat16 | 4,14"
    readings = list(read([f"{table}\n{row}\n".encode()], Tally()))
    absent = [reading.record for reading in readings if isinstance(reading.record, Progress)]
    assert [(one.rank, one.state, one.group) for one in absent] == [(4, "absent", "38"), (14, "absent", "38")]


def test_both_ends_of_a_fabric_error_are_named_where_both_are_told() -> None:
    head = "libfabric:5:1::efa:cq:handle_error():730<warn> err: 103, message: Unresponsive receiver "
    here, there = "My EFA addr: fi_addr_efa://[fe80::1]:0:18", "Peer EFA addr: fi_addr_efa://[fe80::9]:1:2"
    (found,) = events(f"{head}{here} {there}")
    assert found.component == "path:fe80::1~fe80::9"
