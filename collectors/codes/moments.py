"""When and where events are, as far as they can be compared with each other."""

from typing import NamedTuple

from msgspec.structs import replace

from sickbay.components import UNKNOWN, host_of
from sickbay.messages import Event


class Moment(NamedTuple):
    """A time on one of the clocks: only moments of the same clock can be compared."""

    clock: str
    s: float


def moment(event: Event) -> Moment:
    """UTC where known, else since boot within the input, else the input alone: its undated events are together."""
    if event.at_ms is not None:
        return Moment("utc", event.at_ms / 1000)
    if event.at_boot_s is not None:
        return Moment(f"boot {event.path} {event.boot_id}", event.at_boot_s)
    return Moment(f"input {event.path}", 0.0)


def within(one: Moment, other: Moment, seconds: float) -> bool:
    """Whether two moments are known to lie that close together."""
    return one.clock == other.clock and abs(one.s - other.s) <= seconds


def noted(event: Event, **attributes: str) -> Event:
    """The event with attributes added."""
    return replace(event, attributes=event.attributes | attributes)


def host_key(event: Event) -> str:
    """The host that an event belongs to; an unknown one is that of its input only."""
    return host_of(event.component) or event.host or f"{UNKNOWN} {event.path}"
