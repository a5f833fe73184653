"""Alarms and switches of a fabric manager over TLS: what stands, what changed, and rows that are not understood."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.cluster import fabric_manager
from collectors.cluster.fabric_manager_alarms import Alarms, alarmed
from collectors.cluster.fabric_manager_events import MOST_EVENTS
from collectors.cluster.fabric_manager_systems import Systems, systems
from collectors.cluster.poll import Polled, PollFailed, Source
from sickbay.messages import Action, Change, Event, Identity, Severity
from sickbay.source_settings import Fabric
from tests.collectors.fabric_kit import MINUTE, T
from tests.services.recorded_https import Recorded, recorded_https

ALARMS, SYSTEMS = "/ufmRest/app/alarms", "/ufmRest/resources/systems?type=switch"


def alarm(number: int, name: str, path: str, severity: str = "Critical", **more: Any) -> dict[str, Any]:
    return {
        "id": number, "type": "Switch", "name": name, "description": "Module status FAULT", "event_type": 394,
        "duration": "0 s", "reason": f"{name} at {path}", "severity": severity, "timestamp": "2026-03-11 04:20:00",
        "counter": "N/A", "event_count": 4, "object_name": "b0cf0e0300bb0010", "object_path": path, **more,
    }  # fmt: skip


def switch(guid: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": guid, "guid": guid, "system_guid": guid, "system_name": name, "type": "switch", "state": "active",
        "model": "MQM9700", "fw_version": "31.2012.1068", "sw_version": "3.11.3002", "temperature": "56",
        "ip": "10.7.4.2", "role": "tor", "total_alarms": 0, "severity": "Info", "modules": [], "ports": [], **more,
    }  # fmt: skip


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Recorded]:
    with recorded_https(tmp_path) as told:
        told.answers = {
            ALARMS: [],
            SYSTEMS: [
                switch("b0cf0e0300bb0010", "leaf1"),
                switch("b0cf0e0300bb0020", "MF0;spine1:MQM9700/U1", temperature="N/A", sw_version="N/A"),
            ],
        }
        yield told


def standing(server: Recorded) -> tuple[Source[Any], Source[Any]]:
    found = {one.name: one for one in fabric_manager.sources(Fabric(manager_url=server.url, ca_file=server.ca_file))}
    return found["fabric_manager_alarms"], found["fabric_manager_systems"]


def step(source: Source[Any], now_ms: int) -> Polled[Any]:
    polled = source.poll(source.state, now_ms)
    source.state = polled.state
    return polled


def events(polled: Polled[Any]) -> list[Event]:
    return [one.message for one in polled.told if isinstance(one.message, Event)]


def test_an_alarm_is_told_once_while_it_stands_and_never_as_more_than_a_warning(server: Recorded) -> None:
    alarms, _ = standing(server)
    fault = alarm(2, "System Module Error", "Switch: leaf1")
    server.answers[ALARMS] = [fault]
    (first,) = events(step(alarms, T))
    assert (first.kind, first.component, first.severity) == ("switch.environment", "switch:leaf1", Severity.WARNING)
    assert (first.advice, first.attributes["severity"]) == (Action.WATCH, "Critical")
    assert first.attributes["standing"] == "at the first look"
    assert events(step(alarms, T + MINUTE)) == []
    port = alarm(3, "Link HW Error", "Computer: h1 / mlx5_0", "Warning", reason="Link-Downed counter delta")
    server.answers[ALARMS] = [fault, port, alarm(4, "Port of it", "default / Switch: leaf1 / 35", "Info")]
    new = events(step(alarms, T + 2 * MINUTE))
    assert [(one.kind, one.component) for one in new] == [("monitor.notice", "monitor:ufm/alarms")] * 2
    assert [one.severity for one in new] == [Severity.WARNING, Severity.INFO]
    assert "standing" not in new[0].attributes
    server.answers[ALARMS] = []
    assert events(step(alarms, T + 3 * MINUTE)) == []
    server.answers[ALARMS] = [fault]
    assert len(events(step(alarms, T + 4 * MINUTE))) == 1, "it came back"


def test_the_form_of_older_versions_is_read(server: Recorded) -> None:
    alarms, _ = standing(server)
    old = {
        "event_type": 394, "event_count": 31, "timestamp": "2026-05-08 11:48:09.351", "counter": None, "type": 55,
        "related_object_path": "default / Switch: leaf2", "related_object_name": "e41d2d0300167ee0", "duration": 420,
        "name": "Module status FAULT", "reason": "Module PS 2 on leaf2 is fatal", "id": 1, "severity": "Critical",
        "summary": "Module status FAULT",
    }  # fmt: skip
    server.answers[ALARMS] = [old]
    (told,) = events(step(alarms, T))
    assert (told.kind, told.component) == ("switch.environment", "switch:leaf2")
    assert "PS 2" in told.message


def test_switches_tell_temperature_model_and_versions_that_changed(server: Recorded) -> None:
    _, looked = standing(server)
    first = step(looked, T)
    (samples,) = first.samples
    assert (samples.table, list(samples.component)) == ("switch", ["switch:leaf1"])
    assert [float(one) for one in samples.values["temperature_celsius"]] == [56.0]
    assert "up" not in samples.values, "the manager did not ask the switch itself"
    who = [one.message for one in first.told if isinstance(one.message, Identity)]
    assert [(one.host, one.model, one.name) for one in who] == [
        ("leaf1", "MQM9700", "0xb0cf0e0300bb0010"), ("spine1", "MQM9700", "0xb0cf0e0300bb0020"),
    ]  # fmt: skip
    assert step(looked, T + MINUTE).told == []
    newer = switch("b0cf0e0300bb0010", "leaf1", fw_version="31.2014.1000", sw_version="N/A", state="Rebooting")
    server.answers[SYSTEMS] = [newer]
    later = step(looked, T + 2 * MINUTE)
    change = [one.message for one in later.told if isinstance(one.message, Change)]
    assert [(one.target, one.what, one.old, one.new) for one in change] == [
        ("switch:leaf1", "firmware", "31.2012.1068", "31.2014.1000")
    ]
    (told,) = events(later)
    assert (told.kind, told.attributes["switch"]) == ("monitor.notice", "switch:leaf1")
    assert "rebooting" in told.message
    server.answers[SYSTEMS] = []
    assert (step(looked, T + 3 * MINUTE).told, step(looked, T + 3 * MINUTE).samples) == ([], [])


def test_a_manager_without_them_says_so(server: Recorded) -> None:
    server.answers = {}
    for source in standing(server):
        with pytest.raises(PollFailed, match="answered 404"):
            step(source, T)


def test_rows_that_are_not_understood_are_counted_and_end_no_alarm() -> None:
    def told(*rows: Any) -> bytes:
        return json.dumps(rows).encode()

    fault = alarm(2, "System Module Error", "Switch: leaf1")
    first = alarmed(told(fault), Alarms(), T)
    half = alarmed(told(None, {"id": "x"}), first.state, T)
    assert (half.unparsed, events(half)) == (2, [])
    assert events(alarmed(told(fault), half.state, T)) == []
    storm = alarmed(told(*(alarm(n, "a\x1b[31m", "a\x00" * 200) for n in range(700))), Alarms(), T)
    assert len(events(storm)) == MOST_EVENTS + 1
    odd = [switch("x" * 1900, "\x1b"), switch("1", "a", temperature=None), switch("2", "c", temperature="1e999"), 7]
    bad = systems(told(*odd, {"system_name": "d"}), Systems(), T)
    assert bad.unparsed == 2
    assert len(bad.samples[0].component) == 1, "what is no temperature is none"
    assert all(len(one.message.name) < 40 for one in bad.told if isinstance(one.message, Identity))
    for body in (b"{}", b"[" * 100_000, b"\xff"):
        with pytest.raises(PollFailed):
            alarmed(body, Alarms(), T)
        with pytest.raises(PollFailed):
            systems(body, Systems(), T)
