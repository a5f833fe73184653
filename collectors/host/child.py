"""A process that is asked in lines and answers in lines of JSON, and that can be left to itself where it hangs.

For calls that may never return: a thread in such a call keeps its whole process from ending. One question is underway
at a time; while it is not answered, nothing else is asked.
"""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

MOST_BYTES = 1 << 20  # of one answer: 64 cards tell some 100 kB
AGAIN_S = 10.0  # between two beginnings of a process that ends by itself
KILL_S = 120.0  # it hangs so long: perhaps it can be ended, and a new one begins then

Line = dict[str, Any]


class ChildGone(Exception):
    """It could not be started, or ended without an answer; the text says why."""


class Child:
    """The process. `ask` gives the lines of an answer that came since the last call, and whether that was all of it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._rest, self._lines, self._size = b"", list[Line](), 0
        self._asked_s: float | None = None  # monotonic time of a question that is not answered
        self._begun_s = -AGAIN_S

    @property
    def hangs_s(self) -> float:
        """For how long the question underway has had no answer; 0.0 where none is underway."""
        return 0.0 if self._asked_s is None else time.monotonic() - self._asked_s

    def ask(self, question: str, timeout_s: float) -> tuple[list[Line], bool]:
        """Its answer; where an old question is underway, what has come of that one. Raises ChildGone."""
        self._lines = []
        if self._asked_s is None:
            self._start()
            self._rest, self._size, self._asked_s = b"", 0, time.monotonic()
            self._send(question)
        else:
            timeout_s = 0.05
            if self.hangs_s > KILL_S:
                self._kill()
        whole = self._hear(time.monotonic() + timeout_s)
        if whole:
            self._asked_s = None
        return self._lines, whole

    def close(self) -> None:
        """Let it end; one that hangs is killed and left behind."""
        process, self._process, self._asked_s = self._process, None, None
        if process is None:
            return
        _shut(process)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
            return
        _end(process)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.5)

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        if time.monotonic() - self._begun_s < AGAIN_S:
            raise ChildGone(f"{self._command[-1]} ended by itself")
        self._begun_s = time.monotonic()
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise ChildGone(f"{self._command[0]}: {error.strerror or error}") from None

    def _send(self, question: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(question.encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            self._gone()

    def _hear(self, deadline_s: float) -> bool:
        """Read what comes until the answer is whole or the time is over."""
        assert self._process is not None
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        with selectors.DefaultSelector() as waiting:
            waiting.register(handle, selectors.EVENT_READ)
            while waiting.select(max(0.0, deadline_s - time.monotonic())):
                piece = os.read(handle, 64 << 10)
                self._size += len(piece)
                if not piece or self._size > MOST_BYTES:
                    self._gone()
                *lines, self._rest = (self._rest + piece).split(b"\n")
                self._lines += [told for line in lines if (told := _decoded(line))]
                if self._lines and self._lines[-1].keys() & {"end", "fatal"}:
                    return True
        return False

    def _gone(self) -> None:
        """Raises ChildGone."""
        process, self._process, self._asked_s = self._process, None, None
        if process is not None:
            _shut(process)
            _end(process)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
        raise ChildGone(f"{self._command[-1]} ended by itself")

    def _kill(self) -> None:
        """One that cannot die goes on hanging; else `_hear` finds its end."""
        assert self._process is not None
        _end(self._process)


def python(module: str) -> list[str]:
    """The command that runs a module of this installation."""
    return [sys.executable, "-m", module]


def _end(process: "subprocess.Popen[bytes]") -> None:
    """It and all that it started: it has a session of its own."""
    if process.returncode is None:  # else its number may be another's by now
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _shut(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _decoded(line: bytes) -> Line | None:
    try:
        told = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return told if isinstance(told, dict) else None
