"""What the driver's library answers of its cards (collectors/host/nvml_calls.py), as rows, identities and events.

Rules, each of which has a test:
  not available  all ones of 32 or 64 bits, "N/A", negative numbers: missing, never a value
  lost           a card that the library calls lost is told so, once; its neighbours are read as ever
  asks           what the driver asks for is told when it changes; that it asks for nothing, only after it asked
  a rate         bytes over links are counted: a fall is a reset, and its rate missing
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from collectors import rows
from collectors.formats.events import event
from collectors.formats.metric_names import Metric, Source, Target, converted, vendors
from collectors.formats.reading import Record
from collectors.formats.series_events import CodeEvents
from sickbay.components import UNKNOWN, Kind, Name, name, pci_address
from sickbay.messages import Event, Identity

MOST_CARDS = 64
LOST, RESET_REQUIRED = 15, 16  # nvmlReturn_t
_BLANK32, _BLANK64 = 0xFFFFFFFF, 1 << 63
_COUNTED = {"nvlink.sent_kib": "nvlink.sent", "nvlink.received_kib": "nvlink.received"}
_KIB = 1024.0
_ASKS = "recovery_action"


def source() -> Source:
    """The rows of codes/exporters/nvidia.toml."""
    return vendors()["nvidia"].tools["nvml"]


@dataclass(slots=True)
class Cards:
    """The cards of one host between answers. `gone`: those that were told to be lost."""

    events: CodeEvents = field(default_factory=CodeEvents)
    gone: set[Name] = field(default_factory=set)
    _names: dict[int, Identity] = field(default_factory=dict)
    _asked: dict[Name, float] = field(default_factory=dict)
    _counted: dict[tuple[Name, str], tuple[float, int]] = field(default_factory=dict)

    def read(self, lines: Iterable[Mapping[str, Any]], now_ms: int) -> tuple[list[Record], str]:
        """The records of one answer, whole or not, and what went wrong with single cards."""
        records: list[Record] = []
        cells: dict[Name, dict[str, float]] = {}
        troubles: list[str] = []
        for line in lines:
            if (index := _index(line.get("card"))) is None:
                continue
            card = self._name(index, line)
            if fresh := self._identity(index, line):
                records.append(fresh)
            if (error := _error(line.get("error"))) is not None:
                records += self._failed(card, error)
                troubles += [] if error[0] == LOST else [f"{_short(card)}: {error[1]}"]
                continue
            self.gone.discard(card)
            values, failed = line.get("values"), line.get("failed")
            cells[card] = self._row(card, values if isinstance(values, dict) else {}, now_ms, records)
            troubles += [f"{_short(card)}: {failed_text(failed)}"] if isinstance(failed, dict) and failed else []
        return [*rows.samples("accelerator", cells, now_ms), *records], "; ".join(troubles[:3])

    def where(self, index: object) -> str:
        """The card of that number, for people."""
        found = _index(index)
        return f"card {_short(self._name(found, {}))}" if found is not None else "a card"

    def _name(self, index: int, line: Mapping[str, Any]) -> Name:
        known = self._names.get(index)
        pci = pci_address(_text(line.get("pci"))) or (known.pci if known else "")
        return name(Kind.ACCELERATOR, UNKNOWN, pci or str(index))

    def _identity(self, index: int, line: Mapping[str, Any]) -> Identity | None:
        """The card's names where they are news."""
        pci = pci_address(_text(line.get("pci")))
        if pci is None:
            return None
        told = Identity(
            index=str(index),
            pci=pci,
            uuid=_text(line.get("uuid")),
            serial=_text(line.get("serial")),
            model=_text(line.get("model")),
        )
        news, self._names[index] = self._names.get(index) != told, told
        return told if news else None

    def _failed(self, card: Name, error: tuple[int, str]) -> Iterator[Event]:
        """A card that is lost, or that must be reset: once."""
        if card in self.gone:
            return
        if error[0] == LOST:
            self.gone.add(card)
            yield event("accelerator.off_bus", card, code="NVML 15", message=error[1])
        elif error[0] == RESET_REQUIRED and self._asked.get(card) != 1.0:
            self._asked[card] = 1.0
            if told := self._asks(card, 1.0, error[1]):
                yield told

    def _row(self, card: Name, values: Mapping[str, Any], now_ms: int, records: list[Record]) -> dict[str, float]:
        cell: dict[str, float] = {}
        numbers = {key: number for key, raw in list(values.items())[:200] if (number := number_of(raw)) is not None}
        for counted, key in _COUNTED.items():
            if counted in numbers and (rate := self._rate((card, key), numbers[counted] * _KIB, now_ms)) is not None:
                numbers[key] = rate
        for key, metric in source().metrics.items():
            if key in numbers and (value := _converted(metric, numbers[key])) is not None:
                cell[metric.to] = value
        if _ASKS in numbers:
            before, self._asked[card] = self._asked.get(card, 0.0), numbers[_ASKS]
            if before != numbers[_ASKS] and (told := self._asks(card, numbers[_ASKS], "")):
                records.append(told)
        return cell

    def _asks(self, card: Name, value: float, text: str) -> Event | None:
        target = Target(_ASKS, source().metrics[_ASKS], source())
        return self.events.event(target, {}, card, value, None, text or f"recovery action {value:.0f}")

    def _rate(self, key: tuple[Name, str], count: float, now_ms: int) -> float | None:
        """Bytes a second since the last answer."""
        before = self._counted.get(key)
        self._counted[key] = (count, now_ms)
        if before is None or count < before[0] or now_ms <= before[1]:
            return None
        return (count - before[0]) * 1000 / (now_ms - before[1])


def _short(card: Name) -> str:
    return card.partition("/")[2]


def number_of(raw: object) -> float | None:
    """A number that the library measured, None for its words for "no value"."""
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    if not 0 <= raw < _BLANK64 or raw == _BLANK32:
        return None
    return float(raw)


def failed_text(failed: Mapping[str, Any]) -> str:
    """Calls that failed though the card has what they ask for."""
    told = [f"{key}: {error[1]}" for key, raw in list(failed.items())[:3] if (error := _error(raw))]
    return ", ".join(told) + (f" and {len(failed) - 3} more" if len(failed) > 3 else "")


def _converted(metric: Metric, raw: float) -> float | None:
    value = float(converted(metric, np.array([raw]))[0])
    return None if value != value else value


def _index(raw: object) -> int | None:
    return raw if type(raw) is int and 0 <= raw < MOST_CARDS else None


def _error(raw: object) -> tuple[int, str] | None:
    if not isinstance(raw, list) or len(raw) != 2 or type(raw[0]) is not int:
        return None
    return raw[0], str(raw[1])[:200]


def _text(raw: object) -> str:
    return raw[:128] if isinstance(raw, str) and raw not in ("N/A", "[N/A]") else ""
