"""The layout of one exporter's answers: what stands where, so that an answer that differs in its values only is read by
their positions.

An exporter says the same series second after second. What a position means is learnt from what `prometheus_text` made
of the same line; a line that it did not take for a plain value is given back to it (`Layout.odd`).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collectors.formats.series_rows import Plain, SeriesRows
from collectors.formats.text import clean

MOST = 20_000  # values of one answer
_ENDS = re.compile(rb" ([+-]?\d[\d.eE+-]*|NaN|[+-]?Inf)\n")
_SILENT = re.compile(r"#(?! EOF)|$")  # a comment, or nothing


class Head(NamedTuple):
    """A line up to its value: the value's position, the line's number and its text."""

    place: int
    number: int
    text: str

    def line(self, told: Sequence[bytes]) -> str:
        """The line with its value of now."""
        return f"{self.text} {told[self.place].decode()}"


@dataclass(frozen=True, slots=True)
class Layout:
    """What each position means. `valued`: by series name; `speaking`: may be events; `odd`: to be read as any line."""

    between: list[bytes]
    valued: Sequence[Sequence[tuple[int, Plain]]]
    speaking: Sequence[tuple[Head, Plain]]
    odd: Sequence[Head]
    known: int  # values of `valued` and `speaking`

    def take(self, values: Sequence[float], at_ms: int, rows: SeriesRows) -> None:
        """The values into rows."""
        for group in self.valued:
            rows.add_all(group, values, at_ms)


def split(body: bytes) -> tuple[list[bytes], list[bytes]]:
    """What stands between the numbers at the ends of lines, and these numbers."""
    pieces = _ENDS.split(body)
    return pieces[::2], pieces[1::2]


def learnt(
    body: bytes, between: list[bytes], known: Mapping[str, Plain], tells: Callable[[str], bool | None]
) -> Layout | None:
    """The layout of an answer that was just read; None for one that cannot be read by positions.

    `known`: lines without their value, as they were read. `tells`: whether another line may tell something, None where
    it changes what the next ones mean.
    """
    if not 1 < len(between) <= MOST or clean(body) != body or not _silent(between[-1].decode().split("\n")):
        return None
    told: list[tuple[Head, Plain]] = []
    odd: list[Head] = []
    number = 0
    for place, text in enumerate(between[:-1]):
        *others, line = text.decode().split("\n")
        number += len(others) + 1
        if not _silent(others):
            return None
        head = Head(place, number, line)
        if (found := known.get(line)) is not None:
            told.append((head, found))
        elif not _silent([line]):
            if (may := tells(line)) is None:
                return None
            odd += [head] if may else []
    if len({one.series for _, one in told}) < len(told):
        return None  # scrapes that were put together
    speaking = [one for one in told if one[1].target.metric.speaks]
    return Layout(between, _by_name(told), speaking, odd, len(told))


def _silent(lines: Iterable[str]) -> bool:
    return all(_SILENT.match(line) for line in lines)


def _by_name(told: Iterable[tuple[Head, Plain]]) -> list[list[tuple[int, Plain]]]:
    groups: dict[str, list[tuple[int, Plain]]] = {}
    for head, one in told:
        if one.target.metric.to:
            groups.setdefault(one.target.name, []).append((head.place, one))
    return list(groups.values())
