"""Processors and tasks that do not move: soft and hard lockups, stalls, tasks blocked for minutes.

A blocked task waits for something else; its stack tells for what, and the event is held until the stack has been read.
The kernel stops to print blocked tasks after ten: silence is not recovery.
"""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from collectors.formats.speaking import kernel_speaks, process, told
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Event

LITERALS = (
    "soft lockup - CPU#", "hard LOCKUP on cpu", "self-detected stall on CPU", "detected stalls on CPUs/tasks",
    "detected expedited stalls on", " blocked for more than ", " blocked in I/O wait for more than ",
    "hung_task_timeout_secs", "Call Trace:", "Call trace:", " state:D ",
)  # fmt: skip

_HOST = name(Kind.HOST, UNKNOWN)
_SOFT = re.compile(
    r"^(?:NMI )?(?:watchdog: )?BUG: soft lockup - CPU#(?P<cpu>\d{1,5}) stuck for (?P<stuck>\d{1,7})s! "
    r"\[(?P<name>.{1,32}?):(?P<pid>\d{1,10})\]"
)
_HARD = re.compile(
    r"^(?:NMI )?watchdog: (?:BUG: )?(?:CPU\d{1,5}: )?Watchdog detected hard LOCKUP on cpu (?P<cpu>\d{1,5})"
)
_STALL = re.compile(
    r"^(?:rcu: )?INFO: (?P<flavour>rcu_[a-z]{1,12}) "
    r"(?P<what>self-detected stall on CPU|detected (?:expedited )?stalls on CPUs/tasks)"
)
_STUCK = re.compile(
    r"^INFO: task (?P<name>.{1,32}?):(?P<pid>\d{1,10}) blocked(?: in I/O wait)? for more than "
    r"(?P<limit>\d{1,7}) seconds\."
)
_FRAME = re.compile(r"^(?:\[<[0-9a-f]{1,16}>\] )?\?? ?(?P<function>[A-Za-z_][\w.]{0,80})\+0x")
_WAITS_ON = (  # names of functions in the stack -> what the task waits for
    (re.compile(r"^(?:nvidia|nv_|uvm_|_nv\d|os_acquire_)"), "accelerator_driver"),
    (re.compile(r"^(?:amdgpu_|kfd_|kgd_)"), "accelerator_driver"),
    (re.compile(r"^(?:ptlrpc_|ll_|osc_|mdc_|lov_|ldlm_|cl_)"), "lustre"),
    (re.compile(r"^(?:nfs\d?_|rpc_wait_bit_killable|rpc_execute)"), "nfs"),
    (re.compile(r"^(?:ceph_|wait_caps)"), "ceph"),
    (re.compile(r"^(?:cxi|gpfs|mmfs|kx[A-Z])"), "gpfs"),
    (re.compile(r"^(?:xfs_|ext4_|jbd2_|blk_|nvme_|io_schedule|submit_bio_wait)"), "local_disk"),
    (re.compile(r"^(?:ib_|mlx5_|rdma_|uverbs_)"), "nic_driver"),
)
_STACK_HEADS = (
    "Call Trace:",
    "Call trace:",
    "task:",
    '"echo 0',
    "RIP: ",
    "RSP: ",
    "RAX: ",
    "RDX: ",
    "RBP: ",
    "R10: ",
    "R13: ",
    "ORIG_RAX",
)
_LOOK_S = 20  # kernel.watchdog_thresh twice: after so long a CPU is reported, and again after as long
_MOST_LOOKS = 100_000
_MAX_FRAMES = 60  # lines of a stack that are read


class GRAMMAR:
    """One event a report; a blocked task's with what its stack waits on."""

    def __init__(self) -> None:
        self._held: tuple[Event, Line] | None = None
        self._last = 0  # number of the last line of its stack

    def read(self, line: Line) -> Iterator[Record | tuple[Record, Line]]:
        """The reports that this line begins or ends."""
        if not kernel_speaks(line):
            return
        if self._held is not None and self._stack(line):
            return
        yield from self.end()
        if match := _STUCK.match(line.body):
            self._held, self._last = (_event("host.task_stuck", match, limit_s=match["limit"]), line), line.number
        elif match := _SOFT.match(line.body):
            event = _event("host.soft_lockup", match, cpu=match["cpu"], stuck_s=match["stuck"])
            yield replace(event, count=min(_MOST_LOOKS, max(1, int(match["stuck"]) // _LOOK_S)))
        elif match := _HARD.match(line.body):
            yield told("host.hard_lockup", _HOST, attributes={"cpu": match["cpu"]})
        elif match := _STALL.match(line.body):
            yield told("host.cpu_stall", _HOST, attributes={"flavour": match["flavour"]})

    def end(self) -> Iterator[tuple[Record, Line]]:
        """The blocked task whose stack was being read."""
        held, self._held = self._held, None
        if held is not None:
            yield held

    def _stack(self, line: Line) -> bool:
        """Whether the line still belongs to the held task: indented or headed like a stack, and without a gap."""
        text = line.body.strip()
        if self._held is None or line.number > self._last + 2 or line.number > self._held[1].number + _MAX_FRAMES:
            return False
        self._last = line.number
        event, first = self._held
        match = _FRAME.match(text)
        if match and "waits_on" not in event.attributes and (what := _waits_on(match["function"])) is not None:
            self._held = (replace(event, attributes=event.attributes | {"waits_on": what}), first)
        return line.body[0] in " \t" or text.startswith(_STACK_HEADS)


def _event(kind: str, match: re.Match[str], **attributes: str) -> Event:
    return told(kind, _HOST, process=process(match["name"], match["pid"]), attributes=attributes)


def _waits_on(function: str) -> str | None:
    return next((what for pattern, what in _WAITS_ON if pattern.match(function)), None)


def _expect(kind: str, **fields: object) -> tuple[dict[str, object], ...]:
    return ({"type": "event", "kind": kind, "component": "host:?", **fields},)


SAMPLES = (
    Sample(
        "watchdog: BUG: soft lockup - CPU#7 stuck for 226906s! [napi/eth0-11:2210]",
        _expect("host.soft_lockup", process="napi/eth0-11[2210]", count=11345),
    ),
    Sample(
        "watchdog: BUG: soft lockup - CPU#12 stuck for 26s! [loader thread:9120]",
        _expect("host.soft_lockup", process="loader thread[9120]", attributes={"cpu": "12", "stuck_s": "26"}),
    ),
    Sample(
        "NMI watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kworker/3:1:77]",
        _expect("host.soft_lockup", process="kworker/3:1[77]"),
    ),
    Sample("watchdog: Watchdog detected hard LOCKUP on cpu 88", _expect("host.hard_lockup", attributes={"cpu": "88"})),
    Sample(
        "watchdog: CPU88: Watchdog detected hard LOCKUP on cpu 88",
        _expect("host.hard_lockup", attributes={"cpu": "88"}),
    ),
    Sample(
        "rcu: INFO: rcu_sched self-detected stall on CPU",
        _expect("host.cpu_stall", attributes={"flavour": "rcu_sched"}),
    ),
    Sample("INFO: rcu_preempt detected stalls on CPUs/tasks:", _expect("host.cpu_stall")),
    Sample(
        "INFO: task trainer:5150 blocked for more than 122 seconds.\n"
        "      Tainted: P           OE      6.8.0-1021-acme #23\n"
        '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.\n'
        "task:trainer         state:D stack:    0 pid:5150 ppid: 5001 flags:0x00000004\n"
        "Call Trace:\n <TASK>\n __schedule+0x2d0/0x890\n uvm_va_space_destroy+0x4f/0x190 [nvidia_uvm]\n </TASK>",
        _expect(
            "host.task_stuck", process="trainer[5150]", attributes={"limit_s": "122", "waits_on": "accelerator_driver"}
        ),
    ),
    Sample(
        "INFO: task saver:610 blocked for more than 120 seconds.\nINFO: task saver:611 blocked for "
        "more than 120 seconds.",
        (*_expect("host.task_stuck", process="saver[610]"), *_expect("host.task_stuck", process="saver[611]")),
    ),
)
