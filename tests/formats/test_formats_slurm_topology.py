"""Slurm's topology in all its forms, and what is refused."""

import random

from collectors.formats.reading import Tally
from collectors.formats.slurm_topology import confidence, read
from sickbay.messages import Edge

TREE = """# rail-optimised: a leaf is a pod
SwitchName=leaf01 Nodes=gx-n[01-02]
SwitchName=leaf02 Nodes=gx-n[03-04] LinkSpeed=100  # a remark
switchname = spine Switches=leaf[01-02]
"""
SHOWN = """SwitchName=leaf01 Level=0 LinkSpeed=1 Nodes=gx-n[01-02]
SwitchName=leaf02 Level=0 LinkSpeed=1 Nodes=gx-n[03-04]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=gx-n[01-04] Switches=leaf[01-02]
"""
YAML_TREE = """---
- topology: pods
  cluster_default: true
  tree:
    switches:
      - switch: spine
        children: leaf[01-02]
      - switch: leaf01
        nodes: gx-n[01-02]
      - switch: leaf02
        nodes: "gx-n[03-04]"
- topology: all
  flat: true
"""
YAML_BLOCK = """- topology: racks
  block:
    block_sizes: [2, 4]
    blocks:
      - block: b01
        nodes: gx-n[01-02]
      - block: 0002
        nodes: gx-n[03-04]
"""
BLOCK = """BlockName=b01 Nodes=gx-n[01-02]
BlockName=0002 Nodes=gx-n[03-04]
BlockSizes=2,4
"""
TREE_EDGES = {
    ("host:gx-n01", "attached_to", "switch:leaf01"),
    ("host:gx-n02", "attached_to", "switch:leaf01"),
    ("host:gx-n03", "attached_to", "switch:leaf02"),
    ("host:gx-n04", "attached_to", "switch:leaf02"),
    ("switch:leaf01", "attached_to", "switch:spine"),
    ("switch:leaf02", "attached_to", "switch:spine"),
}
BLOCK_EDGES = {
    ("host:gx-n01", "part_of", "fabric:b01"),
    ("host:gx-n02", "part_of", "fabric:b01"),
    ("host:gx-n03", "part_of", "fabric:0002"),
    ("host:gx-n04", "part_of", "fabric:0002"),
}


def run(text: str | bytes, tally: Tally | None = None) -> set[tuple[str, str, str]]:
    data = text.encode() if isinstance(text, str) else text
    edges = [reading.record for reading in read([data[:50], data[50:]], tally or Tally())]
    assert all(isinstance(edge, Edge) for edge in edges)
    return {(edge.child, str(edge.relation), edge.parent) for edge in edges if isinstance(edge, Edge)}


def test_all_forms_say_the_same() -> None:
    for text in (TREE, SHOWN, YAML_TREE, TREE.replace("gx-n[01-02]", "gx-n01,\\\ngx-n02"), TREE.replace("\n", "\r\n")):
        tally = Tally()
        assert run(text, tally) == TREE_EDGES, text
        assert tally.unparsed == 0
    for text in (BLOCK, YAML_BLOCK):
        tally = Tally()
        assert run(text, tally) == BLOCK_EDGES
        assert tally.unparsed == 0


def test_content_decides_what_it_is() -> None:
    for text in (TREE, SHOWN, BLOCK):
        assert confidence(text.encode(), "x") == 0.95
    for text in (YAML_TREE, YAML_BLOCK):
        assert confidence(text.encode(), "x") == 0.9
    for other in (
        b"",
        b"topology: nonsense\n",
        b"ClusterName=a\nSwitchName=b Nodes=c\n",
        b"\n" * 65_536,
        b" " * 65_536,
    ):
        assert confidence(other, "topology.conf") == 0


def test_what_cannot_be_read_is_counted() -> None:
    tally = Tally()
    found = run("SwitchName=leaf01 Nodes=gx-n[1-99999999]\nnonsense\nSwitchName=leaf02 Nodes=gx-n1\n", tally)
    assert found == {("host:gx-n1", "attached_to", "switch:leaf02")}
    assert tally.unparsed == 2
    assert run("SwitchName=a Switches=a\n") == set()


def test_yaml_bombs_are_refused() -> None:
    bomb = (
        "- topology: x\n  tree: &a ["
        + "x," * 100
        + "]\n"
        + "".join(
            f"- topology: y{n}\n  tree: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 50)}]\n" for n in range(9)
        )
    )
    for text in (
        bomb,
        "topology: " + "[" * 200_000,
        "topology: " + "{a: " * 200_000,
        "- topology: x\n" + "  - a\n" * 1_000_000,
        "topology: !!python/object/apply:os.system ['true']\n",
        "topology: !!python/name:os.system\n",
        "topology: [\n",
        "topology:\n\ttree: x\n",
        "topology: x\n",
        "- topology: x\n  tree: {switches: [1, {switch: [a]}, {switch: s, nodes: {}}]}\n",
    ):
        tally = Tally()
        assert run(text, tally) == set()
        assert tally.unparsed >= 1, text[:40]


def test_any_bytes_give_no_crash() -> None:
    rng = random.Random(17)
    texts = [text.encode() for text in (TREE, SHOWN, YAML_TREE, BLOCK, YAML_BLOCK)]
    for turn in range(5_000):
        data = bytearray(texts[turn % len(texts)])
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(data))
            what = rng.randrange(4)
            if what == 0:
                data[at] = rng.randrange(256)
            elif what == 1:
                del data[at : at + rng.randrange(30)]
            elif what == 2:
                data[at:at] = rng.choice((b"\n", b"[", b"&a ", b"*a", b": ", b"- ", b"\\", b"\x1b[0m", b"Nodes="))
            else:
                data[at:at] = data[at : at + rng.randrange(60)]
            data += b"x" if not data else b""
        for child, _, parent in run(bytes(data)):
            assert child.startswith(("host:", "switch:"))
            assert parent.startswith(("switch:", "fabric:"))


def test_hostile_text_costs_linear_time() -> None:
    for unit in ("SwitchName=a Nodes=b\\\n", "Nodes=", "SwitchName=", " ", "\n", "- topology:\n", "#"):
        run("SwitchName=a " + unit * (300_000 // len(unit)))
        confidence((unit * 65_536)[:65_536].encode(), "x")
