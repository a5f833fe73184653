"""Notifications of gNMI as facts: paths put together, values decoded, trees taken apart into their leaves.

Bounded: what is too large, too deep or in no known encoding is counted, not read. A JSON tree stands for all of its
leaves; a list in it takes the key that its model names.
"""

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pygnmi.spec.v080 import gnmi_pb2

from collectors.formats import gnmi_openconfig, gnmi_sonic
from collectors.formats.switch_facts import Fact, Part, Slot

MOST_JSON = 4 << 20  # bytes of one value
MOST_DEPTH = 12
MOST_LEAVES = 200_000  # of one notification
MOST_NAME = 128  # characters of an element or a key

MOST_KEPT = 200_000  # paths whose meaning is remembered

Names = tuple[str, ...]
Path = tuple[Names, tuple[str, ...]]
Slots = dict[tuple[Path, bytes], Slot | None]
UNKNOWN = Slot(Part.CHASSIS, "", "", "", lambda value: None)  # of a path outside of what was asked


class Model(Protocol):
    """A data model: a module with these."""

    LISTS: Mapping[str, str]

    def slot(self, names: Names, keys: Sequence[str]) -> Slot | None:
        """Where the value of a leaf belongs."""
        ...

    def deleted(self, names: Names, keys: Sequence[str]) -> Iterator[Fact]:
        """What is gone with a path."""
        ...

    def known(self, names: Names) -> bool:
        """Whether the path is one of a tree that was asked for."""
        ...


OPENCONFIG: Model = gnmi_openconfig
SONIC: Model = gnmi_sonic


class Unreadable(ValueError):
    """A path or value that is no data of ours."""


@dataclass(slots=True)
class Reader:
    """Reads what one question is answered. `unknown`: updates outside of what was asked; `bad`: unreadable ones."""

    model: Model
    unknown: int = 0
    bad: int = 0
    slots: Slots = field(default_factory=dict)  # one for all switches of a model

    def facts(self, told: gnmi_pb2.Notification) -> Iterator[Fact]:
        """Facts of one notification, deletions first, as the specification has it."""
        try:
            before = _path(told.prefix)
        except Unreadable:
            self.bad += 1
            return
        for path in told.delete:
            yield from self._gone(before, path)
        for update in told.update:
            try:
                value = value_of(update.val)
                if isinstance(value, dict | list):
                    yield from self._tree(_joined(before, _path(update.path)), value)
                elif slot := self._slot(before, update.path):
                    read = slot.read(value)
                    if read is not None:
                        yield Fact(slot.part, slot.key, slot.field, read, slot.lane)
            except Unreadable:
                self.bad += 1

    def _slot(self, before: Path, path: Any) -> Slot | None:
        """Where a leaf belongs: switches say the same paths again and again."""
        written = path.SerializeToString()
        try:
            found = self.slots[before, written]
        except KeyError:
            if len(self.slots) >= MOST_KEPT:
                self.slots.clear()
            found = self.slots[before, written] = self._found(*_joined(before, _path(path)))
        if found is UNKNOWN:
            self.unknown += 1
            return None
        return found

    def _found(self, names: Names, keys: tuple[str, ...]) -> Slot | None:
        """The slot, None for what nobody reads, UNKNOWN for what nobody asked for."""
        return self.model.slot(names, keys) or (None if self.model.known(names) else UNKNOWN)

    def _tree(self, path: Path, value: object) -> Iterator[Fact]:
        left = MOST_LEAVES
        for names, keys, leaf in self._leaves(*path, value):
            left -= 1
            if left < 0:
                raise Unreadable("too many leaves")
            if slot := self.model.slot(names, keys):
                if (read := slot.read(leaf)) is not None:
                    yield Fact(slot.part, slot.key, slot.field, read, slot.lane)
            elif not self.model.known(names):
                self.unknown += 1

    def _gone(self, before: Path, path: Any) -> Iterator[Fact]:
        try:
            names, keys = _joined(before, _path(path))
        except Unreadable:
            self.bad += 1
            return
        yield from self.model.deleted(names, keys)

    def _leaves(
        self, names: Names, keys: tuple[str, ...], value: object, depth: int = 0
    ) -> Iterator[tuple[Names, tuple[str, ...], object]]:
        if depth > MOST_DEPTH:
            raise Unreadable("too deep")
        if isinstance(value, dict):
            for word, below in value.items():
                if len(word) > MOST_NAME:
                    raise Unreadable("name")
                yield from self._leaves((*names, _bare(word)), keys, below, depth + 1)
        elif isinstance(value, list) and names and names[-1] in self.model.LISTS:
            for row in value:
                key = _key(row, self.model.LISTS[names[-1]])
                if key is not None:
                    yield from self._leaves(names, (*keys, key), row, depth + 1)
        else:
            yield names, keys, value


def value_of(told: Any) -> object:
    """The value of an update, JSON decoded. Raises Unreadable."""
    kind = told.WhichOneof("value")
    if kind in ("json_ietf_val", "json_val"):
        return _json(getattr(told, kind))
    if kind in ("uint_val", "int_val", "string_val", "double_val", "float_val", "bool_val", "ascii_val"):
        return getattr(told, kind)
    if kind == "decimal_val":
        return told.decimal_val.digits / 10 ** min(18, told.decimal_val.precision)
    if kind == "leaflist_val":
        return [value_of(one) for one in told.leaflist_val.element[:64]]
    if kind == "bytes_val" and len(told.bytes_val) == 4:  # ieeefloat32 of the model's types
        number = struct.unpack(">f", told.bytes_val)[0]
        return float(number) if not math.isnan(number) else None
    raise Unreadable(f"encoding {kind}")


def _json(text: bytes) -> object:
    if len(text) > MOST_JSON:
        raise Unreadable("too large")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Unreadable("no JSON") from None


def _no_constant(word: str) -> object:
    return word if word == "-Infinity" else None


def _path(told: Any) -> Path:
    names = []
    keys: list[str] = []
    for elem in told.elem:
        if elem.name.endswith("*"):  # as it was asked for: which of them it is stands in the value
            continue
        names.append(_bare(elem.name))
        if elem.key:
            keys += elem.key.values()
    if len(names) > MOST_DEPTH or any(len(one) > MOST_NAME for one in (*names, *keys)):
        raise Unreadable("path")
    return tuple(names), tuple(keys)


def _joined(before: Path, after: Path) -> Path:
    return before[0] + after[0], before[1] + after[1]


def _bare(word: str) -> str:
    """An element without its module: `openconfig-interfaces:state`. Keys of databases (`Ethernet0:3`) stay whole."""
    head, colon, tail = word.partition(":")
    return tail if colon and "-" in head else word


def _key(row: object, key: str) -> str | None:
    if not isinstance(row, dict):
        return None
    told = row.get(key, row.get("state", {}).get(key) if isinstance(row.get("state"), dict) else None)
    return str(told)[:MOST_NAME] if isinstance(told, str | int) and not isinstance(told, bool) else None
