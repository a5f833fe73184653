"""One row of a site's list as edges and identities. What a heading means is data: codes/inventory.toml.

Names are taken as they are told: `h1` under the heading host, or whole (`host:h1`). Hosts may be a list (`h[1-4]`),
other cells may tell several, apart by `;`, `|` or `,`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from collectors.formats import hostlist, stamps
from collectors.formats.reading import Tally
from sickbay.components import UNKNOWN, Kind, Name, kind_of, name, parts_of
from sickbay.messages import Edge, Identity, Relation

MAX_CELL = 4096  # characters
MAX_SOURCE = 200
TIMES = ("from_ms", "to_ms", "seen_ms")  # of an edge that is written out, as its message has them
_SEVERAL = re.compile(r"\s*[;|,\n]\s*")  # not a blank: `PDU 12 A` is one unit, and `A` would be shared by all
# What a spreadsheet writes for a cell that it cannot work out (`#REF!`), and numbers with a mark at the thousands: no
# names. Taken as one, all such rows would hang on the same unit.
_NO_NAME = re.compile(r"#(?:N/A|REF!|NAME\?|VALUE!|DIV/0!|NULL!|NUM!|SPILL!|GETTING_DATA)|\d{1,3}(?:,\d{3})+|\ufffd|#+")
_NOTHING = frozenset({"", "-", "--", "n/a", "na", "none", "null", "unknown", "tbd", "?"})
_PARENTS = {Relation.POWERED_BY: Kind.PDU, Relation.COOLED_BY: Kind.CDU, Relation.MANAGED_BY: Kind.SWITCH}
_KINDS = {str(kind): kind for kind in Kind}

Headings = dict[str, tuple[str, ...]]
Row = Mapping[str, str]  # heading as `heading()` spells it -> cell


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    subject: Headings
    relation: dict[Relation, tuple[str, ...]]
    cable: Headings
    mount: Headings
    edge: Headings
    about: Headings
    ignored: Headings
    roles: dict[str, tuple[tuple[str, Annotated[str, Meta(min_length=2)]], ...]]


@cache
def table() -> _Table:
    """The accepted headings."""
    text = (resources.files("collectors.codes") / "inventory.toml").read_text("utf-8")
    return msgspec.toml.decode(text, type=_Table)


@cache
def known() -> frozenset[str]:
    """Every heading that is known."""
    told = table()
    groups = (told.subject, told.cable, told.mount, told.edge, told.about, told.ignored)
    named = frozenset(one for group in groups for names in group.values() for one in names)
    return named | _relating() | {*TIMES, "type", "source"}


def _relating() -> frozenset[str]:
    return frozenset(one for names in table().relation.values() for one in names)


def heading(text: str) -> str:
    """A heading as the table spells it."""
    plain = re.sub(r"\([^()]{0,60}\)|[#:*]", " ", text.lower())  # `Hostname (FQDN)`, `Rack #`
    return re.sub(r"[\s\-./]+", "_", plain.strip())[:60]


def fits(headings: Iterable[str]) -> bool:
    """Whether a list with these headings tells edges."""
    told, rows = set(headings), table()
    if _has(told, rows.edge["child"]) and _has(told, rows.edge["parent"]) and _has(told, rows.edge["relation"]):
        return True
    if _has(told, rows.cable["device"]) and _has(told, rows.cable["peer"]) and _has(told, rows.cable["peer_port"]):
        return True
    subjects = sum(_has(told, rows.subject[kind]) for kind in ("host", "switch", "rack"))
    subjects += _has(told, rows.subject["any"]) and _has(told, rows.about["role"])
    mounts = _has(told, rows.mount["filesystem"]) and _has(told, rows.mount["storage"])
    return subjects >= 2 or (subjects == 1 and (bool(told & _relating()) or mounts))


def _has(told: set[str], accepted: tuple[str, ...]) -> bool:
    return not told.isdisjoint(accepted)


def records(row: Row, tally: Tally, source: str) -> Iterator[Edge | Identity]:
    """What a row tells. A row that tells nothing usable is counted."""
    rows, before = table(), tally.unparsed
    if _cell(row, rows.edge["relation"]):
        found: list[Edge | Identity] = [*_written(row, tally)]
    else:
        subjects = _subjects(row, tally)
        found = [one for subject in subjects for one in _of_subject(subject, row)]
        found += _cables(row, subjects)
    if not found and tally.unparsed == before:
        tally.unparsed += 1
    for one in found:
        yield msgspec.structs.replace(one, source=source) if isinstance(one, Edge) and not one.source else one


def _cell(row: Row, accepted: Iterable[str]) -> str:
    """The first cell under these headings that tells something."""
    return next((text for one in accepted if (text := _told(row.get(one, "")))), "")


def _told(text: str) -> str:
    text = text.strip()[:MAX_CELL]
    return "" if text.lower() in _NOTHING or _NO_NAME.fullmatch(text) else text


def _subjects(row: Row, tally: Tally) -> list[Name]:
    """What the row is about: hosts, else a switch, else a rack, else what its role says."""
    rows = table()
    if hosts := _cell(row, rows.subject["host"]):
        return [_named(Kind.HOST, host) for host in hostlist.names(hosts.removeprefix("host:"), tally)]
    if (text := _cell(row, rows.subject["any"])) and (role := _cell(row, rows.about["role"])):
        kind = kind_of_role(role)
        if kind is None:
            tally.note(f"role {role[:60]!r} is none that is known")
        return [_named(kind, text)] if kind else []
    for kind in (Kind.SWITCH, Kind.RACK):
        if text := _cell(row, rows.subject[kind]):
            return [_named(kind, text)]
    return []


def kind_of_role(role: str) -> Kind | None:
    """What a device of that role is, None where the words do not tell."""
    told = {word.rstrip("0123456789").removesuffix("s") for word in heading(role).split("_")}
    return next((Kind(kind) for word, kind in table().roles["words"] if word in told), None)


def _named(kind: Kind, text: str) -> Name:
    """`h1` or `host:h1` as a name; blanks become underscores."""
    prefix, colon, rest = text.partition(":")
    return name(kind, *(rest if colon and prefix == kind else text).split("/"))


def _of_subject(subject: Name, row: Row) -> Iterator[Edge | Identity]:
    rows, kind = table(), kind_of(subject)
    if rack := _cell(row, rows.subject["rack"]):
        yield from in_rack(subject, rack)
    yield from hangs_on(subject, row)
    if kind is Kind.HOST:
        yield from _attached(subject, row)
        yield from _mounts(subject, row)
    if kind is Kind.HOST and (serial := _cell(row, rows.about["serial"])):  # an identity is of a host or in one
        owner = parts_of(subject)[0]
        yield Identity(host=owner, kind=kind, name=owner, serial=serial, model=_cell(row, rows.about["model"]))


def in_rack(subject: Name, rack: str) -> Iterator[Edge]:
    """What stands in a rack is part of it; not its power and coolant units, as the rack hangs on them."""
    if kind_of(subject) not in (Kind.RACK, Kind.PDU, Kind.CDU):
        yield Edge(child=subject, parent=_named(Kind.RACK, rack), relation=Relation.PART_OF)


def hangs_on(subject: Name, row: Row) -> Iterator[Edge]:
    """Power, cooling and management of what a row is about."""
    for relation, headings in table().relation.items():
        for parent in _parents(row, headings, _PARENTS[relation]):
            if parent != subject:
                yield Edge(child=subject, parent=parent, relation=relation)


def _parents(row: Row, headings: tuple[str, ...], kind: Kind) -> list[Name]:
    cells = [_told(row.get(one, "")) for one in headings]
    told = [one for text in cells for one in _SEVERAL.split(text) if _told(one)]
    return list(dict.fromkeys(_named(kind, one) for one in told))


def _attached(host: Name, row: Row) -> Iterator[Edge]:
    """A host is attached to its switch; where both ports are told, the cable says that."""
    if not all(_cable_ports(row)):
        for switch in _parents(row, table().subject["switch"], Kind.SWITCH):
            yield Edge(child=host, parent=switch, relation=Relation.ATTACHED_TO)


def _mounts(host: Name, row: Row) -> Iterator[Edge]:
    storage, filesystem = _cell(row, table().mount["storage"]), _cell(row, table().mount["filesystem"])
    if storage and filesystem:
        child = name(Kind.FILESYSTEM, parts_of(host)[0], filesystem)
        yield Edge(child=child, parent=_named(Kind.STORAGE, storage), relation=Relation.MOUNTS)


def _cables(row: Row, subjects: list[Name]) -> Iterator[Edge]:
    rows = table()
    port, peer_port = _cable_ports(row)
    device = _cell(row, rows.cable["device"]) or (parts_of(subjects[0])[0] if len(subjects) == 1 else "")
    peer = _cell(row, rows.cable["peer"]) or _cell(row, rows.subject["switch"])
    if device and port and peer and peer_port:
        ends = (_port(device, port), _port(peer, peer_port))
        if ends[0] != ends[1]:
            yield Edge(child=ends[0], parent=ends[1], relation=Relation.LINK_END)


def _cable_ports(row: Row) -> tuple[str, str]:
    """The port of the host (or first device) and that of the switch (or second): `port` is whose there is no other."""
    rows = table().cable
    port, peer_port = _cell(row, rows["port"]), _cell(row, rows["peer_port"])
    own = _cell(row, (one for one in rows["port"] if one != "port"))
    return port, peer_port or (_told(row.get("port", "")) if own else "")


def _port(device: str, port: str) -> Name:
    owner = device.partition(":")[2] if device.partition(":")[0] in _KINDS else device
    return name(Kind.PORT, owner, *port.split("/"))


def _written(row: Row, tally: Tally) -> Iterator[Edge]:
    """An edge whose ends and relation are written out."""
    rows = table().edge
    child, parent = (_cell(row, rows[end]) for end in ("child", "parent"))
    try:
        relation = _relation(_cell(row, rows["relation"]))
        edge = Edge(
            child=_whole(child),
            parent=_whole(parent),
            relation=relation,
            source=_told(row.get("source", ""))[:MAX_SOURCE],
            **{time: _ms(row.get(time, "")) for time in TIMES},
        )
    except ValueError as error:
        tally.unparsed += 1
        tally.note(f"no edge: {error}"[:300])
        return
    yield edge


def _relation(text: str) -> Relation:
    """Raises ValueError that says which there are."""
    try:
        return Relation(heading(text))
    except ValueError:
        raise ValueError(f"there is no relation {text[:40]!r}; there are {', '.join(Relation)}") from None


def _ms(text: str) -> int | None:
    """A time as edges hold it, in milliseconds since 1970; None where none is told. Raises ValueError."""
    told = _told(text)
    return None if not told else stamps.absolute(float(told)).ms or None


def _whole(text: str) -> Name:
    """A whole name, spelled as everything else spells it. Raises ValueError."""
    kind, parts = kind_of(text), parts_of(text)
    if parts[0] in ("", UNKNOWN):
        raise ValueError(f"{text[:60]!r} names nothing")
    return name(kind, *parts)
