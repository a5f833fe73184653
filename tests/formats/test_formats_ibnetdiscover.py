"""Fabric discovery: three forms of the same fabric, names that are none, any bytes."""

import random

import pytest

from collectors.formats.ibnetdiscover import confidence, read
from collectors.formats.reading import Tally
from sickbay.messages import Edge, Relation
from sickbay.topology import Topology

BLOCKS = """#
# Topology file: generated on Tue Mar 11 04:00:00 2025
#
vendid=0x2c9
devid=0xd2f0
sysimgguid=0xb0cf0e0300bb0010
switchguid=0xb0cf0e0300bb0010(b0cf0e0300bb0010)
Switch\t64 "S-b0cf0e0300bb0010"\t\t# "MF0;leaf01:MQM9700/U1" enhanced port 0 lid 12 lmc 0
[1]\t"H-a088c20300aa0001"[1](a088c20300aa0001) \t\t# "gx-n01 mlx5_0" lid 431 4xNDR
[2]\t"H-a088c20300aa0002"[1](a088c20300aa0002) \t\t# "gx-n02 mlx5_0" lid 432 4xNDR
[33]\t"S-b0cf0e0300bb0020"[1]\t\t# "spine01 " lid 13 4xNDR
[64]\t"H-b0cf0e0300bb0018"[1](b0cf0e0300bb0018) \t\t# "Mellanox Technologies Aggregation Node" lid 14 4xNDR

vendid=0x2c9
devid=0xd2f0
switchguid=0xb0cf0e0300bb0020(b0cf0e0300bb0020)
Switch\t64 "S-b0cf0e0300bb0020"\t\t# " spine01 " enhanced port 0 lid 13 lmc 0
[1]\t"S-b0cf0e0300bb0010"[33]\t\t# "MF0;leaf01:MQM9700/U1" lid 12 4xNDR

vendid=0x2c9
devid=0x1021
caguid=0xa088c20300aa0001
Ca\t1 "H-a088c20300aa0001"\t\t# "gx-n01 mlx5_0"
[1](a088c20300aa0001) \t"S-b0cf0e0300bb0010"[1]\t\t# lid 431 lmc 0 "MF0;leaf01:MQM9700/U1" lid 12 4xNDR

vendid=0x2c9
caguid=0xa088c20300aa0002
Ca\t1 "H-a088c20300aa0002"\t\t# "gx-n02 mlx5_0"
[1](a088c20300aa0002) \t"S-b0cf0e0300bb0010"[2]\t\t# lid 432 lmc 0 "MF0;leaf01:MQM9700/U1" lid 12 4xNDR
"""
PORTS = """CA   431  1 0xa088c20300aa0001 4x NDR - SW    12  1 0xb0cf0e0300bb0010 ( 'gx-n01 mlx5_0' - 'LEAF' )
CA   432  1 0xa088c20300aa0002 4x NDR - SW    12  2 0xb0cf0e0300bb0010 ( 'gx-n02 mlx5_0' - 'LEAF' )
SW    12  1 0xb0cf0e0300bb0010 4x NDR - CA   431  1 0xa088c20300aa0001 ( 'LEAF' - 'gx-n01 mlx5_0' )
SW    12 33 0xb0cf0e0300bb0010 4x NDR - SW    13  1 0xb0cf0e0300bb0020 ( 'LEAF' - ' spine01 ' )
SW    12 64 0xb0cf0e0300bb0010 4x NDR - CA    14  1 0xb0cf0e0300bb0018 ( 'LEAF' - 'AGG' )
SW    13  2 0xb0cf0e0300bb0020 4x SDR                                    ' spine01 '
""".replace("AGG", "Mellanox Technologies Aggregation Node").replace("LEAF", "MF0;leaf01:MQM9700/U1")
LINKS = """CA: gx-n01 mlx5_0:
      0xa088c20300aa0001    431    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>      12    1[  ] "LEAF" ( )
Switch: 0xb0cf0e0300bb0010 LEAF:
          12    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>     431    1[  ] "gx-n01 mlx5_0" ( )
          12    2[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>     432    1[  ] "gx-n02 mlx5_0" ( )
          12    3[  ] ==(                Down/ Polling)==>             [  ] "" ( )
          12   33[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>      13    1[  ] "spine01" ( )
          12   64[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>      14    1[  ] "AGG" ( )
Switch: 0xb0cf0e0300bb0020 spine01:
          13    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>      12   33[  ] "LEAF" ( )
CA: gx-n02 mlx5_0:
      0xa088c20300aa0002    432    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>      12    2[  ] "LEAF" ( )
CA: AGG:
      0xb0cf0e0300bb0018     14    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>      12   64[  ] "LEAF" ( )
""".replace("AGG", "Mellanox Technologies Aggregation Node").replace("LEAF", "MF0;leaf01:MQM9700/U1")

LINKED = {
    ("port:gx-n01/mlx5_0/1", "link_end", "port:leaf01/1"),
    ("port:gx-n02/mlx5_0/1", "link_end", "port:leaf01/2"),
    ("port:leaf01/33", "link_end", "port:spine01/1"),
}


def run(text: str | bytes, tally: Tally | None = None) -> list[Edge]:
    data = text.encode() if isinstance(text, str) else text
    edges = [reading.record for reading in read([data[:90], data[90:]], tally or Tally())]
    return [edge for edge in edges if isinstance(edge, Edge)]


def triples(edges: list[Edge], *relations: Relation) -> set[tuple[str, str, str]]:
    return {(e.child, str(e.relation), e.parent) for e in edges if not relations or e.relation in relations}


def test_three_forms_show_one_fabric() -> None:
    for text in (BLOCKS, PORTS, LINKS):
        tally = Tally()
        edges = run(text, tally)
        assert triples(edges, Relation.LINK_END) == LINKED, text
        assert triples(edges, Relation.ATTACHED_TO) == {("switch:leaf01", "attached_to", "switch:spine01")}
        assert "Aggregation" not in repr(edges)
        assert (tally.unparsed, tally.notes) == (0, [])
        view = Topology(edges).at()
        assert view.hosts_under("switch:spine01") == ("gx-n01", "gx-n02")
        assert view.other_end("port:gx-n02/mlx5_0/1") == "port:leaf01/2"
        assert view.ancestors("host:gx-n01") == ("switch:leaf01", "switch:spine01")
        assert {e.parent for e in edges if e.relation is Relation.PART_OF} == {"switch:leaf01", "switch:spine01"}
    assert ("port:leaf01/64", "part_of", "switch:leaf01") in triples(run(PORTS))
    assert ("port:spine01/2", "part_of", "switch:spine01") in triples(run(PORTS))


def test_names_that_two_nodes_share_name_neither() -> None:
    tally = Tally()
    text = PORTS.replace("gx-n02 mlx5_0", "gx-n01 mlx5_0")
    edges = run(text, tally)
    assert triples(edges, Relation.LINK_END) == {("port:leaf01/33", "link_end", "port:spine01/1")}
    assert len(tally.notes) == 1
    twins = run(PORTS.replace(" spine01 ", "MF0;leaf01:MQM9700/U1"))
    assert {e.parent for e in twins if e.relation is Relation.PART_OF} == {
        "switch:0xb0cf0e0300bb0010",
        "switch:0xb0cf0e0300bb0020",
    }


def test_makers_defaults_are_no_names() -> None:
    edges = run(
        "SW   478 22 0x0002c9020040f160 4x QDR                                   'Infiniscale-IV Mellanox'\n"
        "CA    88  1 0xb83fd20300da1138 4x HDR - SW   478 21 0x0002c9020040f160"
        " ( 'MT4123 ConnectX6   Mellanox Technologies' - 'Infiniscale-IV Mellanox' )\n"
        "CA    89  1 0xb83fd20300da1139 4x HDR - SW   478 20 0x0002c9020040f160 ( 'localhost mlx5_0' - 'Quantum' )\n"
    )
    assert triples(edges, Relation.LINK_END) == set()
    assert {edge.parent for edge in edges} == {"switch:0x0002c9020040f160"}


def test_chips_of_a_chassis_are_parts_of_it() -> None:
    edges = run(
        "CA    88  1 0xb83fd20300da1138 4x HDR - SW   478 21 0x0002c9020040f160"
        " ( 'gx-n01 HCA-1' - 'MF0;core1:CS8500/L3/U1' )\n"
        "CA    89  1 0xb83fd20300da1139 4x HDR - SW   479 21 0x0002c9020040f161"
        " ( 'gx-n02' - 'MF0;core1:CS8500/L4/U1' )\n"
    )
    assert triples(edges, Relation.LINK_END) == {
        ("port:gx-n01/HCA-1/1", "link_end", "port:core1/L3/U1/21"),
        ("port:gx-n02/0xb83fd20300da1139/1", "link_end", "port:core1/L4/U1/21"),
    }
    assert Topology(edges).at().hosts_under("switch:core1") == ("gx-n01", "gx-n02")


def test_a_leaf_without_hosts_carries_nobody() -> None:
    more = """SW    15 33 0xb0cf0e0300bb0030 4x NDR - SW    13  3 0xb0cf0e0300bb0020 ( 'leaf02' - 'spine01' )
CA   433  1 0xa088c20300aa0003 4x NDR - SW    13  9 0xb0cf0e0300bb0020 ( 'manager mlx5_0' - 'spine01' )
"""
    view = Topology(run(PORTS + more)).at()
    assert view.children("switch:leaf02") == ("port:leaf02/33",)
    assert view.hosts_under("switch:leaf02") == ()


def test_content_decides_what_it_is() -> None:
    for text in (BLOCKS, PORTS, LINKS):
        assert confidence(text.encode(), "x") == 0.95
    for other in (b"", b"CA\nSW\n", b"[1] kernel: x\n" * 9, b"\n" * 65_536, b"vendid=0x1\n", b"\xff" * 999):
        assert confidence(other, "ibnetdiscover.txt") == 0


def test_what_cannot_be_read_is_counted() -> None:
    tally = Tally()
    assert (
        run(
            "CA 1 1 nonsense\nSW\n[1] what\n"
            "CA  1  1 0xb83fd20300da1138 4x HDR - SW 2 2 0xb83f000000000000 ( 'a' - 'b' - 'c' )\n",
            tally,
        )
        == []
    )
    assert tally.unparsed == 4


@pytest.mark.slow
def test_any_bytes_give_no_crash_and_no_false_host() -> None:
    rng = random.Random(19)
    texts = [text.encode() for text in (BLOCKS, PORTS, LINKS)]
    for turn in range(5_000):
        data = bytearray(texts[turn % 3])
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(data))
            what = rng.randrange(4)
            if what == 0:
                data[at] = rng.randrange(256)
            elif what == 1:
                del data[at : at + rng.randrange(30)]
            elif what == 2:
                data[at:at] = rng.choice((b"\n", b"'", b'"', b" - ", b"\x1b[0m", b"\xff\xfe", b"CA "))
            else:
                data[at:at] = data[at : at + rng.randrange(60)]
        for edge in run(bytes(data)):
            assert edge.child.startswith(("port:", "switch:"))
            assert edge.parent.startswith(("port:", "switch:"))
            assert edge.child != edge.parent


def test_hostile_text_costs_linear_time() -> None:
    for unit in (
        "CA 1 1 0xb83fd20300da1138 4x HDR - ",
        "' - '",
        '"',
        "[",
        "Switch: ",
        "CA: x:\n",
        "SW 1 1 0xb83fd20300da1138 4x ",
        " ",
    ):
        run("Switch: x:\n" + unit * (1_000_000 // len(unit)))
        run("CA  1  1 0xb83fd20300da1138 4x HDR - SW 2 2 0xb83f000000000000 ( " + unit * (100_000 // len(unit)))
        confidence((unit * 65_536)[:65_536].encode(), "x")


@pytest.mark.slow
def test_a_large_fabric_is_read_in_seconds() -> None:
    rows = [
        f"CA {n} 1 0x{n:016x} 4x NDR - SW {n % 512} {n // 512} 0x{n % 512 + (1 << 40):016x}"
        f" ( 'n{n // 8} mlx5_{n % 8}' - 'leaf{n % 512}' )"
        for n in range(10_000)
    ]
    edges = run("\n".join(rows))
    assert sum(edge.relation is Relation.LINK_END for edge in edges) == 10_000
