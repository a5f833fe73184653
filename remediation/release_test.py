"""The test that ends a hold: a site's own command, run with the node's name, without a shell and with a time limit."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")  # never an option of the command
TAIL = 400  # characters of output that are kept
PIECE = 1 << 16  # bytes read at a time
NOT_RUN = frozenset({126, 127})  # what shells and wrappers return for a command that is not there


class Result(NamedTuple):
    """How it ended. `passed` None: inconclusive, it settles nothing."""

    passed: bool | None
    says: str


class ReleaseTest:
    """One test under way. Ask `poll` until it has a result; nothing here waits."""

    def __init__(
        self, command: Sequence[str], node: str, timeout_s: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._monotonic, self._deadline, self._timeout_s = monotonic, monotonic() + timeout_s, timeout_s
        self._tail, self._process, self._failed = b"", None, ""
        if not NODE.fullmatch(node):
            self._failed = "the node's name is not one to pass to a command"
            return
        try:
            self._process = _started([*command, node])
        except (OSError, ValueError) as error:
            self._failed = f"it could not be started: {getattr(error, 'strerror', None) or error}"

    def poll(self) -> Result | None:
        """The result, None while it runs. Past its time it is killed, with all that it started."""
        if self._process is None:
            return Result(None, f"inconclusive: {self._failed}")
        self._read()
        status = self._process.poll()
        if status is None:
            if self._monotonic() < self._deadline:
                return None
            self.stop()
            return Result(None, f"inconclusive: not over within {self._timeout_s:g} s{self._said()}")
        self._read()
        self.stop()  # whatever it left behind in its group
        if status < 0 or status in NOT_RUN:
            how = f"ended by signal {-status}" if status < 0 else f"exit status {status}: could not be run"
            return Result(None, f"inconclusive: {how}{self._said()}")
        return Result(status == 0, f"{'passed' if status == 0 else 'failed'}: exit status {status}{self._said()}")

    def stop(self) -> None:
        """Kill it, with all that it started."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> None:
        out = self._process.stdout if self._process else None
        if out is None or out.closed:
            return
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(out.fileno(), PIECE):
                self._tail = (self._tail + piece)[-4 * TAIL :]
                if len(piece) < PIECE:
                    return

    def _said(self) -> str:
        text = self._tail.decode("utf-8", "replace")
        shown = "".join(one if one.isprintable() else " " for one in text)
        shown = " ".join(shown.split())[-TAIL:]
        return f"; {shown}" if shown else ""


def _started(command: list[str]) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    return process
