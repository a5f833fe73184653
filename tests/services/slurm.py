"""A real Slurm of several nodes on one host: a controller and a daemon for each node, on free loopback ports.

    with slurm.running(folder, nodes=4) as cluster:
        job = cluster.submit("sleep 600", "--nodes=3", "--requeue")
        cluster.wait(job, "RUNNING", 20)

Everything lies in `folder`: settings, state, logs, the jobs' output; two clusters share nothing. The daemons trust
whoever reaches their port (no munge), so this is for tests only. Started as root it runs jobs of any user, else the own
user's. Where Slurm is missing the test is skipped, or fails with SERVICES=require.
"""

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.services.process import Child, await_ready, found, free_ports

START_S = 30.0  # on two cores that also do other things
STOP_S = 10.0
COMMAND_S = 15.0
CONTROLLER = "slurmctld"
_PROGRAMS = ("scontrol", "squeue", "sbatch", "scancel", "sinfo", "srun", "slurmctld", "slurmd")

# A requeued job waits one lifetime of a credential, and a second more, before it may start again (120 s by default):
# slurm.conf, AuthInfo. The scheduler's own intervals are lowered likewise.
_CONF = """\
ClusterName=thread
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
AuthInfo=cred_expire={requeue_s}
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmctldDebug=verbose
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
ReturnToService=0
JobRequeue=1
KillWait=2
SlurmctldTimeout=10
SlurmdTimeout=60
NodeName={nodes} NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports} CPUs={cpus} RealMemory=1000 {cards}State=UNKNOWN
PartitionName=train Nodes={nodes} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


@dataclass(slots=True)
class Cluster:
    """A running Slurm. `env` is what a client of it needs, `bin` the folder of its commands, `conf` its slurm.conf."""

    folder: Path
    bin: Path
    conf: Path
    env: dict[str, str]
    nodes: tuple[str, ...]
    daemons: dict[str, Child] = field(default_factory=dict)

    def run(self, command: str, *arguments: str, limit_s: float = COMMAND_S) -> str:
        """What a command of Slurm prints; fails the test where it says no."""
        done = subprocess.run(
            [self.bin / command, *arguments],
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
        if done.returncode:
            pytest.fail(f"{command} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def submit(self, script: str, *options: str) -> str:
        """The id of a new batch job whose body is `script`. Its output goes to `slurm-ID.out` in the folder."""
        file = self.folder / f"job-{time.monotonic_ns()}.sh"
        file.write_text(f"#!/bin/sh\n{script}\n")
        return self.run("sbatch", "--parsable", f"--chdir={self.folder}", *options, str(file)).strip()

    def job(self, job: str) -> dict[str, str]:
        """The fields of `scontrol show job`, of values with blanks the first word. A hostile job name deceives it."""
        words = self.run("scontrol", "show", "job", "-o", job).split()
        return dict(word.split("=", 1) for word in reversed(words) if "=" in word)

    def wait(self, job: str, state: str, limit_s: float = 30.0, *, attempt: int | None = None) -> float:
        """Wait until a job is in `state` (RUNNING, PENDING, ...), of that attempt where told; the seconds it took."""
        began = time.monotonic()
        told = ["", "-1"]
        while time.monotonic() - began < limit_s:
            told = self.run("squeue", "-h", "--states=all", f"--jobs={job}", "--Format=State:30,RestartCnt:10").split()
            if told[0] == state and attempt in (None, int(told[1])):
                return time.monotonic() - began
            time.sleep(0.2)
        return pytest.fail(f"job {job} is not {state} after {limit_s} s but {' '.join(told)}; {self.tail(CONTROLLER)}")

    def wait_node(self, node: str, flag: str, limit_s: float = 20.0) -> None:
        """Wait until the state of a node holds `flag` (DRAIN, IDLE+DRAIN, DOWN ...); IDLE is one that takes work."""
        wanted = set(flag.split("+"))

        def there() -> bool:
            state = set(self._node_state(node).removeprefix("State=").split("+"))
            return wanted <= state and not (state - wanted) & {"DRAIN", "DOWN"}

        self.until(there, limit_s, f"node {node} is not {flag}")

    def start(self, name: str) -> None:
        """Start the controller (CONTROLLER) or the daemon of a node; the controller answers when this returns."""
        program, own = ("slurmctld", []) if name == CONTROLLER else ("slurmd", ["-N", name])
        command = [*found(program), "-D", "-f", str(self.conf), *own]
        daemon = self.daemons.setdefault(name, Child(command, self.folder, self.folder / f"{name}.out", self.env))
        daemon.start()
        if name == CONTROLLER:
            await_ready(self._answers, daemon, START_S)

    def stop(self, name: str) -> None:
        """Stop the controller or the daemon of a node. Jobs go on; the controller's state stays in the folder."""
        self.daemons[name].stop(STOP_S)

    def tail(self, name: str) -> str:
        """The last words of a daemon, for a failing test."""
        log = self.folder / (f"{CONTROLLER}.log" if name == CONTROLLER else f"slurmd-{name}.log")
        texts = [
            file.read_text(errors="replace")[-1500:] for file in (log, self.folder / f"{name}.out") if file.exists()
        ]
        return "\n".join(texts)

    def _answers(self) -> bool:
        return " is UP" in _quietly(self, "scontrol", "ping")

    def _node_state(self, node: str) -> str:
        shown = self.run("scontrol", "show", "node", "-o", node).split()
        return next(word for word in shown if word.startswith("State="))

    def until(self, true: Callable[[], bool], limit_s: float, complaint: str) -> None:
        """Wait until `true()`; fails the test with `complaint` at the end of the time, or when a daemon ended."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if true():
                return
            gone = [name for name, daemon in self.daemons.items() if daemon.status not in (None, 0)]
            if gone:
                pytest.fail(f"{gone[0]} ended: {self.tail(gone[0])}")
            time.sleep(0.2)
        pytest.fail(f"{complaint} after {limit_s} s: {self.tail(CONTROLLER)}")


@contextmanager
def running(
    folder: Path, nodes: int = 4, *, cpus: int = 1, requeue_s: int = 5, settings: Sequence[str] = (), cards: int = 0
) -> Iterator[Cluster]:
    """A Slurm of `nodes` nodes n1, n2, ..., each of `cpus` CPUs, whose state lies in `folder`.

    A requeued job starts again after about `requeue_s` seconds. `settings`: more lines for slurm.conf.
    `cards`: accelerators of each node, which are empty files.
    """
    commands = Path(found(*_PROGRAMS)[0]).parent
    cluster = _prepared(folder, commands, nodes, cpus, requeue_s, settings, cards)
    with ExitStack() as stack:
        stack.callback(_end, cluster)
        for name in (CONTROLLER, *cluster.nodes):
            cluster.start(name)
        cluster.until(lambda: not _unready(cluster), START_S, "some nodes are not idle")
        yield cluster


def _prepared(
    folder: Path, commands: Path, nodes: int, cpus: int, requeue_s: int, settings: Sequence[str], cards: int
) -> Cluster:
    folder.mkdir(parents=True, exist_ok=True)
    names = tuple(f"n{number}" for number in range(1, nodes + 1))
    for name in ("state", *(f"spool-{name}" for name in names)):
        (folder / name).mkdir(exist_ok=True)
    port, *ports = free_ports(nodes + 1)
    text = _CONF.format(
        folder=folder,
        user=pwd.getpwuid(os.getuid()).pw_name,
        port=port,
        ports=",".join(map(str, ports)),
        nodes=f"n[1-{nodes}]",
        cpus=cpus,
        requeue_s=requeue_s,
        cards=f"Gres=gpu:{cards} " if cards else "",
    )
    conf = folder / "slurm.conf"
    if cards:
        settings = (*settings, "GresTypes=gpu")
        for number in range(cards):
            (folder / f"card{number}").touch()
        (folder / "gres.conf").write_text(f"Name=gpu File={folder}/card[0-{cards - 1}]\n")
    conf.write_text("\n".join([text, *settings, ""]))
    env = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SBATCH_", "SQUEUE_"))}
    return Cluster(folder, commands, conf, env | {"SLURM_CONF": str(conf)}, names)


def _unready(cluster: Cluster) -> list[str]:
    shown = cluster.run("sinfo", "--noheader", "--Node", "--format=%N %T").split()
    return [node for node, state in zip(shown[::2], shown[1::2], strict=True) if state != "idle"]


def _end(cluster: Cluster) -> None:
    """Jobs first: they outlive the daemons."""
    if CONTROLLER in cluster.daemons and cluster.daemons[CONTROLLER].alive():
        _quietly(cluster, "scancel", f"--user={pwd.getpwuid(os.getuid()).pw_name}")
        deadline = time.monotonic() + STOP_S
        while _quietly(cluster, "squeue", "--noheader").strip() and time.monotonic() < deadline:
            time.sleep(0.2)
    for name in reversed(cluster.daemons):
        cluster.stop(name)
    for process in _left_behind(cluster):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _quietly(cluster: Cluster, command: str, *arguments: str) -> str:
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [cluster.bin / command, *arguments], env=cluster.env, capture_output=True, text=True, timeout=COMMAND_S
        )
        return done.stdout
    return ""


def _left_behind(cluster: Cluster) -> list[int]:
    """Processes of this cluster's jobs, as their environment says."""
    mark = f"SLURM_CONF={cluster.conf}".encode()
    found_there = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "environ").read_bytes().split(b"\0")
            if mark in words and any(word.startswith(b"SLURM_JOB_ID=") for word in words):
                found_there.append(int(folder.name))
    return [process for process in found_there if process != os.getpid()]
