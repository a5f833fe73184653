"""Slurm host lists: `gpu[0001-0032,0040],login1,dgx-[1-2]-n[01-04]`, to names and back (man page scontrol, "hostlist").

Numbers keep the width of the range's first number where that has leading zeros. A list can stand for more hosts than
fit into memory: it is counted before it is expanded.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import product
from math import prod
from typing import NamedTuple

from collectors.formats.reading import Tally

MAX_HOSTS = 200_000  # twice the largest cluster; more is a damaged or hostile list
MAX_TEXT = 1 << 20  # characters of a list
_NOBODY = frozenset({"", "(null)", "none", "n/a", "none assigned", "unknown"})  # how "no host" is printed
_PIECES = re.compile(r"([^\[\],]+)|\[([^\[\]]+)\]|(,)")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)
_TRAILING = re.compile(r"(\d{1,18})([^0-9]*)\Z", re.ASCII)


class _Span(NamedTuple):
    """A literal, or the numbers `first` to `last`."""

    literal: str
    first: int = 0
    last: int = 0
    width: int = 0


def expand(text: str, limit: int = MAX_HOSTS) -> tuple[str, ...]:
    """The names in a host list, in its order. Raises ValueError where it is malformed or holds more than `limit`."""
    if len(text) > MAX_TEXT:
        raise ValueError("host list too long")
    text = text.strip()
    if text.lower() in _NOBODY:
        return ()
    items = list(_items(text))
    if sum(_size(item) for item in items) > limit:
        raise ValueError(f"host list of more than {limit} names")
    return tuple("".join(parts) for item in items for parts in product(*map(_spelled, item)))


def names(text: str, tally: Tally) -> tuple[str, ...]:
    """The names in a host list; none, counted and noted, where it cannot be read."""
    try:
        return expand(text)
    except ValueError as error:
        tally.unparsed += 1
        tally.note(f"{error}: {text[:60]}")
        return ()


def compress(hosts: Iterable[str]) -> str:
    """A host list of these names, each once, grouped by what stands around their last number."""
    groups: dict[tuple[str, str, bool], list[str]] = {}  # a name without a number is a group of its own
    for host in dict.fromkeys(hosts):
        match = _TRAILING.search(host)
        if match:
            groups.setdefault((host[: match.start()], match[2], True), []).append(match[1])
        else:
            groups.setdefault((host, "", False), [])
    return ",".join(_grouped(prefix, suffix, numbers) for (prefix, suffix, _), numbers in groups.items())


def _items(text: str) -> Iterator[list[list[_Span]]]:
    """Per comma-separated item its pieces: a literal is one span without numbers, brackets are several with."""
    item: list[list[_Span]] = []
    position = 0
    while position < len(text):
        match = _PIECES.match(text, position)
        if not match:
            raise ValueError("malformed host list")
        position = match.end()
        literal, ranges, comma = match.groups()
        if literal and (name := literal.strip()):
            if len(name.split()) > 1:
                raise ValueError("blank in host list")
            item.append([_Span(name)])
        elif ranges:
            item.append([_span(one) for one in ranges.split(",")])
        elif comma and item:
            yield item
            item = []
    if item:
        yield item


def _span(text: str) -> _Span:
    match = _RANGE.fullmatch(text.strip())
    if not match:
        raise ValueError("malformed range in host list")
    first, last = match[1], match[2] or match[1]
    if int(last) < int(first):
        raise ValueError("backward range in host list")
    return _Span("", int(first), int(last), len(first) if first.startswith("0") else 0)


def _size(item: list[list[_Span]]) -> int:
    return prod(sum(span.last - span.first + 1 for span in piece) for piece in item)


def _spelled(piece: list[_Span]) -> list[str]:
    if piece[0].literal:
        return [piece[0].literal]
    return [str(number).zfill(span.width) for span in piece for number in range(span.first, span.last + 1)]


def _grouped(prefix: str, suffix: str, numbers: list[str]) -> str:
    if not numbers:
        return prefix
    runs: list[list[str]] = []
    for number in sorted(set(numbers), key=lambda number: (len(number), number)):
        if runs and number == _next(runs[-1][0], runs[-1][-1]):
            runs[-1].append(number)
        else:
            runs.append([number])
    spans = [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    if len(numbers) == 1:
        return f"{prefix}{spans[0]}{suffix}"
    return f"{prefix}[{','.join(spans)}]{suffix}"


def _next(first: str, last: str) -> str:
    """What follows `last` in a range that starts with `first`, spelled as `expand` would."""
    return str(int(last) + 1).zfill(len(first) if first.startswith("0") else 0)
