"""A site's list as CSV, JSON and NetBox's answers."""

import json
from collections.abc import Iterable

import pytest

from collectors.formats import inventory, inventory_rows
from collectors.formats.inventory import confidence, read
from collectors.formats.reading import Tally
from collectors.inputs.sniff import sniff
from sickbay.components import Kind
from sickbay.messages import Edge, Identity

HOSTS = """host,rack,pdu_a,pdu_b,cdu,management_switch,serial,colour
h1,r1,p1a,p1b,c1,mgmt1,SN1,red
h2,r1,p1a,p1b,c1,mgmt1,SN2,red
"""
POWERED = {("host:h1", "powered_by", "pdu:p1a"), ("host:h1", "powered_by", "pdu:p1b")}
ROUND_H1 = POWERED | {
    ("host:h1", "part_of", "rack:r1"),
    ("host:h1", "cooled_by", "cdu:c1"),
    ("host:h1", "managed_by", "switch:mgmt1"),
}


def taken(text: str, name: str = "") -> tuple[list[object], Tally]:
    tally = Tally()
    return [reading.record for reading in read([text.encode()], tally, name)], tally


def told(records: Iterable[object]) -> set[tuple[str, str, str]]:
    return {(one.child, str(one.relation), one.parent) for one in records if isinstance(one, Edge)}


def test_a_row_of_a_host() -> None:
    records, tally = taken(HOSTS, "site/hosts.csv")
    assert told(records) == ROUND_H1 | {(child.replace("h1", "h2"), *rest) for child, *rest in ROUND_H1}
    assert next(one for one in records if isinstance(one, Identity)) == Identity(
        host="h1", kind="host", name="h1", serial="SN1"
    )
    assert {one.source for one in records if isinstance(one, Edge)} == {"inventory:site/hosts.csv"}
    assert (tally.unparsed, tally.notes) == (0, [])


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_headings_in_any_spelling_and_separator(separator: str) -> None:
    rows = [["Host Name", "Rack", "PDU-A", "PDU B", "CDU", "Mgmt Switch"], ["h1", "r1", "p1a", "p1b", "c1", "mgmt1"]]
    text = "\r\n".join(separator.join(row) for row in rows)
    assert told(taken(text)[0]) == ROUND_H1
    assert sniff(text.encode(), "list.txt").kind == "inventory"


def test_lists_in_cells_and_racks_and_switches() -> None:
    text = "rack,pdus,cdu\nr1,p1;p2,c1\n"
    assert told(taken(text)[0]) == {
        ("rack:r1", "powered_by", "pdu:p1"),
        ("rack:r1", "powered_by", "pdu:p2"),
        ("rack:r1", "cooled_by", "cdu:c1"),
    }
    assert told(taken('host,rack\n"h[1-2]",r1\n')[0]) == {
        ("host:h1", "part_of", "rack:r1"),
        ("host:h2", "part_of", "rack:r1"),
    }
    assert told(taken("switch,rack,pdu\nleaf1,r1,p1\n")[0]) == {
        ("switch:leaf1", "part_of", "rack:r1"),
        ("switch:leaf1", "powered_by", "pdu:p1"),
    }
    assert told(taken("host,leaf\nh1,leaf1;leaf2\n")[0]) == {
        ("host:h1", "attached_to", "switch:leaf1"),
        ("host:h1", "attached_to", "switch:leaf2"),
    }


def test_cables_mounts_and_written_edges() -> None:
    link = {("port:h1/mlx5_0", "link_end", "port:leaf1/Ethernet1/1")}
    assert told(taken("a_device,a_port,b_device,b_port\nh1,mlx5_0,leaf1,Ethernet1/1\n")[0]) == link
    assert told(taken("host,port,switch,switch_port\nh1,mlx5_0,leaf1,Ethernet1/1\n")[0]) == link
    assert told(taken("switch,port,host,nic\nleaf1,Ethernet1/1,h1,mlx5_0\n")[0]) == link
    assert told(taken("switch,port,host\nleaf1,Ethernet1/1,h1\n")[0]) == {("host:h1", "attached_to", "switch:leaf1")}
    assert told(taken("host,filesystem,storage\nh1,scratch,fs1\n")[0]) == {
        ("filesystem:h1/scratch", "mounts", "storage:fs1")
    }
    records, tally = taken("child,relation,parent\nhost:h1,cooled by,cdu:c1\nhost:h1,likes,cdu:c1\nh1,part_of,rack:r\n")
    assert (told(records), tally.unparsed) == ({("host:h1", "cooled_by", "cdu:c1")}, 2)


def test_a_role_tells_what_a_device_is() -> None:
    records, tally = taken("name,role,rack\nx1,GPU server,r1\nx2,Storage,r1\nx3,Leaf Switch,r1\nx4,Coffee,r1\n")
    assert told(records) == {
        (f"{kind}:x{n}", "part_of", "rack:r1") for n, kind in ((1, "host"), (2, "storage"), (3, "switch"))
    }
    assert tally.unparsed == 1
    assert tally.notes == ["role 'Coffee' is none that is known"]


def test_unknown_columns_and_wrong_rows_are_told() -> None:
    records, tally = taken("host,rack,mood\nh1,r1,fine\n,r1,\nh3,r1,x,y\nh4,n/a,\n")
    assert told(records) == {("host:h1", "part_of", "rack:r1")}
    assert tally.unparsed == 3
    assert tally.notes[0] == "columns that were not read: mood"


def test_json_in_its_shapes() -> None:
    row = {"host": "h1", "rack": "r1", "pdu": ["p1a", "p1b"], "cdu": "c1", "mgmt_switch": "mgmt1"}
    for shape in ([row], {"hosts": [row]}, row):
        assert told(taken(json.dumps(shape))[0]) == ROUND_H1
    assert told(taken(f"{json.dumps(row)}\n{{broken\n")[0]) == ROUND_H1
    assert sniff(json.dumps([row]).encode(), "x.json").kind == "inventory"
    edges = [Edge(child="host:h1", parent="cdu:c1", relation="cooled_by")]  # type: ignore[arg-type]
    assert told(taken(json.dumps(inventory.rows_of(edges)))[0]) == {("host:h1", "cooled_by", "cdu:c1")}


@pytest.mark.parametrize(
    "text",
    ["", "host,load\nh1,3\n", "JobID|State|NodeList\n1|FAILED|h1\n", '{"a": 1}', '[{"gpu": 0, "bdf": "0000:01:00.0"}]'],
)
def test_other_inputs_are_not_taken(text: str) -> None:
    assert confidence(text.encode(), "inventory.csv") == 0.0


def url(endpoint: str, number: int) -> str:
    return f"https://netbox.example/api/dcim/{endpoint}/{number}/"


def device(number: int, name: str, role: str, **more: object) -> dict[str, object]:
    return {
        "id": number, "url": url("devices", number), "name": name, "role": {"slug": role, "name": role},
        "rack": {"id": 1, "name": "r1"}, "serial": f"SN-{name}", "device_type": {"model": "M"},
        "status": {"value": "active", "label": "Active"}, "custom_fields": {}, **more,
    }  # fmt: skip


def interface(number: int, own: str, port: str, far: str, far_port: str, *, mgmt: bool = False) -> dict[str, object]:
    return {
        "id": number, "url": url("interfaces", number), "name": port, "device": {"name": own}, "mgmt_only": mgmt,
        "connected_endpoints_type": "dcim.interface",
        "connected_endpoints": [{"name": far_port, "device": {"name": far}}],
    }  # fmt: skip


NETBOX: list[dict[str, object]] = [
    device(1, "h1", "gpu-server", custom_fields={"cdu": "c1"}),
    device(2, "leaf1", "leaf-switch"),
    device(3, "mgmt1", "oob-switch"),
    device(4, "p1a", "pdu"),
    device(5, "h9", "gpu-server", status={"value": "planned"}),
    interface(1, "h1", "mlx5_0", "leaf1", "Ethernet1/1"),
    interface(2, "leaf1", "Ethernet1/1", "h1", "mlx5_0"),
    interface(3, "h1", "bmc", "mgmt1", "swp1", mgmt=True),
    {
        "id": 1, "url": url("power-ports", 1), "name": "PSU1", "device": {"name": "h1"},
        "connected_endpoints_type": "dcim.poweroutlet",
        "connected_endpoints": [{"name": "A1", "device": {"name": "p1a"}}],
    },
    {"id": 1, "url": url("power-feeds", 1), "name": "F1", "power_panel": {"name": "P"}, "rack": {"name": "r1"}},
    {
        "id": 2, "url": url("cables", 2), "status": {"value": "connected"},
        "a_terminations": [
            {"object_type": "dcim.interface", "object_id": 9, "object": {"name": "e9", "device": {"name": "leaf1"}}}
        ],
        "b_terminations": [
            {"object_type": "dcim.interface", "object_id": 8, "object": {"name": "e1", "device": {"name": "spine1"}}}
        ],
    },
]  # fmt: skip
NETBOX_EDGES = {
    ("host:h1", "part_of", "rack:r1"),
    ("switch:leaf1", "part_of", "rack:r1"),
    ("switch:mgmt1", "part_of", "rack:r1"),
    ("host:h1", "cooled_by", "cdu:c1"),
    ("port:h1/mlx5_0", "link_end", "port:leaf1/Ethernet1/1"),
    ("host:h1", "managed_by", "switch:mgmt1"),
    ("host:h1", "powered_by", "pdu:p1a"),
    ("rack:r1", "powered_by", "pdu:P/F1"),
    ("port:leaf1/e9", "link_end", "port:spine1/e1"),
}


def test_netbox_objects() -> None:
    page = {"count": len(NETBOX), "next": None, "previous": None, "results": NETBOX}
    for shape in (NETBOX, page, [page]):
        records, tally = taken(json.dumps(shape))
        assert told(records) == NETBOX_EDGES
        assert tally.unparsed == 0
    assert sniff(json.dumps(page).encode(), "devices.json").kind == "inventory"
    assert {one.serial for one in records if isinstance(one, Identity)} == {"SN-h1"}


def test_a_page_that_goes_on_and_a_changed_schema_are_told() -> None:
    page = {"count": 9, "next": "https://netbox.example/api/dcim/devices/?offset=1", "results": NETBOX[:1]}
    _, tally = taken(json.dumps(page))
    assert tally.unparsed == 1
    renamed = [{key if key != "role" else "function": value for key, value in one.items()} for one in NETBOX[:1]]
    records, tally = taken(json.dumps(renamed))
    assert (told(records), tally.unparsed) == (set(), 1)


def test_every_word_of_a_role_is_a_kind() -> None:
    assert {Kind(kind) for _, kind in inventory_rows.table().roles["words"]} <= {
        Kind.HOST, Kind.SWITCH, Kind.PDU, Kind.CDU, Kind.STORAGE,
    }  # fmt: skip


def test_a_list_that_stands_for_too_much_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "MAX_RECORDS", 10)
    records, tally = taken('host,rack\n"h[1-99]",r1\n"h[1-99]",r2\n')
    assert (len(records), tally.unparsed, tally.notes) == (10, 1, ["only the first 10 edges were read"])


@pytest.mark.parametrize(
    "text",
    [
        "sep=;\r\nHost;Rack;PDU A\r\nh1;r1;p1\r\n",
        "Hall 3,,\nas of 2026-01-01,,\nHostname (FQDN),Rack #,PDU-A\nh1,r1,p1\n",
        "主机名,机柜,PDU_A\nh1,r1,p1\n",
        'comment,host,rack,pdu\n"two\nlines, with h9,r9",h1,r1,p1\n',
        'note,host,rack,pdu\n19" rack,h1,r1,p1\n',
        "host,rack,pdu_a\nh1 , r1 ,p1,,\n",
    ],
)
def test_lists_as_spreadsheets_write_them(text: str) -> None:
    records, tally = taken(text)
    assert told(records) == {("host:h1", "part_of", "rack:r1"), ("host:h1", "powered_by", "pdu:p1")}
    assert tally.unparsed == 0
    assert confidence(text.encode(), "list.csv") >= 0.7


def test_what_is_no_name_is_no_shared_unit() -> None:
    assert told(taken('host,rack,pdu\nh1,#N/A,PDU 12 A\nh2,r1,#REF!\n"1,234",r1,\n')[0]) == {
        ("host:h1", "powered_by", "pdu:PDU_12_A"),
        ("host:h2", "part_of", "rack:r1"),
    }
    both = told(taken("host,rack,pdu,pdu\nh1,r1,p1,p2\n")[0])
    assert both == {("host:h1", "part_of", "rack:r1"), *((("host:h1", "powered_by", f"pdu:p{n}")) for n in (1, 2))}


def test_a_quote_that_is_not_closed_is_told() -> None:
    records, tally = taken('host,rack\nh1,r1\nh2,"r2\nh3,r3\n')
    assert told(records) == {("host:h1", "part_of", "rack:r1")}
    assert (tally.unparsed, tally.notes) == (2, ["a quote in line 3 is not closed: 2 lines were not read"])
    inches, _ = taken('host,rack,note\nh1,r1,19"\nh2,r2,19"\n')
    assert len(inches) == 2


def test_a_relation_that_is_none_is_told_with_those_that_there_are() -> None:
    records, tally = taken("child,relation,parent\nhost:h1,in,rack:r1\n")
    assert records == []
    (note,) = [one for one in tally.notes if "relation" in one]
    assert note.startswith("no edge: there is no relation 'in'; there are part_of, attached_to, ")
    assert note.endswith("same_group")
