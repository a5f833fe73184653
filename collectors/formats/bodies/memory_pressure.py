"""The kernel's out-of-memory killer: whose limit was hit decides whom it concerns.

`CONSTRAINT_MEMCG` is a group's own limit: a job's (the application's matter), a service's or a monitoring pod's
(nobody's but theirs). No constraint, or that of a memory node, means that the host ran out. Who was killed is told
apart from who was to blame: a daemon may fall for a job's appetite.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator

from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from collectors.formats.speaking import kernel_speaks, process, told
from sickbay.components import UNKNOWN, Kind, name

LITERALS = (
    "oom-kill:constraint=",
    "emory cgroup out of memory",
    "Out of memory: Kill",
    "Out of memory and no",
    "killed as a result of limit of",
)

_KILL = re.compile(
    r"^oom-kill:constraint=(?P<constraint>CONSTRAINT_[A-Z_]{3,20}),(?P<rest>.{0,3000}),task="
    r"(?P<name>.{0,32}?),pid=(?P<pid>\d{1,10}),uid="
)
_LIMIT = re.compile(r"(?:^|,)oom_memcg=(?P<path>[^,]{1,1000})")
_TASK_GROUP = re.compile(r"(?:^|,)task_memcg=(?P<path>[^,]{1,1000})")
_KILLED = re.compile(
    r"^(?P<who>Memory cgroup out of memory|Out of memory)(?: \([a-z_ ]{1,40}\))?: Kill(?:ed)? process "
    r"(?P<pid>\d{1,10}) \((?P<name>.{0,32}?)\)"
    r"(?:,? total-vm:(?P<virtual>\d{1,15})kB, anon-rss:(?P<resident>\d{1,15})kB)?"
)
_RESULT_OF = re.compile(r"^Task in (?P<task>/\S{0,1000}) killed as a result of limit of (?P<limit>/\S{0,1000})")
_NOTHING_LEFT = re.compile(r"^Out of memory and no killable processes")
_JOB = re.compile(r"/job_?(\d{1,12})(?=[/_.]|$)")
# Programs that a cluster needs on a host: when one of them dies, the scheduler or we go blind. Names as the kernel
# cuts them, at 15 characters.
_DAEMONS = re.compile(
    r"^(?:slurm(?:d|stepd|ctld)|munged|kubelet|containerd(?:-shim.*)?|dockerd|crio|sshd|systemd(?:-.*)?|sickbay.*"
    r"|init|chronyd|ntpd|nv-hostengine|nvidia-persiste.*|nv-fabricmanage.*|dcgm-exporter|node_exporter|nvsm.*"
    r"|rasdaemon|rsyslogd|NetworkManager|opensm|sssd)$"
)
# Without these the scheduler loses the host, whoever set the limit.
_NEEDED = re.compile(r"^(?:slurmd|kubelet|containerd|dockerd|crio|munged|systemd|init)$")
# A pod is a job's only where what it runs is a program of a job: log shippers and exporters live in pods, too.
_PROGRAMS = re.compile(
    r"^(?:python|pt_|torch|ray\b|ray::|mpi|orted|prted|java|julia)|train|deepspeed|megatron|accelerate"
)
_REMEMBERED = 64


class GRAMMAR:
    """One event a kill: `job.out_of_memory` for a group's limit, `host.out_of_memory` for the whole host."""

    def __init__(self) -> None:
        self._told: OrderedDict[str, None] = OrderedDict()  # process ids told by the line before their last one
        self._limit = ""  # of the kill whose victim comes in a later line (kernels before 4.19)

    def read(self, line: Line) -> Iterator[Record]:
        """The kill that this line tells."""
        if not kernel_speaks(line):
            return
        body = line.body
        if match := _KILL.match(body):
            self._remember(match["pid"])
            limit, group = _LIMIT.search(match["rest"]), _TASK_GROUP.search(match["rest"])
            path = (limit or group)["path"] if (limit or group) else ""  # type: ignore[index]
            yield _kill(match["constraint"], match["name"], match["pid"], path)
        elif match := _RESULT_OF.match(body):
            self._limit = match["limit"] if len(match["limit"]) > 1 else match["task"]
        elif match := _KILLED.match(body):
            yield from self._killed(match)
        elif _NOTHING_LEFT.match(body):
            yield told(
                "host.out_of_memory", name(Kind.HOST, UNKNOWN), attributes={"constraint": "none", "killable": "none"}
            )

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing stays open."""
        return ()

    def _killed(self, match: re.Match[str]) -> Iterator[Record]:
        path, self._limit = self._limit, ""
        if match["pid"] in self._told:
            del self._told[match["pid"]]
            return
        self._remember(match["pid"])
        constraint = "CONSTRAINT_MEMCG" if match["who"].startswith("Memory") else "CONSTRAINT_NONE"
        yield _kill(constraint, match["name"], match["pid"], path if constraint == "CONSTRAINT_MEMCG" else "")

    def _remember(self, pid: str) -> None:
        self._told[pid] = None
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)


def _kill(constraint: str, victim: str, pid: str, group: str) -> Record:
    attributes = {"constraint": constraint.removeprefix("CONSTRAINT_").lower()}
    if group:
        attributes["group"] = group
    who = process(victim, pid)
    job = _JOB.search(group)
    if constraint == "CONSTRAINT_MEMCG" and job:  # the job's own limit, whoever fell for it
        return told("job.out_of_memory", name(Kind.JOB, job[1]), job=job[1], process=who, attributes=attributes)
    if _DAEMONS.match(victim):
        attributes["victim_daemon"] = "yes"
    if constraint != "CONSTRAINT_MEMCG" or _NEEDED.match(victim):
        return told("host.out_of_memory", name(Kind.HOST, UNKNOWN), process=who, attributes=attributes)
    if _own_limit(group) and not ("kubepods" in group and _PROGRAMS.search(victim)):
        return told("process.killed", name(Kind.PROCESS, UNKNOWN, who), process=who, attributes=attributes)
    return told("job.out_of_memory", name(Kind.JOB, UNKNOWN), job="", process=who, attributes=attributes)


def _own_limit(group: str) -> bool:
    """The limit of one service or pod: what else runs on the host does not count against it."""
    return "kubepods" in group or (group.startswith("/system.slice/") and group.endswith(".service"))


def _expect(kind: str, component: str, **fields: object) -> tuple[dict[str, object], ...]:
    return ({"type": "event", "kind": kind, "component": component, **fields},)


SAMPLES = (
    Sample(
        "trainer invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=984\n"
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job_9120,mems_allowed=0-1,oom_memc"
        "g=/slurm/uid_3004/job_9120,"
        "task_memcg=/slurm/uid_3004/job_9120/step_0,task=trainer,pid=5150,uid=3004\n"
        "Memory cgroup out of memory: Killed process 5150 (trainer) total-vm:421888016kB, "
        "anon-rss:201330120kB, file-rss:1204kB, "
        "shmem-rss:0kB, UID:3004 pgtables:401232kB oom_score_adj:984",
        _expect(
            "job.out_of_memory",
            "job:9120",
            job="9120",
            process="trainer[5150]",
            attributes={"constraint": "memcg", "group": "/slurm/uid_3004/job_9120"},
        ),
    ),
    Sample(
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-containerd-1f.scope,mems_allow"
        "ed=0,oom_memcg=/kubepods.slice/"
        "kubepods-pod5c.slice,task_memcg=/kubepods.slice/kubepods-pod5c.slice/cri-containerd-1f.scope,t"
        "ask=python3,pid=771,uid=0",
        _expect("job.out_of_memory", "job:?", job="", process="python3[771]"),
    ),
    Sample(
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_"
        "memcg=/system.slice/slurmd.service,"
        "task=slurmd,pid=2044,uid=0\nOut of memory: Killed process 2044 (slurmd) total-vm:90000kB, "
        "anon-rss:8000kB, file-rss:0kB, shmem-rss:0kB",
        _expect(
            "host.out_of_memory",
            "host:?",
            process="slurmd[2044]",
            attributes={"constraint": "none", "group": "/system.slice/slurmd.service", "victim_daemon": "yes"},
        ),
    ),
    Sample(
        "oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=0,cpuset=batch,mems_allowed=0,global_oom,task_m"
        "emcg=/user.slice,task=loader,pid=81,uid=12",
        _expect("host.out_of_memory", "host:?", process="loader[81]"),
    ),
    Sample(
        "Task in /slurm/uid_7/job_88/step_0/task_3 killed as a result of limit of /slurm/uid_7/job_88\n"
        "Memory cgroup out of memory: Kill process 6060 (a.out) score 991 or sacrifice child\n"
        "Killed process 6060 (a.out) total-vm:9000kB, anon-rss:8000kB, file-rss:0kB",
        _expect("job.out_of_memory", "job:88", job="88"),
    ),
    Sample(
        "Out of memory: Kill process 3311 (dataloader) score 905 or sacrifice child",
        _expect("host.out_of_memory", "host:?", process="dataloader[3311]", attributes={"constraint": "none"}),
    ),
    Sample(
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-containerd-7c.scope,mems_allowed=0,oom_memcg="
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7c.slice,task_memcg=/kubepods.slice/kubepods-"
        "burstable.slice/kubepods-burstable-pod7c.slice/cri-containerd-7c.scope,task=logshipper,pid=31,uid=65534",
        _expect("process.killed", "process:?/logshipper[31]", process="logshipper[31]"),
    ),
    Sample(
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/system.slice/kubelet"
        ".service,task_memcg=/system.slice/kubelet.service,task=kubelet,pid=902,uid=0",
        _expect("host.out_of_memory", "host:?", process="kubelet[902]"),
    ),
    Sample(
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/system"
        ".slice/metricsd.service,"
        "task_memcg=/system.slice/metricsd.service,task=metricsd,pid=900,uid=0",
        _expect("process.killed", "process:?/metricsd[900]"),
    ),
)
