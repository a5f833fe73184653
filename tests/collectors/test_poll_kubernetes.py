"""Kubernetes' objects, folded: what stands against nodes, attempts and ranks of jobs, refused pods, counted events."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.cluster import host_kubernetes, job_kubernetes
from collectors.cluster.kubernetes_watch import Change as Seen
from collectors.formats import kubernetes_objects as objects
from collectors.formats.kubernetes_events import spoken
from collectors.formats.kubernetes_nodes import NodeWord, node_word
from collectors.formats.kubernetes_pods import Member, member
from collectors.formats.kubernetes_ranks import ranks_of
from collectors.formats.kubernetes_refusals import EVERY_MS
from collectors.formats.masking import masked
from sickbay.clock import rfc3339
from sickbay.messages import Event, Placement

T = 1_773_200_000_000
S = 1000


def iso(at_ms: int) -> str:
    return str(rfc3339(at_ms)).partition(".")[0].removesuffix("Z") + "Z"


def node(host: str = "n1", *, cards: int = 8, of: int = 8, spec: Any = None, managed: Any = None, **ready: str) -> Any:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": iso(T - 60 * S)}]
    conditions += [{"type": key, "status": value, "reason": "Told"} for key, value in ready.items()]
    by_type = {one["type"]: one for one in conditions}
    status = {
        "conditions": list(by_type.values()),
        "capacity": {"nvidia.com/gpu": str(of), "cpu": "64"},
        "allocatable": {"nvidia.com/gpu": str(cards), "cpu": "64"},
        "nodeInfo": {"kubeletVersion": "v1.33.1", "kernelVersion": "6.8.0-52"},
    }
    meta = {"name": host, "managedFields": managed or []}
    return {"metadata": meta, "spec": spec or {}, "status": status}


def word(told: Any) -> NodeWord:
    return node_word(objects.decoded(json.dumps(told).encode(), objects.Node))


def nodes(*polls: tuple[int, Any]) -> list[Event]:
    state, told = host_kubernetes.Hosts(), list[Event]()
    for number, (read_ms, change) in enumerate(polls, start=1):
        seen = [Seen(number, "/nodes", [word(one) for one in change], full=number == 1)] if change else []
        step = host_kubernetes.polled(state, seen, read_ms)
        state, told = step.hosts, [*told, *step.events]
    return told


def kinds(told: list[Event]) -> list[tuple[str, str]]:
    return [(one.kind, one.code) for one in told]


def test_a_healthy_node_is_no_news() -> None:
    assert nodes((T, [node()]), (T + S, [node()])) == []


def test_a_node_that_is_not_heard_of_is_silent_one_that_says_so_is_down() -> None:
    told = nodes(
        (T, [node()]), (T + S, [node(Ready="Unknown")]), (T + 9 * S, [node(Ready="False")]), (T + 20 * S, [node()])
    )
    assert kinds(told) == [
        ("scheduler.host_silent", "NotReady"),
        ("scheduler.host_down", "NotReady"),
        ("scheduler.host_back", "NotReady"),
    ]


def test_conditions_are_bad_by_their_meaning() -> None:
    told = nodes((T, [node(DiskPressure="True", KernelReady="False", GpuHealthy="True", ReadonlyFilesystem="True")]))
    assert {(one.kind, one.component) for one in told} == {
        ("scheduler.host_condition", "host:n1"),
        ("filesystem.read_only", "filesystem:n1/?"),
    }
    assert sorted(one.code for one in told) == ["DiskPressure", "KernelReady", "ReadonlyFilesystem"]


def test_who_cordoned_a_node_is_told() -> None:
    managed = [
        {"manager": "kubelet", "time": iso(T), "fieldsV1": {"f:status": {}}},
        {"manager": "kubectl-cordon", "time": iso(T - 5 * S), "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},
    ]
    (told,) = nodes((T, [node(spec={"unschedulable": True}, managed=managed)]))
    assert (told.kind, told.attributes["user"], told.at_ms) == ("scheduler.host_drained", "kubectl-cordon", T - 5 * S)


def test_taints_that_every_such_node_has_are_no_news() -> None:
    usual = [
        {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
    ]
    assert nodes((T, [node(spec={"taints": usual})])) == []
    (told,) = nodes((T, [node(spec={"taints": [*usual, {"key": "site/broken", "effect": "NoSchedule"}]})]))
    assert (told.kind, told.code) == ("scheduler.host_drained", "taint site/broken")


def test_missing_accelerators_are_told_at_once_none_at_all_after_a_minute() -> None:
    assert kinds(nodes((T, [node(cards=7)]))) == [("scheduler.accelerators_fewer", "7 of 8 allocatable")]
    #            8          plugin forgot one     restarts: none         back
    told = nodes(
        (T, [node()]), (T + S, [node(cards=7, of=7)]), (T + 9 * S, [node(cards=0, of=7)]), (T + 30 * S, [node()])
    )
    assert kinds(told) == [
        ("scheduler.accelerators_fewer", "7 of 8 allocatable"),
        ("scheduler.host_back", "7 of 8 allocatable"),
    ]
    told = nodes((T, [node()]), (T + S, [node(cards=0)]), (T + 30 * S, None), (T + 61 * S, None), (T + 90 * S, None))
    assert kinds(told) == [("scheduler.accelerators_none", "0 of 8 allocatable")]


def test_new_software_of_a_node_is_a_change() -> None:
    state = host_kubernetes.polled(host_kubernetes.Hosts(), [Seen(1, "/nodes", [word(node())], True)], T).hosts
    newer = node()
    newer["status"]["nodeInfo"]["kernelVersion"] = "6.8.0-60"
    changes = host_kubernetes.polled(state, [Seen(2, "/nodes", [word(newer)])], T + S).changes
    assert [(one.target, one.what, one.old, one.new) for one in changes] == [
        ("host:n1", "kernel", "6.8.0-52", "6.8.0-60")
    ]


def test_a_node_that_is_no_longer_listed_was_taken_away() -> None:
    state = host_kubernetes.polled(host_kubernetes.Hosts(), [Seen(1, "/nodes", [word(node())], True)], T).hosts
    step = host_kubernetes.polled(state, [Seen(2, "/nodes", [], True)], T + S)
    assert kinds(list(step.events)) == [("scheduler.host_drained", "deleted")]
    assert step.hosts.hosts == {}


def test_labels_tell_what_hosts_hang_on() -> None:
    def labelled(host: str, leaf: str) -> NodeWord:
        told = node(host)
        fabric = "network.topology.nvidia.com/"
        told["metadata"]["labels"] = {"nvidia.com/gpu.clique": "u.1", f"{fabric}leaf": leaf, f"{fabric}spine": "s1"}
        return word(told)

    def edges(told: Any) -> list[tuple[str, str, int | None]]:
        return sorted((one.child, one.parent, one.to_ms) for one in told)

    first = host_kubernetes.polled(
        host_kubernetes.Hosts(), [Seen(1, "/nodes", [labelled("n1", "l1"), labelled("n2", "l1")], True)], T
    )
    assert edges(first.edges) == [
        ("host:n1", "fabric:u.1", None), ("host:n1", "switch:l1", None), ("host:n2", "fabric:u.1", None),
        ("host:n2", "switch:l1", None), ("switch:l1", "switch:s1", None),
    ]  # fmt: skip
    again = host_kubernetes.remembered(first.edges)
    assert host_kubernetes.polled(again, [], T).edges == []  # nothing was listed yet
    moved = host_kubernetes.polled(
        again, [Seen(1, "/nodes", [labelled("n1", "l1"), labelled("n2", "l2")], True)], T + S
    )
    assert edges(moved.edges) == [
        ("host:n2", "switch:l1", T + S), ("host:n2", "switch:l2", None), ("switch:l2", "switch:s1", None)
    ]  # fmt: skip


KUBEFLOW = "training.kubeflow.org/"
JOBSET = "jobset.sigs.k8s.io/"
INDEX = "batch.kubernetes.io/job-completion-index"


def pod(name: str, host: str = "n1", labels: Any = None, *, env: Any = None, cards: int = 8, **more: Any) -> Any:
    phase, restarts = more.get("phase", "Running"), more.get("restarts", 0)
    state = more.get("state", {"running": {"startedAt": iso(more.get("since", T))}})
    container = {
        "name": "main", "image": more.get("image", "train:1"), "args": more.get("args", []),
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "resources": {"limits": {"nvidia.com/gpu": str(cards)}} if cards else {},
    }  # fmt: skip
    status = {"name": "main", "restartCount": restarts, "state": state, "lastState": more.get("last", {})}
    meta = {"name": name, "namespace": "ml", "uid": more.get("uid", name), "labels": labels or {}}
    meta |= {"deletionTimestamp": iso(more["leaves"]), "deletionGracePeriodSeconds": 30} if "leaves" in more else {}
    return {
        "metadata": meta,
        "spec": {"nodeName": host, "containers": [{"name": "log-shipper"}, container] if cards else [container]},
        "status": {
            "phase": phase, "reason": more.get("reason", ""), "message": more.get("message", ""),
            "containerStatuses": [] if more.get("refused") else [status], "conditions": more.get("conditions", []),
        },
    }  # fmt: skip


def short(told: Any) -> Member:
    return member(objects.decoded(json.dumps(told).encode(), objects.Pod))


def torch(index: int, role: str = "worker", **more: Any) -> Any:
    labels = {KUBEFLOW + "job-name": "llm", KUBEFLOW + "replica-type": role, KUBEFLOW + "replica-index": str(index)}
    env = {"PET_NPROC_PER_NODE": "2", "WORLD_SIZE": "6"}
    return pod(f"llm-{role}-{index}", more.pop("host", f"n{index + (role == 'worker')}"), labels, env=env, **more)


def terminated(code: int, at_ms: int, reason: str = "Error") -> Any:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": iso(at_ms)}}


class Cluster:
    """Polls of pods."""

    def __init__(self, jobs: job_kubernetes.Jobs | None = None) -> None:
        self.jobs = jobs or job_kubernetes.Jobs()
        self.placements, self.events = list[Placement](), list[Event]()
        self.changes: list[Any] = []

    def sees(self, read_ms: int, *pods: Any, full: bool = False, gone: bool = False) -> "Cluster":
        change = Seen(self.jobs.sequence + 1, "/api/v1/pods", [short(one) for one in pods], full, gone)
        before = self.jobs
        copy = job_kubernetes.Jobs(dict(before.pods), dict(before.runs), before.refused, before.sequence)
        step = job_kubernetes.polled(before, [change], read_ms)
        assert before == copy  # what went in is left alone
        self.jobs = step.jobs
        self.placements += step.placements
        self.events += step.events
        self.changes += step.changes
        return self

    def told(self) -> list[tuple[int, str, tuple[str, ...], int | None]]:
        return [(one.attempt, one.state, one.hosts, one.to_ms) for one in self.placements]


THREE = (torch(0, "master"), torch(0), torch(1))


def test_ranks_of_a_torch_job_the_master_first() -> None:
    (placement,) = Cluster().sees(T, *reversed(THREE), full=True).placements
    assert (placement.job, placement.attempt, placement.hosts, placement.from_ms) == (
        "ml/llm",
        0,
        ("n0", "n1", "n2"),
        T,
    )
    assert [(one.rank, one.host) for one in placement.ranks] == [
        (0, "n0"), (1, "n0"), (2, "n1"), (3, "n1"), (4, "n2"), (5, "n2"),
    ]  # fmt: skip


LABELS: dict[str, tuple[list[dict[str, str]], list[int]]] = {
    "JobSet": ([{JOBSET + "jobset-name": "s", JOBSET + "job-index": str(job), INDEX: str(one),
                 "batch.kubernetes.io/job-name": f"s-w-{job}"} for job in (0, 1) for one in (0, 1)], [0, 1, 2, 3]),
    "Volcano": ([{"volcano.sh/job-name": "s", "volcano.sh/task-spec": role, "volcano.sh/task-index": str(one)}
                 for role, one in (("worker", 0), ("master", 0), ("worker", 1))], [1, 0, 2]),
    "MPIJob": ([{KUBEFLOW + "operator-name": "mpi-operator", KUBEFLOW + "job-name": "s",
                 KUBEFLOW + "job-role": "worker", KUBEFLOW + "replica-index": str(one)} for one in (1, 0)], [1, 0]),
    "LeaderWorkerSet": ([{"leaderworkerset.sigs.k8s.io/name": "s", "leaderworkerset.sigs.k8s.io/group-index": "0",
                          "leaderworkerset.sigs.k8s.io/worker-index": str(one)} for one in (0, 1)], [0, 1]),
    "Job": ([{"batch.kubernetes.io/job-name": "s", INDEX: str(one)} for one in (1, 0)], [1, 0]),
}  # fmt: skip


@pytest.mark.parametrize("maker", LABELS)
def test_every_maker_of_jobs_tells_the_place_of_a_pod(maker: str) -> None:
    labels, order = LABELS[maker]
    pods = [short(pod(f"p{at}", f"n{at}", told, env={"NPROC_PER_NODE": "1"})) for at, told in enumerate(labels)]
    assert {one.maker for one in pods} == {maker}
    assert {one.job for one in pods} == {"ml/s-0" if maker == "LeaderWorkerSet" else "ml/s"}
    assert [one.rank for one in sorted(ranks_of(pods), key=lambda one: one.host)] == order
    if maker != "Volcano":  # the first of all is missing: places are not known, but where roles come one after another
        assert ranks_of([one for one, rank in zip(pods, order, strict=True) if rank]) == ()


def test_a_launcher_holds_no_rank_but_its_end_is_the_jobs() -> None:
    labels = {KUBEFLOW + "operator-name": "mpi-operator", KUBEFLOW + "job-name": "m", KUBEFLOW + "job-role": "launcher"}
    worker = {**labels, KUBEFLOW + "job-role": "worker", KUBEFLOW + "replica-index": "0"}
    site = Cluster().sees(T, pod("m-l", "n9", labels, cards=0), pod("m-0", "n1", worker), full=True)
    assert site.told() == [(0, "running", ("n1",), None)]
    site.sees(T + 9 * S, pod("m-l", "n9", labels, cards=0, phase="Succeeded", state=terminated(0, T + 8 * S)))
    assert len(site.placements) == 1
    site.sees(T + 10 * S, pod("m-0", "n1", worker, leaves=T + 39 * S))
    assert site.told()[1:] == [(0, "completed", ("n1",), T + 8 * S)]
    assert kinds(site.events) == [("job.completed", "Error")]


@pytest.mark.parametrize(
    ("env", "args", "cards", "each"),
    [
        ({"PET_NPROC_PER_NODE": "4"}, [], 8, 4),
        ({}, ["torchrun --nnodes=2 --nproc-per-node=8 train.py"], 8, 8),
        ({}, ["--nproc_per_node", "8"], 8, 8),
        ({"WORLD_SIZE": "2"}, [], 1, 1),
        ({"WORLD_SIZE": "16"}, [], 8, 8),
        ({"WORLD_SIZE": "2"}, [], 8, 0),  # launchers: how many processes they start is not told
        ({"PET_NPROC_PER_NODE": "gpu"}, ["--nproc-per-node=auto"], 8, 0),
        ({}, [], 8, 0),
    ],
)
def test_ranks_are_told_only_where_pods_say_how_many_processes_they_hold(
    env: dict[str, str], args: list[str], cards: int, each: int
) -> None:
    pods = [
        short(pod(f"p{at}", f"n{at}", {"batch.kubernetes.io/job-name": "s"}, env=env | {"NODE_RANK": str(at)},
                  args=args, cards=cards))
        for at in (0, 1)
    ]  # fmt: skip
    assert len(ranks_of(pods)) == 2 * each


def test_a_crash_ends_the_attempt_and_a_restart_begins_the_next() -> None:
    site = Cluster().sees(T, *THREE, full=True)
    site.sees(T + 60 * S, torch(0, state={}, last=terminated(134, T + 59 * S)))
    assert site.told()[1:] == [(0, "failed", ("n0", "n1", "n2"), T + 59 * S)]
    assert kinds(site.events) == [("job.failed", "signal 6")]
    assert site.events[0].attributes["host"] == "n1"
    again = {"running": {"startedAt": iso(T + 70 * S)}}
    site.sees(T + 70 * S, torch(0, restarts=1, state=again, last=terminated(134, T + 59 * S)))
    assert site.told()[2:] == [(1, "running", ("n0", "n1", "n2"), None)]
    site.sees(T + 71 * S, *THREE[::2], torch(0, restarts=1, state=again), full=True)  # listed again: nothing new
    assert len(site.placements) == 3


def test_a_restart_between_two_looks_is_not_missed() -> None:
    site = Cluster().sees(T, *THREE, full=True)
    again = {"running": {"startedAt": iso(T + 70 * S)}}
    site.sees(T + 70 * S, torch(0, restarts=1, state=again, last=terminated(1, T + 59 * S)))
    assert [one[:2] for one in site.told()] == [(0, "running"), (0, "failed"), (1, "running")]


def test_a_pod_that_somebody_deletes_is_no_failure_though_its_process_ends_by_it() -> None:
    site = Cluster().sees(T, *THREE, full=True)
    site.sees(T + 60 * S, torch(0, leaves=T + 90 * S))
    assert site.told()[1:] == [(0, "cancelled", ("n0", "n1", "n2"), T + 60 * S)]
    site.sees(T + 62 * S, torch(0, leaves=T + 90 * S, phase="Failed", state=terminated(143, T + 61 * S)))
    site.sees(T + 63 * S, torch(0, leaves=T + 90 * S, phase="Failed", state=terminated(143, T + 61 * S)), gone=True)
    assert kinds(site.events) == [("job.cancelled", "the pod was deleted")]
    late = Cluster().sees(T, *THREE, full=True)
    late.sees(T + 62 * S, torch(0, leaves=T + 90 * S, phase="Failed", state=terminated(143, T + 61 * S)))
    assert late.told()[1:] == [(0, "cancelled", ("n0", "n1", "n2"), T + 60 * S)]


def test_out_of_memory_and_preemption_have_their_own_ends() -> None:
    site = Cluster().sees(T, *THREE, full=True)
    site.sees(T + 60 * S, torch(1, phase="Failed", state=terminated(137, T + 59 * S, "OOMKilled")))
    assert kinds(site.events) == [("job.out_of_memory", "OOMKilled")]
    site = Cluster().sees(T, *THREE, full=True)
    disrupted = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    site.sees(T + 60 * S, torch(1, conditions=disrupted, leaves=T + 90 * S))
    assert kinds(site.events) == [("job.preempted", "PreemptionByScheduler")]


def test_completed_only_when_all_are_over() -> None:
    site = Cluster().sees(T, *THREE, full=True)
    done = {"phase": "Succeeded", "state": terminated(0, T + 50 * S, "Completed")}
    site.sees(T + 51 * S, torch(0, "master", **done), torch(0, **done))
    assert len(site.placements) == 1
    site.sees(T + 52 * S, torch(1, **done))
    assert site.told()[1:] == [(0, "completed", ("n0", "n1", "n2"), T + 50 * S)]


def test_a_makers_own_count_of_attempts_is_kept() -> None:
    def one(attempt: int, uid: str, **more: Any) -> Any:
        labels = {JOBSET + "jobset-name": "s", JOBSET + "restart-attempt": str(attempt), INDEX: "0"}
        return pod("s-0", "n1", labels, uid=uid, **more)

    site = Cluster().sees(T, one(3, "a"), full=True)
    site.sees(T + 9 * S, one(3, "a", phase="Failed", state=terminated(1, T + 8 * S)))
    site.sees(T + 20 * S, one(4, "b", since=T + 19 * S))
    assert [placed[:2] for placed in site.told()] == [(3, "running"), (3, "failed"), (4, "running")]


def test_image_and_arguments_that_differ_from_the_attempt_before_are_changes() -> None:
    labels = {"batch.kubernetes.io/job-name": "s", INDEX: "0"}
    site = Cluster().sees(T, pod("s-0", "n1", labels, args=["--lr=1"]), full=True)
    site.sees(T + 9 * S, pod("s-0", "n1", labels, args=["--lr=1"], phase="Failed", state=terminated(1, T + 8 * S)))
    site.sees(T + 20 * S, pod("s-0", "n1", labels, uid="new", args=["--lr=2"], image="train:2", since=T + 19 * S))
    assert [(one.target, one.what, one.old, one.new) for one in site.changes] == [
        ("job:ml/s", "image", "train:1", "train:2"),
        ("job:ml/s", "arguments", "--lr=1", "--lr=2"),
    ]


def test_pods_of_different_places_are_no_change_of_the_job() -> None:
    def one(index: int, role: str, uid: str, **more: Any) -> Any:
        return torch(index, role, uid=uid, args=[f"--role={role}", f"--node-rank={index}"], **more)

    site = Cluster().sees(T, one(0, "master", "a"), one(0, "worker", "b"), one(1, "worker", "c"), full=True)
    site.sees(T + 9 * S, one(0, "master", "a", phase="Failed", state=terminated(1, T + 8 * S)))
    for at, told in enumerate((one(1, "worker", "f"), one(0, "worker", "e"), one(0, "master", "d")), start=20):
        site.sees(T + at * S, told)
    assert site.changes == []
    assert {placed.attempt for placed in site.placements} == {0, 1}


def test_an_attempt_that_some_pods_outlive_begins_after_the_one_before() -> None:
    site = Cluster().sees(T, *THREE, full=True)
    again = {"running": {"startedAt": iso(T + 70 * S)}}
    site.sees(T + 70 * S, torch(0, restarts=1, state=again, last=terminated(1, T + 59 * S)))
    _, first, second = site.placements
    assert (first.to_ms, second.from_ms) == (T + 59 * S, T + 59 * S)
    later = Cluster(job_kubernetes.remembered(site.placements))
    later.sees(T + 90 * S, THREE[0], torch(0, restarts=1, state=again), THREE[2], full=True)
    assert later.placements == []


def test_secrets_in_arguments_are_struck_out() -> None:
    told = masked(["train", "--wandb-api-key=abc", "--token", "xyz", "HF_TOKEN=hf_1", "--lr", "1"])
    assert " ".join(told) == "train --wandb-api-key=*** --token *** HF_TOKEN=*** --lr 1"


def refused(number: int, host: str = "n4") -> Any:
    text = (
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
        "Requested: 8, Available: 7, which is unexpected"
    )
    return pod(f"r{number}", host, phase="Failed", reason="UnexpectedAdmissionError", message=text, refused=True)


def test_five_hundred_pods_that_one_node_refuses_are_a_few_events_of_that_node() -> None:
    site = Cluster()
    for number in range(500):
        site.sees(T + number * 200, refused(number), refused(number))
    site.sees(T + 500 * 200 + EVERY_MS)
    assert {(one.kind, one.component, one.code) for one in site.events} == {
        ("scheduler.accelerators_fewer", "host:n4", "7 of 8")
    }
    assert len(site.events) == 3
    assert sum(one.count for one in site.events) == 500
    assert site.placements == []


def test_what_ran_while_the_poller_was_away_is_ended_and_what_runs_on_goes_on() -> None:
    before = Cluster().sees(T, *THREE, full=True)
    other = Placement(job="ml/old", attempt=2, hosts=("n7",), from_ms=T, state="running")
    site = Cluster(job_kubernetes.remembered([*before.placements, other, Placement(job="77", hosts=("n1",))]))
    site.sees(T + 60 * S, *THREE, full=True)
    assert [(one.job, one.state, one.to_ms) for one in site.placements] == [("ml/old", "gone", T + 60 * S)]
    moved = Cluster(job_kubernetes.remembered(before.placements))
    moved.sees(T + 60 * S, *THREE[:2], torch(1, host="n8", uid="x", since=T + 50 * S), full=True)
    assert [one[:3] for one in moved.told()] == [(0, "gone", ("n0", "n1", "n2")), (1, "running", ("n0", "n1", "n8"))]


def test_the_pods_of_a_large_job_that_begin_one_by_one_are_told_once_a_poll() -> None:
    jobs = job_kubernetes.Jobs()
    pods = [short(pod(f"s-{at}", f"n{at}", {"batch.kubernetes.io/job-name": "s", INDEX: str(at)})) for at in range(400)]
    step = job_kubernetes.polled(jobs, [Seen(at, "/api/v1/pods", [one]) for at, one in enumerate(pods, 1)], T)
    assert [len(one.hosts) for one in step.placements] == [400]


STATES = st.sampled_from(["runs", "crashed", "again", "failed", "done", "leaves", "gone", "lost", "refused"])


def in_state(index: int, state: str, uid: int, at_ms: int) -> Any:
    labels = {"batch.kubernetes.io/job-name": "s", INDEX: str(index)}
    told: dict[str, dict[str, Any]] = {
        "crashed": {"state": {}, "last": terminated(134, at_ms)},
        "again": {"restarts": 1, "last": terminated(134, at_ms), "since": at_ms},
        "failed": {"phase": "Failed", "state": terminated(1, at_ms)},
        "done": {"phase": "Succeeded", "state": terminated(0, at_ms, "Completed")},
        "leaves": {"leaves": at_ms},
        "refused": {"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "refused": True},
    }
    return pod(f"s-{index}", f"n{index}", labels, uid=f"{index}.{uid}", **told.get(state, {}))


@given(st.lists(st.tuples(st.integers(0, 2), STATES, st.integers(0, 2)), max_size=30))
def test_laws_of_any_order_of_words(words: list[tuple[int, str, int]]) -> None:
    site = Cluster().sees(T, full=True)
    for number, (index, state, uid) in enumerate(words, start=1):
        at_ms = T + number * S
        site.sees(at_ms, in_state(index, state, uid, at_ms), full=state == "lost", gone=state == "gone")
    open_: set[int] = set()
    newest, over, end_ms = -1, set[int](), 0
    for one in site.placements:
        assert one.attempt >= newest
        assert one.attempt not in over  # an end stands as first told
        assert one.to_ms is None or one.from_ms is None or one.to_ms >= one.from_ms
        assert one.attempt in open_ or one.from_ms is None or one.from_ms >= end_ms  # attempts do not overlap
        newest, end_ms = one.attempt, one.to_ms or end_ms
        if one.to_ms is None:
            open_.add(one.attempt)
        else:
            over.add(one.attempt)
    assert len(open_ - over) <= 1
    assert over <= open_


def says(reason: str, count: int, uid: str = "e", kind: str = "Node", **more: Any) -> Any:
    told = {
        "metadata": {"uid": uid}, "involvedObject": {"kind": kind, "name": "n1"}, "reason": reason, "type": "Warning",
        "message": "told", "count": count, "lastTimestamp": iso(T), "source": {"component": "kernel-monitor"}, **more,
    }  # fmt: skip
    return spoken(objects.decoded(json.dumps(told).encode(), objects.EventObject))


def test_an_event_object_that_is_counted_up_is_told_by_the_difference() -> None:
    state, told = host_kubernetes.Said(), list[int]()
    for sequence, count in enumerate((2, 2, 5), start=1):
        state, events = host_kubernetes.said(state, [Seen(sequence, "/events", [says("TaskHung", count)])], T)
        told += [one.count for one in events]
    assert told == [2, 3]
    _, events = host_kubernetes.said(state, [Seen(9, "/events", [says("TaskHung", 9, "old")])], T + 3_600_000)
    assert events == ()  # an hour old


def test_event_objects_of_pods_speak_of_the_node_of_their_kubelet() -> None:
    evicted = says("Evicted", 1, kind="Pod", source={"component": "kubelet", "host": "n3"})
    assert evicted is not None
    assert (evicted.event.kind, evicted.event.component) == ("scheduler.host_condition", "host:n3")
    assert says("Evicted", 1, kind="Pod", source={"component": "kubectl"}) is None
    assert says("FailedScheduling", 1, kind="Pod", source={"component": "default-scheduler"}) is None


@pytest.mark.parametrize("kind", [objects.Node, objects.Pod, objects.EventObject])
@pytest.mark.parametrize("raw", [b"", b"[]", b'{"metadata": {"name": 7}}', b'{"metadata": "x"}', b"[" * 100_000])
def test_objects_that_are_none_are_refused(kind: type[Any], raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        objects.decoded(raw, kind)
    assert issubclass(msgspec.DecodeError, ValueError)
