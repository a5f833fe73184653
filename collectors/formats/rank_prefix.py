"""What launchers put before a job's own line: who said it, so that interleaved ranks can be told apart.

`[rank37]:` tells the global rank; `[default3]:` and `srun -l` only a local or task number, which is not one.
"""

import re
from typing import NamedTuple

_MAX_PREFIXES = 6  # launchers nest: pdsh over srun -l over torchrun over the framework
_PREFIX = re.compile(
    r"\s*(?:"
    r"\[rank(?P<rank>\d{1,7})\]:"
    r"|\[[a-z_]{1,20}\d{1,7}\]:"  # torchrun --tee: role and local rank
    r"|\[\d{1,9}\](?=\s)"  # line numbers of a paste, mpirun's job and rank
    r"|\[\d{1,7},\d{1,7}\](?:<std(?:out|err)>)?:"  # mpirun --tag-output
    r"|\((?:\w{1,40} )?pid=\d{1,9}(?:, ip=(?P<ip>[0-9A-Fa-f.:]{3,45}))?\)"  # Ray
    r"|\d{1,7}:(?=\s)"  # srun -l: the task
    r"|(?P<host>[A-Za-z](?=[\w.-]*\d)[\w.-]{1,80}):(?=\s)"  # pdsh, clush
    r")\s?"
)


class Origin(NamedTuple):
    """What the prefixes told; `rank` is -1 and `host` empty where they did not."""

    rest: str
    rank: int = -1
    host: str = ""
    label: str = ""  # the prefixes themselves: one per interleaved writer


def origin(text: str) -> Origin:
    """The line without its prefixes."""
    at, rank, host = 0, -1, ""
    for _ in range(_MAX_PREFIXES):
        match = _PREFIX.match(text, at)
        if not match:
            break
        at = match.end()
        rank = int(match["rank"]) if match["rank"] else rank
        host = match["ip"] or match["host"] or host
    return Origin(text[at:], rank, host, _label(text[:at]))


def _label(prefixes: str) -> str:
    """Prefixes of one writer are equal but for the line numbers of a paste."""
    return re.sub(r"^\s*\[\d+\]\s", "", prefixes).strip()[:120]
