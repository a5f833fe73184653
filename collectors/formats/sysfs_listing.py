"""Saved listings of port files under /sys: `grep . /sys/class/infiniband/*/ports/*/counters/*`, `head -n 100 ...`.

A value that is no number ("N/A (no PMA)": the adapter has no such counter) is missing, never 0. Listings carry no
time: samples have `at_ms` 0.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from collectors.formats.metric_names import files
from collectors.formats.port_findings import MAX_COUNTERS, of_counters, of_state
from collectors.formats.reading import Reading, Tally
from collectors.formats.series_names import is_virtual
from collectors.formats.series_rows import SeriesRows
from collectors.formats.text import lines
from sickbay import components
from sickbay.components import UNKNOWN, Kind, Name
from sickbay.messages import Identity

MAX_PATH = 2048  # characters of a line that are looked at
MAX_SEEN = 500_000  # files of one listing
_HOST = re.compile(r"([A-Za-z0-9][\w.-]{0,252}): +(?=\S*/)")  # pdsh and its like put it before each line
_PORT = re.compile(
    r"\S*/?infiniband/([^/:\s]+)/ports/(\d{1,3})/((?:hw_)?counters/[^:/]{1,64}|gid_attrs/ndevs/\d{1,3}|[a-z_]{1,32})$"
)
_INTERFACE = re.compile(r"[\w.-]{1,32}")
_NET = re.compile(r"\S*/?net/([^/:\s]+)/(statistics/[a-z_]{1,64}|[a-z_]{1,32})$")
_NAMES = "gid_attrs/ndevs/"
_HEADER = re.compile(r"==> (.+) <==$")
_NUMBER = re.compile(r"(-?\d{1,20}(?:\.\d{1,6})?)(?:$|:? )")
_WORDS = {"up": 1.0, "down": 0.0, "lowerlayerdown": 0.0, "notpresent": 0.0, "dormant": 0.0, "testing": 0.0}


def confidence(head: bytes, name: str) -> float:
    """How sure it is that this is such a listing: the share of lines that name a port's file."""
    told = [line.strip() for line in head.decode("utf-8", "replace").split("\n")[:200] if line.strip()]
    paths = sum(1 for line in told if _split(line) or _HEADER.match(line[:MAX_PATH]))
    return 0.95 if paths and paths * 3 >= len(told) else 0.0


@dataclass(slots=True)
class _Words:
    """What the files of one listing said as text, and the counters of the listing before."""

    now: defaultdict[Name, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    before: dict[Name, dict[str, int]] = field(default_factory=dict)

    def take(self, port: Name, file: str, value: str) -> None:
        """Remember one file of a port."""
        if len(self.now[port]) < MAX_COUNTERS:
            self.now[port][file.rpartition("/")[2]] = value

    def findings(self) -> Iterator[Reading]:
        """What states and counters say; the next listing is compared with this one."""
        for port, told in self.now.items():
            state = of_state(port, told.get("state", ""), told.get("phys_state", ""))
            if state is not None and state.kind != "port.up":
                yield Reading(state)
            counters = {key: int(value) for key, value in told.items() if value.isascii() and value.isdecimal()}
            for event in of_counters(port, counters, self.before.get(port)):
                yield Reading(event)
            self.before[port] = counters
        self.now.clear()


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """One row per port and listing, and what is wrong with it; a file told twice begins a new listing."""
    rows, words, seen, heading = SeriesRows(), _Words(), set[tuple[Name, str]](), ""
    for _, line in lines(chunks, tally):
        if header := _HEADER.match(line[:MAX_PATH]):
            heading = header.group(1)
            continue
        found = _split(f"{heading}:{line.strip()}" if heading and not _split(line) else line)
        heading = ""
        if found is None:
            tally.unparsed += "infiniband/" in line and "/ports/" in line
            continue
        port, file, value = found
        if file.startswith(_NAMES):
            yield from _names(port, value, seen)
            continue
        if (port, file) in seen or len(seen) >= MAX_SEEN:
            yield from rows.flush(tally)
            yield from words.findings()
            seen.clear()
        seen.add((port, file))
        words.take(port, file, value)
        target = files().get(file)
        if target is None:
            continue
        told = number(value)
        if math.isnan(told):
            tally.note(f"{port}: {file} says {value[:40]!r}: not measured, which is not 0")
        rows.add(target, {}, port, 0, told)
    yield from rows.flush(tally)
    yield from words.findings()


def _names(port: Name, interface: str, seen: set[tuple[Name, str]]) -> Iterator[Reading]:
    """The interface of one of the port's addresses. VLANs share it; of several others nothing joins any."""
    new = (port, _NAMES + interface) not in seen and len(seen) < MAX_SEEN
    if new and _INTERFACE.fullmatch(interface) and "." not in interface:
        seen.add((port, _NAMES + interface))
        host, _, rest = port.partition(":")[2].partition("/")
        yield Reading(Identity(host=host, kind=Kind.PORT, index=rest, name=interface))


def _split(line: str) -> tuple[Name, str, str] | None:
    """Port, file below it, and value of a line `path:value`."""
    line = line[:MAX_PATH].strip()
    host = _HOST.match(line)
    path, colon, value = line[host.end() if host else 0 :].partition(":")
    if not colon:
        return None
    owner = host.group(1) if host else UNKNOWN
    if port := _PORT.match(path):
        return components.name(Kind.PORT, owner, port.group(1), port.group(2)), port.group(3), value.strip()
    if (net := _NET.match(path)) and not is_virtual(net.group(1)):
        return components.name(Kind.PORT, owner, net.group(1)), net.group(2), value.strip()
    return None


def number(value: str) -> float:
    """The number that a file says, first thing in it ("4: ACTIVE", "400 Gb/sec (4X NDR)"); NaN where it says none."""
    if (word := _WORDS.get(value)) is not None:
        return word
    match = _NUMBER.match(value)
    return float(match.group(1)) if match else math.nan
