"""torchrun: how the processes of a node ended.

"First observed" is per node and by poll order, so a root-cause block never outranks the order in time of several nodes.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event, rank_name
from collectors.formats.rank_prefix import origin
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Blame, Event, Severity

_MAX_STREAMS = 256  # blocks open at the same time

_FAILED = re.compile(
    r"failed \(exitcode: (?P<code>-?\d{1,5})\) local_rank: (?P<local>\d{1,6}) \(pid: (?P<pid>\d{1,10})\)"
)
_FIELD = re.compile(r"^\s*(?P<key>time|host|rank|exitcode)\s*: (?P<value>.{1,300})$")
_RANK = re.compile(r"^(\d{1,7}) \(local_rank: (\d{1,6})\)")
_CODE = re.compile(r"^(-?\d{1,5}) \(pid: (\d{1,10})\)")
_LOADER = re.compile(
    r"DataLoader worker \(pid(?:\(s\))? (?P<pid>\d{1,10})[\d, ]{0,200}\) "
    r"(?P<how>exited unexpectedly|is killed by signal: [A-Za-z ]{3,30})"
)
_RESTART = re.compile(r"Worker group ([A-Z]{4,12})\. (\d{1,6})/(\d{1,6}) attempts left; will restart worker group")


class _Ending(NamedTuple):
    """What a negative exit code (a signal) says."""

    name: str
    severity: Severity = Severity.INFO
    blame: Blame = Blame.EITHER


_SIGNALS = {
    2: _Ending("SIGINT"),
    4: _Ending("SIGILL", Severity.WARNING),
    6: _Ending("SIGABRT"),  # the collective watchdog's way out: a victim
    7: _Ending("SIGBUS", Severity.WARNING),  # shared or host memory
    9: _Ending("SIGKILL"),  # out of memory or a kill: the killer says which
    11: _Ending("SIGSEGV", Severity.WARNING, Blame.APPLICATION),
    15: _Ending("SIGTERM"),  # told to stop: a victim
}

_UNEXPLAINED = (4, 6, 7, 9, 11)  # signals that somebody or something sent: the ending says that, not who

LITERALS = (
    "failed (exitcode:",
    "(first observed failure)",
    "Failures:",
    "  time  ",
    "  host  ",
    "  rank  ",
    "  exitcode  ",
    "will restart worker group",
    "DataLoader worker (pid",
)


class _Block(NamedTuple):
    """The fields of a failure read so far."""

    root: bool = False
    time: str = ""
    host: str = ""
    rank: int = -1
    local: str = ""


class Elastic:
    """Body grammar of torchrun's messages. Keeps the open failure block of each interleaved writer."""

    def __init__(self) -> None:
        self._blocks: dict[str, _Block] = {}

    def read(self, line: Line) -> Iterable[Record]:
        """`rank.exited` events, and `job.requeued` for a restart in place."""
        body = line.body[:LINE_LIMIT]
        if match := _FAILED.search(body):
            block = _Block(root=True, local=match["local"])  # the first that the agent of this node saw end
            return (_exited(int(match["code"]), block, match["pid"], line.host),)
        if match := _LOADER.search(body):
            process = name(Kind.PROCESS, line.host or UNKNOWN, match["pid"])
            return (event("process.exited", process, {"pid": match["pid"]}, code=match["how"].strip()),)
        if match := _RESTART.search(body):
            facts = {"state": match[1], "attempts_left": match[2], "attempts": match[3]}
            return (event("job.requeued", name(Kind.JOB, UNKNOWN), facts, code="restart in place"),)
        return self._block(line, body)

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back: a block without its exit code tells no ending."""
        return ()

    def _block(self, line: Line, body: str) -> Iterable[Record]:
        start = origin(body)
        stream = line.stream or start.label
        if "(first observed failure)" in body or start.rest.strip() == "Failures:":
            if len(self._blocks) < _MAX_STREAMS or stream in self._blocks:
                self._blocks[stream] = _Block(root="first observed" in body)
            return ()
        block = self._blocks.get(stream)
        match = _FIELD.match(start.rest) if block is not None else None
        if block is None or not match:
            return ()
        return self._field(stream, block, match["key"], match["value"].strip())

    def _field(self, stream: str, block: _Block, key: str, value: str) -> Iterable[Record]:
        if key == "exitcode" and (code := _CODE.match(value)):
            self._blocks[stream] = _Block(root=block.root)
            return (_exited(int(code[1]), block, code[2], ""),) if block.rank >= 0 else ()
        if key == "rank" and (rank := _RANK.match(value)):
            self._blocks[stream] = block._replace(rank=int(rank[1]), local=rank[2])
        elif key == "time":  # the first field: a new failure begins
            self._blocks[stream] = _Block(root=block.root, time=value[:40])
        elif key == "host":
            self._blocks[stream] = block._replace(host=value.split()[0][:253])
        return ()


def _exited(code: int, block: _Block, pid: str, host: str) -> Event:
    ending = _SIGNALS.get(-code, _Ending("")) if code < 0 else _Ending("", Severity.WARNING if code else Severity.INFO)
    facts = {
        "exitcode": str(code),
        "signal": ending.name,
        "local_rank": block.local,
        "pid": pid,
        "time": block.time,
        "first_observed": "true" if block.root else "",
        "unexplained": "true" if block.root and -code in _UNEXPLAINED else "",
    }
    word = f"exit {code} {ending.name}".rstrip()
    told: dict[str, Any] = {"severity": ending.severity, "blame": ending.blame, "host": block.host or host}
    if block.host:  # a block says on its other lines which host and rank it means
        text = f"rank {block.rank} (local_rank {block.local}, pid {pid}) on {block.host} ended with {word}"
        told["message"] = f"{text}, first observed failure" if block.root else text
    return event("rank.exited", rank_name(block.rank), facts, code=word, **told)


GRAMMAR = Elastic

_BLOCK = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
pretrain.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2025-06-02_18:40:03
  host      : gx-r09-n02.example
  rank      : 17 (local_rank: 1)
  exitcode  : -15 (pid: 3118)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 3118
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-06-02_18:40:01
  host      : gx-r09-n02.example
  rank      : 22 (local_rank: 6)
  exitcode  : -11 (pid: 3123)
  error_file: <N/A>
  traceback : Signal 11 (SIGSEGV) received by PID 3123
============================================================"""

SAMPLES = (
    Sample(
        "E0602 18:40:02.120000 3110 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -6) "
        "local_rank: 3 (pid: 3120) of binary: /opt/venv/bin/python",
        (
            {
                "type": "event",
                "component": "rank:?/?",
                "kind": "rank.exited",
                "severity": "info",
                "code": "exit -6 SIGABRT",
            },
        ),
    ),
    Sample(
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 92) of binary: "
        "/usr/bin/python3",
        ({"type": "event", "component": "rank:?/?", "kind": "rank.exited", "severity": "warning", "code": "exit 1"},),
    ),
    Sample(
        _BLOCK,
        (
            {
                "type": "event",
                "component": "rank:?/17",
                "severity": "info",
                "host": "gx-r09-n02.example",
                "code": "exit -15 SIGTERM",
            },
            {
                "type": "event",
                "component": "rank:?/22",
                "severity": "warning",
                "blame": "application",
                "code": "exit -11 SIGSEGV",
            },
        ),
    ),
    Sample(
        "\n".join("[default5]:" + line for line in _BLOCK.split("\n")[13:19]),
        ({"type": "event", "component": "rank:?/22", "kind": "rank.exited"},),
    ),
    Sample(
        "E0602 18:41:12.5 3110 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) "
        "local_rank: 7 (pid: 3124) of binary: /opt/venv/bin/python",
        ({"type": "event", "code": "exit -9 SIGKILL", "severity": "info", "blame": "either"},),
    ),
    Sample(
        "RuntimeError: DataLoader worker (pid 4411) is killed by signal: Killed.",
        ({"type": "event", "component": "process:?/4411", "kind": "process.exited"},),
    ),
    Sample(
        "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. 2/3 attempts left; "
        "will restart worker group",
        ({"type": "event", "component": "job:?", "kind": "job.requeued", "code": "restart in place"},),
    ),
)
