"""JSON of AMD's tool: `amd-smi list`, `static` and `metric` with `--json`, a list of devices or one under `gpu_data`.

Rows are data (tools of codes/exporters/amd.toml): the path of a value, and the unit that must stand with it.
"""

import math
import re
from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from collectors.formats.metric_names import Source, converted, vendors
from collectors.formats.reading import Reading, Tally
from collectors.formats.text import start_of
from sickbay.components import UNKNOWN, Kind, Name, name, pci_address
from sickbay.messages import Identity
from sickbay.schema import Samples

MOST_BYTES = 8 << 20
MOST_DEVICES = 1024
_START = re.compile(rb"^\s*[\[{]", re.MULTILINE)  # warnings of the tool may come first
_DEVICE = re.compile(rb'"gpu"\s*:\s*\d{1,4}\s*[,}]')
_OWN = (b'"bdf"', b'"kfd_id"', b'"gfx_activity"', b'"socket_power"', b'"mem_usage"', b'"ecc_blocks"')


def confidence(head: bytes, name: str) -> float:
    """How sure it is: numbered devices, and a key of the tool."""
    return 0.95 if _START.search(head) and _DEVICE.search(head) and any(key in head for key in _OWN) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """Names of every device and one row of what it measures. The tool tells no time."""
    raw = start_of(chunks, MOST_BYTES)
    devices = devices_of(raw) if len(raw) <= MOST_BYTES else None
    if devices is None:
        tally.unparsed += 1
        tally.note("not the whole answer of amd-smi")
        return
    yield from readings(devices, tally)


def devices_of(raw: bytes) -> list[object] | None:
    """The entries of the answer, None where it is none."""
    start = _START.search(raw)
    try:
        told = msgspec.json.decode(raw[start.start() :]) if start else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    told = told.get("gpu_data") if isinstance(told, dict) else told
    return told[:MOST_DEVICES] if isinstance(told, list) else None


def readings(devices: list[object], tally: Tally, at_ms: int = 0) -> Iterator[Reading]:
    """Identities, then one Samples of all devices that measure something. Partitions but the first are left out."""
    source = vendors()["amd"].tools["amd_smi"]
    cells: dict[Name, dict[str, float]] = {}
    for device in devices:
        identity = _identity(device)
        if identity is None:
            tally.unparsed += 1
            continue
        if identity.pci or identity.uuid:
            yield Reading(identity)
        if row := _row(device, source):
            cells[_component(identity)] = row
    if cells:
        columns = sorted({column for row in cells.values() for column in row})
        values = {column: np.array([row.get(column, math.nan) for row in cells.values()]) for column in columns}
        yield Reading(Samples("accelerator", list(cells), np.full(len(cells), at_ms, np.int64), values))


def _component(identity: Identity) -> Name:
    return name(Kind.ACCELERATOR, UNKNOWN, identity.pci or identity.uuid or identity.index)


def _identity(device: object) -> Identity | None:
    index = _at(device, "gpu")
    if type(index) is not int or not 0 <= index < MOST_DEVICES or _at(device, "partition_id") not in (None, 0, "N/A"):
        return None
    return Identity(
        index=str(index),
        pci=pci_address(_text(device, "bdf") or _text(device, "bus.bdf")) or "",
        uuid=_text(device, "uuid"),
        serial=_text(device, "board.product_serial"),
        model=_text(device, "asic.market_name"),
    )


def _row(device: object, source: Source) -> dict[str, float]:
    row: dict[str, float] = {}
    for path, metric in source.metrics.items():
        raw = _number(_at(device, path), metric.unit)
        if not math.isnan(raw):
            value = float(converted(metric, np.array([raw]))[0])
            row |= {} if math.isnan(value) else {metric.to: value}
    return row


def _at(device: object, path: str) -> object:
    """What stands at a path of keys, None where nothing does."""
    for key in path.split("."):
        device = device.get(key) if isinstance(device, dict) else None
    return device


def _text(device: object, path: str) -> str:
    told = _at(device, path)
    return told[:128] if isinstance(told, str) and told != "N/A" else ""


def _number(told: object, unit: str) -> float:
    """A value with the unit that is expected, NaN for "N/A" and for one in another unit."""
    if isinstance(told, dict):
        return _number(told.get("value"), "") if told.get("unit", unit) == unit else math.nan
    try:
        return float(told) if isinstance(told, int | float | str) and not isinstance(told, bool) else math.nan
    except (ValueError, OverflowError):
        return math.nan
