"""Error counters of switches' ports from a fabric manager's telemetry endpoint. Pure.

Only what its documents call a total of events: of data they leave open whether it is in bytes and since when. Ports of
adapters are left to their hosts, whose counters began elsewhere. Each value has the time of its sample: one that was
told is not told again, and one that is old is no reading.
Source: NVIDIA UFM Telemetry guide, "Prometheus Endpoint Support" (labels and form), "Telemetry Fields" (names).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from collectors import rows as tables
from collectors.cluster.poll import Polled, PollFailed
from collectors.formats.fabric_manager_json import Port, Unreadable, is_adapter, port_of, rows
from collectors.formats.prometheus_text import labels_at, value_at
from collectors.formats.reading import Tally
from sickbay.components import Name

COLUMNS: Mapping[str, str] = {
    "SymbolErrorCounterExtended": "symbol_errors_total",
    "LinkErrorRecoveryCounterExtended": "link_recoveries_total",
    "LinkDownedCounterExtended": "link_downed_total",
    "PortRcvErrorsExtended": "rx_errors_total",
}
OLD_MS = 600_000  # [house] an older sample is no reading of now
NAMES_MS = 600_000  # between two looks at which port is whose
MOST_LINES = 4_000_000
MOST = 2.0**64  # a counter of 64 bits
_NAME = re.compile(r"(\w{1,100})\{")

Key = tuple[str, str]  # GUID without leading zeros, port


@dataclass(frozen=True, slots=True)
class Counted:
    """Which port is whose, as of when, and the time of what was told of each."""

    names: Mapping[Key, Name] = field(default_factory=dict)
    named_ms: int | None = None
    told_ms: Mapping[Name, int] = field(default_factory=dict)


def counted(body: bytes, ports: Callable[[], bytes], state: Counted, now_ms: int) -> Polled[Counted]:
    """Counters that are new. `ports` is asked for names now and then. Raises PollFailed."""
    tally = Tally()
    if state.named_ms is None or not 0 <= now_ms - state.named_ms < NAMES_MS:
        state = Counted(_names(ports(), tally), now_ms, state.told_ms)
    told_ms, cells, old, known = dict(state.told_ms), dict[int, dict[Name, dict[str, float]]](), 0, 0
    for key, column, value, at_ms in _values(body, tally):
        known += 1
        port = state.names.get(key)
        if port is None or at_ms <= state.told_ms.get(port, -1):
            continue
        if abs(now_ms - at_ms) > OLD_MS:
            old += 1
            continue
        cells.setdefault(at_ms, {}).setdefault(port, {})[column] = value
        told_ms[port] = max(at_ms, told_ms.get(port, at_ms))
    if not known:
        raise PollFailed(f"its telemetry tells none of {', '.join(COLUMNS)} ([fabric] telemetry_url)")
    samples = [one for at_ms in sorted(cells) for one in tables.samples("port", cells[at_ms], at_ms)]
    problem = f"{old} values of its telemetry are older than {OLD_MS // 60_000} minutes" if old else ""
    return Polled(Counted(state.names, state.named_ms, told_ms), [], tally.unparsed, samples, problem)


def _names(body: bytes, tally: Tally) -> dict[Key, Name]:
    """The ports of switches."""
    found: dict[Key, Name] = {}
    try:
        for one in rows(body, Port, tally):
            guid, _, number = one.name.rpartition("_")
            told = one.node_description or one.system_name
            if not is_adapter(one.dname, told):
                found[_guid(guid), number] = port_of(guid, number, told, adapter=False)
    except Unreadable as error:
        raise PollFailed(str(error)) from None
    return found


def _guid(text: str) -> str:
    return text.lower().removeprefix("0x").lstrip("0")


def _values(body: bytes, tally: Tally) -> Iterator[tuple[Key, str, float, int]]:
    """Of each line that is wanted: port, column, value, time in ms. One without its time is not understood; the last
    one without its end is a cut number."""
    for line in body.decode("utf-8", "replace").split("\n", MOST_LINES)[:-1]:
        match = _NAME.match(line)
        column = COLUMNS.get(match[1]) if match else None
        if match is None or column is None:
            continue
        labels = labels_at(line, match.end() - 1)
        value, at_ms = (value_at(line, labels[1]) if labels else None) or (-1.0, 0)
        if labels is None or not (0 <= value < MOST and at_ms):
            tally.unparsed += 1
            continue
        yield (_guid(labels[0].get("node_guid", "")), labels[0].get("port_num", "")), column, value, at_ms
