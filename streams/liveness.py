"""Liveness: how long each host has been silent, told with each closed window, by append time.

The clock is that of the log, which ticks move on, so that silence is told even where nothing is sent any more. Every
frame of a host is a sign of life, one that was sent twice too. A host that was never heard is not here; one that was
silent for an hour is told no more: it was taken away.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from sickbay.components import Kind, Name, name
from sickbay.schema import LIVENESS
from streams.window_core import Features, Last

FORGET_MS = 3_600_000
MOST = 100_000  # hosts; beyond it the longest silent are forgotten
SILENT_MS = 30_000  # three sending intervals of an agent, and some


class Listening:
    """The hosts of one telemetry partition. `last`: what the newest state told; windows up to `last_end_ms` are out."""

    def __init__(self, width_ms: int, last: Last | None = None, last_end_ms: int = 0) -> None:
        last = last or Last()
        self._width_ms, self._done_ms = width_ms, last_end_ms
        self._heard: dict[Name, int] = dict(zip(last.names, last.at_ms.tolist(), strict=True))
        self._open: dict[int, dict[str, tuple[int, int]]] = {}  # end of a window: frames of a host, and the last one
        self.silent = 0  # hosts that were silent for longer than SILENT_MS at the end of the newest window

    def hear(self, host: str, append_ms: int) -> int | None:
        """One frame of a host. The end of its window, where it is not out yet."""
        end = (append_ms // self._width_ms + 1) * self._width_ms
        if end <= self._done_ms:
            return None
        window = self._open.setdefault(end, {})
        frames, at_ms = window.get(host, (0, 0))
        window[host] = frames + 1, max(at_ms, append_ms)
        return end

    def due(self, frontier_ms: int) -> Iterator[int]:
        """The windows up to the frontier that are not out, and in which some host is to be told of."""
        heard = max(self._heard.values(), default=0)
        for end in range(self._first(heard), frontier_ms + 1, self._width_ms):
            heard = max([heard, *(at for _, at in self._open.get(end, {}).values())])
            if end - heard < FORGET_MS:
                yield end

    def _first(self, heard_ms: int) -> int:
        """The first window that may tell something: nobody is told of an hour in which nobody was."""
        told = [*self._open, *([(heard_ms // self._width_ms + 1) * self._width_ms] if self._heard else [])]
        return max(min(told, default=1 << 62), self._done_ms + self._width_ms)

    def close(self, end_ms: int) -> tuple[Features, Last]:
        """What the window tells of every host that was heard in the hour before its end, and what is remembered."""
        window, self._done_ms = self._open.pop(end_ms, {}), end_ms
        frames = Counter[Name]()
        for host, (count, at_ms) in window.items():
            component = name(Kind.HOST, host)
            frames[component] += count
            self._heard[component] = max(at_ms, self._heard.get(component, 0))
        if len(self._heard) > MOST or end_ms - min(self._heard.values(), default=end_ms) >= FORGET_MS:
            newest = sorted((at_ms, host) for host, at_ms in self._heard.items() if end_ms - at_ms < FORGET_MS)
            self._heard = {host: at_ms for at_ms, host in newest[-MOST:]}
        names = tuple(sorted(self._heard))
        heard = np.array([self._heard[host] for host in names], np.int64)
        values = np.array([end_ms - heard, [frames[host] for host in names]], np.float32)
        self.silent = int(np.count_nonzero(end_ms - heard > SILENT_MS))
        return Features(names, LIVENESS.names, values), Last(names, heard, (), np.empty((len(names), 0), np.int64))
