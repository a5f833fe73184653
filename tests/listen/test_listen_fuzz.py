"""Thousands of damaged requests on every path: each is read or refused with a reason, and none is a fault of ours."""

import json
import os
import random
from pathlib import Path

import pytest

from collectors.listen import Request
from collectors.listen.memory import SeriesMemory
from sickbay import handover
from sickbay.app.listening.intake import PATHS, Intake
from sickbay.app.listening.sink import Direct
from sickbay.app.listening.tokens import Grant, Row
from sickbay.app.running.service import Context
from sickbay.handover import Handed
from sickbay.log.memory import MemoryLog
from sickbay.selfmetrics import SelfMetrics
from tests.listen.listen_kit import ALL, NOW_MS, TELEMETRY, card, config, records, written, written_v2
from tests.listen.test_listen_conditions import health
from tests.listen.test_listen_otlp import LOST, METRICS, journal, logs
from tests.process.kit import Agent

TURNS = 4_000 * int(os.environ.get("FUZZ_FACTOR", "1"))
JSON = {"content-type": "application/json"}
PROTOBUF = {"content-type": "application/x-protobuf", "content-encoding": "snappy"}
PROTOBUF_V2 = PROTOBUF | {"content-type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}
PIECES = (b"{}", b"[]", b"null", b"1e999", b'"\\ud800"', b"\xff\xff\xff\xff", b"-1", b'"' + b"x" * 300 + b'"', b"\x00")
EXPECTED = {200, 201, 204, 400, 403, 413, 415}


def seeds() -> list[tuple[str, bytes, dict[str, str]]]:
    """A good request of every path: path, body, headers."""
    own = MemoryLog()
    Agent("n1", own.appender(), None).sample(NOW_MS)
    handed = [
        Handed(one.topic, one.key, one.value)
        for topic in ("sickbay.schemas.v1", TELEMETRY)
        for one in records(own, topic)
    ]
    temperature, code = card("DCGM_FI_DEV_GPU_TEMP"), card("DCGM_FI_DEV_XID_ERRORS")
    return [
        ("/api/v1/write", written([(temperature, [(41.0, NOW_MS)])]), PROTOBUF),
        ("/api/v1/write", written_v2([(code, [(79.0, NOW_MS)])]), PROTOBUF_V2),
        ("/v1/metrics", json.dumps(METRICS).encode(), JSON),
        ("/v1/logs", json.dumps(logs(journal(MESSAGE=LOST, _TRANSPORT="kernel"))).encode(), JSON),
        ("/v1/cloudevents", json.dumps(health(nodeName="n1")).encode(), JSON),
        ("/v1/conditions/node", b'{"type": "KernelDeadlock", "status": "True", "reason": "x"}', {}),
        ("/v1/conditions/gpud", b'[{"component": "c", "states": [{"health": "Unhealthy"}]}]', {}),
        ("/v1/changes", b'{"target": "n1", "what": "driver", "at": "now"}', {}),
        ("/v1/maintenance", b'{"targets": ["n1"], "until": "2h"}', {}),
        (handover.PATH, handover.encode(handed), {"content-type": handover.TYPE}),
    ]


def damaged(draw: random.Random, body: bytes) -> bytes:
    """The body with some bytes changed, cut out or put in, or without its end."""
    told = bytearray(body)
    for _ in range(draw.randint(0, 4)):
        place = draw.randrange(len(told) + 1)
        match draw.randrange(4):
            case 0 if told:
                told[place % len(told)] = draw.randrange(256)
            case 1:
                del told[place : place + draw.randint(1, 8)]
            case 2:
                told[place:place] = draw.choice(PIECES)
            case _:
                told = told[: max(place, len(told) - 3)] if draw.random() < 0.9 else told[:place]
    return bytes(told)


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_requests_are_read_or_refused(tmp_path: Path, seed: int) -> None:
    log, metrics, draw = MemoryLog(), SelfMetrics(), random.Random(seed)
    intake = Intake(Context(config(tmp_path), log, metrics, lambda _: None), Direct(log.appender(), metrics))
    grant = Grant("all", Row(sha256="0" * 64, hosts=("n1",), kinds=ALL), SeriesMemory())
    good = seeds()
    assert {path for path, _, _ in good} == set(PATHS)
    for path, body, headers in good:
        assert intake.answer(path, grant, Request(body, headers, {"host": "n1"}, NOW_MS, "all")).status < 300
    for _ in range(TURNS // 2):
        path, body, headers = draw.choice(good)
        told = damaged(draw, body)
        reply = intake.answer(path, grant, Request(told, headers, {"host": "n1"}, NOW_MS, "all"))
        assert reply.status in EXPECTED, (path, told)
        assert reply.status < 400 or json.loads(reply.body)["error"]
    for record in records(log, TELEMETRY):
        assert record.key == b"n1"
