"""Objects of NetBox's REST API as edges: devices, cables, interfaces, power ports, power feeds and racks.

Which endpoint an object came from stands in its own `url` (`.../api/dcim/devices/7/`). Fields: netbox-community/netbox,
netbox/dcim/api/serializers_ (releases 3.3 to 4.x; the role was `device_role` before 3.6). Which unit cools a rack or a
device has no field of its own in these releases: a custom field with a heading of codes/inventory.toml tells it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from collectors.formats import inventory_rows
from collectors.formats.inventory_rows import heading, kind_of_role
from collectors.formats.reading import Tally
from sickbay.components import Kind, Name, name
from sickbay.messages import Edge, Identity, Relation

NOT_THERE = frozenset({"planned", "inventory", "decommissioning"})  # of a device's or cable's status
_URL = re.compile(r"/api/dcim/([a-z-]{4,30})/\d{1,12}/?$")
_IN_TEXT = re.compile(rb"/api/dcim/(?:devices|cables|interfaces|racks|power-ports|power-feeds)/\d")
_INTERFACE = "dcim.interface"

Object = Mapping[str, Any]


def is_it(start: bytes) -> bool:
    """Whether a text begins like objects of NetBox."""
    return b'"url"' in start and bool(_IN_TEXT.search(start))


def endpoint_of(told: Object) -> str:
    """The endpoint that an object came from (`devices`), "" for other objects."""
    url = told.get("url")
    match = _URL.search(url) if isinstance(url, str) and len(url) < 1000 else None
    return match[1] if match else ""


def unfinished(page: Object) -> bool:
    """Whether a page says that more follow."""
    return isinstance(page.get("next"), str) and "results" in page


def records(objects: Iterable[Object], tally: Tally, source: str) -> Iterator[Edge | Identity]:
    """What the objects tell together: what a device is stands only with the device."""
    by_endpoint: dict[str, list[Object]] = {}
    for one in objects:
        by_endpoint.setdefault(endpoint_of(one), []).append(one)
    kinds = _kinds(by_endpoint.get("devices", ()), tally)
    racks = _racks(by_endpoint)
    readers: dict[str, Callable[[Object], Iterator[Edge | Identity]]] = {
        "devices": lambda one: _device(one, kinds, racks),
        "racks": lambda one: _rack(one, racks),
        "cables": lambda one: _cable(one, tally),
        "interfaces": lambda one: _interface(one, kinds),
        "power-ports": lambda one: _power_port(one, kinds),
        "power-feeds": lambda one: _power_feed(one, racks),
    }
    seen: set[tuple[Name, Relation, Name]] = set()
    for endpoint, reader in readers.items():
        for one in by_endpoint.get(endpoint, ()):
            for record in reader(one):
                if isinstance(record, Identity):
                    yield record
                elif (key := (record.child, record.relation, record.parent)) not in seen:  # both ends tell of a link
                    seen.add(key)
                    yield Edge(child=key[0], relation=key[1], parent=key[2], source=source)


def _kinds(devices: Iterable[Object], tally: Tally) -> dict[str, Kind]:
    """What each device is, by its role."""
    found = {}
    for one in devices:
        device, role = _name(one), _slug(one.get("role") or one.get("device_role"))
        kind = kind_of_role(role) if device and role else None
        if kind is not None:
            found[device] = kind
        elif not role or not device:  # the schema has changed, or the device bears no name
            tally.unparsed += 1
            tally.note("devices without a name or role were left out")
        else:
            tally.note(f"devices of role {role[:40]!r} were left out: no word of codes/inventory.toml fits")
    return found


def _racks(objects: Mapping[str, Iterable[Object]]) -> dict[object, str]:
    """What each rack is called, by its id. A rack's name is its own within a site only: of those that share theirs the
    site's stands before it, or hosts of two sites would hang on one rack."""
    told: dict[object, tuple[str, str]] = {}
    pairs = [(one, one) for one in objects.get("racks", ())]
    pairs += [(rack, one) for one in objects.get("devices", ()) if isinstance(rack := one.get("rack"), dict)]
    for rack, placed in pairs:
        if (own := _name(rack)) and isinstance(number := rack.get("id"), int):
            told.setdefault(number, (own, _name(placed.get("site"))))
    count = Counter(own for own, _ in told.values())
    return {number: own if count[own] == 1 else f"{site or number} {own}" for number, (own, site) in told.items()}


def _rack_name(told: object, racks: Mapping[object, str]) -> str:
    own = _name(told)
    number = told.get("id") if isinstance(told, dict) else None
    return racks.get(number, own) if isinstance(number, int) else own


def _device(one: Object, kinds: Mapping[str, Kind], racks: Mapping[object, str]) -> Iterator[Edge | Identity]:
    device = _name(one)
    kind = kinds.get(device)
    if kind is None or _value(one.get("status")) in NOT_THERE:
        return
    component = name(kind, device)
    if rack := _rack_name(one.get("rack"), racks):
        yield from inventory_rows.in_rack(component, rack)
    yield from _custom(component, one)
    if kind is Kind.HOST and (serial := _text(one.get("serial"))):
        model = _text((one.get("device_type") or {}).get("model")) if isinstance(one.get("device_type"), dict) else ""
        yield Identity(host=device, kind=kind, name=device, serial=serial, model=model)


def _custom(component: Name, one: Object) -> Iterator[Edge | Identity]:
    """Edges of custom fields whose names are headings that are known."""
    fields = one.get("custom_fields")
    if isinstance(fields, dict):
        row = {
            heading(str(key)): _name(value) if isinstance(value, dict) else _text(value)
            for key, value in fields.items()
        }
        yield from inventory_rows.hangs_on(component, row)


def _rack(one: Object, racks: Mapping[object, str]) -> Iterator[Edge | Identity]:
    if rack := _rack_name(one, racks):
        yield from _custom(name(Kind.RACK, rack), one)


def _cable(one: Object, tally: Tally) -> Iterator[Edge | Identity]:
    """Two interfaces, or as many on either side (a breakout with a port for each lane)."""
    if _value(one.get("status")) in NOT_THERE:
        return
    sides = [[_port_at(end) for end in _list(one.get(f"{side}_terminations"))] for side in "ab"]
    if any(None in side for side in sides):  # power, or a patch panel: other endpoints tell what hangs there
        return
    if not sides[0] or len(sides[0]) != len(sides[1]):
        tally.note("cables with more ends on one side were left out: which lane is which is not told")
        return
    for end, other in zip(*sides, strict=True):
        if end and other and end != other:
            yield Edge(child=end, parent=other, relation=Relation.LINK_END)


def _port_at(end: object) -> Name | None:
    """The port at a cable's end, None for an end that is no interface."""
    if not isinstance(end, dict) or end.get("object_type") != _INTERFACE or not isinstance(end.get("object"), dict):
        return None
    return _port(end["object"])


def _port(interface: Object) -> Name | None:
    device, port = _name(interface.get("device")), _name(interface)
    return name(Kind.PORT, device, *port.split("/")) if device and port else None


def _interface(one: Object, kinds: Mapping[str, Kind]) -> Iterator[Edge | Identity]:
    """The far end of an interface, through patch panels; a host's management port tells who manages it."""
    port = _port(one)
    if port is None or one.get("connected_endpoints_type") != _INTERFACE:
        return
    ends = [end for end in _list(one.get("connected_endpoints")) if isinstance(end, dict)]
    far = _port(ends[0]) if len(ends) == 1 else None
    if far is None or far == port:
        return
    device, peer = _name(one.get("device")), _name(ends[0].get("device"))
    if one.get("mgmt_only") is True and kinds.get(device) is Kind.HOST and kinds.get(peer) is Kind.SWITCH:
        yield Edge(child=name(Kind.HOST, device), parent=name(Kind.SWITCH, peer), relation=Relation.MANAGED_BY)
        return
    low, high = sorted(
        (port, far), key=lambda end: (kinds.get(end.partition(":")[2].partition("/")[0]) is Kind.SWITCH, end)
    )
    yield Edge(child=low, parent=high, relation=Relation.LINK_END)


def _power_port(one: Object, kinds: Mapping[str, Kind]) -> Iterator[Edge | Identity]:
    device = _name(one.get("device"))
    kind, told = kinds.get(device), one.get("connected_endpoints_type")
    for end in _list(one.get("connected_endpoints")):
        if kind is None or not isinstance(end, dict):
            continue
        unit = (
            _name(end.get("device")) if told == "dcim.poweroutlet" else _feed(end) if told == "dcim.powerfeed" else ""
        )
        child, parent = name(kind, device), name(Kind.PDU, *unit.split("/"))
        if unit and child != parent:
            yield Edge(child=child, parent=parent, relation=Relation.POWERED_BY)


def _power_feed(one: Object, racks: Mapping[object, str]) -> Iterator[Edge | Identity]:
    """A feed that leads to a rack powers all of it."""
    rack, feed = _rack_name(one.get("rack"), racks), _feed(one)
    if rack and feed:
        yield Edge(child=name(Kind.RACK, rack), parent=name(Kind.PDU, *feed.split("/")), relation=Relation.POWERED_BY)


def _feed(one: Object) -> str:
    panel, feed = _name(one.get("power_panel")), _name(one)
    return f"{panel}/{feed}" if panel and feed else feed


def _name(told: object) -> str:
    return _text(told.get("name")) if isinstance(told, dict) else ""


def _slug(told: object) -> str:
    return (_text(told.get("slug")) or _name(told)) if isinstance(told, dict) else ""


def _value(told: object) -> str:
    return _text(told.get("value")) if isinstance(told, dict) else _text(told)


def _text(told: object) -> str:
    return told.strip()[:128] if isinstance(told, str) else ""


def _list(told: object) -> list[Any]:
    return told[:64] if isinstance(told, list) else []
