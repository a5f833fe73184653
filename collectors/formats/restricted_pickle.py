"""Plain values out of a pickle, without running anything of it.

Only opcodes that build None, booleans, numbers, strings, bytes, lists, tuples and dicts are known; whatever names a
class, a function or an extension is refused. Work, memory and nesting are bounded by the settings below. Shared parts
stay shared, so a small pickle can stand for an endless tree: readers must bound what they walk.
"""

import struct
from collections.abc import Callable
from typing import Any, TypeAlias

Value: TypeAlias = Any  # None, bool, int, float, str, bytes, list, tuple, dict of these

MAX_OPCODES = 6_000_000  # a full recorder (20,000 entries with stack frames) needs about a million
MAX_MEMO = 2_000_000
MAX_STACK = 1_000_000  # values and marks that wait
MAX_DIGITS = 40  # of a number written as text
MAX_LONG_BYTES = 16

_MARK = object()


class Refused(ValueError):
    """The pickle is damaged, too large, or asks for more than plain values."""


def loads(data: bytes) -> Value:
    """The value of a pickle. Raises Refused, and nothing else, for any other bytes."""
    try:
        return _Machine(data).run()
    except Refused:
        raise
    except (IndexError, KeyError, TypeError, ValueError, struct.error, OverflowError, AttributeError) as error:
        raise Refused(f"damaged: {type(error).__name__}") from None


class _Machine:
    """The part of the pickle machine that builds plain values."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Value] = []
        self._memo: dict[int, Value] = {}

    def run(self) -> Value:
        for _ in range(MAX_OPCODES):
            code = self._data[self._at]
            self._at += 1
            if code == 0x2E:  # STOP
                return self._pop()
            step = _STEPS.get(code)
            if step is None:
                raise Refused(f"opcode {code:#04x} is not of a plain value")
            step(self)
            if len(self._stack) > MAX_STACK or len(self._memo) > MAX_MEMO:
                raise Refused("too many values")
        raise Refused("too many opcodes")

    def _take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise Refused("cut short")
        piece = self._data[self._at : self._at + size]
        self._at += size
        return piece

    def _number(self, form: str) -> int:
        found: int = struct.unpack(form, self._take(struct.calcsize(form)))[0]
        return found

    def _line(self) -> bytes:
        end = self._data.index(b"\n", self._at, self._at + 4096)
        return self._take(end - self._at + 1)[:-1]

    def _push(self, value: Value) -> None:
        self._stack.append(value)

    def _pop(self) -> Value:
        value = self._stack.pop()
        if value is _MARK:
            raise Refused("mark where a value must stand")
        return value

    def _top(self, kind: type) -> Value:
        if not isinstance(self._stack[-1], kind):
            raise Refused(f"no {kind.__name__} to add to")
        return self._stack[-1]

    def _since_mark(self) -> list[Value]:
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise Refused("no mark")
        values = self._stack[at + 1 :]
        del self._stack[at:]
        return values

    def _tuple(self, size: int) -> None:
        values = [self._pop() for _ in range(size)][::-1]
        self._push(tuple(values))

    def _fill(self, target: dict[Value, Value], values: list[Value]) -> None:
        if len(values) % 2:
            raise Refused("key without a value")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, str | int | bytes):  # hashing a shared tuple can take for ever
                raise Refused("key is no plain word or number")
            target[key] = value

    def _append(self) -> None:
        value = self._pop()
        self._top(list).append(value)

    def _appends(self) -> None:
        values = self._since_mark()
        self._top(list).extend(values)

    def _set_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._fill(self._top(dict), [key, value])

    def _set_items(self) -> None:
        values = self._since_mark()
        self._fill(self._top(dict), values)

    def _new_dict(self) -> None:
        made: dict[Value, Value] = {}
        self._fill(made, self._since_mark())
        self._push(made)

    def _text(self, size: int) -> None:
        self._push(self._take(size).decode("utf-8", "replace"))

    def _long(self, size: int) -> None:
        if size > MAX_LONG_BYTES:
            raise Refused("number too long")
        self._push(int.from_bytes(self._take(size), "little", signed=True))

    def _decimal(self) -> None:
        text = self._line().removesuffix(b"L")
        if len(text) > MAX_DIGITS:
            raise Refused("number too long")
        self._push({b"00": False, b"01": True}.get(text, int(text)))

    def _remember(self, slot: int) -> None:
        if not self._stack or self._stack[-1] is _MARK or not 0 <= slot <= 1 << 32:
            raise Refused("nothing to remember")
        self._memo[slot] = self._stack[-1]

    def _slot(self) -> int:
        text = self._line()
        if len(text) > 10:
            raise Refused("slot too large")
        return int(text)


def _quoted(machine: _Machine) -> None:
    text = machine._line().strip()
    if len(text) < 2 or text[:1] not in b"'\"" or text[:1] != text[-1:] or b"\\" in text:
        raise Refused("string with escapes")
    machine._push(text[1:-1].decode("utf-8", "replace"))


def _unicode(machine: _Machine) -> None:
    machine._push(machine._line().decode("utf-8", "replace"))


def _duplicate(machine: _Machine) -> None:
    value = machine._pop()
    machine._push(value)
    machine._push(value)


_STEPS: dict[int, Callable[[_Machine], object]] = {
    0x80: lambda m: m._take(1),  # PROTO
    0x95: lambda m: m._take(8),  # FRAME
    ord("("): lambda m: m._push(_MARK),
    ord("0"): lambda m: m._stack.pop(),
    ord("1"): lambda m: m._since_mark(),
    ord("2"): _duplicate,
    ord("N"): lambda m: m._push(None),
    0x88: lambda m: m._push(True),
    0x89: lambda m: m._push(False),
    ord("I"): lambda m: m._decimal(),
    ord("L"): lambda m: m._decimal(),
    ord("J"): lambda m: m._push(m._number("<i")),
    ord("K"): lambda m: m._push(m._number("<B")),
    ord("M"): lambda m: m._push(m._number("<H")),
    0x8A: lambda m: m._long(m._number("<B")),
    0x8B: lambda m: m._long(m._number("<i")),
    ord("F"): lambda m: m._push(float(m._line())),
    ord("G"): lambda m: m._push(struct.unpack(">d", m._take(8))[0]),
    ord("S"): _quoted,
    ord("V"): _unicode,
    ord("T"): lambda m: m._text(m._number("<i")),
    ord("U"): lambda m: m._text(m._number("<B")),
    ord("X"): lambda m: m._text(m._number("<I")),
    0x8C: lambda m: m._text(m._number("<B")),
    0x8D: lambda m: m._text(m._number("<Q")),
    ord("B"): lambda m: m._push(m._take(m._number("<I"))),
    ord("C"): lambda m: m._push(m._take(m._number("<B"))),
    0x8E: lambda m: m._push(m._take(m._number("<Q"))),
    ord("]"): lambda m: m._push([]),
    ord("}"): lambda m: m._push({}),
    ord(")"): lambda m: m._push(()),
    ord("l"): lambda m: m._push(m._since_mark()),
    ord("t"): lambda m: m._push(tuple(m._since_mark())),
    0x85: lambda m: m._tuple(1),
    0x86: lambda m: m._tuple(2),
    0x87: lambda m: m._tuple(3),
    ord("d"): lambda m: m._new_dict(),
    ord("a"): lambda m: m._append(),
    ord("e"): lambda m: m._appends(),
    ord("s"): lambda m: m._set_item(),
    ord("u"): lambda m: m._set_items(),
    ord("p"): lambda m: m._remember(m._slot()),
    ord("q"): lambda m: m._remember(m._number("<B")),
    ord("r"): lambda m: m._remember(m._number("<I")),
    0x94: lambda m: m._remember(len(m._memo)),  # MEMOIZE
    ord("g"): lambda m: m._push(m._memo[m._slot()]),
    ord("h"): lambda m: m._push(m._memo[m._number("<B")]),
    ord("j"): lambda m: m._push(m._memo[m._number("<I")]),
}
