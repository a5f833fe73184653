"""Slurm's topology: `topology.conf`, `scontrol show topology` and `topology.yaml` (man pages topology.conf and .yaml).

Tree: hosts hang on leaf switches, these on others. In a rail-optimised fabric such a leaf stands for a pod, not for one
switch; names are the site's own. Block: hosts that share a scale-up domain, here `fabric:NAME`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import yaml

from collectors.formats import hostlist
from collectors.formats.reading import Reading, Tally
from collectors.formats.text import lines
from sickbay.components import Kind, Name, name
from sickbay.messages import Edge, Relation

MAX_YAML = 4 << 20  # bytes; a site of 100,000 hosts needs a few hundred kilobytes
MAX_DEPTH = 20  # a topology nests five deep
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_MAX_CONTINUED = 1 << 20
_START = re.compile(r"(?i)^[ \t]*(?:SwitchName|BlockName)\s*=\s*\S", re.M)
_CONF_KEY = re.compile(
    r"(?i)(?:^|(?<=\s))(SwitchName|BlockName|Switches|Nodes|LinkSpeed|Level|BlockIndex|BlockSizes?)"
    r"[ \t]{0,8}=[ \t]{0,8}(?!\w{1,20}=)(\S*)"
)
_YAML = re.compile(r"^[ \t]*(?:-[ \t]*)?topology[ \t]*:", re.M)
_YAML_BODY = re.compile(
    r"^[ \t]*(?:-[ \t]*)?(?:tree|block|flat|ring|torus3d|switches|blocks|cluster_default)[ \t]*:", re.M
)
_OTHER_RECORDS = re.compile(r"^(?:NodeName|JobId|PartitionName|ClusterName|SlurmctldHost)=", re.M)
_SPELLED = {
    "switchname": "SwitchName", "blockname": "BlockName", "switches": "Switches", "nodes": "Nodes",
}  # fmt: skip


def confidence(head: bytes, name: str) -> float:
    """High for switch or block lines without other Slurm records, and for a YAML list of topologies."""
    text = head.decode("utf-8", "replace").replace("\r", "")
    if _START.search(text) and not _OTHER_RECORDS.search(text):
        rows = [row for row in text.split("\n") if row.strip() and not row.lstrip().startswith("#")]
        fitting = sum(bool(_CONF_KEY.search(row)) for row in rows)
        return 0.95 if fitting >= 0.6 * len(rows) else 0.4
    return 0.9 if _YAML.search(text) and _YAML_BODY.search(text) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """An edge per host and switch."""
    text = lines(chunks, tally)
    head: list[tuple[int, str]] = []
    for number, row in text:
        head.append((number, row))
        if _START.match(row):
            yield from _read_conf(head, text, tally)
            return
        if _YAML.match(row):
            yield from _read_yaml(head, text, tally)
            return
        if len(head) > 10_000:
            tally.unparsed += 1
            tally.note("no topology in the first 10,000 lines")
            return


def switch_edges(fields: Mapping[str, str], tally: Tally) -> Iterator[Edge]:
    """The edges of one `SwitchName=` or `BlockName=` record."""
    if "BlockName" in fields:
        fabric = _named(Kind.FABRIC, fields["BlockName"], tally)
        yield from _edges(Kind.HOST, fields.get("Nodes", ""), Relation.PART_OF, fabric, tally)
        return
    switch = _named(Kind.SWITCH, fields.get("SwitchName", ""), tally)
    below = fields.get("Switches", "")
    yield from _edges(Kind.SWITCH, below, Relation.ATTACHED_TO, switch, tally)
    if not below:  # `scontrol show topology` repeats at every level all hosts below
        yield from _edges(Kind.HOST, fields.get("Nodes", ""), Relation.ATTACHED_TO, switch, tally)


def _edges(kind: Kind, children: str, relation: Relation, parent: Name | None, tally: Tally) -> Iterator[Edge]:
    if parent is None:
        return
    for child in hostlist.names(children, tally):
        component = name(kind, child)
        if component != parent:
            yield Edge(child=component, parent=parent, relation=relation)


def _named(kind: Kind, text: str, tally: Tally) -> Name | None:
    if text.strip():
        return name(kind, text)
    tally.unparsed += 1
    return None


def _read_conf(head: list[tuple[int, str]], text: Iterator[tuple[int, str]], tally: Tally) -> Iterator[Reading]:
    for number, row in _joined([*head], text):
        row = row.partition("#")[0]
        fields: dict[str, str] = {}
        for key, value in _CONF_KEY.findall(row):
            fields.setdefault(_SPELLED.get(key.lower(), key), value)
        if "SwitchName" in fields or "BlockName" in fields:
            for edge in switch_edges(fields, tally):
                yield Reading(edge, number)
        elif row.strip() and not fields:
            tally.unparsed += 1


def _joined(head: list[tuple[int, str]], text: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Rows with continuation lines (a backslash at the end) joined."""
    held, first = "", 0
    for rows in (head, text):
        for number, row in rows:
            first = first if held else number
            held += row.removesuffix("\\")
            if not row.endswith("\\") or len(held) > _MAX_CONTINUED:
                yield first, held
                held = ""
    if held:
        yield first, held


def _read_yaml(head: list[tuple[int, str]], text: Iterator[tuple[int, str]], tally: Tally) -> Iterator[Reading]:
    rows: list[str] = []
    size = 0
    for source in (head, text):
        for _, row in source:
            size += len(row) + 1
            if size > MAX_YAML:
                tally.unparsed += 1
                tally.note(f"topology of more than {MAX_YAML} bytes: refused")
                return
            rows.append(row)
    try:
        loaded = _plain("\n".join(rows))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        tally.unparsed += 1
        tally.note(f"topology not read as YAML: {' '.join(str(error).split())[:200]}")
        return
    for fields in _yaml_records(loaded, tally):
        for edge in switch_edges(fields, tally):
            yield Reading(edge)


def _plain(document: str) -> object:
    """Maps, lists and strings of a YAML text. Raises yaml.YAMLError where it is none, or holds aliases or deep nests.

    A topology needs neither; a few nested aliases stand for gigabytes, and deep nests exhaust the stack.
    """
    depth = 0
    for event in yaml.parse(document, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > MAX_DEPTH:
            raise yaml.YAMLError("aliases and deep nests are refused")
    return yaml.load(document, Loader=_LOADER)


def _yaml_records(loaded: object, tally: Tally) -> Iterator[dict[str, str]]:
    if not isinstance(loaded, list):
        loaded = [loaded]
    for entry in loaded:
        if not isinstance(entry, dict):
            tally.unparsed += 1
            continue
        tree, block = entry.get("tree"), entry.get("block")
        if isinstance(tree, dict):
            yield from _rows(
                tree.get("switches"), {"switch": "SwitchName", "children": "Switches", "nodes": "Nodes"}, tally
            )
        if isinstance(block, dict):
            yield from _rows(block.get("blocks"), {"block": "BlockName", "nodes": "Nodes"}, tally)
        if not isinstance(tree, dict) and not isinstance(block, dict) and not entry.get("flat"):
            tally.unparsed += 1
            tally.note("a topology that is neither tree, block nor flat")


def _rows(rows: object, keys: dict[str, str], tally: Tally) -> Iterator[dict[str, str]]:
    for row in rows if isinstance(rows, list) else [None]:
        if not isinstance(row, dict):
            tally.unparsed += 1
            continue
        yield {long: value for key, long in keys.items() if isinstance(value := row.get(key), str) and value}
