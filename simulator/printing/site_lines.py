"""What switches, the scheduler and the storage client print, in their own wording."""

from collections.abc import Iterator, Sequence

from simulator.moments import moment
from simulator.printing.lines import Printed, kernel


def switch_link(at_ms: int, switch: str, port: str, state: str) -> Printed:
    """SONiC's word on a port: `state` is up or down."""
    before = "up" if state == "down" else "down"
    when = moment(at_ms)
    text = (
        f"{when:%b} {when.day:2d} {when:%H:%M:%S}.{when.microsecond:06d} {switch} NOTICE swss#orchagent: "
        f":- updatePortOperStatus: Port {port} oper state set from {before} to {state}"
    )
    return Printed(at_ms, "switch", text, host=switch, dated=True)


def not_responding(at_ms: int, hosts: Sequence[str]) -> Printed:
    """slurmctld gives up on hosts."""
    stamp = moment(at_ms).strftime("%Y-%m-%dT%H:%M:%S.000")
    return Printed(
        at_ms, "scheduler", f"[{stamp}] error: Nodes {','.join(hosts)} not responding, setting DOWN", dated=True
    )


def no_answer(at_ms: int, hosts: Sequence[str]) -> Printed:
    """slurmctld got no answer from hosts, and waits."""
    stamp = moment(at_ms).strftime("%Y-%m-%dT%H:%M:%S.000")
    return Printed(at_ms, "scheduler", f"[{stamp}] error: Nodes {','.join(hosts)} not responding", dated=True)


def storage_slow(at_ms: int, host: str, target: str) -> Printed:
    """A Lustre client whose request to a metadata server went unanswered."""
    return kernel(
        at_ms,
        host,
        f"Lustre: 3127:0:(client.c:2289:ptlrpc_expire_one_request()) @@@ Request sent has timed out for slow reply: "
        f"[sent {at_ms // 1000 - 8}/real {at_ms // 1000 - 8}]  req@00000000c2b1f1d4 x1771/t0(0) "
        f"o36->{target}-mdc-ffff8a1f3c2d1000@10.9.0.12@tcp:12/10 lens 488/4528 e 0 to 1 dl {at_ms // 1000} ref 2",
    )


def task_stuck(at_ms: int, host: str, pid: int) -> Printed:
    """The kernel's word on a task that waits for storage."""
    return kernel(at_ms, host, f"INFO: task python3:{pid} blocked for more than 122 seconds.")


def _client(target: str) -> str:
    """Lustre's name of the client's own side of a target."""
    return f"{target}-{'osc' if '-OST' in target else 'mdc'}-ffff8a1f3c2d1000"


def target_slow(at_ms: int, host: str, target: str) -> Printed:
    """A Lustre client whose write to a target went unanswered for its time."""
    return kernel(
        at_ms,
        host,
        f"Lustre: 3129:0:(client.c:2289:ptlrpc_expire_one_request()) @@@ Request sent has timed out for slow reply: "
        f"[sent {at_ms // 1000 - 44}/real {at_ms // 1000 - 44}]  req@00000000a771c09e x1793/t0(0) "
        f"o4->{_client(target)}@10.9.0.31@tcp:6/4 lens 488/448 e 2 to 1 dl {at_ms // 1000} ref 2",
    )


def storage_lost(at_ms: int, host: str, target: str) -> Printed:
    """A Lustre client that lost its server, as when another takes over."""
    return kernel(
        at_ms,
        host,
        f"Lustre: {_client(target)}: Connection to {target} (at 10.9.0.12@tcp) was lost; in progress operations using "
        "this service will wait for recovery to complete",
    )


def storage_back(at_ms: int, host: str, target: str) -> Printed:
    """The same client, with its server's twin."""
    return kernel(
        at_ms, host, f"Lustre: {_client(target)}: Connection restored to {target} (at 10.9.0.13@tcp)"
    )  # fmt: skip


def evicted(at_ms: int, host: str, target: str) -> Iterator[Printed]:
    """A Lustre client that its server threw out: what it had not written is lost."""
    yield storage_lost(at_ms, host, target)
    yield kernel(
        at_ms + 180,
        host,
        f"LustreError: 167-0: {_client(target)}: This client was evicted by {target}; in progress operations using "
        "this service will fail.",
    )


def filer_silent(at_ms: int, host: str, server: str) -> Printed:
    """An NFS client whose server does not answer."""
    return kernel(at_ms, host, f"nfs: server {server} not responding, still trying")


def filer_answers(at_ms: int, host: str, server: str) -> Printed:
    """The same server, back."""
    return kernel(at_ms, host, f"nfs: server {server} OK")


def node_failed(at_ms: int, job_id: str, host: str) -> Printed:
    """Slurm ends a job of which it holds a node for lost."""
    stamp = moment(at_ms).strftime("%Y-%m-%dT%H:%M:%S")
    text = f"slurmstepd: error: *** JOB {job_id} ON {host} CANCELLED AT {stamp} DUE TO NODE FAILURE, SEE SLURMCTLD LOG"
    return Printed(at_ms, "job", f"{text} FOR DETAILS ***", job=job_id, dated=True)


def fewer_cards(at_ms: int, host: str, has: int, should: int) -> Printed:
    """slurmctld counts fewer accelerators than its own file says."""
    stamp = moment(at_ms).strftime("%Y-%m-%dT%H:%M:%S.000")
    text = f"Setting node {host} state to INVAL with reason:gres/gpu count reported lower than configured"
    return Printed(at_ms, "scheduler", f"[{stamp}] error: {text} ({has} < {should})", dated=True)


def prolog_failed(at_ms: int, host: str) -> Printed:
    """slurmctld takes a host out because its prolog failed."""
    stamp = moment(at_ms).strftime("%Y-%m-%dT%H:%M:%S.000")
    text = f"validate_node_specs: Prolog or job env setup failure on node {host}, draining the node"
    return Printed(at_ms, "scheduler", f"[{stamp}] error: {text}", dated=True)
