"""The inventory as a polled question: lists in files, NetBox over TLS with pages, and what happens when they lie."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.cluster import netbox_get
from collectors.cluster.inventory import State, remembered, sources
from collectors.cluster.poll import Outgoing, Polled, PollFailed, Source
from sickbay.config import ConfigError
from sickbay.messages import Edge, Event, Identity, Relation
from sickbay.settings import Config
from sickbay.source_settings import Inventory
from tests.services.recorded_https import CUT, Recorded, recorded_https

HOSTS = "host,rack,pdu_a,serial\nh1,r1,p1,S1\nh2,r1,p1,S2\n"


def of_files(folder: Path, **texts: str) -> Source[State]:
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text, "utf-8")
    (source,) = sources(Config(inventory=Inventory(files=tuple(str(folder / f"{name}.csv") for name in texts))))
    return source


def edges(told: Polled[State] | list[Outgoing]) -> list[tuple[str, str, bool]]:
    messages = [one.message for one in (told if isinstance(told, list) else told.told)]
    return sorted((one.child, one.parent, one.to_ms is not None) for one in messages if isinstance(one, Edge))


def events(told: Polled[State]) -> list[Event]:
    return [one.message for one in told.told if isinstance(one.message, Event)]


def test_what_is_new_and_what_ended_is_told_and_all_else_is_not(tmp_path: Path) -> None:
    source = of_files(tmp_path, hosts=HOSTS)
    first = source.poll(source.state, 1000)
    assert edges(first) == [
        ("host:h1", "pdu:p1", False), ("host:h1", "rack:r1", False),
        ("host:h2", "pdu:p1", False), ("host:h2", "rack:r1", False),
    ]  # fmt: skip
    assert [one.message.serial for one in first.told if isinstance(one.message, Identity)] == ["S1", "S2"]
    assert len({one.key for one in first.told}) == len(first.told)  # in a compacted topic none replaces another
    again = source.poll(first.state, 2000)
    assert again.told == []
    of_files(tmp_path, hosts=HOSTS.replace("h2,r1,p1", "h2,r2,p1"))
    moved = source.poll(again.state, 3000)
    assert edges(moved) == [("host:h2", "rack:r1", True), ("host:h2", "rack:r2", False)]
    assert edges(list(source.standing(moved.state))) == [
        ("host:h1", "pdu:p1", False), ("host:h1", "rack:r1", False),
        ("host:h2", "pdu:p1", False), ("host:h2", "rack:r2", False),
    ]  # fmt: skip


def test_a_list_that_was_not_understood_whole_ends_nothing(tmp_path: Path) -> None:
    source = of_files(tmp_path, hosts=HOSTS)
    state = source.poll(source.state, 1000).state
    of_files(tmp_path, hosts="host,rack,pdu_a,serial\nh1,r1,p1,S1\nh2,,,,,,\n")
    told = source.poll(state, 2000)
    assert (edges(told), told.unparsed) == ([], 1)


@pytest.mark.parametrize("text", ["", "nothing of the kind\n", "host,rack\n"])
def test_an_empty_list_is_no_empty_site(tmp_path: Path, text: str) -> None:
    source = of_files(tmp_path, hosts=HOSTS, cables="a_device,a_port,b_device,b_port\nh1,n0,l1,e1\n")
    state = source.poll(source.state, 1000).state
    of_files(tmp_path, hosts=text)
    told = source.poll(state, 2000)
    assert edges(told) == []
    assert [one.kind for one in events(told)] == ["monitor.blind"]
    assert "hosts.csv" in events(told)[0].message
    (tmp_path / "cables.csv").unlink()
    with pytest.raises(PollFailed, match="No such file"):
        source.poll(told.state, 3000)


def test_a_list_of_which_most_is_gone_is_looked_at_again(tmp_path: Path) -> None:
    source = of_files(tmp_path, hosts=HOSTS)
    state = source.poll(source.state, 1000).state
    of_files(tmp_path, hosts="host,rack,pdu_a,serial\nh1,r1,,\n")  # a file that is just being written
    cut = source.poll(state, 2000)
    assert edges(cut) == []
    assert [(one.kind, one.message) for one in events(cut)] == [
        ("monitor.partial_sweep", "3 of 4 edges are gone: they end if the next look says so too")
    ]
    of_files(tmp_path, hosts=HOSTS)
    assert source.poll(cut.state, 3000).told == []
    of_files(tmp_path, hosts="host,rack_number,pdu_feed,pdu_a\nh1,r1,x,p1\n")  # headings renamed
    renamed = source.poll(cut.state, 3000)
    assert {one for one in edges(renamed) if one[2]} == {
        ("host:h1", "rack:r1", True), ("host:h2", "pdu:p1", True), ("host:h2", "rack:r1", True)
    }  # fmt: skip
    assert [one.message for one in events(renamed)] == ["columns that were not read: pdu_feed, rack_number"]
    assert events(source.poll(renamed.state, 4000)) == []


def test_a_run_takes_up_what_an_earlier_one_told(tmp_path: Path) -> None:
    source = of_files(tmp_path, hosts=HOSTS)
    told = [one.message for one in source.poll(source.state, 1000).told]
    assert source.remembered is not None
    of_files(tmp_path, hosts="host,rack,pdu_a,serial\nh1,r1,p1,S1\n")
    assert edges(source.poll(source.remembered(told), 2000)) == [
        ("host:h2", "pdu:p1", True),
        ("host:h2", "rack:r1", True),
    ]


def test_lists_that_disagree_are_told_once(tmp_path: Path) -> None:
    source = of_files(tmp_path, hosts=HOSTS, racks="host,rack\nh1,r9\nh2,r1\n")
    told = source.poll(source.state, 1000)
    (event,) = events(told)
    assert (event.kind, event.component, event.count) == ("monitor.sources_disagree", "monitor:inventory/topology", 1)
    assert "host:h1 part_of rack:r1" in event.message
    assert "host:h1 part_of rack:r9" in event.message
    assert events(source.poll(told.state, 2000)) == []


def test_what_was_seen_wins_over_a_list(tmp_path: Path) -> None:
    source = of_files(tmp_path, cables="a_device,a_port,b_device,b_port\nh1,n0,leaf1,e4\n")
    seen = Edge(
        child="port:h1/n0", parent="port:leaf1/e3", relation=Relation.LINK_END, source="lldp", seen_ms=5
    )  # fmt: skip
    own = frozenset(f"inventory:{tmp_path / 'cables.csv'}" for _ in "1")
    (event,) = events(source.poll(remembered([seen], own), 1000))
    assert event.message == (
        f"port:h1/n0 link_end port:leaf1/e3 (lldp) against port:h1/n0 link_end port:leaf1/e4 "
        f"(inventory:{tmp_path / 'cables.csv'})"
    )


def test_hosts_that_are_called_otherwise_are_told(tmp_path: Path) -> None:
    of_files(tmp_path, hosts="host,rack\nH1.example.com,r1\nh2,r1\nh9,r1\n")
    (source,) = sources(Config(inventory=Inventory(files=(str(tmp_path / "hosts.csv"),))))
    assert source.remembered is not None
    known = [
        Identity(host="h1", kind="accelerator", index="0"),
        Edge(child="port:h2/n0", parent="port:leaf1/e3", relation=Relation.LINK_END, source="lldp", seen_ms=5),
    ]
    (event,) = events(source.poll(source.remembered(known), 1000))
    assert (event.kind, event.code) == ("monitor.notice", "not all was read")
    assert event.message.startswith("1 hosts are called otherwise by their agents and neighbours, such as h1 for H1.ex")


# --- NetBox -----------------------------------------------------------------------------------------------------------


def device(number: int, name: str) -> dict[str, Any]:
    return {
        "id": number, "url": f"https://n/api/dcim/devices/{number}/", "name": name, "role": {"slug": "gpu-server"},
        "rack": {"name": "r1"}, "serial": f"S{number}", "status": {"value": "active"},
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("netbox")


@pytest.fixture
def server(folder: Path) -> Iterator[Recorded]:
    with recorded_https(folder) as told:
        told.authorization = "Token 0123"
        (folder / "token").write_text("0123\n", "utf-8")
        first, *others = (f"/api/dcim/{question}" for question in netbox_get.QUESTIONS)
        second = "/api/dcim/devices/?limit=1000&offset=1000"
        told.answers = {one: {"count": 0, "next": None, "results": []} for one in others}
        # behind a proxy NetBox names itself wrongly: the token must not go there
        told.answers[first] = {"count": 2, "next": f"http://inside{second}", "results": [device(1, "h1")]}
        told.answers[second] = {"count": 2, "next": None, "results": [device(2, "h2")]}
        yield told


def of_netbox(server: Recorded) -> Source[State]:
    settings = Inventory(
        netbox_url=server.url,
        token_file=str(Path(server.ca_file).with_name("token")),
        ca_file=server.ca_file,
        timeout_s=5,
    )
    (source,) = sources(Config(inventory=settings))
    return source


def test_pages_are_read_to_the_end(server: Recorded) -> None:
    source = of_netbox(server)
    told = source.poll(source.state, 1000)
    assert edges(told) == [("host:h1", "rack:r1", False), ("host:h2", "rack:r1", False)]
    assert {one.message.source for one in told.told if isinstance(one.message, Edge)} == {"netbox"}
    assert {one.verb for one in server.asked} == {"GET"}
    assert {one.headers["host"] for one in server.asked} == {server.url.removeprefix("https://")}


def test_half_an_answer_ends_nothing(server: Recorded) -> None:
    source = of_netbox(server)
    state = source.poll(source.state, 1000).state
    second = "/api/dcim/devices/?limit=1000&offset=1000"
    whole = server.answers[second]
    for broken, says in (
        ((CUT, whole), "ends after"), (503, "answered 503"), (whole | {"results": []}, "1 objects where 2"),
        ({"detail": "no"}, "no `results`"), (b"<html>", "no JSON"),
        (whole | {"next": server.url + second}, "elsewhere"),
    ):  # fmt: skip
        server.answers[second] = broken
        with pytest.raises(PollFailed, match=says):
            source.poll(state, 2000)
    server.answers[second] = whole
    assert source.poll(state, 3000).told == []


def test_a_refused_token_says_what_to_do(server: Recorded) -> None:
    server.authorization = "Token other"
    source = of_netbox(server)
    with pytest.raises(PollFailed, match=r"answered 403.*token_file"):
        source.poll(source.state, 1000)


def test_a_changed_schema_ends_nothing(server: Recorded) -> None:
    source = of_netbox(server)
    state = source.poll(source.state, 1000).state
    first = "/api/dcim/devices/?limit=1000"
    page = json.loads(json.dumps(server.answers[first]).replace('"role"', '"function"'))
    server.answers[first] = page
    told = source.poll(state, 2000)
    assert (edges(told), told.unparsed) == ([], 1)


@pytest.mark.parametrize(
    ("token", "header"), [("01", "Token 01"), ("nbt_a.b", "Bearer nbt_a.b"), ("Basic x", "Basic x")]
)
def test_tokens_of_both_generations(token: str, header: str) -> None:
    assert netbox_get.authorization(token) == header


def test_settings_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x", "utf-8")
    for settings in (
        Inventory(),
        Inventory(netbox_url="https://n", token_file="/no/such"),
        Inventory(netbox_url="http://n", token_file=str(tmp_path / "token")),
    ):
        with pytest.raises(ConfigError, match="inventory"):
            sources(Config(inventory=settings))
