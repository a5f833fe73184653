"""Telling people of a failure that goes on: once, again each minute, and when it is over. Never with every attempt."""

import time
from collections.abc import Callable

AGAIN_S = 60.0


class Trouble:
    """One thing that may fail. `who` begins each line."""

    def __init__(self, who: str, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._who, self._say, self._clock = who, say, clock
        self._since: float | None = None
        self.now = ""  # what it fails with, empty while it works
        self._said: dict[str, float] = {}  # kind of error: when it was told

    def failed(self, error: BaseException) -> None:
        """It failed, once more perhaps: another kind of error is told at once."""
        now, kind = self._clock(), type(error).__name__
        self.now = str(error)
        if now - self._said.get(kind, -AGAIN_S) >= AGAIN_S:
            self._said[kind] = now
            lasting = "" if self._since is None else f" (for {now - self._since:.0f} s now)"
            self._say(f"{self._who}: {error}{lasting}")
        if self._since is None:
            self._since = now

    def over(self) -> None:
        """It works: told where it did not before."""
        if self._since is not None:
            self._say(f"{self._who}: goes on after {self._clock() - self._since:.1f} s")
            self._since, self._said, self.now = None, {}, ""
