"""A tool of the host asked for its word: within a time and a size, and only if it is there.

Tools are found on the agent's own PATH; the caller gives arguments that only read.
"""

import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

MOST_BYTES = 1 << 20  # of an answer: the statistics of an adapter with 128 queues are some 100 kB
ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath + ":/usr/sbin:/sbin"}


class ToolFailed(Exception):
    """There was no usable answer; the text says why."""


class ToolMissing(ToolFailed):
    """The tool is not installed."""


class ToolHangs(ToolFailed):
    """It gave no whole answer in time. `process`: it, where it could not even be ended."""

    def __init__(self, text: str, process: "subprocess.Popen[bytes]") -> None:
        super().__init__(text)
        self.process = process


Ask = Callable[[Sequence[str], float], bytes]

# How tools say that a right is missing: in the kernel's words, or in their own.
_REFUSED = re.compile(
    r"permission denied|not permitted|access denied|insufficient p|(must|need|require)\w*( to)?( be)?( run)?( as)? root"
    r"|root privileges|superuser|(fail\w*|unable|cannot|could not)( to)? open( the)? device",
    re.IGNORECASE,
)


def is_refused(error: ToolFailed) -> bool:
    """Whether a right is missing: something is there, and cannot be read."""
    return _REFUSED.search(str(error)) is not None


class Careful:
    """Asks tools, but none of which an earlier call cannot be ended: a driver that hangs gets no second question."""

    def __init__(self, ask: Ask) -> None:
        self._ask, self._left = ask, dict[str, subprocess.Popen[bytes]]()

    def __call__(self, command: Sequence[str], timeout_s: float) -> bytes:
        """As `ask`. Raises ToolFailed, ToolMissing."""
        left = self._left.get(command[0])
        if left is not None and left.poll() is None:
            raise ToolFailed(f"{command[0]}: an earlier call hangs and cannot be ended")
        self._left.pop(command[0], None)
        try:
            return self._ask(command, timeout_s)
        except ToolHangs as error:
            self._left[command[0]] = error.process
            raise


def ask(command: Sequence[str], timeout_s: float) -> bytes:
    """What the tool prints. Raises ToolFailed, ToolMissing, ToolHangs."""
    path = shutil.which(command[0], path=os.environ.get("PATH", "") + ":" + ENVIRONMENT["PATH"])
    if path is None:
        raise ToolMissing(f"{command[0]} is not installed")
    try:
        process = subprocess.Popen(
            [path, *command[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=ENVIRONMENT, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise ToolFailed(f"{command[0]}: {error.strerror or error}") from None
    deadline, whole = time.monotonic() + timeout_s, False
    try:
        out, problem = _answer(process, deadline)
        status = process.wait(max(0.05, deadline - time.monotonic()))
        whole = True
    except OverflowError:
        raise ToolFailed(f"{' '.join(command)}: prints more than {MOST_BYTES >> 10} KiB") from None
    except (TimeoutError, subprocess.TimeoutExpired):
        raise ToolHangs(f"{' '.join(command)}: no whole answer within {timeout_s:g} s", process) from None
    finally:
        _end(process, whole)
    if status != 0:
        said = " ".join((problem.strip() or out).decode("utf-8", "replace").split())[:200]
        raise ToolFailed(f"{' '.join(command)}: {said or f'ended with status {status}'}")
    return out


def _answer(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[bytes, bytes]:
    """What it printed and what it complained of. Raises TimeoutError, and OverflowError for an answer without end: part
    of an answer is none, as what is missing would look like what is not there."""
    assert process.stdout is not None
    assert process.stderr is not None
    told: dict[int, bytearray] = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as waiting:
        for handle in told:
            waiting.register(handle, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                piece = os.read(key.fd, 64 << 10)
                told[key.fd] += piece
                if len(told[key.fd]) > MOST_BYTES:
                    raise OverflowError
                if not piece:
                    waiting.unregister(key.fd)
    return bytes(told[process.stdout.fileno()]), bytes(told[process.stderr.fileno()])


def _end(process: "subprocess.Popen[bytes]", whole: bool) -> None:
    """Let it go; where it gave no whole answer all that it started is killed. What cannot die is left behind."""
    if not whole:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
