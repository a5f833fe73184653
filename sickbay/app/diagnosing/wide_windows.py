"""What all kept windows tell, of all components: the live answers to `diagnosis.wide`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from diagnosis import screen
from diagnosis.screen import PORTS, Places
from diagnosis.wide import EVER_MS
from sickbay.app.diagnosing.card_screen import Owners, values_of
from sickbay.app.diagnosing.window_table import WindowTable
from sickbay.components import UNKNOWN, Name


@dataclass(slots=True)
class WideWindows:
    """Answers of one look. `ends`: its windows by table, in order; `owner`: the owner of each row, by table; `seen`:
    owners by sign and window."""

    tables: Mapping[str, WindowTable]
    ends: Mapping[str, list[int]]
    names: Owners
    owner: Mapping[str, Places]
    seen: Mapping[str, Mapping[int, Places]]
    _known: dict[tuple[str, int, int], frozenset[str]] = field(default_factory=dict)
    _last: dict[str, Mapping[str, int]] = field(default_factory=dict)

    def owners(self, sign: str, from_ms: int = 0, to_ms: int = EVER_MS) -> frozenset[str]:
        """See `Wide`."""
        key = sign, from_ms, to_ms
        if key not in self._known:
            has = np.zeros(len(self.names.names), np.bool_)
            for end, owners in self._windows(sign):
                if from_ms <= end <= to_ms:
                    has[owners] = True
            self._known[key] = frozenset(self.names.names[one] for one in np.flatnonzero(has)) - {UNKNOWN, ""}
        return self._known[key]

    def last(self, sign: str) -> Mapping[str, int]:
        """See `Wide`."""
        if sign not in self._last:
            last = np.full(len(self.names.names), -1)
            for end, owners in self._windows(sign):
                last[owners] = end
            found = np.flatnonzero(last >= 0)
            self._last[sign] = dict(zip((self.names.names[one] for one in found), last[found].tolist(), strict=True))
        return self._last[sign]

    def span(self, name: str) -> tuple[int, int] | None:
        """See `Wide`."""
        ends = self.ends.get(name)
        return (ends[0], ends[-1]) if ends else None

    def latest(self, name: str, column: str) -> Mapping[Name, float]:
        """See `Wide`."""
        table, ends = self.tables.get(name), self.ends.get(name, [])
        if table is None:
            return {}
        found = np.full(len(table.names), np.nan, np.float32)
        for end in reversed(ends):
            left = np.flatnonzero(np.isnan(found))
            if not left.size:
                break
            values = table.windows[end].of(column, len(table.names))[left]
            found[left] = np.where(values > 0, values, np.nan)
        rows = np.flatnonzero(~np.isnan(found))
        return {table.names[row]: float(found[row]) for row in rows if table.names[row]}

    def usual_sent(self, ends: Collection[int], without: Collection[str], window_ms: int) -> Mapping[int, float]:
        """See `Wide`."""
        table = self.tables.get(PORTS)
        if table is None:
            return {}
        numbers = [self.names.number[one] for one in without if one in self.names.number]
        counts = ~np.isin(self.owner[PORTS], numbers)
        found = {}
        for end in ends:
            window, rows = table.windows[end], len(table.names)
            sent, _, _ = screen.pauses(values_of(window, rows, window.columns), rows, window_ms)
            has = window.has(np.arange(rows)) & counts
            if has.any():
                found[end] = float(np.median(sent[has]))
        return found

    def _windows(self, sign: str) -> list[tuple[int, Places]]:
        name = sign.partition(".")[0]
        kept = self.seen.get(sign, {})
        return [(end, kept[end]) for end in self.ends.get(name, ()) if end in kept]
