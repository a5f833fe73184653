"""Answers of a UFM's REST resources: `ports`, `links`, `systems`, `events` and `alarms`, each a list of rows.

Rows are read one by one: one that is not understood is counted and hides no other. GUIDs come without `0x`, numbers as
text or not. Sources: NVIDIA UFM Enterprise REST API guide 6.11 to 6.24 (Ports, Links, Systems, Events, Alarms; none of
them comes in pages), public clients.
"""

from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from collectors.formats.ibnetdiscover import described_port
from collectors.formats.reading import Tally
from collectors.formats.text import clean_text
from sickbay.components import Kind, Name, name, parts_of

MAX_ROWS = 1_500_000
Text = Annotated[str, Meta(max_length=2000)]


class Unreadable(ValueError):
    """The answer is no list of rows."""


class Port(Struct, frozen=True):
    """One port. `name` is its GUID and number (`b83fd20300da1138_1`)."""

    name: Text
    number: int | Text = 0
    dname: Text = ""
    node_description: Text = ""
    system_name: Text = ""
    logical_state: Text = ""
    physical_state: Text = ""
    peer_node_description: Text = ""


class Link(Struct, frozen=True):
    """One link; the two ends are in no order."""

    source_guid: Text
    source_port: int | Text
    destination_guid: Text
    destination_port: int | Text
    source_port_dname: Text = ""
    destination_port_dname: Text = ""
    source_port_node_description: Text = ""
    destination_port_node_description: Text = ""


class Told(Struct, frozen=True):
    """One event as the manager lists it; `timestamp` is in its own, untold zone."""

    id: int
    name: Text = ""
    severity: Text = ""
    timestamp: Text = ""
    category: Text = ""
    object_name: Text = ""
    object_path: Text = ""
    description: Text = ""


class System(Struct, frozen=True):
    """One switch or host. `name` is its GUID; what it does not know is `N/A`."""

    name: Text
    system_name: Text = ""
    type: Text = ""
    state: Text = ""
    model: Text = ""
    fw_version: Text = ""
    sw_version: Text = ""
    temperature: int | float | Text = ""


class Alarm(Struct, frozen=True):
    """One alarm that stands. Until 6.16 the object's path and the sentence had other names."""

    id: int
    name: Text = ""
    severity: Text = ""
    timestamp: Text = ""
    object_path: Text = ""
    related_object_path: Text = ""
    description: Text = ""
    summary: Text = ""
    reason: Text = ""

    @property
    def path(self) -> str:
        """What it speaks of, such as `default / Switch: leaf1`."""
        return self.object_path or self.related_object_path


R = TypeVar("R", Port, Link, Told, System, Alarm)


def rows(body: bytes, kind: type[R], tally: Tally) -> Iterator[R]:
    """The rows of an answer. Raises Unreadable where it is no list."""
    try:
        raw = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unreadable(f"no list of rows: {str(error)[:200]}") from None
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
    for row in raw[:MAX_ROWS]:
        try:
            yield _row(row, kind, decoder)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            tally.unparsed += 1


def _row(row: msgspec.Raw, kind: type[R], decoder: msgspec.json.Decoder[Any]) -> R:
    """One row; where a version writes null for what it does not know, or a number as text, that hides no row."""
    try:
        return decoder.decode(row)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        told = msgspec.json.decode(row, type=dict[str, Any])
        return msgspec.convert({key: one for key, one in told.items() if one is not None}, kind, strict=False)


def is_adapter(dname: str, description: str) -> bool:
    """Whether a port's display name is an adapter's (`HCA-1/2`); a switch's is its number. Where none is told, only
    adapters have a second word in what they call themselves."""
    return dname.upper().startswith("HCA") or (not dname and " " in description.strip())


def port_of(guid: str, number: int | str, description: str, *, adapter: bool) -> Name:
    """What a port is called by other tools too. A switch's description may end with the port (`leaf-3:19`); an adapter
    that names no host is told by its GUID."""
    own = f"0x{clean_text(guid).lower().removeprefix('0x').rjust(16, '0')}"
    text = clean_text(description).strip()
    if not adapter:
        text = text.removesuffix(f":{number}")
    told = described_port(text, own, str(number)) if text else name(Kind.PORT, own, str(number))
    first, *rest = parts_of(told)
    return name(Kind.PORT, first, own, *rest) if adapter and len(rest) == 1 and first != own else told
