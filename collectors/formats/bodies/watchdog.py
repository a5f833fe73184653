"""Collective watchdogs of PyTorch and its ports: which rank waited where, and how far it had come.

A rank that prints a time-out waited; it is a victim until something else says so. Texts: PyTorch's ProcessGroupNCCL
and TraceUtils, copied by the HCCL, MCCL, CNCL and XCCL back ends.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event, rank_name
from collectors.formats.rank_prefix import Origin, origin
from collectors.formats.reading import Line, Record
from sickbay.messages import Progress

_MAX_RANKS = 65_536  # waiting ranks remembered until their status line comes
_MAX_NAMED = 256  # ranks that one report may name

_CAUGHT = re.compile(
    r"(?:Watchdog caught collective operation timeout: |\] Work (?=.{1,600}timed out in blocking wait))"
    r"Work([A-Za-z]{1,16})\("
)
_FIELD = re.compile(r"(?:c10d::)?([A-Za-z]{1,24}(?:\(ms\))?)=(\[[\d, ]{0,200}\]|[^,()\[\]\s]{1,60})(?=[,)])")
_DISPATCH = re.compile(r"Process group work (\w{1,40}), seq_num (\d{1,18}) dispatch timeout")
_AT_WORK = re.compile(r"(?:detected by watchdog at work(?: sequence id)?|Timeout at \w{2,8} work): (\d{1,18})(?=\D)")
_ENQUEUED = re.compile(r"[Ll]ast enqueued(?: \w{4,6})? work: (-?\d{1,18})(?=\D)")
_COMPLETED = re.compile(r"[Ll]ast completed(?: \w{4,6})? work: (-?\d{1,18})(\D?)")
_GROUP = re.compile(
    r"\[PG (?:ID (?P<id>\d{1,9}) PG )?(?:GUID )?(?P<group>[\w.:-]{1,60})(?:\((?P<title>[^)]{0,80})\))?"
    r"\]?(?: \[PG GUID (?P<guid>[\w.:-]{1,60})(?:\((?P<title2>[^)]{0,80})\))?)? Rank (?P<rank>\d{1,7})\]"
)
_RANK = re.compile(r"\[Rank (\d{1,7})\]")
_MISMATCH = re.compile(
    r"Rank (\d{1,7}) is running (?:inconsistent )?collective: CollectiveFingerPrint\((.{0,600}?)\)(?=[,.\s]|$)"
)
_NOT_JOINED = re.compile(r"\[([\d, ]{1,2000})[^\]]{0,4}\] finished collective #(\d{1,18}), but didn't join collective")
_NOT_FINISHED = re.compile(r"\[([\d, ]{1,2000})[^\]]{0,4}\] joined but didn't finish collective #(\d{1,18})")
_NEVER = re.compile(r"ranks \[([\d, ]{1,2000})[^\]]{0,4}\] are the lagging ranks that caused this timeout")
_BARRIER = re.compile(r"[Rr]anks? (\d[\d, ]{0,2000}) failed to pass monitoredBarrier in (\d{1,12}) ms")
_FROM_RANK = re.compile(r"from (?:another )?rank (\d{1,7})\b")

_ABORTS = (  # text of a rank that goes down with the others -> what it is; teardown, never a cause
    ("Received a dump signal", "dump signal"),
    ("Observed flight recorder dump signal", "dump signal"),
    ("To avoid data inconsistency, we are taking the entire process down", "taken down"),
    ("Terminating the process after attempting to dump debug info", "taken down"),
    ("Heartbeat monitor timed out", "heartbeat monitor"),
    ("'s watchdog got stuck for", "heartbeat monitor"),
    ("[c10d] recvValue failed", "store connection"),
    ("[c10d] sendBytes failed", "store connection"),
    ("recvBytes failed on SocketImpl", "store connection"),
)

LITERALS = (
    "Watchdog caught collective operation timeout",
    "timed out in blocking wait",
    "dispatch timeout",
    "detected by watchdog at work",
    "Timeout at ",
    "ast enqueued",
    "ollective: CollectiveFingerPrint",
    "finished collective #",
    "joined but didn't finish collective #",
    "are the lagging ranks",
    "failed to pass monitoredBarrier",
    *(text for text, _ in _ABORTS),
)


class _Who(NamedTuple):
    """The writer of a line and the group it speaks of."""

    rank: int = -1
    group: str = ""
    title: str = ""
    host: str = ""


class _Work(NamedTuple):
    """One collective as a watchdog prints it."""

    library: str = ""
    seq: int = -1
    op: str = ""
    size: str = ""
    timeout_ms: int | None = None


class Watchdog:
    """Body grammar of watchdog lines. Keeps the last time-out of each rank, to complete its status line."""

    def __init__(self) -> None:
        self._waiting: dict[int, _Work] = {}

    def read(self, line: Line) -> Iterable[Record]:
        """`Progress` of the writer (or of the ranks it names), and an event for a time-out, mismatch or teardown."""
        body = line.body[:LINE_LIMIT]
        if not any(literal in body for literal in LITERALS):
            return
        start = origin(body)
        if "caught" in body or "in blocking wait" in body or "dispatch timeout" in body:
            yield from self._caught(body, start)
        if " work" in body:
            yield from self._status(start)
        if "CollectiveFingerPrint" in body:
            yield from _mismatches(start.rest)
        if "collective #" in body or "lagging ranks" in body or "monitoredBarrier" in body:
            yield from _named(body)
        yield from _aborts(start)

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()

    def _caught(self, text: str, start: Origin) -> Iterator[Record]:
        matches = list(_CAUGHT.finditer(text))[:8]  # torn writes put several on one line
        for at, match in enumerate(matches):
            begin = matches[at - 1].end() if at else 0
            end = matches[at + 1].start() if at + 1 < len(matches) else len(text)
            who = _who(origin(text[begin : match.start()]) if at else start, text[begin : match.start()])
            yield from self._waits(who, _work(match[1], text[match.end() : end]))
        if dispatch := _DISPATCH.search(text):
            yield from self._waits(_who(start, text), _Work("HCCL", int(dispatch[2]), dispatch[1]))

    def _waits(self, who: _Who, work: _Work) -> Iterator[Record]:
        if who.rank >= 0 and len(self._waiting) < _MAX_RANKS:
            self._waiting[who.rank] = work
        yield from _timeout(who, work)

    def _status(self, start: Origin) -> Iterator[Record]:
        at_work = _AT_WORK.search(start.rest)
        told = _counts(start.rest, int(at_work[1]) if at_work else -1)
        who = _who(start, start.rest)
        if who.rank < 0 or not (told or at_work):
            return
        seq = int(at_work[1]) if at_work else -1
        last = self._waiting.get(who.rank, _Work())
        work = last if last.seq == seq and seq >= 0 else _Work(seq=seq)
        yield from _timeout(who, work, told) if at_work else (_progress(who, work, "", told),)


def _counts(text: str, seq: int) -> dict[str, int]:
    """How far the writer had come, as far as the line tells."""
    enqueued, completed = _ENQUEUED.search(text), _COMPLETED.search(text)
    told = {"enqueued": int(enqueued[1])} if enqueued else {}
    return told | ({"completed": _whole(completed[1], completed[2], seq)} if completed else {})


def _who(start: Origin, text: str) -> _Who:
    """The `[rankN]:` prefix is the global rank; the one beside the group may count within the group."""
    group, rank = _GROUP.search(text), _RANK.search(text)
    told = int(group["rank"]) if group else int(rank[1]) if rank else -1
    number = start.rank if start.rank >= 0 else told
    if not group:
        return _Who(number, host=start.host)
    return _Who(number, group["guid"] or group["group"], group["title2"] or group["title"] or "", start.host)


def _work(library: str, fields: str) -> _Work:
    """Only fields with their delimiter count: a line cut in a number would tell a wrong one."""
    told = dict(_FIELD.findall(fields.split(" ran fo", 1)[0]))
    sizes = [told[key] for key in ("TensorShape", "NumelIn", "NumelOut") if key in told]
    complete = "TensorShape" in told or len(sizes) == 2
    timeout = told.get("Timeout(ms)", "")
    seq = told.get("SeqNum", "")
    return _Work(
        library,
        int(seq) if seq.isdecimal() and len(seq) < 19 else -1,
        told.get("OpType", ""),
        "/".join(sizes) if complete else "",
        int(timeout) if timeout.isdecimal() and len(timeout) < 16 else None,
    )


def _whole(completed: str, after: str, seq: int) -> int:
    """The number, or -1 where the end of the line seems to have cut it: 157 of 1579."""
    cut = not after and seq > 0 and completed != str(seq - 1) and str(seq - 1).startswith(completed)
    return -1 if cut else int(completed)


def _timeout(who: _Who, work: _Work, told: dict[str, int] | None = None) -> Iterator[Record]:
    yield _progress(who, work, "waiting", told or {})
    words = [f"PG {who.group}" if who.group else "", work.op, f"seq {work.seq}" if work.seq >= 0 else ""]
    facts = {
        "group": who.group,
        "group_name": who.title,
        "op": work.op,
        "seq": str(work.seq) if work.seq >= 0 else "",
        "timeout_ms": str(work.timeout_ms or ""),
        "library": work.library,
    }
    code = " ".join(["timeout", *filter(None, words)])
    yield event("rank.collective_timeout", rank_name(who.rank), facts, code=code, host=who.host)


def _progress(who: _Who, work: _Work, state: str, told: dict[str, int]) -> Progress:
    return Progress(
        rank=who.rank,
        group=who.group,
        group_name=who.title,
        seq=work.seq,
        op=work.op,
        size=work.size,
        state=state,
        timeout_ms=work.timeout_ms,
        host=who.host,
        last_enqueued=told.get("enqueued", -1),
        last_completed=told.get("completed", -1),
    )


def _mismatches(text: str) -> Iterator[Record]:
    """Two ranks of one group in different collectives: the program's fault, whoever is named."""
    prints = [(int(match[1]), match[2]) for match in list(_MISMATCH.finditer(text))[:_MAX_NAMED]]
    for rank, fields in prints:
        told = dict(_FIELD.findall(fields + ","))
        seq = told.get("SequenceNumber", "-1")
        work = _Work("", int(seq) if seq.isdecimal() and len(seq) < 19 else -1, told.get("OpType", ""))
        size = told.get("TensorShape", "")
        yield _progress(_Who(rank), work._replace(size=size), "entered", {})
    if prints and "Detected mismatch" in text:
        ranks = ",".join(str(rank) for rank, _ in prints)
        yield event("rank.collective_mismatch", rank_name(prints[0][0]), {"ranks": ranks}, code="collective mismatch")


def _named(text: str) -> Iterator[Record]:
    """Ranks that a report of another rank names: PyTorch's desync report, the monitored barrier."""
    if match := _NOT_JOINED.search(text):
        last = int(match[2])
        for rank in _numbers(match[1]):
            yield Progress(rank=rank, seq=last + 1, state="absent", last_completed=last, last_enqueued=last)
    elif match := _NOT_FINISHED.search(text):
        for rank in _numbers(match[1]):
            yield Progress(rank=rank, seq=int(match[2]), state="entered")
    elif match := _NEVER.search(text):
        for rank in _numbers(match[1]):
            yield Progress(rank=rank, seq=1, state="absent", last_completed=0, last_enqueued=0)
    elif match := _BARRIER.search(text):
        for rank in _numbers(match[1]):
            yield Progress(rank=rank, op="BARRIER", state="absent", timeout_ms=int(match[2]))


def _numbers(text: str) -> list[int]:
    found = [piece.strip() for piece in text.split(",")[:_MAX_NAMED]]
    return [int(piece) for piece in found if piece.isdecimal() and len(piece) < 8]


def _aborts(start: Origin) -> Iterator[Record]:
    for text, what in _ABORTS:
        if text in start.rest:
            rank = _who(start, start.rest).rank
            other = _FROM_RANK.search(start.rest)
            facts = {"from_rank": other[1] if other else ""}
            yield event("rank.collective_aborted", rank_name(rank), facts, code=what, host=start.host)
            return


GRAMMAR = Watchdog

SAMPLES = (
    Sample(
        "[rank21]:[E314 09:12:44.300120400 ProcessGroupNCCL.cpp:632] [Rank 21] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=40177, OpType=_REDUCE_SCATTER_BASE, NumelIn=8388608, NumelOut=1048576, "
        "Timeout(ms)=900000) ran for 900041 milliseconds before timing out.",
        (
            {
                "type": "progress",
                "rank": 21,
                "seq": 40177,
                "op": "_REDUCE_SCATTER_BASE",
                "size": "8388608/1048576",
                "state": "waiting",
                "timeout_ms": 900_000,
            },
            {
                "type": "event",
                "component": "rank:?/21",
                "kind": "rank.collective_timeout",
                "code": "timeout _REDUCE_SCATTER_BASE seq 40177",
            },
        ),
    ),
    Sample(
        "[rank21]:[E314 09:12:44.300220400 ProcessGroupNCCL.cpp:2268] [PG ID 3 PG GUID 17(EXPERT_DATA_PARALLEL_GROUP) "
        "Rank 5]  failure detected by watchdog at work sequence id: 40177 PG status: last enqueued work: 40180, "
        "last completed work: 40176",
        (
            {
                "type": "progress",
                "rank": 21,
                "group": "17",
                "group_name": "EXPERT_DATA_PARALLEL_GROUP",
                "seq": 40177,
                "last_enqueued": 40180,
                "last_completed": 40176,
                "state": "waiting",
            },
            {"type": "event", "component": "rank:?/21", "kind": "rank.collective_timeout"},
        ),
    ),
    Sample(
        "[412] [rank6]:[E402 11:20:31.465150152 ProcessGroupNCCL.cpp:1664] [PG 2 Rank 6] Exception (either an error "
        "or timeout) detected by watchdog at work: 311, last enqueued NCCL work: 314, last completed NCCL work: 310.",
        (
            {
                "type": "progress",
                "rank": 6,
                "group": "2",
                "seq": 311,
                "last_enqueued": 314,
                "last_completed": 310,
            },
            {"type": "event", "component": "rank:?/6", "code": "timeout PG 2 seq 311"},
        ),
    ),
    Sample(
        "[rank9]:[E402 11:20:31.4 ProcessGroupNCCL.cpp:607] [Rank 9] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=311, OpType=ALLREDUCE, NumelIn=52428800, NumelOut=5242",
        (
            {"type": "progress", "rank": 9, "seq": 311, "op": "ALLREDUCE", "size": "", "state": "waiting"},
            {"type": "event", "component": "rank:?/9", "kind": "rank.collective_timeout"},
        ),
    ),
    Sample(
        "[rank7]:[E1002 18:16:40.663 ProcessGroupNCCL.cpp:756] [Rank 7] Work WorkNCCL(SeqNum=77, OpType=ALLREDUCE, "
        "NumelIn=16, NumelOut=16, Timeout(ms)=600000) timed out in blocking wait.",
        (
            {"type": "progress", "rank": 7, "seq": 77, "op": "ALLREDUCE", "state": "waiting"},
            {"type": "event", "component": "rank:?/7", "kind": "rank.collective_timeout"},
        ),
    ),
    Sample(
        "[Rank 88] Watchdog caught collective operation timeout: WorkMCCL(SeqNum=7702, OpType=ALLGATHER, "
        "TensorShape=[4096, 5120], Timeout(ms)=600000) ran for 600188 milliseconds before timing out.",
        (
            {"type": "progress", "rank": 88, "seq": 7702, "size": "[4096, 5120]", "timeout_ms": 600_000},
            {"type": "event", "component": "rank:?/88", "kind": "rank.collective_timeout"},
        ),
    ),
    Sample(
        "[rank3]:[E402 11:20:32.0 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank 3] Received a dump "
        "signal due to a collective timeout from rank 9 and we will try our best to dump the debug info. "
        "Last enqueued NCCL work: 310, last completed NCCL work: 310.",
        (
            {
                "type": "progress",
                "rank": 3,
                "group": "0",
                "last_enqueued": 310,
                "last_completed": 310,
                "state": "",
            },
            {"type": "event", "component": "rank:?/3", "kind": "rank.collective_aborted", "severity": "info"},
        ),
    ),
    Sample(
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 4 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=91, OpType=ALLREDUCE, TensorShape=[1024], TensorDtypes=Float), "
        "but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=91, OpType=BROADCAST, "
        "TensorShape=[16], TensorDtypes=Long).",
        (
            {"type": "progress", "rank": 4, "seq": 91, "op": "ALLREDUCE", "size": "[1024]", "state": "entered"},
            {"type": "progress", "rank": 0, "seq": 91, "op": "BROADCAST", "size": "[16]", "state": "entered"},
            {"type": "event", "kind": "rank.collective_mismatch", "severity": "error"},
        ),
    ),
    Sample(
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 2 is running inconsistent collective: "
        "CollectiveFingerPrint(OpType=BROADCAST, TensorShape=[512], TensorDtypes=Float)",
        (
            {"type": "progress", "rank": 2, "op": "BROADCAST", "state": "entered"},
            {"type": "event", "component": "rank:?/2", "kind": "rank.collective_mismatch"},
        ),
    ),
    Sample(
        "\t     [13] finished collective #2204, but didn't join collective #2205 (count from 1)",
        (
            {
                "type": "progress",
                "rank": 13,
                "seq": 2205,
                "state": "absent",
                "last_completed": 2204,
            },
        ),
    ),
    Sample(
        "12: gx-r02-n07: [rank96]:[W402 11:20:34.8 TCPStore.cpp:106] [c10d] recvValue failed on SocketImpl(fd=87, "
        "addr=[::ffff:192.0.2.7]:41412, remote=[::ffff:192.0.2.4]:29500): Connection reset by peer",
        ({"type": "event", "component": "rank:?/96", "kind": "rank.collective_aborted", "severity": "info"},),
    ),
)
