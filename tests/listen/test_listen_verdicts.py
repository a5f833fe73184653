"""What others say of a node makes nobody take it out of service: their word is watched, or shown to people."""

import json
import time
from pathlib import Path

import pytest

from sickbay.app.running.live import Pipeline
from sickbay.log.memory import MemoryLog
from sickbay.messages import Action, Incident, strength
from tests.listen.listen_kit import Site, card, site
from tests.listen.test_listen_conditions import health

HARMLESS = strength(Action.WATCH)


def incidents(log: MemoryLog) -> list[Incident]:
    """What the live run makes of the log within some seconds."""
    pipeline, found = Pipeline(log), list[Incident]()
    now_ms = int(time.time() * 1000)
    for at_ms in range(now_ms, now_ms + 30_000, 1000):
        log.clock = lambda at_ms=at_ms: at_ms  # type: ignore[misc]
        found += pipeline.second(at_ms)
    return found


def posted(one: Site, path: str, body: object) -> None:
    answer = one.post(path, json.dumps(body).encode(), Content_Type="application/json")
    assert answer.status == 204, answer.body


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/cloudevents", health(nodeName="n1")),
        ("/v1/cloudevents", health(nodeName="n1", checkName="GpuDcgmHealth", errorCode=["DCGM_FR_X"])),
        ("/v1/conditions/gpud?host=n1", [{"component": "accelerator-nvidia-xid", "states": [{"health": "Unhealthy"}]}]),
        ("/v1/conditions/node?host=n1", {"type": "KernelDeadlock", "status": "True", "reason": "DockerHung"}),
        ("/v1/conditions/node?host=n1", {"type": "ReadonlyFilesystem", "status": "True", "reason": "R"}),
        ("/v1/conditions/node?host=n1", {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}),
        ("/v1/cloudevents", {"specversion": "1.0", "type": "org.example.dead", "subject": "n1", "id": "1",
                             "source": "s", "data": {"severity": "fatal", "message": "replace the node now"}}),
    ],
)  # fmt: skip
def test_the_word_of_another_system_alone_takes_nothing_out_of_service(tmp_path: Path, path: str, body: object) -> None:
    log = MemoryLog()
    with site(tmp_path, log) as one:
        posted(one, path, body)
    found = incidents(log)
    assert found  # it is not passed over either
    assert all(strength(incident.action) <= HARMLESS for incident in found), [
        (incident.component, incident.fault, incident.action) for incident in found
    ]


@pytest.mark.slow
def test_a_code_that_an_exporter_still_shows_takes_nothing_out_of_service(tmp_path: Path) -> None:
    log = MemoryLog()
    with site(tmp_path, log) as one:
        assert one.write([(card("DCGM_FI_DEV_XID_ERRORS"), [(79.0, int(time.time() * 1000))])]).status == 204
    assert all(strength(incident.action) <= HARMLESS for incident in incidents(log))
