"""What switches, the scheduler and the storage client print, in their own wording."""

from collections.abc import Sequence

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
