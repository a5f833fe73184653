"""Kubernetes at its oddest: nodes made anew, ranks that no label tells, thousands of pods at once, a black hole."""

import io
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from collectors.cluster import host_kubernetes, job_kubernetes, kubernetes_api, scheduler_kubernetes
from collectors.cluster.kubernetes_watch import Change as Seen
from collectors.cluster.poll import Poller
from collectors.formats.kubernetes_ranks import ranks_of
from collectors.formats.kubernetes_refusals import EVERY_MS, MANY
from diagnosis.engine import diagnose
from sickbay.log.memory import MemoryLog
from sickbay.messages import Action, Event, replace
from sickbay.selfmetrics import SelfMetrics
from tests.collectors.test_poll_kubernetes import (
    INDEX,
    STATES,
    Cluster,
    S,
    T,
    in_state,
    kinds,
    node,
    pod,
    refused,
    short,
    word,
)
from tests.diagnosis.kit import T0, case, placement


def told(*polls: tuple[int, Any, bool]) -> list[Event]:
    """Events of nodes; the first poll is a list, `gone` what is deleted."""
    state, events = host_kubernetes.Hosts(), list[Event]()
    for number, (read_ms, one, gone) in enumerate(polls, start=1):
        seen = [Seen(number, "/nodes", [word(one)], full=number == 1, gone=gone)]
        step = host_kubernetes.polled(state, seen, read_ms)
        state, events = step.hosts, [*events, *step.events]
    return events


def test_a_node_that_is_deleted_and_made_anew_is_back() -> None:
    found = told((T, node(), False), (T + S, node(), True), (T + 2 * S, node(), False), (T + 3 * S, node(), False))
    assert kinds(found) == [("scheduler.host_drained", "deleted"), ("scheduler.host_back", "deleted")]


def test_accelerators_that_are_given_out_in_parts_are_not_missing() -> None:
    parted = node(cards=0, of=0)
    parted["status"]["capacity"]["nvidia.com/mig-1g.10gb"] = "56"
    assert told((T, node(), False), (T + S, parted, False), (T + 200 * S, parted, False)) == []
    lost = told((T, node(), False), (T + S, node(cards=0, of=0), False), (T + 200 * S, node(cards=0, of=0), False))
    assert [one.kind for one in lost] == ["scheduler.accelerators_none"]


@pytest.mark.parametrize(
    ("env", "args", "ranks"),
    [
        ({"NPROC_PER_NODE": "2"}, [], 4),
        ({"NPROC_PER_NODE": "2", "WORLD_SIZE": "4"}, [], 4),
        ({"NPROC_PER_NODE": "2", "WORLD_SIZE": "2"}, [], 4),  # some count pods in it
        ({"NPROC_PER_NODE": "2", "WORLD_SIZE": "8"}, [], 0),  # half of them have not begun
        ({"NPROC_PER_NODE": "2", "PET_RDZV_BACKEND": "static"}, [], 4),
        ({"NPROC_PER_NODE": "2", "PET_RDZV_BACKEND": "c10d"}, [], 0),  # who comes first is first
        ({"NPROC_PER_NODE": "2"}, ["torchrun --rdzv-backend=c10d train.py"], 0),
        ({"NPROC_PER_NODE": "2"}, ["--rdzv_backend", "etcd-v2"], 0),
    ],
)
def test_ranks_that_the_launcher_gives_out_itself_are_told_by_no_label(
    env: dict[str, str], args: list[str], ranks: int
) -> None:
    labels = {"batch.kubernetes.io/job-name": "s"}
    pods = [short(pod(f"p{at}", f"n{at}", labels | {INDEX: str(at)}, env=env, args=args)) for at in (0, 1)]
    assert len(ranks_of(pods)) == ranks


def test_two_pods_of_one_place_and_a_hole_are_no_ranks() -> None:
    def placed(*places: int) -> int:
        labels = {"batch.kubernetes.io/job-name": "s"}
        env = {"NPROC_PER_NODE": "1"}
        return len(ranks_of([short(pod(f"p{at}", f"n{at}", labels | {INDEX: str(one)}, env=env))
                             for at, one in enumerate(places)]))  # fmt: skip

    assert [placed(0, 1, 2), placed(0, 0, 1), placed(0, 2, 3)] == [3, 0, 0]


@pytest.mark.slow
def test_four_thousand_pods_that_begin_in_one_second_are_looked_at_together() -> None:
    labels = {"batch.kubernetes.io/job-name": "s"}
    pods = [short(pod(f"s-{at}", f"n{at}", labels | {INDEX: str(at)}, env={"NPROC_PER_NODE": "8"}))
            for at in range(4096)]  # fmt: skip
    began = time.process_time()
    step = job_kubernetes.polled(job_kubernetes.Jobs(), [Seen(at, "/p", [one]) for at, one in enumerate(pods, 1)], T)
    assert time.process_time() - began < 3.0  # one by one it is 6 s and grows with the square
    assert [len(one.ranks) for one in step.placements] == [8 * 4096]


def test_the_same_job_in_two_namespaces_is_two_jobs() -> None:
    one, other = (pod("s-0", host, {"batch.kubernetes.io/job-name": "s", INDEX: "0"}) for host in ("n1", "n2"))
    other["metadata"] |= {"namespace": "prod", "uid": "other"}
    placed = Cluster().sees(T, one, other, full=True).placements
    assert sorted((one.job, one.hosts) for one in placed) == [("ml/s", ("n1",)), ("prod/s", ("n2",))]


def test_a_job_made_anew_under_its_name_is_its_next_attempt() -> None:
    labels = {"batch.kubernetes.io/job-name": "s", INDEX: "0"}
    site = Cluster().sees(T, pod("s-0", "n1", labels, uid="a"), full=True)
    site.sees(T + 9 * S, pod("s-0", "n1", labels, uid="a"), gone=True)
    site.sees(T + 20 * S, pod("s-0", "n5", labels, uid="b", since=T + 19 * S))
    assert [one[:3] for one in site.told()] == [(0, "running", ("n1",)), (0, "gone", ("n1",)), (1, "running", ("n5",))]


@given(st.lists(st.tuples(st.integers(0, 3), STATES, st.integers(0, 2)), min_size=1, max_size=12))
def test_changes_of_one_poll_lead_where_changes_of_many_polls_do(words: list[tuple[int, str, int]]) -> None:
    seen = [
        Seen(at, "/p", [short(in_state(index, state, uid, T + at * S))], gone=state in ("gone", "lost"))
        for at, (index, state, uid) in enumerate(words, 1)
    ]
    single = job_kubernetes.Jobs()
    for change in seen:
        single = job_kubernetes.polled(single, [change], T + 60 * S).jobs
    whole = job_kubernetes.polled(job_kubernetes.Jobs(), seen, T + 60 * S).jobs
    assert whole.pods == single.pods
    ends = [{job: run.placement.to_ms is None for job, run in state.runs.items()} for state in (whole, single)]
    assert ends[0].keys() <= ends[1].keys()


def black_hole(job: Any) -> list[Event]:
    site = Cluster()
    for number in range(3 * MANY):
        one = refused(number)
        one["metadata"]["labels"] = {"batch.kubernetes.io/job-name": job(number)}
        site.sees(T + number * EVERY_MS // 10, one)
    return site.sees(T + 3 * MANY * EVERY_MS).events


def test_a_node_that_refuses_many_jobs_must_take_no_more_and_one_job_s_own_pods_prove_nothing() -> None:
    many = black_hole(lambda number: f"job-{number}")
    assert {one.component for one in many} == {"host:n4"}
    assert [one.advice for one in many][:1] == [Action.WATCH]
    assert many[-1].advice is None  # what its kind asks for: no new work
    assert {one.advice for one in black_hole(lambda number: "job")} == {Action.WATCH}


class Client:
    """A client with a token of its own; the server takes the second one."""

    def __init__(self, token: str) -> None:
        self.token, self.rest_client, self.pool_manager, self.configuration = token, self, self, self
        self.host = "http://127.0.0.1:1"

    def update_params_for_auth(self, headers: dict[str, str], *rest: Any) -> None:
        headers["Authorization"] = self.token

    def request(self, method: str, address: str, headers: dict[str, str], **more: Any) -> Any:
        answer = urllib3.HTTPResponse(io.BytesIO(b"{}"), status=200, preload_content=False)
        answer.status = 200 if headers["Authorization"] == "renewed" else 401
        return answer


def test_a_token_that_was_renewed_in_its_file_is_used_after_the_old_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = iter(("old", "renewed"))
    monkeypatch.setattr(kubernetes_api, "_client", lambda *settings: Client(next(tokens)))
    api = kubernetes_api.Api("kubeconfig", "", 1.0)
    with pytest.raises(kubernetes_api.Trouble, match="401"):
        api.get("/api/v1/nodes", {})
    assert api.get("/api/v1/nodes", {}) == b"{}"


def test_the_black_hole_is_one_incident_of_its_node_and_of_none_of_the_jobs() -> None:
    shift = T0 - T - 3 * MANY * EVERY_MS // 10
    told = [
        replace(one, at_ms=(one.at_ms or 0) + shift, until_ms=one.until_ms and one.until_ms + shift, seen_ms=T0)
        for one in black_hole(lambda number: f"job-{number}")
    ]
    (incident,) = diagnose(case(told, [placement("ml/other", ["n1", "n2"])], []))
    assert (incident.fault, incident.component, incident.verdict) == ("accelerator_missing", "host:n4", "component")
    assert incident.action is Action.DRAIN_HOST


class Half:
    """A server that refuses one of two namespaces, and in the other one something always happens."""

    def __init__(self) -> None:
        self.number = 0

    def get(self, path: str, query: dict[str, str]) -> bytes:
        if "secret" in path:
            raise kubernetes_api.Trouble("a right is missing (403): pods in secret", 403)
        return b'{"metadata": {"resourceVersion": "1"}, "items": []}'

    def lines(self, path: str, query: dict[str, str], silent_s: float, opened: Any) -> Iterator[bytes]:
        opened(None)
        while True:
            self.number += 1
            told = pod(f"p{self.number}", "n1", {})
            yield json.dumps({"type": "ADDED", "object": told}).encode()
            time.sleep(0.005)


def test_a_namespace_that_may_not_be_read_is_told_whatever_happens_in_another() -> None:
    sources = scheduler_kubernetes.of(Half(), ["ml", "secret"], 1.0)
    (source,) = [one for one in sources if one.name == "kubernetes_pods"]
    said = list[str]()
    poller = Poller([source], MemoryLog().appender(), SelfMetrics(), said.append)
    try:
        deadline, now_ms = time.monotonic() + 10.0, T
        while source.state.sequence < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
            poller.step(now_ms := now_ms + 1000)
        assert source.state.sequence >= 3
        assert "a right is missing" in poller.waiting
        assert len([one for one in said if "a right is missing" in one]) == 1
    finally:
        poller.close()
