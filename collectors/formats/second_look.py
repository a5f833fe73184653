"""What a second look at the source says of a hard event: that it stands, that it does not, or that nobody can tell.

Rules, each of which has a test:
  off the bus      gone where the bus no longer has the device or reads nothing of it, or its driver calls it lost;
                   there only where its driver read its sensors since: a bus that answers proves nothing of the device
  width            narrow, or as wide as both ends allow
  link             down, or up
  recovery action  the driver asks for something, or for nothing
  memory repair    the driver's flag stands, or does not
"""

from collections.abc import Mapping
from typing import Any

from collectors.formats.pcie_files import link_of
from sickbay.components import HOST_SCOPED, Kind
from sickbay.messages import Event, Severity

FRESH_MS = 60_000  # an older event is history: what is read now says nothing of then
YES, NO, UNKNOWN = "yes", "no", "unknown"
OFF_BUS = frozenset({"accelerator.off_bus", "nic.gone"})  # nobody can say so of a device whose place is not known
LOST = 15  # nvmlReturn_t
_ALSO = frozenset({"accelerator.recovery_action", "pcie.degraded", "pcie.corrected_rate"})
_OF_DEVICES = frozenset({Kind.ACCELERATOR, Kind.NIC, Kind.PORT, Kind.PCIE, Kind.OPTIC, Kind.DISK, Kind.FABRIC})
_FLAGS = {
    "accelerator.memory_repair_pending": "remapped_rows.pending",
    "accelerator.memory_repair_failed": "remapped_rows.failed",
    "accelerator.recovery_action": "recovery_action",
}

Texts = Mapping[str, str]
Card = Mapping[str, Any] | None  # what the driver answered of it since, in the words of collectors/host/nvml_calls.py


def is_hard(event: Event, host: str, now_ms: int) -> bool:
    """Whether it speaks of hardware of this host, now, and is worth a second look."""
    kind, _, rest = event.component.partition(":")
    if kind not in _OF_DEVICES or kind not in HOST_SCOPED or rest.partition("/")[0] != host:
        return False
    if abs(now_ms - (event.at_ms or 0)) > FRESH_MS:
        return False
    return event.severity in (Severity.ERROR, Severity.FATAL) or event.kind in _ALSO


def confirmed(event: Event, device: Texts | None, above: Texts, port: Texts, card: Card) -> tuple[str, str]:
    """(yes, no or unknown; what was seen). `device`: files of the device on its bus, None where it is not there."""
    if event.kind == "accelerator.off_bus":
        return _on_the_bus(device, card)
    if flag := _FLAGS.get(event.kind):
        return _flag(flag, card)
    if event.kind.startswith("pcie.") or "width" in event.code:
        return _width(device, above)
    if event.kind in ("port.down", "port.error"):
        return _link(port)
    if event.kind == "nic.gone":
        return (YES, "the bus has no such device") if device is None else (UNKNOWN, "the bus has the device")
    return UNKNOWN, "no file of the host tells it"


def _on_the_bus(device: Texts | None, card: Card) -> tuple[str, str]:
    if device is None:
        return YES, "the bus has no such device"
    if card is not None and _code(card) == LOST:
        return YES, "its driver calls it lost"
    if device.get("current_link_width") and link_of(device).width is None:
        return YES, f"its link reads {device['current_link_width'][:20]} lanes: nothing answers"
    if card is not None and "error" not in card and _sensors(card):
        return NO, "its driver reads its sensors"
    return UNKNOWN, "the bus has the device, and its driver was not heard"


def _sensors(card: Mapping[str, Any]) -> bool:
    values = card.get("values")
    return isinstance(values, dict) and bool({"power", "temperature"} & values.keys())


def _flag(flag: str, card: Card) -> tuple[str, str]:
    values = card.get("values") if card is not None else None
    value = values.get(flag) if isinstance(values, dict) else None
    if not isinstance(value, int) or isinstance(value, bool):
        return UNKNOWN, "its driver was not heard"
    return (YES if value else NO), f"its driver says {flag.replace('_', ' ')} {value}"


def _width(device: Texts | None, above: Texts) -> tuple[str, str]:
    if device is None:
        return UNKNOWN, "the bus has no such device"
    own, other = link_of(device), link_of(above)
    limits = [limit for limit in (own.width_max, other.width_max) if limit is not None]
    if own.width is None or not limits:
        return UNKNOWN, "its link tells no width"
    return (YES if own.width < min(limits) else NO), f"runs on {own.width} of {min(limits)} lanes"


def _link(port: Texts) -> tuple[str, str]:
    told = port.get("state") or port.get("operstate") or ""
    if not told:
        return UNKNOWN, "the port has no state"
    up = "active" in told.lower() or told == "up"
    return (NO if up else YES), f"the port's state is {told[:40]}"


def _code(card: Mapping[str, Any]) -> int:
    error = card.get("error")
    return error[0] if isinstance(error, list | tuple) and error and isinstance(error[0], int) else 0
