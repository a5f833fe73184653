"""Another program asked a question: never through a shell, with a time limit, and nothing of it is left behind."""

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

_AFTER_KILL_S = 1.0  # for the pipes of a killed program to run dry


class Unasked(Exception):
    """The program could not be started; the text says why."""


class NoAnswer(Exception):
    """The program did not end in time and was killed: what it was told to do may have happened or not."""


class Answer(NamedTuple):
    """What a program said. Bytes that are no text are replaced."""

    status: int  # negative: the signal that ended it
    text: str
    errors: str


def ask(command: Sequence[str], *, timeout_s: float, env: Mapping[str, str]) -> Answer:
    """Run a program to its end. Raises Unasked where it cannot be started, NoAnswer after `timeout_s`."""
    try:
        process = subprocess.Popen(
            list(command),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a group of its own, so that what it started ends with it
        )
    except (OSError, ValueError) as error:
        raise Unasked(f"{command[0]}: {getattr(error, 'strerror', None) or error}") from None
    try:
        text, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"{os.path.basename(command[0])} did not answer within {timeout_s:.1f} s") from None
    finally:
        _end(process)
    return Answer(process.returncode, text.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))


def environment(environ: Mapping[str, str], *, without: Iterable[str] = (), **more: str) -> dict[str, str]:
    """`environ` without the variables that begin like one of `without`, and with `more`."""
    prefixes = tuple(without)
    return {key: value for key, value in environ.items() if not key.startswith(prefixes)} | more


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill what is left of the program's group, and let go of its pipes."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_AFTER_KILL_S)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
