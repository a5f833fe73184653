"""Asks one Redfish service: GETs over one connection, within one time, and of each unit what `redfish_units` reads.

No other verb is ever sent, no session is made on the device, no link is followed off it.
"""

import http.client
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from collectors.formats.redfish_values import Resource
from collectors.http_get import Address, HttpError
from sickbay.components import Kind

ROOT = "/redfish/v1/"
MAX_BODY = 4 << 20  # bytes of one resource
MAX_GETS = 256  # of one unit: a coolant unit has some 20 resources, a power unit of 42 outlets some 10 that are read
MAX_MEMBERS = 128  # of one collection: a board of eight accelerators has some 60 chassis
_WHERE = {Kind.CDU: ("ThermalEquipment", "CDUs"), Kind.PDU: ("PowerEquipment", "RackPDUs"), Kind.HOST: ()}
# From the unit on: properties to follow, `*` all members of a collection, `|` the first of these that is there.
_STEPS = {
    Kind.CDU: (
        "SecondaryCoolantConnectors/*|PrimaryCoolantConnectors/*", "Pumps/*", "Reservoirs/*", "LeakDetection",
        "LeakDetection/LeakDetectors/*",
    ),
    Kind.PDU: ("Metrics", "Mains/*", "Branches/*"),
    Kind.HOST: (
        "Systems/*", "Chassis/*/ThermalSubsystem/ThermalMetrics|Chassis/*/Thermal", "Chassis/*/EnvironmentMetrics",
        "Chassis/*/PowerSubsystem/PowerSupplies/*|Chassis/*/Power",
    ),
}  # fmt: skip
_SENSED = ("FlowLitersPerMinute", "SupplyTemperatureCelsius")  # whose sensors tell thresholds

Get = Callable[[str], Resource]  # path -> the resource there; raises HttpError


class NotThere(HttpError):
    """The device answers, and has no such resource."""


class Told(NamedTuple):
    """What a unit told. `missing`: why some of it did not come, "" where all did."""

    resources: Mapping[str, Resource]
    missing: str = ""


@dataclass(slots=True)
class Session:
    """One connection to a device, for as long as `timeout_s` in all. Close it."""

    address: Address
    headers: Mapping[str, str]
    ca_file: str
    timeout_s: float
    _deadline: float = field(init=False)
    _connection: http.client.HTTPConnection | None = None
    _end: threading.Timer | None = None

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.timeout_s

    def get(self, path: str) -> Resource:
        """The resource at a path. Raises HttpError, NotThere where there is none."""
        try:
            return self._get(path)
        except HttpError:
            if late := self._late():
                raise HttpError(late) from None
            raise
        except TimeoutError:
            raise HttpError(f"no whole answer within {self.timeout_s:g} s") from None
        except ssl.SSLError as error:
            raise HttpError(self._late() or f"TLS: {error.reason or error}") from None
        except OSError as error:
            raise HttpError(self._late() or error.strerror or str(error) or type(error).__name__) from None
        except (http.client.HTTPException, ValueError) as error:
            raise HttpError(self._late() or f"{type(error).__name__}: {error}"[:200]) from None

    def close(self) -> None:
        """End the connection."""
        if self._end is not None:
            self._end.cancel()
        if self._connection is not None:
            self._connection.close()

    def _late(self) -> str:
        return "" if time.monotonic() < self._deadline else f"no whole answer within {self.timeout_s:g} s"

    def _cut(self) -> None:
        """The end of the time, also for a head that comes byte by byte: the client's own limit is one for each byte."""
        if self._connection is not None and (open_ := self._connection.sock) is not None:
            with suppress(OSError):
                socket.socket.shutdown(open_, socket.SHUT_RDWR)  # not TLS's own: another thread is reading

    def _get(self, path: str) -> Resource:
        connection = self._connected()
        whole = False
        try:
            connection.request("GET", path, headers=dict(self.headers))
            answer = connection.getresponse()
            body = b"".join(self._pieces(answer))
            answer.close()
            whole = not answer.will_close
        finally:
            if not whole:  # what comes next on it would be the rest of this answer
                connection.close()
        if answer.status == http.client.NOT_FOUND:
            raise NotThere(f"{path[:100]}: answered 404")
        if answer.status != http.client.OK:
            raise HttpError(f"{path[:100]}: answered {answer.status}")
        return _resource(body, path)

    def _connected(self) -> http.client.HTTPConnection:
        left, place = self._left(), self.address
        if self._connection is None:
            if place.secure:
                trust = ssl.create_default_context(cafile=self.ca_file or None)
                self._connection = http.client.HTTPSConnection(place.host, place.port, timeout=left, context=trust)
            else:
                self._connection = http.client.HTTPConnection(place.host, place.port, timeout=left)
            self._end = threading.Timer(left, self._cut)
            self._end.daemon = True
            self._end.start()
        self._connection.timeout = left
        if self._connection.sock is not None:
            self._connection.sock.settimeout(left)
        return self._connection

    def _pieces(self, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        size = 0
        while piece := answer.read1(64 << 10):
            self._left()
            size += len(piece)
            if size > MAX_BODY:
                raise HttpError(f"the answer is larger than {MAX_BODY >> 20} MiB")
            yield piece
        if answer.length:  # what the head promised and the body did not bring
            raise HttpError(f"the answer ends {answer.length} bytes early")

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _resource(body: bytes, path: str) -> Resource:
    try:
        told = msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise HttpError(f"{path[:100]}: the answer is no JSON") from None
    if not isinstance(told, dict):
        raise HttpError(f"{path[:100]}: the answer is no resource")
    return told


def unit(get: Get, kind: Kind, path: str = "") -> Told:
    """The resources of the one unit at `path` of a service, or of the only one of its kind where no path is given.

    Raises HttpError where not even the unit itself can be had.
    """
    start = get(path) if path.strip("/") else _only(get, kind)
    walk = _Walk(get)
    walk.keep(start)
    for step in _STEPS[kind]:
        for way in step.split("|"):
            if list(walk.down(start, way.split("/"))):
                break
    walk.sensors()
    return Told(walk.found, walk.missing)


def _only(get: Get, kind: Kind) -> Resource:
    here = get(ROOT)
    for step in _WHERE[kind]:
        here = get(_link(here.get(step)) or _no(step))
    if not _WHERE[kind]:
        return here
    members = [link for one in _listed(here) if (link := _link(one))]
    if len(members) != 1:
        example = members[0] if members else "/redfish/v1/..."
        raise HttpError(f"{len(members)} units behind this address: write the path of one behind it, such as {example}")
    return get(members[0])


def _no(step: str) -> str:
    raise HttpError(f"the service has no {step}: is this such a unit?")


def _link(told: object) -> str:
    """The path that a link leads to, "" for one that leads off the device."""
    path = told.get("@odata.id") if isinstance(told, dict) else None
    good = isinstance(path, str) and path.startswith("/redfish/") and len(path) < 500 and path.isprintable()
    return path.split("#")[0] if good and isinstance(path, str) and " " not in path else ""


def _listed(collection: Resource) -> list[Any]:
    told = collection.get("Members")
    return told if isinstance(told, list) else []


@dataclass(slots=True)
class _Walk:
    """What was found of one unit; each path is asked for once."""

    get: Get
    found: dict[str, Resource] = field(default_factory=dict)
    missing: str = ""
    _asked: dict[str, Resource | None] = field(default_factory=dict)

    def keep(self, one: Resource) -> None:
        """A resource that may say something."""
        self.found[str(one.get("@odata.id", f"#{len(self.found)}")).rstrip("/")] = one

    def down(self, here: Resource, way: list[str]) -> Iterator[Resource]:
        """The resources at the end of a way, which are kept."""
        if not way:
            self.keep(here)
            yield here
            return
        links = self._all(here) if way[0] == "*" else [here.get(way[0])]
        for end in map(self._at, links):
            if end is not None:
                yield from self.down(end, way[1:])

    def _all(self, here: Resource) -> list[Any]:
        """The members of a collection, of all its pages."""
        found = list(_listed(here))
        while (link := _link({"@odata.id": here.get("Members@odata.nextLink")})) and len(found) <= MAX_MEMBERS:
            page = None if link.rstrip("/") in self._asked else self._at({"@odata.id": link})
            if page is None:  # it leads nowhere, or back
                self.missing = self.missing or "a collection whose next page does not come"
                break
            here = page
            found += _listed(here)
        if len(found) > MAX_MEMBERS:
            self.missing = self.missing or f"more than {MAX_MEMBERS} members of a collection"
        return found[:MAX_MEMBERS]

    def sensors(self) -> None:
        """Sensors behind the readings that have thresholds."""
        for one in list(self.found.values()):
            for column in _SENSED:
                told = one.get(column)
                if isinstance(told, dict) and (sensor := self._at({"@odata.id": told.get("DataSourceUri")})):
                    self.keep(sensor)

    def _at(self, told: object) -> Resource | None:
        """What a link leads to, or the resource itself where it was sent along; None where there is none."""
        if isinstance(told, dict) and "@odata.type" in told:
            return told
        path = _link(told)  # asked for as it is told: some controllers answer `/Systems/1` with a redirect to `.../1/`
        key = path.rstrip("/")
        if path and key not in self._asked:
            self._asked[key] = self._fetched(path)
        return self._asked.get(key) if path else None

    def _fetched(self, path: str) -> Resource | None:
        if len(self._asked) >= MAX_GETS:
            self.missing = self.missing or f"more than {MAX_GETS} resources"
            return None
        try:
            return self.get(path)
        except NotThere:  # a link to what this model has not
            return None
        except HttpError as error:
            self.missing = self.missing or str(error)
            return None


def seconds(timeout_s: float, units: int, workers: int) -> float:
    """How long a round may take in all: units beyond the workers wait for their turn."""
    return timeout_s * math.ceil(max(1, units) / workers) + 1.0
