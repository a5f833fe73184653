"""Wakes a thread that waits for a file as well: `poll` sees the bell beside it."""

import os
import select
from contextlib import suppress


class Bell:
    """Rung from any thread; it rings on until it is silenced."""

    def __init__(self) -> None:
        self.handle, self._far = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def ring(self) -> None:
        """Wake whoever waits, now or later."""
        with suppress(BlockingIOError):  # it rings loudly enough
            os.write(self._far, b"!")

    def silence(self) -> None:
        """Ring no more."""
        with suppress(BlockingIOError):
            os.read(self.handle, 1 << 16)

    def __del__(self) -> None:
        os.close(self.handle)
        os.close(self._far)


def heard(seconds: float, *handles: int) -> list[int]:
    """Those of the files that can be read, or have failed, within the time."""
    waiting = select.poll()  # any number of files may be open beside them: `select` takes the first 1,024 only
    for handle in handles:
        waiting.register(handle, select.POLLIN)
    return [handle for handle, _ in waiting.poll(max(0.0, seconds) * 1000)]
