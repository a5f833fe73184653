"""OTLP metrics and logs: what they become, in protobuf and JSON, and what they may not tell."""

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

from collectors.formats.metric_names import targets
from collectors.listen import Allowed, Request, Unfit
from collectors.listen.memory import SeriesMemory
from collectors.listen.otlp_logs import read as read_logs
from collectors.listen.otlp_metrics import read as read_metrics
from tests.listen.listen_kit import EVENTS, NOW_MS, site

NS = NOW_MS * 1_000_000
LOST = "NVRM: Xid (PCI:0000:cb:00): 79, pid=1234, name=python3, GPU has fallen off the bus."


def attributes(told: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in told.items()]


def metrics(*rows: tuple[str, str, dict[str, str], float], host: str = "n1", kind: str = "gauge") -> dict[str, Any]:
    """(name, unit, attributes, value) of one host."""
    told = [
        {
            "name": name,
            "unit": unit,
            kind: {"dataPoints": [{"attributes": attributes(labels), "timeUnixNano": str(NS), "asDouble": value}]}
            | ({"aggregationTemporality": 2} if kind == "sum" else {}),
        }
        for name, unit, labels, value in rows
    ]
    return {
        "resourceMetrics": [
            {"resource": {"attributes": attributes({"host.name": host})}, "scopeMetrics": [{"metrics": told}]}
        ]
    }


def logs(
    *bodies: Any, host: str = "n1", resource: dict[str, str] | None = None, record: dict[str, str] | None = None
) -> dict[str, Any]:
    told = [{"timeUnixNano": str(NS), "body": body, "attributes": attributes(record or {})} for body in bodies]
    of = attributes({"host.name": host} | (resource or {}))
    return {"resourceLogs": [{"resource": {"attributes": of}, "scopeLogs": [{"logRecords": told}]}]}


def text(line: str) -> dict[str, Any]:
    return {"stringValue": line}


def journal(**fields: str) -> dict[str, Any]:
    return {"kvlistValue": {"values": attributes(fields)}}


EXPORTER = {"Hostname": "n1", "gpu": "0", "UUID": "GPU-1", "pci_bus_id": "00000000:CB:00.0"}
METRICS = metrics(
    ("DCGM_FI_DEV_GPU_TEMP", "", EXPORTER, 41.0),
    ("system.linux.memory.available", "By", {}, 5e9),
    ("hw.gpu.utilization", "1", {"hw.id": "0", "hw.gpu.task": "general"}, 0.25),
    ("hw.gpu.utilization", "1", {"hw.id": "0", "hw.gpu.task": "encoder"}, 0.99),
    ("of.nobody", "1", {}, 1.0),
)


@pytest.mark.parametrize("encoding", ["json", "protobuf", "gzip"])
def test_metrics_come_out_as_columns(tmp_path: Path, encoding: str) -> None:
    with site(tmp_path) as one:
        body, kind = json.dumps(METRICS).encode(), "application/json"
        if encoding != "json":
            message = json_format.Parse(body, metrics_service_pb2.ExportMetricsServiceRequest())
            body, kind = message.SerializeToString(), "application/x-protobuf"
        headers = {"Content_Type": kind} | ({"Content_Encoding": "gzip"} if encoding == "gzip" else {})
        answer = one.post("/v1/metrics", gzip.compress(body) if encoding == "gzip" else body, **headers)
        assert answer.status == 200
        assert answer.headers["content-type"] == kind
        assert one.values("accelerator", "temperature_celsius") == {("accelerator:n1/0000:cb:00", NOW_MS): 41.0}
        assert one.values("host", "memory_available_bytes") == {("host:n1", NOW_MS): 5e9}
        assert set(one.values("accelerator", "utilisation_ratio").values()) == {0.25}


def test_network_counters_of_one_direction_are_not_those_of_the_other() -> None:
    rows = [
        ("system.network.io", "By", {"device": "eth0", key: value}, number)
        for key in ("direction", "network.io.direction")
        for value, number in (("receive", 10.0), ("transmit", 99.0))
    ]
    request = Request(json.dumps(metrics(*rows, kind="sum")).encode(), {"content-type": "application/json"}, {}, NOW_MS)
    told = read_metrics(request, SeriesMemory(), lambda component: True)
    assert [batch.values["rx_bytes_total"].tolist() for batch in told.samples] == [[10.0]]


@pytest.mark.parametrize("label", ["device", "network.interface.name"])
def test_an_interface_is_named_by_the_label_of_any_version(label: str) -> None:
    row = ("system.network.errors", "{error}", {label: "eth0", "network.io.direction": "receive"}, 7.0)
    body = json.dumps(metrics(row, kind="sum")).encode()
    told = read_metrics(Request(body, {"content-type": "application/json"}, {}, NOW_MS), SeriesMemory(), lambda _: True)
    (batch,) = told.samples
    assert (list(batch.component), batch.values["rx_errors_total"].tolist()) == (["port:n1/eth0"], [7.0])


def test_what_no_column_takes_is_told_in_the_protocol_s_own_way(tmp_path: Path) -> None:
    body = metrics(("node_vmstat_oom_kill", "1", {}, 3.0), kind="sum")
    body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["sum"]["aggregationTemporality"] = 1
    with site(tmp_path) as one:
        answer = one.post("/v1/metrics", json.dumps(body).encode(), Content_Type="application/json")
        assert answer.status == 200
        assert answer.json["partialSuccess"]["rejectedDataPoints"] == "1"
        stranger = json.dumps(metrics(("system.linux.memory.available", "By", {}, 1.0), host="other"))
        answer = one.post("/v1/metrics", stranger.encode(), Content_Type="application/json")
        assert "may tell of" in answer.json["partialSuccess"]["errorMessage"]
        assert one.frames() == []


def events(body: dict[str, Any], allowed: Allowed = lambda component: True) -> list[Any]:
    request = Request(json.dumps(body).encode(), {"content-type": "application/json"}, {}, NOW_MS + 5000, "otel")
    told = read_logs(request, SeriesMemory(), allowed)
    return [one.message for one in told.records if one.topic == EVENTS]


@pytest.mark.parametrize(
    "body",
    [
        logs(journal(MESSAGE=LOST, _TRANSPORT="kernel", SYSLOG_IDENTIFIER="kernel")),
        logs(text(f"Mar 11 04:00:00 n1 kernel: {LOST}"), record={"log.file.path": "/var/log/kern.log"}),
        logs(journal(MESSAGE=LOST, _TRANSPORT="kernel", _HOSTNAME="n1"), host=""),
    ],
)
def test_the_system_s_own_log_speaks_of_hardware(body: dict[str, Any]) -> None:
    (event,) = events(body)
    assert (event.kind, event.code) == ("accelerator.off_bus", "Xid 79")
    assert event.component == "accelerator:n1/0000:cb:00"
    assert (event.host, event.at_ms, event.seen_ms) == ("n1", NOW_MS, NOW_MS + 5000)


@pytest.mark.parametrize(
    "body",
    [
        logs(text(LOST)),
        logs(text(LOST), record={"log.file.path": "/var/log/pods/a_b/kern.log"}),
        logs(text(LOST), record={"log.file.path": "/var/log/kern.log", "k8s.pod.name": "evil"}),
        logs(journal(MESSAGE=LOST, _TRANSPORT="kernel"), resource={"container.id": "1"}),
        logs(journal(MESSAGE=f"kernel: {LOST}", _TRANSPORT="stdout", SYSLOG_IDENTIFIER="python3")),
    ],
)
def test_what_a_program_prints_speaks_of_no_hardware(body: dict[str, Any]) -> None:
    assert [one for one in events(body) if one.component.startswith("accelerator")] == []


def test_logs_of_other_hosts_are_left_out() -> None:
    assert events(logs(journal(MESSAGE=LOST, _TRANSPORT="kernel")), lambda component: False) == []
    assert events(logs(text(LOST), host="")) == []


@pytest.mark.parametrize("read", [read_logs, read_metrics])
@pytest.mark.parametrize("kind", ["application/json", "application/x-protobuf"])
def test_damaged_bodies_are_refused(read: Any, kind: str) -> None:
    message = json_format.ParseDict(logs(text(LOST)), logs_service_pb2.ExportLogsServiceRequest())
    whole = json.dumps(logs(text(LOST))).encode() if kind.endswith("json") else message.SerializeToString()
    many = b'{"resourceLogs": [' + b"{}," * 300_000 + b"{}]}" if kind.endswith("json") else b"\x0a\x00" * 100_000
    bodies = [whole[:-3], many, b"\xff" * 50, b"[" * 50_000, b'{"resourceLogs": 7}']
    for body in [*bodies, *(whole[:end] for end in range(0, 60, 7))]:
        with suppress(Unfit):
            told = read(Request(body, {"content-type": kind}, {}, NOW_MS), SeriesMemory(), lambda component: True)
            assert not told.samples


def test_names_of_open_telemetry_are_apart_from_those_of_exporters() -> None:
    own = [name for name, target in targets().items() if target.source.source.startswith("OpenTelemetry")]
    assert len(own) >= 8
    assert all("." in name for name in own)
