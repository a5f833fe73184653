"""A night as the folder of files that an operator would have: what `sickbay diagnose FOLDER` is given."""

from collections.abc import Callable, Iterable
from pathlib import Path

from simulator.faults.kit import Sweeping
from simulator.moments import moment
from simulator.output.cable_files import CableFiles
from simulator.output.prometheus import Recorder
from simulator.parts import facility
from simulator.parts.cluster import Cluster
from simulator.printing.envelopes import ENVELOPES
from simulator.scenario import Scenario
from simulator.workload.run import Job


def write(
    scenario: Scenario, folder: Path, *, until_s: int = 600, envelope: str = "syslog", step_s: int = 10,
    metrics: bool = True, cables: bool = False, each: Callable[[int], object] = lambda done: None,
) -> Path:  # fmt: skip
    """Write the night into `folder` (made if missing) and return it.

    `kern-HOST.log` per host that printed something, `slurm-ID.out` per job (training and watchdog lines), a
    `METRIC.json` per metric, `topology.conf`, `scontrol_show_job.txt`, a `SWITCH.log` per switch and a `slurmctld.log`
    where they said something, `inventory.csv`, and `facility.csv` with the readings of power and cooling; with `cables`
    the files of `cable_files`: modules and counters of both ends of every link, and who is at the other end.
    `each` is called with every second.
    """
    folder.mkdir(parents=True, exist_ok=True)
    recorder, texts = Recorder(scenario.cluster, step_s), {"facility.csv": [facility.HEADER]}
    network = CableFiles(scenario.cluster, sweeps_of(scenario)) if cables else None
    for at_s, second in enumerate(scenario.seconds(until_s)):
        each(at_s)
        recorder.add(second)
        if network:
            network.add(second, at_s)
        if second.at_ms // 1000 % step_s == 0:
            texts["facility.csv"] += [row for samples in second.site for row in facility.readings(samples)]
        for line in second.lines:
            if line.source == "job":
                texts.setdefault(f"slurm-{line.job}.out", []).append(line.text)
            elif line.source == "switch":
                texts.setdefault(f"{line.host}.log", []).append(line.text)
            elif line.source == "scheduler":
                texts.setdefault("slurmctld.log", []).append(line.text)
            else:
                texts.setdefault(f"kern-{line.host}.log", []).append(ENVELOPES[envelope](line, scenario.start_ms))
    for name, rows in texts.items():
        (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    if network:
        network.write(folder)
    if metrics:
        for metric, answer in recorder.answers():
            (folder / f"{metric}.json").write_bytes(answer)
    (folder / "topology.conf").write_text(topology_conf(scenario.cluster), encoding="utf-8")
    (folder / "inventory.csv").write_text(facility.inventory_csv(scenario.cluster, scenario.feeds), encoding="utf-8")
    (folder / "scontrol_show_job.txt").write_text(jobs_text(scenario.jobs, scenario.start_ms), encoding="utf-8")
    return folder


def sweeps_of(scenario: Scenario) -> dict[int, tuple[str, ...]]:
    """Second of each sweep of an InfiniBand fabric, with the leaves that it missed: one when all began, and what
    effects tell."""
    if scenario.cluster.cards[0].fabric == "ethernet":
        return {}
    told = (effect.sweeps for effect in scenario.effects() if isinstance(effect, Sweeping))
    return {0: ()} | {at_s: missed for sweeps in told for at_s, missed in sweeps(scenario.cluster).items()}


def topology_conf(cluster: Cluster) -> str:
    """Slurm's topology.conf: in a rail layout a host hangs on every leaf, so Slurm sees one switch."""
    if cluster.layout == "rail":
        return f"SwitchName=pod Nodes={','.join(cluster.hosts)}\n"
    rows = []
    for leaf in cluster.leaves:
        hosts = dict.fromkeys(card.host for card in cluster.under(leaf))
        rows.append(f"SwitchName={leaf} Nodes={','.join(hosts)}")
    return "\n".join([*rows, f"SwitchName=spine Switches={','.join(cluster.leaves)}"]) + "\n"


def jobs_text(jobs: Iterable[Job], start_ms: int) -> str:
    """`scontrol show job`, a block per job."""
    return "\n".join(_block(job, moment(start_ms - 3_600_000).strftime("%Y-%m-%dT%H:%M:%S")) for job in jobs)


def _block(job: Job, started: str) -> str:
    cards = 8 * len(job.hosts)
    return (
        f"JobId={job.id} JobName={job.name}\n"
        f"   UserId={job.user}(1201) GroupId=ml(1200) MCS_label=N/A\n"
        "   Priority=4294901742 Nice=0 Account=research QOS=normal\n"
        "   JobState=RUNNING Reason=None Dependency=(null)\n"
        "   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0\n"
        f"   RunTime=01:00:00 TimeLimit=10-00:00:00 TimeMin=N/A\n   SubmitTime={started} EligibleTime={started}\n"
        f"   StartTime={started} EndTime=Unknown Deadline=N/A\n"
        f"   Partition=train AllocNode:Sid=login01:4711\n   ReqNodeList=(null) ExcNodeList=(null)\n"
        f"   NodeList={','.join(job.hosts)}\n   BatchHost={job.hosts[0]}\n"
        f"   NumNodes={len(job.hosts)} NumCPUs={96 * len(job.hosts)} NumTasks={cards} CPUs/Task=12 ReqB:S:C:T=0:0:*:*\n"
        f"   TRES=cpu={96 * len(job.hosts)},node={len(job.hosts)},billing={cards},gres/gpu={cards}\n"
        "   OverSubscribe=NO Contiguous=0 Licenses=(null) Network=(null)\n"
        f"   Command=/home/{job.user}/train.sbatch\n   WorkDir=/home/{job.user}\n"
        "   TresPerNode=gres:gpu:8\n"
    )
