"""What kernels, schedulers and libraries print of a job: of its network, of its end."""

from simulator.moments import local
from simulator.parts.cluster import Card
from simulator.printing.lines import Printed, job, kernel


def segfault(at_ms: int, host: str, pid: int) -> Printed:
    """The kernel's word on a process that touched what is not its own."""
    text = (
        f"python3[{pid}]: segfault at 7f2c5c000018 ip 00007f31a06b21f4 sp 00007ffd1a4c7b90 error 4 in "
        "libtorch_cpu.so[7f319c000000+1a2b3000]"
    )
    return kernel(at_ms, host, text)


def time_limit(at_ms: int, job_id: str, host: str) -> Printed:
    """Slurm ends a job whose time is over."""
    stamp = local(at_ms).replace(" ", "T")
    text = f"slurmstepd: error: *** JOB {job_id} ON {host} CANCELLED AT {stamp} DUE TO TIME LIMIT ***"
    return job(at_ms, job_id, text)


def sockets(at_ms: int, job_id: str, card: Card) -> Printed:
    """NCCL found no RDMA device that it may use, and takes the management network."""
    text = f"{card.host}:48122:48577 [{card.index}] NCCL INFO NET/Socket : Using [0]bond0:{card.address}<0>"
    return job(at_ms, job_id, text)
