"""How commands speak: nothing that a name or an error holds acts on the terminal, and no odd stream is a crash."""

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

USAGE, UNDELIVERED = 2, 4


class Undelivered(Exception):
    """The answer could not be written; the text says where and why."""


def prepare() -> None:
    """Makes both streams ones that can be written to: absent ones are dropped, odd encodings get escapes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller; without this the next file opened would take its place
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def complain(*lines: str) -> None:
    """Lines for people on standard error."""
    from sickbay.plain import plain

    text = "\n".join(map(plain, lines))
    if text:
        _quietly(lambda: print(text, file=sys.stderr, flush=True), sys.stderr)


def usage(command: str, text: str) -> int:
    """Says what is wrong with the arguments; the exit status for that."""
    complain(f"sickbay {command}: {text}")
    return USAGE


def deliver(write: Callable[[], object]) -> None:
    """Writes to standard output. A reader that went away is no error; a full disk is, raised as Undelivered."""
    _quietly(lambda: (write(), sys.stdout.flush()), sys.stdout)


def write_json(data: bytes) -> None:
    """One JSON document on standard output, in UTF-8 whatever the locale."""

    def write() -> None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()

    deliver(write)


def unwritable(option: str, path: Path, needs: tuple[str, ...] = ()) -> str:
    """Why a file that an option names cannot be written, "" where nothing speaks against it: known before the work."""
    from importlib.util import find_spec

    folder = path.absolute().parent
    if missing := [name for name in needs if find_spec(name) is None]:
        return f"{option} needs {', '.join(missing)}: pip install 'sickbay[report]'"
    try:
        if path.is_dir():
            return f"{option} {path}: is a folder"
        if not folder.is_dir():
            return f"{option} {path}: there is no folder {folder}"
        if not os.access(path if path.exists() else folder, os.W_OK):
            return f"{option} {path}: may not be written"
    except (OSError, ValueError) as error:
        return f"{option} {path}: {getattr(error, 'strerror', None) or error}"
    return ""


def _quietly(write: Callable[[], object], stream: TextIO) -> None:
    try:
        write()
    except BrokenPipeError:
        _drop(stream)
    except OSError as error:
        _drop(stream)
        if stream is sys.stdout:
            raise Undelivered(f"standard output: {error.strerror or error}") from None


def _drop(stream: TextIO) -> None:
    """Points the stream at nothing: what is still in its buffer must not fail again when Python ends."""
    with contextlib.suppress(OSError):  # no stream of the system's: nothing is flushed at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
