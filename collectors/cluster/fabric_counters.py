"""Counters of the switches' ports by `perfquery`, one process a switch: they live in the switches, so a host that died
leaves its own there. Pure but for `ask`.

Old counters stick at all ones and then count no more: missing, and said once, never "no new errors". What did not
answer is missing too. Source: rdma-core perfquery.c, libibmad fields.c (names, widths), IBA 16.1 (units, masks).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from collectors.cluster.fabric_tools import Ask
from collectors.cluster.poll import PollFailed
from collectors.formats.events import event
from collectors.formats.link_listing import UP, Port
from sickbay.components import Kind, Name, name
from sickbay.messages import MAX_MESSAGE, Event
from sickbay.messages import replace as changed

ATTEMPTS = 3  # questions to one switch: the tool ends at the first port that does not answer
EXTENDED = 0x200 | 0x400  # of the capability mask: data counters of 64 bits, with or without packets by kind
WAIT_COUNTED = 0x1000
_HEAD = re.compile(
    r"^# Port (?P<wide>extended )?counters: Lid \d{1,6} port (?P<port>\d{1,3}) \(CapMask: (?P<mask>0x[0-9A-Fa-f]{1,8})"
)
_ROW = re.compile(r"^(?P<name>\w{3,40}):\.{1,60}(?P<value>\d{1,20})$")


class Counter(NamedTuple):
    """What a counter is called here, in which unit it counts, and at which width its old form sticks."""

    column: str
    factor: int
    bits: int


COUNTERS: Mapping[str, Counter] = {
    "PortXmitData": Counter("tx_bytes_total", 4, 32),
    "PortRcvData": Counter("rx_bytes_total", 4, 32),
    "PortRcvErrors": Counter("rx_errors_total", 1, 16),
    "PortXmitDiscards": Counter("tx_discards_total", 1, 16),
    "SymbolErrorCounter": Counter("symbol_errors_total", 1, 16),
    "LinkErrorRecoveryCounter": Counter("link_recoveries_total", 1, 8),
    "LinkDownedCounter": Counter("link_downed_total", 1, 8),
    "PortXmitWait": Counter("transmit_wait_total", 1, 32),
}
DATA = ("PortXmitData", "PortRcvData")
WIDE = "SymbolErrorCounter"  # among the extended ones: this switch keeps all of them in 64 bits


class Switch(NamedTuple):
    """A switch to ask: its ports that are up, and what they are called."""

    guid: str
    ports: Mapping[int, Name]


class Read(NamedTuple):
    """What one answer holds: values by port and column, and which stand at their maximum."""

    values: dict[int, dict[str, float]]
    stuck: frozenset[tuple[int, str]] = frozenset()
    wide: bool = False  # nothing is left to be asked for in the old form


def parsed(text: str) -> Read:
    """The counters of one answer."""
    values: dict[int, dict[str, float]] = {}
    stuck: set[tuple[int, str]] = set()
    wide = False
    for port, extended, mask, told, value in _cells(text):
        counter = COUNTERS.get(told)
        if counter is None or not _kept(told, mask, extended=extended):
            continue
        wide = wide or (extended and told == WIDE)
        row = values.setdefault(port, {})
        if value == (1 << (64 if extended else counter.bits)) - 1:
            stuck.add((port, counter.column))
        else:
            row[counter.column] = float(value * counter.factor)
    return Read(values, frozenset(stuck), wide)


def _kept(counter: str, mask: int, *, extended: bool) -> bool:
    """Whether a switch with this mask counts that, in the form that stands. One form a counter, always the same: a
    value of 32 bits between two of 64 would look like terabytes."""
    if counter in DATA:
        return extended == bool(mask & EXTENDED)
    return (not extended or bool(mask & EXTENDED)) and (counter != "PortXmitWait" or bool(mask & WAIT_COUNTED))


def _cells(text: str) -> Iterator[tuple[int, bool, int, str, int]]:
    """(port, of 64 bits, capability mask, counter, value)."""
    head: re.Match[str] | None = None
    for row in text.splitlines():
        if row.startswith("#"):
            head = _HEAD.match(row)
        elif head and (match := _ROW.match(row)):
            yield int(head["port"]), bool(head["wide"]), int(head["mask"], 16), match["name"], int(match["value"])


def asked(ask: Ask, switch: Switch) -> Read:
    """The counters of one switch, the wide ones where it has them. Raises PollFailed where it tells nothing."""
    wide = _looped(ask, switch, "--extended")
    if wide.wide:
        return wide
    return merged(wide, _looped(ask, switch))


def merged(wide: Read, old: Read) -> Read:
    """Both forms; of a counter that both tell the wide one stands."""
    ports = {*wide.values, *old.values}
    values = {port: {**old.values.get(port, {}), **wide.values.get(port, {})} for port in sorted(ports)}
    stuck = {(port, column) for port, column in wide.stuck | old.stuck if column not in values.get(port, {})}
    return Read(values, frozenset(stuck), wide.wide)


def _looped(ask: Ask, switch: Switch, *options: str) -> Read:
    """One form of all ports; what stands behind a port that does not answer is asked for again without it."""
    left = sorted(switch.ports)
    read = Read({})
    for _ in range(ATTEMPTS):
        if not left:
            break
        said = ask("perfquery", *options, "--loop_ports", "--Guid", switch.guid, ",".join(map(str, left)))
        answer = parsed(said.text)
        told = [port for port in left if port in answer.values or any(one == port for one, _ in answer.stuck)]
        read = Read({**read.values, **answer.values}, read.stuck | answer.stuck, read.wide or answer.wide)
        rest = [port for port in left if port not in told]
        if not rest or said.status == 0:
            break
        left, why = rest[1:], " ".join(said.errors.split())[:200]
        if not told and not read.values:  # nobody there, or no way to it: one more question would be for nothing
            raise PollFailed(f"{switch.guid}: {why or 'no counters in its answer'}")
    return read


def blind(port: Name, column: str, now_ms: int) -> Event:
    """A counter that stands at its maximum."""
    text = f"{column} stands at its maximum: it counts no more until cleared"
    told = event("port.counters_blind", port, {"counter": column}, code="saturated", message=text)
    return changed(told, at_ms=now_ms, seen_ms=now_ms)  # type: ignore[no-any-return]


def mute(ports: int, of: int, failed: Mapping[str, str], now_ms: int) -> Event:
    """Ports that are up and told no counters."""
    facts = {"ports": str(ports), "of": str(of), "switches": " ".join(sorted(failed)[:8])}
    text = f"{ports} of {of} ports told no counters" + "".join(f"; {one}" for one in list(failed.values())[:1])
    monitor = name(Kind.MONITOR, "infiniband", "counters")
    told = event("monitor.partial_sweep", monitor, facts, code="counters", message=text[:MAX_MESSAGE])
    return changed(told, at_ms=now_ms, seen_ms=now_ms)  # type: ignore[no-any-return]


def switches(ports: Iterable[tuple[Port, Name]]) -> tuple[Switch, ...]:
    """The switches to ask, from their ports and what these are called."""
    found: dict[str, dict[int, Name]] = {}
    for port, own in ports:
        if port.state == UP and port.number:
            found.setdefault(port.guid, {})[port.number] = own
    return tuple(Switch(guid, own) for guid, own in found.items())
