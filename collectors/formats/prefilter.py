"""Finds the few lines of a log that a grammar may want, at the speed of a multi-pattern search.

Aho-Corasick over all literals of all grammars on whole blocks (polars); a regular expression where polars is not
installed (agents). The rest of a log is never split into lines.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, takewhile

from collectors.formats.text import Block

Find = Callable[[bytes], Iterable[int]]  # ascending byte offsets at which one of the literals stands

# Lines to read whatever they hold: parts of a line cut by a container runtime, messages encoded as a list of bytes or
# with escapes, so that their literals are not visible.
ENCODED = (" stdout P", " stderr P", '"MESSAGE":[', '"MESSAGE": [', '"MESSAGE" : [', "\\u00", "\\/")
FEW_BYTES = 2_048  # below, building the automaton costs more than the regular expression, which is kept
MAX_FOLLOWING = 500  # indented lines after a hit that are read with it


def finder(literals: Sequence[str]) -> Find:
    """A search for any of the literals in valid UTF-8."""
    try:
        import polars as pl
    except ImportError:
        return plain_finder(literals)
    patterns, plainly = sorted({*literals}), plain_finder(literals)

    def find(text: bytes) -> Iterable[int]:
        if len(text) < FEW_BYTES:
            return plainly(text)
        hits = pl.Series([text.decode()]).str.find_many(patterns)[0]
        found: list[int] = hits.to_list()
        return found

    return find


def plain_finder(literals: Sequence[str]) -> Find:
    """The same search with a regular expression: slower, and needs nothing installed."""
    pattern = re.compile(_either([literal.encode() for literal in literals]))
    return lambda text: (match.start() for match in pattern.finditer(text))


def _either(literals: Iterable[bytes]) -> bytes:
    """An expression for any of them that looks at a common beginning once; the shortest stands for all it begins."""
    groups: dict[bytes, list[bytes]] = {}
    for literal in sorted({*literals}):
        if not literal:
            return b""
        groups.setdefault(literal[:1], []).append(literal)
    parts = []
    for alike in groups.values():
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(alike[0], alike[-1], strict=False)))
        parts.append(re.escape(alike[0][:same]) + _either(one[same:] for one in alike))
    return parts[0] if len(parts) == 1 else b"(?:" + b"|".join(parts) + b")"


class Wanted:
    """Walks blocks and yields the lines that hold a literal; while `following` is left true, also those behind them."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self.following = False  # set by the consumer: the next line is to be offered although it holds nothing

    def lines(self, block: Block) -> Iterator[tuple[int, str, bool]]:
        """Number, text and whether the line holds a literal (else it is only offered)."""
        text, number, at = block.text, block.first, 0
        for hit in chain(self._find(text), (len(text),)):
            if hit < at:
                continue
            while self.following and at < len(text):
                end = _line_end(text, at)
                if hit <= end and hit < len(text):
                    break
                yield number, text[at:end].decode(), False
                at, number = end + 1, number + 1
            if hit >= len(text):
                break
            start = max(at, text.rfind(b"\n", at, hit) + 1)
            number += text.count(b"\n", at, start)
            end = _line_end(text, hit)
            self.following = True
            yield number, text[start:end].decode(), True
            at, number = end + 1, number + 1


def _line_end(text: bytes, at: int) -> int:
    end = text.find(b"\n", at)
    return len(text) if end < 0 else end
