"""The fabric's own tools, asked to read and nothing else: the only impure seam of `infiniband`.

Whatever clears counters or sets a state is refused here, whoever builds the command: a cleared counter destroys
everybody's baseline. Commands are checked against the few options that are needed, not against a list of bad ones.
"""

import os
import re
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from collectors.cluster.poll import PollFailed
from sickbay.programs import NoAnswer, Unasked, ask, environment
from sickbay.source_settings import Fabric

ALLOWED: Mapping[str, frozenset[str]] = {  # tool: its options; every other is refused
    "iblinkinfo": frozenset({"--line", "--switches-only"}),
    "perfquery": frozenset({"--extended", "--loop_ports", "--Guid"}),
    "sminfo": frozenset(),
}
_WORD = re.compile(r"0x[0-9a-f]{1,16}|\d{1,3}(?:,\d{1,3}){0,253}")  # a GUID or ports; nothing else is a word
_ADAPTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MANAGER = re.compile(r"sm guid (0x[0-9a-fA-F]{1,16}),.{0,80}SMINFO_MASTER")
QUICK_S = 10.0  # for a tool that asks one node: a question is given up after some 4 s, and the first that is ends it
SIDE_BY_SIDE = 8  # tools at a time: each asks the manager for a path first, and it serves all hosts
MOST_TEXT = 64 << 20  # characters of an answer: 100,000 ports of 180 each, and room


class Said(NamedTuple):
    """What a tool printed. A status other than 0 is no failure by itself: what was printed before stands."""

    status: int
    text: str
    errors: str


Ask: TypeAlias = Callable[..., Said]  # (tool, *arguments) -> what it said; raises PollFailed


def checked(tool: str, arguments: Sequence[str]) -> list[str]:
    """The command. Raises ValueError for anything but the allowed options, GUIDs and port numbers."""
    options = [one for one in arguments if one.startswith("-")]
    words = [one for one in arguments if not one.startswith("-")]
    if tool not in ALLOWED or not ALLOWED[tool].issuperset(options):
        raise ValueError(f"{tool} {' '.join(options)}: only what reads may be asked")
    if len(words) > 2 or not all(_WORD.fullmatch(one) for one in words):
        raise ValueError(f"{tool}: {words} are no GUID and ports")
    return [tool, *arguments]


@dataclass(frozen=True, slots=True)
class Tools:
    """Asks as the settings say."""

    settings: Fabric
    env: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()  # a program that runs the tool, such as a simulator's
    _turns: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(SIDE_BY_SIDE))

    def __call__(self, tool: str, *arguments: str) -> Said:
        """What a tool says. Raises PollFailed where it cannot be started or does not end in time."""
        settings = self.settings
        command = [*checked(tool, arguments)]
        limit_s = settings.timeout_s if tool == "iblinkinfo" else min(settings.timeout_s, QUICK_S)
        command[1:1] = self._through()
        command[0] = str(Path(settings.bin, tool)) if settings.bin else tool
        env = environment({"PATH": os.defpath, **os.environ, **self.env}, LC_ALL="C")
        env["PATH"] += ":/usr/sbin:/sbin"
        if not settings.bin:
            command[0] = _found(tool, env["PATH"])
        try:
            with self._turns:
                answer = ask([*self.before, *command], timeout_s=limit_s, env=env)
        except Unasked as error:
            raise PollFailed(f"{error}: install the subnet's tools, or set [fabric] bin to their folder") from None
        except NoAnswer as error:
            raise PollFailed(f"{error}: is the adapter's port up? ([fabric] device, port, timeout_s)") from None
        return Said(answer.status, answer.text[:MOST_TEXT], answer.errors[:MOST_TEXT])

    def _through(self) -> list[str]:
        """The adapter and port to ask through, as the settings tell."""
        device, port = self.settings.device, self.settings.port
        if device and not _ADAPTER.fullmatch(device):
            raise PollFailed(f"[fabric] device {device!r} is no name of an adapter")
        return [*(["--Ca", device] if device else []), *(["--Port", str(port)] if port else [])]


def _found(tool: str, path: str) -> str:
    return shutil.which(tool, path=path) or tool


def manager(asked: Ask) -> str:
    """The GUID of who manages the subnet, "" where nobody answers."""
    match = _MANAGER.search(asked("sminfo").text)
    return match[1].lower() if match else ""
