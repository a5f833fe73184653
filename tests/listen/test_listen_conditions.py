"""Conditions and health events of other systems: what they become, and that they never claim more than they say."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from collectors.listen import Request, Unfit
from collectors.listen.cloud_events import read as cloud_events
from collectors.listen.gpud import read as gpud
from collectors.listen.node_conditions import read as node
from collectors.listen.told_conditions import table
from sickbay.messages import Event, Severity
from sickbay.vocabulary import event_kinds
from tests.listen.listen_kit import EVENTS, NOW_MS, site

JSON = {"content-type": "application/json"}
AT_MS = 1_773_201_600_000  # 2026-03-11T04:00:00Z
READERS = {"node": node, "gpud": gpud, "nvsentinel": cloud_events, "cloudevents": cloud_events}


def told(read: Any, body: Any, host: str = "gx-n1", headers: dict[str, str] | None = None) -> list[Event]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    query = {"host": host} if host else {}
    found = read(Request(raw, headers or JSON, query, AT_MS + 9000, "npd"), None, lambda _: True)
    return [one.message for one in found.records]


@pytest.mark.parametrize("source", list(READERS))
def test_the_sample_of_every_source_is_read(source: str) -> None:
    host = "gx-n1" if source in ("node", "gpud") else ""
    (event,) = told(READERS[source], table()[source].sample.encode(), host)
    assert event.host == "gx-n1"
    assert event.at_ms == AT_MS
    assert event.attributes["source"] == source
    assert event.severity in (Severity.WARNING, Severity.ERROR)


def test_the_table_knows_its_kinds() -> None:
    for source in table().values():
        assert source.source
        assert all(row.kind in event_kinds() for row in source.rows.values())


def test_node_conditions_and_events() -> None:
    bad = told(node, {"source": "k", "conditions": [
        {"type": "ReadonlyFilesystem", "status": "True", "reason": "R", "transition": "2026-03-11T04:00:00Z"},
        {"type": "KernelDeadlock", "status": "False", "reason": "KernelHasNoDeadlock"},
        {"type": "OfASite", "status": "True", "message": "own \x1b[31mrule\n"},
    ], "events": [{"severity": "warn", "timestamp": "2026-03-11T04:00:00Z", "reason": "OOMKilling"}]})  # fmt: skip
    assert [(one.kind, one.severity.value) for one in bad] == [
        ("scheduler.host_condition", "warning"),
        ("scheduler.host_back", "info"),
        ("scheduler.host_condition", "warning"),
        ("scheduler.host_condition", "info"),
    ]
    assert bad[2].message == "own  [31mrule "
    assert bad[2].at_ms == AT_MS + 9000  # it told none


def test_nodes_and_events_of_kubernetes_name_their_own_host() -> None:
    conditions = [{"type": "Ready", "status": status, "reason": "R"} for status in ("False", "Unknown", "True")]
    nodes = {"kind": "List", "items": [
        {"kind": "Node", "metadata": {"name": "gx-n2"}, "status": {"conditions": conditions}},
        {"kind": "Event", "involvedObject": {"kind": "Node", "name": "gx-n3"}, "type": "Warning", "reason": "TaskHung"},
        {"kind": "Event", "involvedObject": {"kind": "Pod", "name": "p"}, "type": "Warning", "reason": "BackOff"},
    ]}  # fmt: skip
    found = told(node, nodes, "")
    assert [(one.kind, one.component) for one in found] == [
        ("scheduler.host_down", "host:gx-n2"),
        ("scheduler.host_silent", "host:gx-n2"),
        ("scheduler.host_back", "host:gx-n2"),
        ("scheduler.host_condition", "host:gx-n3"),
    ]


def health(**event: Any) -> dict[str, Any]:
    base = {"nodeName": "gx-n1", "componentClass": "GPU", "checkName": "SysLogsXIDError", "isFatal": True,
            "isHealthy": False, "message": "m", "errorCode": ["79"], "recommendedAction": 24,
            "entitiesImpacted": [{"entityType": "PCI", "entityValue": "0000:cb:00"}]}  # fmt: skip
    return {"specversion": "1.0", "type": "com.nvidia.nvsentinel.health.v1", "source": "s", "id": "1",
            "data": {"healthEvent": base | event}}  # fmt: skip


def test_a_code_that_another_system_tells_is_watched_and_never_the_fault_itself() -> None:
    (event,) = told(cloud_events, health(), "")
    assert (event.kind, event.code) == ("accelerator.fault_reported", "XID 79")
    assert event.component == "accelerator:gx-n1/0000:cb:00"
    assert event.attributes["advice"] == "RESTART_BM"
    assert event.advice is None  # theirs is told, not taken
    (event,) = told(cloud_events, health(errorCode=["31"]), "")
    assert event.kind == "accelerator.code_reported"
    (event,) = told(cloud_events, health(checkName="GpuThermalWatch", errorCode=["DCGM_FR_CLOCK_THROTTLE"]), "")
    assert (event.kind, event.severity) == ("scheduler.device_unhealthy", Severity.ERROR)
    (event,) = told(cloud_events, health(checkName="x", entitiesImpacted=[], isFatal=False), "")
    assert (event.kind, event.component, event.severity) == ("scheduler.host_condition", "host:gx-n1", Severity.WARNING)
    (event,) = told(cloud_events, health(isHealthy=True), "")
    assert (event.kind, event.severity) == ("scheduler.host_back", Severity.INFO)


def test_gpud_s_states_and_events() -> None:
    states = [{"health": "Healthy"}, {"health": "Degraded", "reason": "r"}]
    events = [{"type": "Fatal", "name": "error_xid", "message": "XID 79", "time": "2026-03-11T04:00:00Z"}]
    body = [{"component": "accelerator-nvidia-xid", "states": states, "events": events}]
    found = told(gpud, body)
    assert [(one.kind, one.severity.value) for one in found] == [
        ("scheduler.host_back", "info"),
        ("scheduler.host_condition", "info"),
        ("scheduler.host_condition", "warning"),  # no row says that more may be made of it
    ]


def test_cloud_events_in_batches_and_binary() -> None:
    one = {"specversion": "1.0", "type": "org.example.sick", "source": "s", "id": "1", "subject": "gx-n4",
           "data": {"severity": "fatal", "message": "m"}}  # fmt: skip
    (event,) = told(cloud_events, [one], "", {"content-type": "application/cloudevents-batch+json"})
    assert (event.host, event.severity, event.code) == ("gx-n4", Severity.WARNING, "org.example.sick")
    binary = JSON | {"ce-specversion": "1.0", "ce-type": "org.example.sick", "ce-subject": "gx-n5", "ce-id": "2"}
    (event,) = told(cloud_events, b'{"severity": "info", "message": "m"}', "", binary)
    assert (event.host, event.severity) == ("gx-n5", Severity.INFO)


@pytest.mark.parametrize("read", [node, gpud, cloud_events])
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"7", b"null", b'"x"', b"[[]]", b"[" * 100_000, b"\xff\xfe", b'[{"specversion": "1.0"}]',
     b'{"kind": "Node", "status": {"conditions": [7, null, {"type": 7}]}}', b'{"component": "c", "states": [7, {}]}',
     b'{"type": ["x"], "status": {}, "transition": "9999999999999-01-01T00:00:00Z"}', b"[" + b"{}," * 5000 + b"{}]",
     b'{"specversion":"1.0","type":"com.nvidia.nvsentinel.health.v1","data":{"healthEvent":{"entitiesImpacted":[7]}}}'],
)  # fmt: skip
def test_any_body_is_read_or_refused(read: Any, body: bytes) -> None:
    with suppress(Unfit):
        found = read(Request(body, JSON, {"host": "n1"}, NOW_MS, "t"), None, lambda _: True)
        assert all(one.message.host for one in found.records)


def test_a_host_must_be_named_and_allowed(tmp_path: Path) -> None:
    body = json.dumps({"type": "KernelDeadlock", "status": "True", "reason": "DockerHung"}).encode()
    with site(tmp_path) as one:
        assert one.post("/v1/conditions/node?host=n1", body).status == 204
        assert one.post("/v1/conditions/node?host=other", body).status == 403
        answer = one.post("/v1/conditions/node", body)
        assert (answer.status, answer.json["left_out"]) == (400, {"no_host": 1})
        assert [event.host for event in one.told(EVENTS)] == ["n1"]
