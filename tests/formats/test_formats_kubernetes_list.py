"""`kubectl get … -o json` and `-o wide`: the black hole, pods and nodes of one moment."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats import kubernetes_list, kubernetes_pods_table, log
from collectors.formats.masking import masked, struck
from collectors.formats.reading import Reading, Tally
from collectors.inputs.sniff import sniff
from sickbay.messages import Action, Event, Placement

LACKING = (
    "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 8, Available: 7, "
    "which is unexpected"
)
AT = "2026-03-03T03:10:00Z"


def listed(*items: Any) -> bytes:
    return json.dumps({"apiVersion": "v1", "items": [{"apiVersion": "v1", **one} for one in items]}, indent=4).encode()


def refused(number: int, job: str, host: str = "h9") -> Any:
    labels = {"batch.kubernetes.io/job-name": job} if job else {}
    return {
        "kind": "Pod",
        "metadata": {"name": f"web-7d9c8b6f5d-x{number:04}", "namespace": "ml", "uid": f"u{number}", "labels": labels},
        "spec": {"nodeName": host, "containers": [{"name": "main"}]},
        "status": {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": LACKING, "startTime": AT},
    }


def said(number: int, pod: str) -> Any:
    return {
        "kind": "Event", "metadata": {"name": f"e{number}", "uid": f"e{number}"}, "type": "Warning",
        "involvedObject": {"kind": "Pod", "namespace": "ml", "name": pod}, "reason": "UnexpectedAdmissionError",
        "message": LACKING, "source": {"component": "kubelet", "host": "h9"}, "lastTimestamp": AT,
    }  # fmt: skip


def told(raw: bytes) -> list[Reading]:
    tally = Tally()
    found = sniff(raw, "x")
    assert found.kind == "kubernetes_list"
    readings = list(kubernetes_list.read([raw], tally))
    assert not tally.unparsed, tally.notes
    return readings


def events(raw: bytes) -> list[Event]:
    return [one.record for one in told(raw) if isinstance(one.record, Event)]


@pytest.mark.parametrize(
    ("pods", "advice"),
    [
        ([refused(at, f"train-{at}") for at in range(500)], None),
        ([said(at, f"train-{at}-0") for at in range(500)], None),
        ([refused(at, "one") for at in range(500)], Action.WATCH),  # one job's pods: its own placing may be wrong
        ([refused(at, "") for at in range(500)], Action.WATCH),  # one replica set's
        ([refused(at, f"train-{at}") for at in range(3)], Action.WATCH),  # the scheduler may give one out twice
    ],
)
def test_pods_that_one_node_refuses_are_one_event_of_the_node(pods: list[Any], advice: Action | None) -> None:
    (event,) = events(listed(*pods))
    assert (event.kind, event.component, event.code) == ("scheduler.accelerators_fewer", "host:h9", "7 of 8")
    assert (event.count, event.advice) == (len(pods), advice)


def test_nodes_and_jobs_of_one_moment() -> None:
    node = {
        "kind": "Node", "metadata": {"name": "h1"}, "spec": {"unschedulable": True},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "7"}},
    }  # fmt: skip

    def pod(index: int, state: Any) -> Any:
        labels = {"batch.kubernetes.io/job-name": "s", "batch.kubernetes.io/job-completion-index": str(index)}
        status = {"phase": "Running", "containerStatuses": [{"name": "main", "state": state}]}
        spec = {"nodeName": f"h{index}", "containers": [{"name": "main"}]}
        return {
            "kind": "Pod",
            "metadata": {"name": f"s-{index}", "namespace": "ml", "uid": str(index), "labels": labels},
            "spec": spec, "status": status,
        }  # fmt: skip

    runs = {"running": {"startedAt": AT}}
    whole = told(listed(node, pod(1, runs), pod(0, runs)))
    assert [one.record.kind for one in whole if isinstance(one.record, Event)] == [
        "scheduler.host_drained", "scheduler.accelerators_fewer",
    ]  # fmt: skip
    (placed,) = [one.record for one in whole if isinstance(one.record, Placement)]
    assert (placed.job, placed.hosts, placed.state) == ("ml/s", ("h0", "h1"), "running")
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": AT}}
    (ended,) = events(listed(pod(0, runs), pod(1, killed)))
    assert (ended.kind, ended.component) == ("job.out_of_memory", "job:ml/s")


def test_a_table_of_pods_tells_which_node_refuses() -> None:
    heads = "NAMESPACE NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES"
    rows = [f"ml t-{at}-0 0/1 UnexpectedAdmissionError 0 9m <none> h9 <none> <none>" for at in range(30)]
    rows += ["ml   ok-0   1/1   Running   2 (5m ago)   9m   10.0.0.1   h1   <none>   <none>", "ml torn 0/1 Runn"]
    raw = "\n".join([heads, *rows]).encode()
    tally = Tally()
    assert sniff(raw, "x").kind == "kubernetes_pods_table"
    (reading,) = kubernetes_pods_table.read([raw], tally)
    event = reading.record
    assert isinstance(event, Event)
    assert (event.component, event.code, event.count) == ("host:h9", "UnexpectedAdmissionError", 30)
    assert (event.advice, event.at_ms, tally.records, tally.unparsed) == (Action.WATCH, None, 31, 1)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("wget https://x/?a=1&token=abc&b=2", "wget https://x/?a=1&token=***&b=2"),
        ("git clone https://user:pw@git.host/x", "git clone https://***@git.host/x"),
        ("git clone ssh://git@host/x", "git clone ssh://git@host/x"),
        ("curl -H 'Authorization: Bearer abc.def' http://x", "curl -H 'Authorization: ***' http://x"),
        ('{"api_key":"abc","lr":1}', '{"api_key":***,"lr":1}'),
        ("cmd = ['t.py','--hf-token','abc','--x']", "cmd = ['t.py','--hf-token',***,'--x']"),
        ("PGPASSWORD=x psql", "PGPASSWORD=*** psql"),
        ('--password "two words" --a b', "--password *** --a b"),
        ("use hf_abcdefghijklmnopq1 now", "use *** now"),
        ("--max-tokens=4096 --tokenizer-model m --author me", "--max-tokens=4096 --tokenizer-model m --author me"),
        ("AuthType=auth/munge 1234 tokens/s", "AuthType=auth/munge 1234 tokens/s"),
    ],
)
def test_secrets_are_struck_out_of_texts(text: str, left: str) -> None:
    assert struck(text) == left


@given(st.text(alphabet="abtokenTOKEN-_=: '\"/sk.", max_size=60))
def test_a_text_without_a_suspect_is_left_alone_and_none_grows_much(text: str) -> None:
    assert len(struck(text)) <= len(text) + 3 * (1 + len(text) // 4)
    assert struck(struck(text)) == struck(text) or "***" in struck(text)


def test_a_secret_argument_is_struck_out_whole() -> None:
    assert " ".join(masked(["--token", "a b", "sh", "-c", "t --api-key xyz --lr 2", "--password=a b"])) == (
        "--token *** sh -c t --api-key *** --lr 2 --password=***"
    )


SECRET = "hunter2"
SAID = (
    f"['/usr/bin/python', '-u', 'train.py', '--wandb-api-key', '{SECRET}', '--hf_token={SECRET}'] exits with return "
    "code = 1",
    f"subprocess.CalledProcessError: Command '['t.py', 'https://u:{SECRET}@host/x']' returned non-zero exit status 1.",
    f"Mar  3 03:10:00 n1 kernel: Out of memory: Killed process 42 (python --token={SECRET}) total-vm:1kB, anon-rss:1kB",
    f"2026-03-03T03:10:03 n1 slurmctld[1]: update_node: node n1 reason set to: token={SECRET}",
    f"2026-03-03T03:10:03 n1 slurmctld[1]: update_node: node n1 state set to DRAINED password={SECRET}",
    f"torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: 1) local_rank: 0 (pid: 99) of binary: "
    f"/usr/bin/python TOKEN={SECRET}",
)


def test_no_field_of_what_a_log_tells_holds_a_secret() -> None:
    found = [one.record for one in log.read(["\n".join(SAID).encode()], Tally(), "a.log")]
    assert len(found) >= 4
    assert SECRET not in str(found)
