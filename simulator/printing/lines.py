"""What the programs of the cluster print, in their own wording. Vendor text lives here and in `collectors` only."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from simulator.moments import glog, local
from simulator.parts.cluster import Card

Source = Literal["kernel", "job", "switch", "scheduler"]


@dataclass(frozen=True, slots=True)
class Printed:
    """One line of one program: the kernel of `host`, a switch named `host`, the scheduler, or job `job` (its log is one
    file, whoever prints)."""

    at_ms: int
    source: Source
    text: str
    host: str = ""
    job: str = ""
    dated: bool = field(default=False)  # the text carries its own time: no envelope needed
    speaker: str = "kernel"  # of a host's system log: the program, with its process id where it tells one


def kernel(at_ms: int, host: str, text: str) -> Printed:
    """A kernel line."""
    return Printed(at_ms, "kernel", text, host=host)


def job(at_ms: int, job_id: str, text: str) -> Printed:
    """A line of a job's log that carries its own stamp."""
    return Printed(at_ms, "job", text, job=job_id, dated=True)


def corrected_bus_error(at_ms: int, card: Card) -> Iterator[Printed]:
    """A corrected PCIe error of the card, reported by the port above it (kernel 5.x wording)."""
    for text in (
        f"pcieport {card.root_pci}: AER: Corrected error received: {card.pci}.0",
        f"nvidia {card.pci}.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        f"nvidia {card.pci}.0:   device [10de:2330] error status/mask=00000001/0000a000",
        f"nvidia {card.pci}.0:    [ 0] RxErr                  (First)",
    ):
        yield kernel(at_ms, card.host, text)


def xid(at_ms: int, card: Card, code: int, text: str, process: str = "") -> Printed:
    """An XID line (driver R550 and later: no process, no pid field)."""
    owner = f"pid={process.partition('/')[0]}, name={process.partition('/')[2]}, " if process else ""
    return kernel(at_ms, card.host, f"NVRM: Xid (PCI:{card.pci}): {code}, {owner}{text}")


def off_bus(at_ms: int, card: Card, *, coded: bool = True) -> Iterator[Printed]:
    """The card is gone: with the code, or in the text form without one."""
    if coded:
        yield xid(at_ms, card, 79, "GPU has fallen off the bus.")
    yield kernel(at_ms + 1, card.host, f"NVRM: GPU {card.pci}.0: GPU has fallen off the bus.")
    yield kernel(at_ms + 1, card.host, f"NVRM: GPU {card.pci}.0: GPU serial number is {card.serial}.")


def firmware_timeout(at_ms: int, card: Card) -> Printed:
    """The driver gave up waiting for the firmware: printed 45 s after it stopped answering."""
    text = (
        f"Timeout after 45s of waiting for RPC response from GPU{card.index} GSP! "
        "Expected function 76 (GSP_RM_CONTROL) sequence 812 (0x20802096 0x8)."
    )
    return xid(at_ms, card, 119, text, "2201/nv-hostengine")


def link(at_ms: int, card: Card, state: str) -> Printed:
    """`state` is Down or Up; an InfiniBand port is told by its RDMA device."""
    if card.fabric == "infiniband":
        word = "ACTIVE" if state == "Up" else "DOWN"
        return kernel(at_ms, card.host, f"infiniband {card.rdma}: Port: 1 Link {word}")
    return kernel(at_ms, card.host, f"mlx5_core {card.nic_pci} {card.interface}: Link {state.lower()}")


def killed_by_own_limit(at_ms: int, host: str, job_id: str, pid: int) -> Iterator[Printed]:
    """The kernel kills a process that went over its own group's memory limit."""
    group = f"/slurm/uid_1201/job_{job_id}"
    for text in (
        "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=984",
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job-{job_id},mems_allowed=0-1,oom_memcg={group},"
        f"task_memcg={group}/step_0,task=python3,pid={pid},uid=1201",
        f"Memory cgroup out of memory: Killed process {pid} (python3) total-vm:421888016kB, anon-rss:201330120kB, "
        "file-rss:1204kB, shmem-rss:0kB, UID:1201 pgtables:401232kB oom_score_adj:984",
    ):
        yield kernel(at_ms, host, text)


def killed_for_host(at_ms: int, host: str, pid: int) -> Iterator[Printed]:
    """The kernel kills a process because the whole host has no memory left."""
    for text in (
        "log_shipper invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",
        f"oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,"
        f"task_memcg=/system.slice/log_shipper.service,task=log_shipper,pid={pid},uid=0",
        f"Out of memory: Killed process {pid} (log_shipper) total-vm:1932735284kB, anon-rss:1907422912kB, "
        "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:3721232kB oom_score_adj:0",
    ):
        yield kernel(at_ms, host, text)


def corrected_memory(at_ms: int, host: str) -> Printed:
    """A corrected error of main memory."""
    return kernel(
        at_ms,
        host,
        "EDAC MC3: 1 CE memory read error on CPU_SrcID#0_MC#3_Chan#0_DIMM#0 (channel:0 slot:0 page:0x3f1c8 "
        "offset:0x2f40 grain:32 syndrome:0x0 -  err_code:0x0101:0x0091)",
    )


def watchdog(at_ms: int, job_id: str, rank: int, seq: int, op: str, timeout_s: int) -> Iterator[Printed]:
    """What a rank prints that has waited in a collective for its whole time-out. It is a victim."""
    head, limit = f"[rank{rank}]:[E{glog(at_ms)}", timeout_s * 1000
    for site, text in (
        (683, f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, "
         f"NumelIn=134217728, NumelOut=134217728, Timeout(ms)={limit}) ran for {limit + 37 + rank % 50} milliseconds "
         "before timing out."),
        (2271, f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: {seq} "
         f"PG status: last enqueued work: {seq + 4}, last completed work: {seq - 1}"),
    ):  # fmt: skip
        yield job(at_ms, job_id, f"{head} ProcessGroupNCCL.cpp:{site}] {text}")


def retry_exceeded(at_ms: int, job_id: str, here: Card, there: Card, status: int = 12) -> Printed:
    """A transport error in the job's log: status 12 is a peer that did not answer, 5 is a flush, its consequence."""
    word = "IBV_WC_RETRY_EXC_ERR" if status == 12 else "IBV_WC_WR_FLUSH_ERR"
    vendor = 129 if status == 12 else 249
    return job(
        at_ms,
        job_id,
        f"{here.host}:48122:48577 [{here.index}] NCCL WARN NET/IB : Got completion from peer {there.address}<44206> "
        f"with status={status}({word}) opcode=0 len=0 vendor err {vendor} (Send) "
        f"localGid ::ffff:{here.address} remoteGids::ffff:{there.address}",
    )


def exit_of(at_ms: int, job_id: str, local_rank: int, code: int, pid: int) -> Printed:
    """torchrun's word on a process that ended."""
    return job(
        at_ms,
        job_id,
        f"E{glog(at_ms, digits=6)} 47990 torch/distributed/elastic/multiprocessing/api.py:874] failed "
        f"(exitcode: {code}) local_rank: {local_rank} (pid: {pid}) of binary: /usr/bin/python3",
    )


def iteration(
    at_ms: int, job_id: str, step: int, duration_ms: float, loss: float, gradient: float = 1.0, batch: int = 2048
) -> Printed:  # fmt: skip
    """Megatron-LM's line after a step. `gradient`: its norm, of the usual; not a number where it is none."""
    wrong = int(gradient != gradient)
    teraflops = 412.3 * 5000 / max(duration_ms, 1.0)
    return job(
        at_ms,
        job_id,
        f" [{local(at_ms)}] iteration {step:8d}/  500000 | consumed samples: {step * batch:12d} | "
        f"elapsed time per iteration (ms): {duration_ms:.1f} | throughput per GPU (TFLOP/s/GPU): {teraflops:.1f} | "
        f"learning rate: 1.200000E-04 | global batch size: {batch:5d} | lm loss: {loss:.6E} | loss scale: 1.0 | "
        f"grad norm: {0.412 * gradient:.3f} | number of skipped iterations:   0 | "
        f"number of nan iterations:   {wrong} |",
    )


def checkpoint(at_ms: int, job_id: str, step: int, *, begins: bool) -> Printed:
    """Megatron-LM's lines around a checkpoint."""
    text = (
        f"saving checkpoint at iteration {step:7d} to /checkpoints/{job_id} in torch_dist format"
        if begins
        else f"  successfully saved checkpoint from iteration {step:7d} to /checkpoints/{job_id}"
    )
    return job(at_ms, job_id, text)


def evaluation(at_ms: int, job_id: str, step: int) -> Printed:
    """Megatron-LM's word after an evaluation."""
    text = f" validation loss at iteration {step} | lm loss value: 2.013412E+00 | lm loss PPL: 7.488E+00 |"
    return job(at_ms, job_id, text)


def cancelled(at_ms: int, job_id: str, host: str) -> Printed:
    """Slurm's word that somebody cancelled the job."""
    stamp = local(at_ms).replace(" ", "T")
    return job(at_ms, job_id, f"slurmstepd: error: *** JOB {job_id} ON {host} CANCELLED AT {stamp} ***")
