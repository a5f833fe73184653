"""Tables of squeue, sinfo and sacct: alignment, hostile names, JSON, any bytes."""

import json
import random
from collections.abc import Iterable

import pytest

from collectors.formats.reading import Reading, Tally
from collectors.formats.slurm_records import job_state, node_states
from collectors.formats.slurm_table import confidence, read
from sickbay.clock import Clock
from sickbay.messages import Event, Placement

SQUEUE = """             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
              4471     train llama ft      eve  R    2:10:11      2 gx-n[01-02]
              4472     train    bench      eve PD       0:00      4 (Nodes required are DOWN, DRAINED or reserved)
              4473     train    short      bob CG       0:12      1 gx-n07
        4480_[1-9]     train    array      bob PD       0:00      1 (Priority)
"""
SINFO = """PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
train*       up   infinite      2  drain gx-n[03-04]
train*       up   infinite      1  down* gx-n05
train*       up   infinite      1 drain* gx-n06
train*       up   infinite      1  maint gx-n08
train*       up   infinite     24   idle gx-n[10-33]
debug        up   infinite      1  down* gx-n05
"""
SINFO_R = """REASON               USER      TIMESTAMP           NODELIST
gres/gpu count repor slurm     2025-03-11T04:30:31 gx-n03
swap optic leaf 7    alice     2025-03-11T05:00:00 gx-n[04,06]
Not responding       slurm     2025-03-11T05:10:00 gx-n05
"""
SACCT = """JobID           JobName  Partition    Account  AllocCPUS      State ExitCode        NodeList
------------ ---------- ---------- ---------- ---------- ---------- -------- ---------------
4471           llama ft      train        llm        448  NODE_FAIL      0:0          gx-n07
4471.batch        batch                   llm        224  CANCELLED     0:15          gx-n07
4472              bench      train        llm        448 OUT_OF_ME+    0:125          gx-n08
4473              bench      train        llm        448  COMPLETED      0:0   gx-n[01-02,0+
"""
PIPES = """JobID|JobName|State|ExitCode|NodeList|Start|End
901|bash|FAILED|0:9|gx-n01|2025-03-11T02:00:00|2025-03-11T04:10:11
901.0|bash|FAILED|0:9|gx-n01|2025-03-11T02:00:00|2025-03-11T04:10:11
902|a|b|c|CANCELLED by 1001|0:0|gx-n02|2025-03-11T02:00:00|Unknown
903|sweep
lr=3e-4
|FAILED|6:0|gx-n03|2025-03-11T02:00:00|2025-03-11T04:10:11
904|eval|NODE_FAIL|0:0|gx-n04|2025-03-11T02:00:00|2025-03-11T04:10:11
"""


def run(text: str | bytes, tally: Tally | None = None) -> list[Reading]:
    data = text.encode() if isinstance(text, str) else text
    return list(read([data[:70], data[70:]], tally or Tally()))


def events(readings: Iterable[Reading]) -> list[tuple[str, str, str]]:
    return [(r.record.component, r.record.kind, r.record.code) for r in readings if isinstance(r.record, Event)]


def placed(readings: Iterable[Reading]) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {r.record.job: (r.record.state, r.record.hosts) for r in readings if isinstance(r.record, Placement)}


def test_squeue() -> None:
    tally = Tally()
    found = run(SQUEUE, tally)
    assert placed(found) == {
        "4471": ("running", ("gx-n01", "gx-n02")),
        "4472": ("pending", ()),
        "4473": ("completing", ("gx-n07",)),
    }
    assert events(found) == []
    assert tally.unparsed == 0
    assert [r.record.name for r in found if isinstance(r.record, Placement)] == ["llama ft", "bench", "short"]


def test_a_job_that_waits_may_have_no_last_cell() -> None:
    tally = Tally()
    text = """  JOBID NAME USER STATE NODELIST
   4471 a eve RUNNING gx-n01
   4472 b eve PENDING
   4473 my job r PENDING
   4474 c r
"""
    assert placed(run(text, tally)) == {"4471": ("running", ("gx-n01",)), "4472": ("pending", ())}
    assert tally.unparsed == 2


def test_sinfo() -> None:
    tally = Tally()
    assert events(run(SINFO, tally)) == [
        ("host:gx-n03", "scheduler.host_drained", ""),
        ("host:gx-n04", "scheduler.host_drained", ""),
        ("host:gx-n05", "scheduler.host_down", ""),
        ("host:gx-n06", "scheduler.host_down", ""),
    ]
    assert tally.unparsed == 0


def test_sinfo_reasons() -> None:
    found = run(SINFO_R)
    assert events(found) == [
        ("host:gx-n03", "scheduler.host_drained", ""),
        ("host:gx-n04", "scheduler.host_drained", ""),
        ("host:gx-n06", "scheduler.host_drained", ""),
        ("host:gx-n05", "scheduler.host_down", ""),
    ]
    event = found[1].record
    assert isinstance(event, Event)
    assert event.attributes["reason"] == "swap optic leaf 7"
    assert event.attributes["user"] == "alice"
    assert found[1].stamp.clock is Clock.NO_ZONE


def test_sinfo_by_node() -> None:
    text = """Tue Mar 11 05:20:00 2025
NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON
gx-n01         1    train*        idle 224   2:56:2 2063000       0      1   (null) none
gx-n03         1    train*     drained 224   2:56:2 2063000       0      1   (null) REASON
""".replace("(null) REASON", "(null) gres/gpu count reported lower than configured (7 < 8)")
    assert events(run(text)) == [
        ("host:gx-n03", "scheduler.host_drained", ""),
        ("host:gx-n03", "scheduler.accelerators_fewer", "slurm gres count 7 < 8"),
    ]


def test_aligned_sacct_goes_by_its_rule() -> None:
    tally = Tally()
    found = run(SACCT, tally)
    assert events(found) == [
        ("job:4471", "job.node_failed", "slurm NODE_FAIL"),
        ("host:gx-n07", "scheduler.host_failed_job", "slurm NODE_FAIL"),
        ("job:4472", "job.out_of_memory", "slurm OUT_OF_MEMORY"),
        ("job:4473", "job.completed", "slurm COMPLETED"),
    ]
    assert placed(found)["4473"] == ("completed", ())  # its hosts were cut
    assert tally.unparsed == 1


def test_pipes_with_line_ends_and_pipes_in_names() -> None:
    tally = Tally()
    found = run(PIPES, tally)
    assert events(found) == [
        ("job:901", "job.failed", "signal 9"),
        ("job:902", "job.cancelled", "slurm CANCELLED"),
        ("job:903", "job.failed", "exit 6"),
        ("job:904", "job.node_failed", "slurm NODE_FAIL"),
        ("host:gx-n04", "scheduler.host_failed_job", "slurm NODE_FAIL"),
    ]
    assert placed(found)["903"] == ("failed", ("gx-n03",))
    assert tally.unparsed == 0
    assert events(run("\n".join(f"{row}|" for row in PIPES.splitlines()))) != []
    assert events(run(PIPES.encode().replace(b"sweep", b"sw\xff\xfe\x00ep"))) == events(found)


def test_a_name_cannot_accuse_a_host() -> None:
    for name in (
        "x|NODE_FAIL|0:0|gx-n99|2025-03-11T02:00:00|2025-03-11T04:10:11\ny",
        "x\n999|y|NODE_FAIL|0:0|gx-n99|a|b",
        "x\n999|y|NODE_FAIL|0:0|gx-n99|a|b\n1000|z",
        "x\n|NODE_FAIL|0:0|gx-n99",
        "NODE_FAIL|0:0|gx-n99",
    ):
        found = run(PIPES.replace("|eval|NODE_FAIL", f"|{name}|FAILED"))
        assert not any("gx-n99" in component for component, _, _ in events(found)), name
        assert ("failed", ("gx-n04",)) in placed(found).values()


def test_a_broken_row_costs_only_itself() -> None:
    tally = Tally()
    found = run(PIPES.replace("|FAILED|0:9|gx-n01|2025-03-11T02:00:00|2025-03-11T04:10:11\n901.0", "\n901.0"), tally)
    assert [component for component, _, _ in events(found)] == ["job:902", "job:903", "job:904", "host:gx-n04"]
    assert tally.unparsed == 1
    assert events(run(PIPES + "(5 rows)\n$ \n")) == events(run(PIPES))


def test_attempts_of_one_job_stay_apart() -> None:
    text = "JobID|JobName|State|NodeList\n7|a|NODE_FAIL|gx-n01\n7|a|COMPLETED|gx-n02\n"
    found = [(r.record.attempt, r.record.hosts) for r in run(text) if isinstance(r.record, Placement)]
    assert found == [(0, ("gx-n01",)), (1, ("gx-n02",))]


JOBS = {
    "meta": {"slurm": {"version": {"major": "23"}}},
    "jobs": [
        {
            "job_id": 4471,
            "name": "llama|\nft",
            "job_state": ["NODE_FAIL"],
            "nodes": "gx-n[01-02]",
            "failed_node": "gx-n02",
            "restart_cnt": 1,
            "start_time": {"set": True, "infinite": False, "number": 1741651200},
            "end_time": {"set": True, "infinite": False, "number": 1741659000},
            "exit_code": {"return_code": {"set": True, "number": 0}, "signal": {"id": {"set": True, "number": 9}}},
            "user_name": "eve",
        },
        {
            "job_id": 4472,
            "state": {"current": ["FAILED"], "reason": "None"},
            "nodes": "None assigned",
            "time": {"start": 1741651200, "end": 1741659000},
            "exit_code": {"return_code": 1, "signal": {"signal_id": 0, "name": ""}},
        },
        "odd",
        {"job_id": -1},
    ],
}
NODES = {
    "meta": {"Slurm": {}, "slurm": {}},
    "nodes": [
        {
            "name": "gx-n03",
            "state": ["IDLE", "DRAIN"],
            "reason": "gres/gpu count reported lower than configured (0 < 8)",
            "reason_set_by_user": "slurm",
            "reason_changed_at": {"set": True, "number": 1741651200},
        },
        {"name": "gx-n04", "state": "idle"},
    ],
    "sinfo": [
        {"node": {"state": ["DOWN"]}, "nodes": {"nodes": ["gx-n05", "gx-n06"]}, "reason": {"description": "power"}}
    ],
}


def test_json_of_jobs() -> None:
    tally = Tally()
    text = json.dumps(JOBS)
    found = run(text, tally)
    assert confidence(text.encode(), "x") == 0.9
    first = found[0].record
    assert isinstance(first, Placement)
    assert (first.attempt, first.hosts, first.from_ms, first.to_ms) == (
        1,
        ("gx-n01", "gx-n02"),
        1741651200000,
        1741659000000,
    )
    assert events(found) == [
        ("job:4471", "job.node_failed", "slurm NODE_FAIL"),
        ("host:gx-n02", "scheduler.host_failed_job", "slurm NODE_FAIL"),
        ("job:4472", "job.failed", "exit 1"),
    ]
    assert tally.unparsed == 2


def test_json_of_nodes() -> None:
    found = run(json.dumps(NODES))
    assert events(found) == [
        ("host:gx-n03", "scheduler.host_drained", ""),
        ("host:gx-n03", "scheduler.accelerators_none", "slurm gres count 0 < 8"),
        ("host:gx-n05", "scheduler.host_down", ""),
        ("host:gx-n06", "scheduler.host_down", ""),
    ]
    event = found[0].record
    assert isinstance(event, Event)
    assert event.at_ms == 1741651200000


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("NF", "NODE_FAIL"),
        ("CANCELLED by 1001", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("COMP+", ""),
        ("C+", ""),
        ("nonsense", ""),
        ("", ""),
    ],
)
def test_job_states(text: str, state: str) -> None:
    assert job_state(text) == state


def test_node_states() -> None:
    assert node_states("IDLE+DRAIN") == {"IDLE", "DRAIN"}
    assert node_states("DOWN*+DRAIN") == {"DOWN", "DRAIN", "NOT_RESPONDING"}
    assert node_states("drng@") == {"DRAIN", "REBOOT_REQUESTED"}
    assert node_states("mix-") == {"MIXED", "PLANNED"}
    assert node_states("idle~") == {"IDLE", "POWERED_DOWN"}
    assert node_states("n/a") == node_states("") == frozenset()


def test_content_decides_what_it_is() -> None:
    for text in (SQUEUE, SINFO, SINFO_R, SACCT, PIPES):
        assert confidence(text.encode(), "x") == 0.95
    for other in (
        b"",
        b"kernel: NVRM: Xid\n" * 20,
        b"a|b|c\n1|2|3\n",
        b'{"nodes": [], "hostname": "x"}',
        b"\xff" * 999,
    ):
        assert confidence(other, "sacct.txt") == 0
    assert run(b"") == run("\n") == run("{") == run("[]") == run('{"jobs": 3}') == []


@pytest.mark.slow
def test_any_bytes_give_no_crash() -> None:
    rng = random.Random(13)
    texts = [text.encode() for text in (SQUEUE, SINFO, SACCT, PIPES, SINFO_R, json.dumps(JOBS), json.dumps(NODES))]
    for turn in range(7_000):
        data = bytearray(texts[turn % len(texts)])
        for _ in range(rng.randrange(1, 8)):
            at = rng.randrange(len(data))
            what = rng.randrange(4)
            if what == 0:
                data[at] = rng.randrange(256)
            elif what == 1:
                del data[at : at + rng.randrange(40)]
            elif what == 2:
                data[at:at] = rng.choice((b"\n", b"|", b" ", b"JOBID NAME STATE NODELIST\n", b"\x1b[31m", b"\r", b"["))
            else:
                data[at:at] = data[at : at + rng.randrange(60)]
        for reading in run(bytes(data)):
            if isinstance(reading.record, Event):
                assert reading.record.component.startswith(("host:", "job:"))


@pytest.mark.slow
def test_hostile_tables_cost_linear_time_and_bounded_memory() -> None:
    head = "JobID|JobName|State|NodeList\n"
    for unit in ("1|a\n", "x\n", "|", "1|a|FAILED|gx-n01\n", "- ", "CANCELLED by "):
        run(head + unit * (300_000 // len(unit)))
        run(SQUEUE + unit * (300_000 // len(unit)))
        confidence((unit * 65_536)[:65_536].encode(), "x")
    run('{"jobs": [' + "[" * 500_000)
    run('{"jobs": [' + '{"job_id": ' * 100_000)
