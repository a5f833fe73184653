"""How long threads of this process waited for a processor: a machine that is too busy looks like a stage that hangs."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

SHARE = 0.5  # of the time between two looks: then the machine is too busy to tell who hangs
KEPT = 600  # looks, 0.2 s apart


def waited_s(tasks: Path = Path("/proc/self/task")) -> dict[str, float]:
    """Seconds that each thread was ready to run and did not, by its id; empty where the kernel does not count them."""
    found = dict[str, float]()
    for one in tasks.glob("*/schedstat"):
        try:
            found[one.parent.name] = int(one.read_text(encoding="ascii").split()[1]) / 1e9
        except (OSError, ValueError, IndexError):  # the thread has ended
            continue
    return found


class Starving:
    """What lay between looks."""

    def __init__(self, waited: Callable[[], Mapping[str, float]] = waited_s) -> None:
        self._waited, self._before = waited, dict(waited())
        self._looked_s = time.monotonic()
        self._found: deque[tuple[float, float]] = deque(maxlen=KEPT)  # until when, how long

    def look(self, now: float) -> None:
        """Remembers for how long some thread waited since the last look, where that is most of the time."""
        waited, passed = dict(self._waited()), now - self._looked_s
        most = max((seconds - self._before.get(one, seconds) for one, seconds in waited.items()), default=0.0)
        self._before, self._looked_s = waited, now
        if most > SHARE * passed:
            self._found.append((now, min(most, passed)))

    def since(self, at: float) -> float:
        """Seconds since a moment in which this process waited for a processor."""
        return sum(seconds for until, seconds in self._found if until > at)
