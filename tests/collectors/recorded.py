"""Recorded hosts: a listing of files is laid out as a folder that looks like the host, tools answer as they did there.

A listing has a line for each file, `path: text` with `\\n` for a line's end, and one for each link, `path -> target`.
Tools' answers follow their command: `$ ethtool -m ib0`, and then what it printed; `! text` is what it failed with.
What the driver's library answers is a file of JSON lines, one a card (collectors/host/nvml_calls.py).
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from collectors.host.child import Line
from collectors.host.tool import ToolFailed, ToolMissing


def lay_out(listing: str, root: Path) -> Path:
    """The host's files below `root`."""
    for line in listing.splitlines():
        path, _, target = line.partition(" -> ")
        if target and ": " not in path:
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)
        elif line and not line.startswith("#"):
            path, _, text = line.partition(": ")
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text.replace("\\n", "\n").replace("\\t", "\t") + "\n", encoding="utf-8")
    return root


def answers(text: str) -> Callable[[Sequence[str], float], bytes]:
    """A stand-in for `collectors.host.tool.ask`; a command that is not recorded is a tool that is not there."""
    told = dict(part.split("\n", 1) for part in text.split("$ ") if "\n" in part)

    def ask(command: Sequence[str], timeout_s: float) -> bytes:
        answer = told.get(" ".join(command))
        if answer is None:
            raise ToolMissing(f"{command[0]} is not installed")
        if answer.startswith("! "):
            raise ToolFailed(f"{' '.join(command)}: {answer[2:].strip()}")
        return answer.encode()

    return ask


class RecordedLibrary:
    """A stand-in for the process that calls the driver's library: every question has the same answer."""

    hangs_s = 0.0

    def __init__(self, text: str) -> None:
        cards = [json.loads(line) for line in text.splitlines()]
        self._lines: list[Line] = (
            [*cards, {"end": len(cards)}] if cards else [{"fatal": [12, "NVML Shared Library Not Found"]}]
        )

    def ask(self, question: str, timeout_s: float) -> tuple[list[Line], bool]:
        """The recorded lines."""
        return self._lines, True

    def close(self) -> None:
        """Nothing is held open."""
