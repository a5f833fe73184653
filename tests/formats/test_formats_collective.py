"""Collective libraries' lines: paths, ports, places of ranks; what must not become a fact."""

import pytest

from collectors.formats.bodies.collective import Collective
from collectors.formats.reading import Line, Record
from sickbay.messages import Blame, Event, Placement, Severity

INIT = (
    "n-0{host}:5{rank}:9 [{dev}] NCCL INFO ncclCommInitRank comm 0xa{rank} rank {rank} nranks {of} cudaDev {dev} "
    "busId {bus} - Init COMPLETE"
)
COMPLETION = "a1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.1<5> with "


def read(text: str) -> list[Record]:
    body = Collective()
    found = [record for number, line in enumerate(text.split("\n"), 1) for record in body.read(Line(line, number))]
    return found + [record for record, _ in body.end()]


def event(text: str) -> Event:
    (record,) = read(text)
    assert isinstance(record, Event)
    return record


def init(host: int, rank: int, of: int, bus: str = "1b000", prefix: str = "") -> str:
    return prefix + INIT.format(host=host, rank=rank, of=of, dev=rank % 8, bus=bus)


def test_both_ends_of_a_path_give_one_name() -> None:
    line = COMPLETION + "status=12 opcode=0 len=0 vendor err 129 localGid {} remoteGids{}"
    here, there = "::ffff:192.0.2.1", "::ffff:192.0.2.9"
    assert (
        event(line.format(here, there)).component
        == event(line.format(there, here)).component
        == "path:192.0.2.1~192.0.2.9"
    )


def test_garbage_of_a_flushed_completion_is_no_fact() -> None:
    found = event(COMPLETION + "status=5 opcode=32656 len=32659 vendor err 249 (Recv)")
    assert found.kind == "path.flushed"
    assert found.severity is Severity.INFO
    assert not {"opcode", "len"} & set(found.attributes)
    assert "32656" not in str(found.attributes)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (4, "rank.collective_error"), (9, "path.remote_error"), (10, "path.remote_error"), (11, "path.remote_error"),
        (12, "path.retry_exceeded"), (13, "path.receiver_not_ready"), (99, "rank.collective_error"),
    ],
)  # fmt: skip
def test_completion_codes_say_where_to_look(status: int, kind: str) -> None:
    assert (
        event(f"a1:1:2 [0] NCCL WARN NET/IBP: Got completion from peer b2<7> with status=X_ERR({status})").kind == kind
    )


def test_unspecified_addresses_are_none() -> None:
    found = event(COMPLETION + "status=12 opcode=0 len=0 vendor err 129 localGid :: remoteGids::")
    assert found.component == "path:10.0.0.1~a1"


def test_an_unknown_host_is_never_invented() -> None:
    found = event("NET/IB : mlx5_4:1 Got async event : port error")
    assert found.component == "port:?/mlx5_4/1"
    assert found.host == ""


def test_a_faster_speed_is_no_fault() -> None:
    assert (
        event("a1:1:2 [0] NCCL INFO NET/IB : mlx5_0:1 speed change detected: 100000 -> 400000 Mbps").kind
        == "port.config_notice"
    )
    assert read("a1:1:2 [0] NCCL INFO NET/IB : mlx5_0:1 speed change detected: 400000 -> 400000 Mbps") == []


@pytest.mark.parametrize(
    "line",
    [
        "a1:1:2 [0] NCCL WARN HINT: Got completion from peer b with status=12 means the peer is gone",
        "a1:1:2 [0] NCCL INFO transport/net.cc:1298 -> 6",
        "a1:1:2 [0] NCCL INFO Bootstrap : Using eth0:192.0.2.1<0>",
        "we discussed an illegal memory access last week",
        "# handle 'uncorrectable ECC error' in the retry loop",
    ],
)
def test_talk_is_no_evidence(line: str) -> None:
    assert read(line) == []


def test_places_are_those_of_the_widest_communicator() -> None:
    lines = [init(1, 0, 2), init(2, 1, 2), *(init(1 + rank // 2, rank, 4, f"{16 + rank:x}000") for rank in range(4))]
    (placement,) = read("\n".join(lines))
    assert isinstance(placement, Placement)
    assert [(place.rank, place.host, place.component) for place in placement.ranks] == [
        (0, "n-01", "accelerator:n-01/0000:10:00"),
        (1, "n-01", "accelerator:n-01/0000:11:00"),
        (2, "n-02", "accelerator:n-02/0000:12:00"),
        (3, "n-02", "accelerator:n-02/0000:13:00"),
    ]


def test_places_that_contradict_each_other_are_not_told() -> None:
    two_groups = [init(host, rank, 2, f"{16 + rank:x}000") for host in (1, 2) for rank in (0, 1)]
    assert read("\n".join(two_groups)) == []
    assert read(init(1, 3, 8, prefix="[rank11]:")) == []  # rank 11 of the job: a part of it only


def test_a_large_domain_number_is_kept() -> None:
    (placement,) = read(init(1, 0, 1, "9ab1c000"))
    assert isinstance(placement, Placement)
    assert placement.ranks[0].component == "accelerator:n-01/09ab:1c:00"


def test_device_errors_tell_whose_fault_they_usually_are() -> None:
    hardware = event("[rank4]: RuntimeError: CUDA error: uncorrectable ECC error encountered")
    program = event("[rank4]: RuntimeError: CUDA error: an illegal memory access was encountered")
    assert (hardware.component, hardware.blame, hardware.severity) == ("rank:?/4", Blame.HARDWARE, Severity.ERROR)
    assert (program.blame, program.severity) == (Blame.APPLICATION, Severity.WARNING)


def test_an_exception_that_repeats_a_failed_transfer_adds_nothing() -> None:
    own = COMPLETION + "status=12 opcode=0 len=0 vendor err 129 localGid ::ffff:192.0.2.1 remoteGids::ffff:192.0.2.9"
    again = "[rank3]: NET/IB : Got completion from peer 10.0.0.1<5> with status=12 opcode=0 len=0 vendor err 129"
    other = "[rank3]: NET/IB : Got completion from peer 10.0.0.7<5> with status=12 opcode=0 len=0 vendor err 129"
    assert len(read("\n".join([own, again, again]))) == 1
    assert len(read("\n".join([own, other]))) == 2
    assert event(again).component == "path:10.0.0.1~?"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Connect to 192.0.2.9<45678> failed : No route to host", "path.not_connected"),
        ("Call to connect to 192.0.2.9<45678> failed : Connection refused", "path.not_connected"),
        ("Net : Call to recv from 192.0.2.9<38777> failed : Connection reset by peer", "path.peer_closed"),
    ],
)
def test_sockets_of_the_bootstrap(text: str, kind: str) -> None:
    found = event(f"node2:331:402 [0] misc/socket.cc:57 NCCL WARN {text}")
    assert (found.kind, found.component) == (kind, "path:192.0.2.9~node2")


def test_out_of_device_memory_is_the_programs() -> None:
    for text in (
        "Cuda failure 2 'out of memory'",
        "RuntimeError: CUDA error: out of memory",
        "NPU out of memory. Tried",
    ):
        assert (event(text).kind, event(text).blame) == ("job.out_of_memory", Blame.APPLICATION)
