"""`lldpctl -f json` and `-f json0`: what a host hears from the switches that its ports are cabled to.

An interface is an object, or an object in a list, and so is each thing in it, by version and number of interfaces. The
second has lists and `{"value": ...}` throughout. Source: lldpd src/client/json_writer.c.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from collectors.cluster.switch_links import SOURCE, interface, owner
from collectors.formats.reading import Reading, Tally
from collectors.formats.text import start_of
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Edge, Relation

MAX_BYTES = 16 << 20
MOST_PORTS = 4096
_DEPTH = 4  # lists and objects round one thing


def confidence(head: bytes, name: str) -> float:
    """High for JSON whose one key is the daemon's."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:4096]
    pieces = b"".join(start.split())
    return 0.95 if pieces.startswith((b'{"lldp":{', b'{"lldp":[{')) and b'"interface"' in pieces else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """A link for every port with a neighbour that names itself and its port."""
    raw = start_of(chunks, MAX_BYTES)
    try:
        told = msgspec.json.decode(raw.removeprefix(b"\xef\xbb\xbf")) if len(raw) <= MAX_BYTES else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        told = None
    if not isinstance(told, dict):
        tally.unparsed += 1
        tally.note("no whole JSON document")
        return
    for port, facts in list(_interfaces(told))[:MOST_PORTS]:
        link = _link(port, facts)
        if link is None:
            tally.unparsed += 1
        else:
            yield Reading(link)


def _interfaces(told: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for whole in _objects(told.get("lldp")):
        for one in _objects(whole.get("interface")):
            if isinstance(one.get("name"), str) and "chassis" in one:  # json0
                yield one["name"], one
            else:
                yield from ((port, facts) for port, facts in one.items() if isinstance(facts, dict))


def _link(port: str, facts: dict[str, Any]) -> Edge | None:
    far = next(_objects(facts.get("port")), {})
    port_id = next(_objects(far.get("id")), {})
    words = {"port": _text(port_id), "port_type": _plain(port_id.get("type")), "port_text": _text(far.get("descr"))}
    system, end = owner(_system(facts.get("chassis")), {}), interface(words)
    if not system or not end or len(port) > 40:
        return None
    near, other = name(Kind.PORT, UNKNOWN, port), name(Kind.PORT, system, end)
    return Edge(child=near, parent=other, relation=Relation.LINK_END, source=SOURCE)


def _system(told: object) -> str:
    """The neighbour's own name: a key above what it says, or a thing of its own."""
    for one in _objects(told):
        if "name" in one:
            return _text(one["name"])
        named = [key for key, value in one.items() if isinstance(value, dict) and "id" in value]
        if len(named) == 1 and named[0] != "id":
            return named[0][:255]
    return ""


def _objects(told: object, depth: int = 0) -> Iterator[dict[str, Any]]:
    if isinstance(told, dict):
        yield told
    elif isinstance(told, list) and depth < _DEPTH:
        for one in told[:MOST_PORTS]:
            yield from _objects(one, depth + 1)


def _text(told: object) -> str:
    if isinstance(told, str):
        return told[:255]
    first = next(_objects(told), {})
    return _plain(first.get("value"))


def _plain(told: object) -> str:
    return told[:255] if isinstance(told, str) else ""
