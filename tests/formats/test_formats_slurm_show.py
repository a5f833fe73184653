"""`scontrol show`: nodes, jobs, switches; hostile names and reasons; any bytes."""

import random
from collections.abc import Iterable

import pytest

from collectors.formats.reading import Reading, Tally
from collectors.formats.slurm_show import confidence, read
from collectors.formats.slurm_topology import confidence as topology_confidence
from sickbay.actions import Control
from sickbay.clock import Clock
from sickbay.messages import Edge, Event, Placement

NODE = """NodeName={host} Arch=x86_64 CoresPerSocket=56
   CPUAlloc=0 CPUEfctv=224 CPUTot=224 CPULoad=0.31
   AvailableFeatures=(null)
   ActiveFeatures=(null)
   Gres=gpu:h100:8(S:0-1)
   NodeAddr={host} NodeHostName={host} Version=23.11.6
   OS=Linux 5.15.0-105-generic #115-Ubuntu SMP Mon Apr 15 09:52:04 UTC 2024
   RealMemory=2063000 AllocMem=0 FreeMem=2001923 Sockets=2 Boards=1
   State={state} ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=train
   BootTime=2025-03-01T08:12:45 SlurmdStartTime=2025-03-01T08:20:49
   LastBusyTime=2025-03-11T03:59:02 ResumeAfterTime=None
   CfgTRES=cpu=224,mem=2063000M,billing=224,gres/gpu=8
   AllocTRES=
   {reason}

"""
JOB = """JobId=4471 JobName={name}
   UserId=eve(1007) GroupId=eve(1007) MCS_label=N/A
   Priority=4294901000 Nice=0 Account=llm QOS=normal
   JobState={state} Reason=None Dependency=(null)
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode={exit}
   RunTime=02:10:11 TimeLimit=7-00:00:00 TimeMin=N/A
   SubmitTime=2025-03-11T01:00:00 EligibleTime=2025-03-11T01:00:00
   StartTime=2025-03-11T02:00:00 EndTime=2025-03-11T04:10:11 Deadline=N/A
   Partition=train AllocNode:Sid=login1:1234
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList={nodes}
   BatchHost=gx-n01
   NumNodes=2 NumCPUs=448 NumTasks=16 CPUs/Task=28 ReqB:S:C:T=0:0:*:*
   OverSubscribe=NO Contiguous=0 Licenses=(null) Network=(null)
   Command=/home/eve/run me.sh NodeList=gx-n99 JobState=NODE_FAIL
   WorkDir=/home/eve
   Comment=it was Reason=fine
"""


def run(text: str | bytes, tally: Tally | None = None) -> list[Reading]:
    data = text.encode() if isinstance(text, str) else text
    return list(read([data[:100], data[100:]], tally or Tally()))


def events(readings: Iterable[Reading]) -> list[tuple[str, str, str]]:
    return [(r.record.component, r.record.kind, r.record.code) for r in readings if isinstance(r.record, Event)]


def one_line(text: str) -> str:
    return " ".join(row.strip() for row in text.strip().split("\n")) + "\n"


def node(state: str, reason: str = "", host: str = "gx-n01") -> str:
    return NODE.format(host=host, state=state, reason=reason)


def job(state: str, nodes: str = "gx-n[01-02]", exit_code: str = "0:0", name: str = "train") -> str:
    return JOB.format(state=state, nodes=nodes, exit=exit_code, name=name)


FEWER = "Reason=gres/gpu count reported lower than configured (7 < 8) [slurm@2025-03-11T04:30:31]"
NONE = "Reason=gres/gpu count reported lower than configured (0 < 8) [slurm@2025-03-11T04:30:31]"


def test_an_idle_node_says_nothing_against_itself() -> None:
    for state in ("IDLE", "MIXED", "ALLOCATED", "MIXED-", "IDLE+PLANNED", "IDLE+CLOUD", "UNKNOWN"):
        assert run(node(state)) == []


def test_a_drained_idle_node_is_not_idle() -> None:
    found = run(node("IDLE+DRAIN", "Reason=swap optic, ticket a=b [alice@2025-03-11T04:30:31]"))
    assert events(found) == [("host:gx-n01", "scheduler.host_drained", "")]
    event = found[0].record
    assert isinstance(event, Event)
    assert event.attributes == {"reason": "swap optic, ticket a=b", "user": "alice", "state": "DRAIN+IDLE"}
    assert event.severity == "info"
    assert event.message == "NodeName=gx-n01 State=IDLE+DRAIN Reason=swap optic, ticket a=b [alice@2025-03-11T04:30:31]"
    assert (found[0].line, found[0].stamp.clock, found[0].host) == (15, Clock.NO_ZONE, "gx-n01")


def test_one_card_less_is_a_lost_card_and_none_at_all_is_configuration() -> None:
    assert events(run(node("IDLE+DRAIN", FEWER))) == [
        ("host:gx-n01", "scheduler.host_drained", ""),
        ("host:gx-n01", "scheduler.accelerators_fewer", "slurm gres count 7 < 8"),
    ]
    assert events(run(node("IDLE+DRAIN+INVALID_REG", NONE)))[1] == (
        "host:gx-n01",
        "scheduler.accelerators_none",
        "slurm gres count 0 < 8",
    )
    assert run(node("IDLE", FEWER)) == []  # an old reason on a node in service


def test_down_is_a_fault_unless_somebody_planned_it() -> None:
    assert events(run(node("DOWN*", "Reason=Not responding [slurm@2025-03-11T04:30:31]"))) == [
        ("host:gx-n01", "scheduler.host_down", "")
    ]
    assert events(run(node("IDLE*"))) == [("host:gx-n01", "scheduler.host_down", "")]
    for state in ("DOWN+MAINT", "DOWN$", "IDLE+MAINT+DRAIN", "DOWN^", "DOWN@+DRAIN", "DOWN~"):
        assert {kind for _, kind, _ in events(run(node(state)))} <= {"scheduler.host_drained"}, state
        assert events(run(node("IDLE+DRAIN+MAINT", FEWER))) == [("host:gx-n01", "scheduler.host_drained", "")]


def test_both_forms_say_the_same() -> None:
    text = (
        node("DOWN*+DRAIN", FEWER)
        + node("IDLE", host="gx-n02")
        + node("IDLE+DRAIN", "Reason=x State=IDLE [a@b]", "gx-n03")
    )
    rows = "".join(one_line(block) for block in text.split("\n\n") if block.strip())
    assert events(run(rows)) == events(run(text))
    assert len(events(run(text))) == 3
    whole, single = (
        run(job("FAILED", exit_code="0:9")),
        run(one_line(job("FAILED", exit_code="0:9")).partition(" Command=")[0]),
    )
    assert [r.record for r in whole if isinstance(r.record, Placement)] == [
        r.record for r in single if isinstance(r.record, Placement)
    ]
    assert events(whole) == events(single)


def test_a_job_becomes_a_placement_and_an_event() -> None:
    placed, failed = run(job("FAILED", exit_code="0:9"))
    assert placed.record == Placement(
        job="4471", attempt=2, hosts=("gx-n01", "gx-n02"), state="failed", user="eve", name="train", exclusive=True
    )
    assert placed.stamp.clock is Clock.NO_ZONE
    assert placed.until == failed.stamp
    assert events([failed]) == [("job:4471", "job.failed", "signal 9")]
    assert failed.stamp.ms - placed.stamp.ms == (2 * 3600 + 10 * 60 + 11) * 1000
    assert events(run(job("FAILED", exit_code="137:0"))) == [("job:4471", "job.failed", "exit 137")]
    assert len(run(job("RUNNING"))) == 1
    assert events(run(job("TIMEOUT"))) == [("job:4471", "job.time_limit", "slurm TIMEOUT")]
    assert events(run(job("OUT_OF_MEMORY"))) == [("job:4471", "job.out_of_memory", "slurm OUT_OF_MEMORY")]
    assert events(run(job("CANCELLED"))) == [("job:4471", "job.cancelled", "slurm CANCELLED")]


def test_a_failed_node_is_named_only_where_one_can_be_meant() -> None:
    assert events(run(job("NODE_FAIL"))) == [("job:4471", "job.host_lost", "slurm NODE_FAIL")]
    assert events(run(job("NODE_FAIL", nodes="gx-n07"))) == [
        ("job:4471", "job.node_failed", "slurm NODE_FAIL"),
        ("host:gx-n07", "scheduler.host_failed_job", "slurm NODE_FAIL"),
    ]
    named = job("NODE_FAIL").replace("   BatchHost=", "   FailedNode=gx-n02\n   BatchHost=")
    assert ("host:gx-n02", "scheduler.host_failed_job", "slurm NODE_FAIL") in events(run(named))


HOSTILE = [
    "x JobState=NODE_FAIL NodeList=gx-n99",
    "x UserId=root(0) JobState=NODE_FAIL NodeList=gx-n99 FailedNode=gx-n99",
    "x\n   JobState=NODE_FAIL\n   NodeList=gx-n99",
    "x FailedNode=gx-n99",
    "JobName= UserId= Command=",
    "NodeName=gx-n99 State=DOWN CPUTot=1",
]


def test_what_a_user_writes_accuses_nobody() -> None:
    for name in HOSTILE:
        for text in (job("FAILED", name=name), one_line(job("FAILED", name=name))):
            tally = Tally()
            found = run(text, tally)
            assert "gx-n99" not in repr([(r.record.component) for r in found if isinstance(r.record, Event)])
            assert not any("gx-n99" in r.record.hosts for r in found if isinstance(r.record, Placement))
            assert found or tally.unparsed


def test_switches_become_edges() -> None:
    (edge,) = run("SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gx-n01\n" + node("IDLE"))
    assert isinstance(edge.record, Edge)
    assert (edge.record.child, edge.record.parent) == ("host:gx-n01", "switch:leaf1")


def test_content_decides_what_it_is() -> None:
    assert confidence(node("IDLE").encode(), "x") > 0.9
    assert confidence(one_line(node("IDLE")).encode(), "x") > 0.9
    assert confidence(("$ scontrol show job\n" + job("FAILED")).encode(), "x") > 0.9
    assert (
        confidence(
            b"NodeName=gx-n[01-32] CPUs=224 Gres=gpu:8 State=DOWN\nPartitionName=train Nodes=ALL\n", "slurm.conf"
        )
        == 0
    )
    assert run("NodeName=gx-n[01-32] CPUs=224 Gres=gpu:8 State=DOWN\n") == []
    assert confidence(b"SwitchName=a Nodes=b\n", "x") == 0
    assert topology_confidence(node("IDLE").encode(), "x") == 0
    assert confidence(b"", "scontrol.txt") == confidence(b"\x00\xff" * 1000, "x") == 0


def test_a_damaged_record_is_counted_and_the_next_one_read() -> None:
    tally = Tally()
    found = run(job("F00").replace("4471", "1") + node("IDLE+DRAIN") + job("FAILED", nodes="gx-n["), tally)
    assert [kind for _, kind, _ in events(found)] == ["scheduler.host_drained", "job.failed"]
    assert tally.unparsed == 2
    endless = "JobId=1 JobName=x\n" + "   A=b\n" * 100_000
    assert run(endless, tally) == []
    assert tally.unparsed == 3


@pytest.mark.slow
def test_any_bytes_give_no_crash_and_no_foreign_name() -> None:
    rng = random.Random(11)
    texts = [
        (node("DOWN*+DRAIN", FEWER) + job("NODE_FAIL", nodes="gx-n07")).encode(),
        (one_line(node("IDLE+DRAIN", NONE)) + one_line(job("FAILED", exit_code="0:9"))).encode(),
    ]
    for turn in range(5_000):
        data = bytearray(texts[turn % 2])
        for _ in range(rng.randrange(1, 8)):
            at = rng.randrange(len(data))
            what = rng.randrange(4)
            if what == 0:
                data[at] = rng.randrange(256)
            elif what == 1:
                del data[at : at + rng.randrange(40)]
            elif what == 2:
                data[at:at] = rng.choice(
                    (b"\n", b"=", b" Reason=", b"JobState=FAILED ", b"\x1b[31m", b"\xff\xfe", b"\r")
                )
            else:
                data[at:at] = data[at : at + rng.randrange(60)]
        for reading in run(bytes(data)):
            if isinstance(reading.record, Event):
                assert reading.record.component.startswith(("host:", "job:"))
                assert len(reading.record.message) <= 500


def test_hostile_text_costs_linear_time() -> None:
    for unit in (" Reason=", "JobName=", " OS=", "A=", " [a@", "JobId=1 JobName=x JobState=FAILED "):
        run("JobId=1 JobName=x JobState=F " + unit * (2_000_000 // len(unit)))
        run("NodeName=x State=DOWN " + unit * (2_000_000 // len(unit)))
        confidence((unit * 65_536)[:65_536].encode(), "x")
    confidence(b"\n" * 65_536 + b" " * 65_536, "x")


def held(reason: str) -> list[str]:
    text = f"NodeName=gx-n07 Arch=x86_64\n   State=IDLE+DRAIN\n   Reason={reason} [root@2025-03-01T10:00:00]\n"
    return [kind for _, kind, _ in events(run(text))]


def test_trouble_that_took_a_node_out_is_told_and_work_on_it_is_not() -> None:
    assert "scheduler.host_condition" in held("NHC: nv_health: GPU 3 uncorrectable ECC")
    assert "scheduler.host_condition" in held("Kill task failed")
    assert held("firmware upgrade RT#1234") == ["scheduler.host_drained"]


def test_a_job_whose_host_did_not_boot_names_it() -> None:
    assert ("host:gx-n07", "scheduler.host_failed_job", "slurm BOOT_FAIL") in events(
        run(job("BOOT_FAIL", nodes="gx-n07"))
    )


RESERVATION = """ReservationName=row 3 StartTime=2025-03-11T02:00:00 EndTime=2025-03-11T08:00:00 Duration=06:00:00
   Nodes=gx-n[01-02] NodeCnt=2 CoreCnt=224 Features=(null) PartitionName=(null) Flags={flags}
   TRES=cpu=224
   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null)
   MaxStartDelay=(null)
"""


def test_a_reservation_for_maintenance_declares_work_and_no_other_does() -> None:
    text = RESERVATION.format(flags="MAINT,IGNORE_JOBS,SPEC_NODES")
    assert confidence(text.encode(), "x") >= 0.9
    found = [(one.record, one.stamp.clock, one.until.clock) for one in run(text)]
    told = [(record.target, record.by, record.kind) for record, _, _ in found if isinstance(record, Control)]
    by = "slurm reservation row 3"
    assert told == [("host:gx-n01", by, "maintenance"), ("host:gx-n02", by, "maintenance")]
    assert {clocks for _, *both in found for clocks in both} == {Clock.NO_ZONE}
    assert run(RESERVATION.format(flags="SPEC_NODES")) == []
