"""How often something comes: counts of a key within a sliding time, on whatever clock its lines have."""

from collections import OrderedDict, deque
from collections.abc import Hashable

from collectors.formats.reading import Line
from sickbay.clock import Clock

MAX_KEYS = 1_000
MAX_STEPS = 1_000  # lines remembered of one key


class Rates:
    """Tells when `most` of a key have come within `window_s`: once, then it counts anew."""

    def __init__(self, most: int, window_s: float) -> None:
        self._most = most
        self._window_ms = window_s * 1000
        self._seen: OrderedDict[Hashable, deque[tuple[float, int]]] = OrderedDict()

    def reached(self, key: Hashable, line: Line, count: int = 1) -> int:
        """How many came within the window, where this line makes them too many; else 0. Without a time a line
        stands for itself alone."""
        at_ms = _ms(line)
        if at_ms is None:
            return count if count >= self._most else 0
        steps = self._seen.setdefault((key, line.host), deque(maxlen=MAX_STEPS))
        if len(self._seen) > MAX_KEYS:
            self._seen.popitem(last=False)
        steps.append((at_ms, count))
        while steps and not 0 <= at_ms - steps[0][0] <= self._window_ms:
            steps.popleft()
        total = sum(each for _, each in steps)
        if total < self._most:
            return 0
        steps.clear()
        return total


def _ms(line: Line) -> float | None:
    if line.boot_s is not None:
        return line.boot_s * 1000
    return float(line.stamp.ms) if line.stamp.clock is not Clock.NONE else None
