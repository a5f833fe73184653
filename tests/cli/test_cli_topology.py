"""`sickbay topology`: what an import would change and changes, and what is shown of a part."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sickbay.cli import main
from sickbay.edges import log_key
from sickbay.log import Task
from sickbay.log.reading import records
from sickbay.log.sqlite import SqliteLog
from sickbay.messages import Edge, Event, Identity, Relation, decode, encode
from sickbay.topics import EVENTS, TOPICS, TOPOLOGY

HOSTS = "host,rack,pdu_a,cdu\nh1,r1,p1,c1\nh2,r1,p1,c1\n"
FABRIC = """Switch\t64 "S-0000000000000002"\t\t# "leaf1" enhanced port 0 lid 1 lmc 0
[3]\t"H-0000000000000004"[1](5) \t\t# "h1 mlx5_0" lid 4 4xNDR
[5]\t"H-0000000000000005"[1](6) \t\t# "h2 mlx5_0" lid 5 4xNDR
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteLog]:
    monkeypatch.chdir(tmp_path)
    made = SqliteLog(tmp_path / "sickbay-log")
    yield made
    made.close()


@pytest.fixture
def hosts(tmp_path: Path) -> str:
    (tmp_path / "hosts.csv").write_text(HOSTS, "utf-8")
    return "hosts.csv"


def told(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    assert main(["topology", *arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def in_log(log: SqliteLog) -> list[Edge]:
    found = [decode(one.value) for one in records(log.reader(), Task(TOPOLOGY, 0)) if one.value]
    return [one for one in found if isinstance(one, Edge)]


def events(log: SqliteLog) -> list[Event]:
    found = []
    for partition in range(TOPICS[EVENTS].partitions):
        found += [decode(one.value) for one in records(log.reader(), Task(EVENTS, partition)) if one.value]
    return [one for one in found if isinstance(one, Event)]


def test_a_dry_run_says_what_an_import_does(log: SqliteLog, hosts: str, capsys: pytest.CaptureFixture[str]) -> None:
    dry = told(capsys, "import", hosts, "--dry-run")
    assert (len(dry["new"]), dry["ended"], dry["same"], in_log(log)) == (6, [], 0, [])
    done = told(capsys, "import", hosts)
    assert [{**one, "seen_ms": 0} for one in done["new"]] == [{**one, "seen_ms": 0} for one in dry["new"]]
    assert {one.source for one in in_log(log)} == {"inventory:hosts.csv"}
    again = told(capsys, "import", hosts)
    assert (again["new"], again["same"], len(in_log(log))) == ([], 6, 6)


@pytest.mark.slow
def test_edges_end_only_where_their_source_is_replaced(
    log: SqliteLog, hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told(capsys, "import", hosts)
    Path(hosts).write_text(HOSTS.replace("h2,r1,p1,c1\n", ""), "utf-8")
    assert told(capsys, "import", hosts)["ended"] == []
    assert main(["topology", "import", hosts, "--replace", "nobody"]) == 2
    assert "inventory:hosts.csv" in capsys.readouterr().err
    ended = told(capsys, "import", hosts, "--replace", "inventory")["ended"]
    assert {one["child"] for one in ended} == {"host:h2"}
    assert told(capsys, "show", "rack:r1")["shown"]["hosts_under"] == ["h1"]
    assert told(capsys, "show", "rack:r1", "--at", "2020-01-01T00:00:00Z")["shown"]["hosts_under"] == ["h1", "h2"]


def test_nothing_is_ended_on_half_a_word(log: SqliteLog, hosts: str, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "import", hosts)
    Path(hosts).write_text("host,rack\nh1,r1\n,,,,\n", "utf-8")
    assert main(["topology", "import", hosts, "--replace", "inventory"]) == 2
    assert "nothing is ended" in capsys.readouterr().err
    assert all(one.to_ms is None for one in in_log(log))


def test_files_of_several_formats_and_their_contradictions(
    log: SqliteLog, hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("fabric.txt").write_text(FABRIC, "utf-8")
    Path("topology.conf").write_text("SwitchName=pod1 Nodes=h[1-2]\n", "utf-8")
    Path("cables.csv").write_text("a_device,a_port,b_device,b_port\nh1,mlx5_0/1,leaf1,4\n", "utf-8")
    Path("edges.json").write_text('[{"child": "host:h1", "relation": "managed_by", "parent": "switch:m1"}]', "utf-8")
    done = told(capsys, "import", hosts, "fabric.txt", "topology.conf", "cables.csv", "edges.json")
    assert {one["source"] for one in done["new"]} == {
        "inventory:hosts.csv", "ibnetdiscover:fabric.txt", "slurm:topology.conf", "inventory:cables.csv",
        "inventory:edges.json",
    }  # fmt: skip
    (contradiction,) = done["conflicts"]
    assert contradiction == (
        "port:h1/mlx5_0/1 link_end port:leaf1/3 (ibnetdiscover:fabric.txt) against "
        "port:h1/mlx5_0/1 link_end port:leaf1/4 (inventory:cables.csv)"
    )
    (event,) = events(log)
    assert (event.kind, event.count, event.message) == ("monitor.sources_disagree", 1, contradiction)
    told(capsys, "import", "cables.csv")
    assert len(events(log)) == 1
    shown = told(capsys, "show", "port:h1/mlx5_0/1")["shown"]
    assert shown["other_end"] == "port:leaf1/3"
    assert len(shown["versions"]) == 2
    assert main(["topology", "show", "--conflicts"]) == 0
    assert contradiction in capsys.readouterr().out


def test_a_part_is_shown_with_all_that_is_known(log: SqliteLog, hosts: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("fabric.txt").write_text(FABRIC, "utf-8")
    told(capsys, "import", hosts, "fabric.txt")
    shown = told(capsys, "show", "h1")["shown"]
    assert {(one["relation"], one["component"]) for one in shown["parents"]} >= {
        ("part_of", "rack:r1"), ("powered_by", "pdu:p1"), ("cooled_by", "cdu:c1"), ("attached_to", "switch:leaf1"),
    }  # fmt: skip
    assert told(capsys, "show", "switch:leaf1")["shown"]["hosts_under"] == ["h1", "h2"]
    assert main(["topology", "show", "pdu:p1"]) == 0
    out = capsys.readouterr().out
    assert "hosts under  h1" in out
    assert "host:h1 powered_by pdu:p1 (inventory:hosts.csv) seen " in out
    numbers = told(capsys, "show")["summary"]
    assert numbers["components"]["host"] == 2
    assert numbers["links"] == 2
    assert main(["topology", "show"]) == 0
    assert "2 with both ends" in capsys.readouterr().out


def test_a_cable_in_the_wrong_rail_is_told_and_no_fault(log: SqliteLog, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"h{host},mlx5_{n},leaf{n},{host}" for host in range(5) for n in range(4)]
    rows[0], rows[1] = "h0,mlx5_0,leaf1,0", "h0,mlx5_1,leaf0,0"
    Path("cables.csv").write_text("host,port,switch,switch_port\n" + "\n".join(rows) + "\n", "utf-8")
    leaves = [{"child": f"port:leaf{n}/0", "relation": "part_of", "parent": f"switch:leaf{n}"} for n in range(4)]
    Path("leaves.json").write_text(json.dumps(leaves), "utf-8")
    told(capsys, "import", "cables.csv", "leaves.json")
    shown = told(capsys, "show", "port:h0/mlx5_0")["shown"]
    assert (shown["rail"], shown["rail_of_leaf"]) == (0, 1)
    assert told(capsys, "show")["summary"]["odd_ports"] == ["port:h0/mlx5_0", "port:h0/mlx5_1"]
    assert events(log) == []


def test_edges_keep_the_times_and_sources_that_a_file_tells(log: SqliteLog, capsys: pytest.CaptureFixture[str]) -> None:
    edge = Edge(
        child="host:h1", parent="rack:r1", relation=Relation.PART_OF, from_ms=1_700_000_000_000,
        seen_ms=1_700_000_000_500, source="netbox",
    )  # fmt: skip
    Path("edges.json").write_bytes(encode(edge))
    told(capsys, "import", "edges.json")
    assert in_log(log) == [edge]


def test_a_source_that_is_gone_for_good_is_ended_without_a_file(
    log: SqliteLog, hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told(capsys, "import", hosts)
    found = told(capsys, "import", "--replace", "inventory")
    assert (len(found["ended"]), found["new"]) == (6, [])
    newest = {log_key(one): one for one in in_log(log)}
    assert all(one.to_ms is not None for one in newest.values())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("import",), "which files?"),
        (("import", "no-such-file"), "no-such-file"),
        (("import", "empty.csv"), "nothing in these files"),
        (("import", "hosts.csv", "--at", "now"), "are for show"),
        (("show", "h1", "h2"), "one part"),
        (("show", "h[1-2]"), "one part"),
        (("show", "h9"), "nothing names host:h9"),
        (("show", "h1", "--dry-run"), "one part at most"),
        (("show", "rack:"), "no part"),
        (("show", "h1", "--at", "once"), "no time"),
    ],
)
def test_bad_usage_says_what_to_do(
    log: SqliteLog, hosts: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    Path("empty.csv").write_text("", "utf-8")
    assert main(["topology", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_keys_keep_every_source_apart() -> None:
    one = Edge(child="host:h1", parent="rack:r1", relation=Relation.PART_OF, source="netbox")
    assert log_key(one) == "host:h1 part_of rack:r1 netbox"


def test_a_port_is_found_under_any_of_its_names_and_contradicts_nobody(
    log: SqliteLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = Identity(host="h1", kind="port", index="mlx5_0/1", name="eth2")
    heard = Edge(child="port:h1/mlx5_0/1", parent="port:leaf1/3", relation=Relation.LINK_END, source="fabric")
    append = log.appender()
    append.append(TOPOLOGY, b"h1 port mlx5_0/1", encode(port))
    append.append(TOPOLOGY, log_key(heard).encode(), encode(heard))
    append.flush()
    (tmp_path / "cables.csv").write_text("host,port,switch,switch_port\nh1,eth2,leaf1,3\n", "utf-8")
    assert told(capsys, "import", "cables.csv")["conflicts"] == []
    for name in ("port:h1/eth2", "port:h1/mlx5_0/1"):
        shown = told(capsys, "show", name)["shown"]
        assert (shown["component"], shown["other_end"]) == ("port:h1/mlx5_0/1", "port:leaf1/3")
        assert {one["source"] for one in shown["versions"]} >= {"fabric", "inventory:cables.csv"}
