"""A fabric manager's REST over TLS: links, ports and events, and answers that are late, half, wrong or hostile."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.cluster import fabric_manager
from collectors.cluster.fabric_edges import GONE_MS
from collectors.cluster.fabric_manager import Seen, looked
from collectors.cluster.fabric_manager_events import MOST_EVENTS, Heard, heard
from collectors.cluster.poll import Polled, PollFailed, Source
from collectors.formats.fabric_manager_json import port_of
from sickbay.config import ConfigError
from sickbay.messages import Edge, Event
from sickbay.source_settings import Fabric
from sickbay.topology import Topology
from tests.collectors.fabric_kit import MINUTE, T
from tests.services.recorded_https import CUT, HANG, Recorded, recorded_https

TOKEN = "uhTqH8mX0rT0k3n"
LEAF, HOSTS = "b0cf0e0300bb0010", ("a088c20300aa0001", "a088c20300aa0002", "a088c20300aa0003")
SPINE = "b0cf0e0300bb0020"
LOOK_MS = round(GONE_MS / 2) + 1


def link(guid: str, port: int, told: str, dname: str, far: str, far_port: int, far_told: str) -> dict[str, Any]:
    return {
        "source_guid": guid, "source_port": str(port), "source_port_dname": dname, "source_port_node_description": told,
        "destination_guid": far, "destination_port": str(far_port), "destination_port_dname": str(far_port),
        "destination_port_node_description": far_told, "width": "IB_4x", "severity": "Info", "capabilities": [],
        "name": f"{guid}_{port}:{far}_{far_port}",
    }  # fmt: skip


def port(guid: str, number: int, told: str, dname: str, state: str = "Active") -> dict[str, Any]:
    physical = "Link Up" if state == "Active" else "Polling"
    return {
        "name": f"{guid}_{number}", "guid": guid, "number": number, "dname": dname, "node_description": told,
        "system_name": told.split(" ")[0], "logical_state": state, "physical_state": physical, "active_speed": "NDR",
    }  # fmt: skip


def links() -> list[dict[str, Any]]:
    hosts = [link(guid, 1, f"h{n} mlx5_0", "HCA-1/1", LEAF, n, f"leaf1:{n}") for n, guid in enumerate(HOSTS, 1)]
    return [*hosts, link(LEAF, 33, "leaf1:33", "33", SPINE, 1, "spine1:1")]


def ports(**states: str) -> list[dict[str, Any]]:
    told = [port(guid, 1, f"h{n} mlx5_0", "HCA-1/1") for n, guid in enumerate(HOSTS, 1) if f"h{n}" not in states]
    leaf = [port(LEAF, n, "leaf1", str(n), states.get(f"p{n}", "Active")) for n in (1, 2, 3, 33)]
    return [*told, *leaf, port(SPINE, 1, "spine1", "1")]


def told(number: int, name: str, severity: str = "Warning", at: str = "leaf1", **more: str) -> dict[str, Any]:
    return {
        "id": number, "name": name, "type": "64", "severity": severity, "timestamp": "2026-03-11 04:20:00",
        "counter": "N/A", "category": "Fabric Notification", "object_name": at, "object_path": f"default / {at}",
        "write_to_syslog": False, "description": f"{name} {at}", **more,
    }  # fmt: skip


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Recorded]:
    with recorded_https(tmp_path) as told:
        told.authorization = f"Basic {TOKEN}"
        base = "/ufmRestV3"
        told.answers = {
            f"{base}/resources/links": links(),
            f"{base}/resources/ports": ports(),
            f"{base}/app/events": [],
        }
        yield told


def asking(server: Recorded, tmp_path: Path, secret: str = TOKEN, **more: Any) -> list[Source[Any]]:
    file = tmp_path / "token"
    file.write_text(secret + "\n")
    settings = Fabric(manager_url=server.url, manager_token_file=str(file), ca_file=server.ca_file, **more)
    return fabric_manager.sources(settings)[:2]  # links, events


def step(source: Source[Any], now_ms: int) -> Polled[Any]:
    polled = source.poll(source.state, now_ms)
    source.state = polled.state
    return polled


def edges(polled: Polled[Any]) -> list[Edge]:
    return [one.message for one in polled.told if isinstance(one.message, Edge)]


def events(polled: Polled[Any]) -> list[tuple[str, str, str]]:
    found = [one.message for one in polled.told if isinstance(one.message, Event)]
    return [(one.kind, one.component, one.peer) for one in found]


def test_links_are_edges_by_the_names_that_other_sources_use(server: Recorded, tmp_path: Path) -> None:
    fabric, _ = asking(server, tmp_path)
    polled = step(fabric, T)
    view = Topology(edges(polled)).at()
    assert view.other_end("port:h2/mlx5_0/1") == "port:leaf1/2"
    assert view.hosts_under("switch:leaf1") == ("h1", "h2", "h3")
    assert view.other_end("port:spine1/1") == "port:leaf1/33"
    assert {one.source for one in edges(polled)} == {"ufm"}
    assert events(polled) == []
    assert step(fabric, T + MINUTE).told == []
    assert {(one.verb, one.path) for one in server.asked} == {
        ("GET", "/ufmRestV3/resources/links"),
        ("GET", "/ufmRestV3/resources/ports"),
    }


def test_a_user_and_password_ask_the_first_interface(server: Recorded, tmp_path: Path) -> None:
    server.authorization = "Basic " + base64.b64encode(b"eve:s3cret").decode()
    server.answers = {key.replace("V3", ""): value for key, value in server.answers.items()}
    fabric, listed = asking(server, tmp_path, "eve:s3cret")
    assert len(edges(step(fabric, T))) == 4 + 5
    assert step(listed, T).told == []


def test_a_port_that_is_down_is_told_with_its_other_end(server: Recorded, tmp_path: Path) -> None:
    fabric, _ = asking(server, tmp_path)
    step(fabric, T)
    server.answers["/ufmRestV3/resources/ports"] = ports(p2="Down", h2="gone")
    server.answers["/ufmRestV3/resources/links"] = [one for one in links() if one["source_guid"] != HOSTS[1]]
    down = step(fabric, T + MINUTE)
    assert events(down) == [
        ("port.down", "port:leaf1/2", "port:h2/mlx5_0/1"),
        ("port.down", "port:h2/mlx5_0/1", "port:leaf1/2"),
    ]
    assert edges(down) == []
    ended = edges(step(fabric, T + LOOK_MS * 2))
    assert [(one.child, one.to_ms) for one in ended if one.relation == "link_end"] == [
        ("port:h2/mlx5_0/1", T + LOOK_MS * 2)
    ]
    server.answers |= {"/ufmRestV3/resources/ports": ports(), "/ufmRestV3/resources/links": links()}
    back = step(fabric, T + LOOK_MS * 3)
    assert events(back) == [("port.up", "port:leaf1/2", "port:h2/mlx5_0/1")]
    assert [one.from_ms for one in edges(back) if one.relation == "link_end"] == [T + LOOK_MS * 3]


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_links_that_the_manager_forgot_do_not_end(server: Recorded, tmp_path: Path, kept: int) -> None:
    fabric, _ = asking(server, tmp_path)
    step(fabric, T)
    server.answers["/ufmRestV3/resources/links"] = links()[:kept]
    seen = [step(fabric, T + LOOK_MS * n) for n in range(1, 5)]
    assert [one for polled in seen for one in edges(polled)] == []
    notices = [event for polled in seen for event in events(polled)]
    assert {kind for kind, _, _ in notices} == ({"monitor.partial_sweep"} if kept < 2 else set())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (500, "answered 500"), (401, "manager_token_file"), (404, "answered 404"), ((CUT, links()), "ends after"),
        (b"<html>login</html>", "no list of rows"), ({"error": "x"}, "no list of rows"), (b"[" * 100_000, "no list"),
        (b"\xff\xfe", "no list of rows"), (HANG, "no whole answer within 1 s"),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_changes_nothing(server: Recorded, tmp_path: Path, answer: Any, why: str) -> None:
    fabric, _ = asking(server, tmp_path, timeout_s=1)
    step(fabric, T)
    before = fabric.state
    server.answers["/ufmRestV3/resources/links"] = answer
    with pytest.raises(PollFailed, match=why):
        step(fabric, T + MINUTE)
    assert fabric.state is before


def test_a_wrong_token_and_a_certificate_of_somebody_else_say_what_to_do(server: Recorded, tmp_path: Path) -> None:
    fabric, _ = asking(server, tmp_path, "wrong")
    with pytest.raises(PollFailed, match="may read"):
        step(fabric, T)
    settings = Fabric(manager_url=server.url)
    with pytest.raises(PollFailed, match="ca_file"):
        step(fabric_manager.sources(settings)[0], T)
    missing = Fabric(manager_url=server.url, manager_token_file=str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="manager_token_file"):
        fabric_manager.sources(missing)
    with pytest.raises(ConfigError, match="manager_url"):
        fabric_manager.sources(Fabric(manager_url="https://:99999"))


def test_an_answer_without_end_is_left_at_its_limit(
    server: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collectors.cluster.fabric_manager_rest.MAX_BODY", 1 << 20)
    fabric, _ = asking(server, tmp_path)
    server.answers["/ufmRestV3/resources/links"] = links() * 2000
    with pytest.raises(PollFailed, match="larger than"):
        step(fabric, T)


def test_rows_that_are_not_understood_hide_no_others_and_end_nothing() -> None:
    import json

    bad: list[Any] = [None, 5, {"source_guid": 7}, {"source_guid": "x" * 9000, "source_port": 1}, [], "row"]
    whole = looked(json.dumps(links()).encode(), json.dumps(ports()).encode(), Seen(), T)
    part = json.dumps([*bad, *links()[1:]]).encode()
    dark = json.dumps([*bad, *ports(p1="Down")]).encode()
    state = whole.state
    for n in range(1, 5):
        polled = looked(part, dark, state, T + LOOK_MS * n)
        state = polled.state
        assert edges(polled) == []
        assert polled.unparsed == 12


def test_events_that_are_new_are_told_by_what_they_speak_of(server: Recorded, tmp_path: Path) -> None:
    _, listed = asking(server, tmp_path)
    path = "/ufmRestV3/app/events"
    server.answers[path] = [told(7, "Switch is Down")]
    assert step(listed, T).told == []  # history
    server.answers[path] = [
        told(9, "High Ambient Temperature", "Critical"),
        told(8, "Switch is Down"),
        told(7, "Switch is Down"),
        told(10, "MCast Group Deleted", "Info"),
        {"id": "x"},
    ]
    polled = step(listed, T + 1000)
    assert events(polled) == [
        ("switch.asic_notice", "switch:leaf1", ""),
        ("monitor.notice", "monitor:ufm/events", ""),
    ]
    assert polled.unparsed == 1
    assert step(listed, T + 2000).told == []
    server.answers[path] = [told(1, "Switch is Up")]  # the manager began anew
    assert step(listed, T + 3000).told == []
    server.answers[path] = [told(1, "Switch is Up"), told(2, "Switch is Down")]
    assert len(step(listed, T + 4000).told) == 1


def test_a_storm_of_events_is_summed_up_and_their_text_is_cleaned() -> None:
    import json

    storm = [told(n, "Port Xmit\x1b[31m", "Minor", "a\x00b", description="x" * 1900) for n in range(2000)]
    polled = heard(json.dumps(storm).encode(), Heard(-1), T)
    found = [one.message for one in polled.told if isinstance(one.message, Event)]
    assert len(found) == MOST_EVENTS + 1
    assert (found[-1].kind, found[-1].attributes["lost"]) == ("monitor.lines_lost", "1500")
    assert found[0].code == "Port Xmit"
    assert len(found[0].message) == 500


def test_ports_are_named_as_the_subnets_own_tools_name_them() -> None:
    assert port_of("a088c20300aa0001", 1, "h1 mlx5_0", adapter=True) == "port:h1/mlx5_0/1"
    assert port_of("b0cf0e0300bb0010", "17", "MF0;leaf01:MQM9700/U1", adapter=False) == "port:leaf01/17"
    assert port_of("b0cf0e0300bb0010", "17", "leaf01:17", adapter=False) == "port:leaf01/17"
    assert port_of("0xA088C20300AA0001", 1, "MT4123 ConnectX6   Mellanox Technologies", adapter=True) == (
        "port:0xa088c20300aa0001/1"
    )
    assert port_of("a088c20300aa0001", 1, "h1", adapter=True) == "port:h1/0xa088c20300aa0001/1"
    assert port_of("1", 1, "", adapter=True) == "port:0x0000000000000001/1"


def test_nulls_and_numbers_as_text_hide_no_row_and_make_no_switch() -> None:
    rows = [one | {"source_port_dname": None, "severity": None} for one in links()]
    found = looked(json.dumps(rows).encode(), json.dumps(ports()).encode(), Seen(), T)
    whole = looked(json.dumps(links()).encode(), json.dumps(ports()).encode(), Seen(), T)
    assert [one.message for one in found.told] == [one.message for one in whole.told]
    assert found.unparsed == 0
    new = heard(json.dumps([told(1, "x") | {"id": "7"}]).encode(), Heard(6), T)
    assert (len(new.told), new.unparsed) == (1, 0)
