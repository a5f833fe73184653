"""Flight-recorder dumps: read once, when they are whole, and only what is new."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

from collectors.agent.source import Host
from collectors.host.job_recorder import MOST, MOST_BYTES, OLD_MS, SETTLED_MS, JobRecorder, collectors
from sickbay.settings import Agent

T = 1_773_200_000_000


def dump(seq: int = 70, state: str = "started") -> dict[str, Any]:
    entry = {
        "process_group": ["0", "default_pg"], "collective_seq_id": seq, "p2p_seq_id": 0, "pg_id": 0,
        "profiling_name": "nccl:all_reduce", "state": state, "input_sizes": [[4]], "output_sizes": [[4]],
        "time_created_ns": T * 1_000_000, "timeout_ms": 600_000, "is_p2p": False, "retired": False,
    }  # fmt: skip
    return {
        "version": "2.4",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "entries": [entry],
    }


def watched(root: Path, place: bytes | None = None) -> JobRecorder:
    settings = Agent(root=str(root), flight_recorders=("scratch/*/nccl_trace_rank_*",))
    (found,) = collectors(Host("n1", settings, places=lambda _: place))
    return found


def write(root: Path, rank: int, content: bytes, at_ms: int, folder: str = "job-4471") -> Path:
    path = root / "scratch" / folder / f"nccl_trace_rank_{rank}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, ns=(at_ms * 1_000_000, at_ms * 1_000_000))
    return path


def ranks(found: Any) -> list[tuple[int, int, str, str]]:
    return [(one.record.rank, one.record.seq, one.record.state, one.job) for one in found.seen]


def test_a_dump_is_read_once_when_it_has_settled(tmp_path: Path) -> None:
    source = watched(tmp_path)
    assert source.collect(T).seen == []
    whole = pickle.dumps(dump())
    write(tmp_path, 3, whole[: len(whole) // 2], T)
    assert source.collect(T + SETTLED_MS - 1).seen == []  # it still grows
    write(tmp_path, 3, whole, T + 2_000)
    assert source.collect(T + 2_500).seen == []
    found = source.collect(T + 2_000 + SETTLED_MS)
    assert ranks(found) == [(3, 70, "started", "4471")]
    assert source.collect(T + 60_000).seen == []
    write(tmp_path, 3, json.dumps(dump(90)).encode(), T + 61_000)  # the next dump of that rank
    later = source.collect(T + 70_000)
    assert ranks(later) == [(3, 90, "started", "4471")]
    assert watched(tmp_path, later.place).collect(T + 80_000).seen == []  # also by the next run


def test_old_dumps_are_of_other_times_and_many_are_read_in_turns(tmp_path: Path) -> None:
    write(tmp_path, 99, pickle.dumps(dump()), T - OLD_MS - 1, "job-1")
    for rank in range(MOST + 2):
        write(tmp_path, rank, pickle.dumps(dump()), T - 10_000 + rank)
    source = watched(tmp_path)
    first, second = source.collect(T), source.collect(T)
    assert (first.more, second.more) == (True, False)
    assert [one[0] for one in ranks(first) + ranks(second)] == list(range(MOST + 2))


class Bad:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/should-not-be",)


def test_what_is_no_dump_is_counted_and_nothing_in_it_is_run(tmp_path: Path) -> None:
    write(tmp_path, 0, pickle.dumps({"entries": [Bad()], "pg_config": {}}), T)
    write(tmp_path, 1, b"\x80", T)
    write(tmp_path, 2, b"not a dump", T)
    (tmp_path / "scratch" / "job-4471" / "nccl_trace_rank_7").mkdir()
    os.mkfifo(tmp_path / "scratch" / "job-4471" / "nccl_trace_rank_8")
    found = watched(tmp_path).collect(T + 9_000)
    assert found.seen == []
    assert found.lost >= 2
    assert "not understood" in found.lost_why
    assert not Path("/tmp/should-not-be").exists()


def test_a_dump_that_would_take_the_agent_s_memory_is_told_and_not_read(tmp_path: Path) -> None:
    source = watched(tmp_path)
    source.collect(T)
    large = write(tmp_path, 0, b"", T + 1_000)
    os.truncate(large, MOST_BYTES + 1)
    os.utime(large, ns=((T + 1_000) * 1_000_000,) * 2)
    for rank in (1, 2):
        write(tmp_path, rank, pickle.dumps(dump()), T + 1_000 + rank)
    found = source.collect(T + 10_000)
    assert (found.lost, found.more, "sickbay diagnose" in found.lost_why) == (1, True, True)
    assert [one[0] for one in ranks(source.collect(T + 11_000))] == [1, 2]
