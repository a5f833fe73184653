"""`scontrol show node|job|topology|partition`: records of `Key=value`, over several lines or in one (`-o`).

Values that people write (job names, commands, reasons) may hold blanks, `=` and even whole fields. In the form of
several lines they run to the end of their line. Where a field that decides is told twice, one of the two is somebody's
text: the record is counted and left out.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from collectors.formats import stamps
from collectors.formats.reading import Reading, Tally
from collectors.formats.slurm_records import (
    Job,
    Node,
    is_job_id,
    job_readings,
    job_state,
    node_readings,
    node_states,
    signed,
)
from collectors.formats.slurm_site import declared
from collectors.formats.slurm_topology import switch_edges
from collectors.formats.text import lines

_START = re.compile(r"(NodeName|JobId|PartitionName|ReservationName|SwitchName|BlockName)=\S")
_KEY = re.compile(r"(?:^|(?<=\s))([A-Za-z][A-Za-z0-9_:/]{0,30})=")
_INDENTED = re.compile(r"\s+[A-Za-z][A-Za-z0-9_:/]{0,30}=")
_SHOWN = re.compile(
    r"^(?:ReservationName=\S.{0,400}? StartTime=|"
    r"NodeName=.{0,400}?CPU(?:Alloc|Tot)=|JobId=\d+ .{0,600}?JobState=|PartitionName=\S+\s+AllowGroups=)",
    re.M | re.S,
)
# To the end of the line: what the operating system, an administrator or a user wrote.
_FREE = frozenset(
    {"OS", "Comment", "AdminComment", "SystemComment", "Extra", "JobName", "Command", "WorkDir", "StdErr",
     "StdIn", "StdOut", "SubmitLine", "BatchScript", "MailUser"}
)  # fmt: skip
_DECIDING = frozenset(
    {"NodeName", "JobId", "State", "JobState", "NodeList", "ExitCode", "Restarts", "SwitchName", "FailedNode"}
)
_JOB_TAIL = re.compile(r" (?:Comment|AdminComment|SystemComment|Command|WorkDir|StdErr)=")  # user text starts here
_ONE_LINE_REASON = re.compile(r" Reason=(.{0,2000}? \[[^\[\]@ ]{1,64}@[^\[\] ]{1,32}\])(?= |$)")
_ONE_LINE_STATE = re.compile(r" State=(\S+)")
_LAST_SIGNATURE = re.compile(r"(.{0,4000} \[[^\[\]@ ]{1,64}@[^\[\] ]{1,32}\])(?= |$)")
_ONE_LINE_OS = re.compile(r" OS=(.{0,400}?) RealMemory=")
_MAX_FIELDS = 300
_MAX_LINES = 200  # of one record


@dataclass(slots=True)
class _Record:
    kind: str
    line: int
    fields: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)
    count: int = 0

    def put(self, key: str, value: str, number: int) -> None:
        if key in self.fields:
            self.twice.add(key)
        elif len(self.fields) < _MAX_FIELDS:
            self.fields[key] = value.strip()
            self.lines[key] = number


def confidence(head: bytes, name: str) -> float:
    """High where records of nodes, jobs, reservations or partitions make up the text; a slurm.conf has other fields."""
    text = head.decode("utf-8", "replace").replace("\r", "")
    rows = [row for row in text.split("\n") if row.strip()]
    if not _SHOWN.search(text) and not any(_node_block(row, below) for row, below in pairwise(rows[:400])):
        return 0.0
    fitting = sum(bool(_START.match(row) or _INDENTED.match(row)) for row in rows)
    return 0.95 if fitting >= 0.6 * len(rows) else 0.6 if fitting >= 0.2 * len(rows) else 0.0


def _node_block(row: str, below: str) -> bool:
    """A node over several lines, however few of them somebody kept; a slurm.conf breaks its lines with a backslash."""
    return row.startswith("NodeName=") and not row.endswith("\\") and bool(_INDENTED.match(below))


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """Events of nodes and jobs, placements of jobs, edges of switches, planned work that reservations declare."""
    record: _Record | None = None
    for number, row in lines(chunks, tally):
        start = _START.match(row)
        if start:
            yield from _readings(record, tally)
            record = _Record(start[1], number)
        elif record is None or not _INDENTED.match(row):
            continue  # a prompt, a heading, a line of text between records
        record.count += 1
        if record.count <= _MAX_LINES:
            _take(record, row, number, tally)
    yield from _readings(record, tally)


def shown_nodes(text: str, tally: Tally) -> Iterator[Node]:
    """Every node in an answer of `scontrol show node -o`, healthy ones too: what live clients ask, and often.

    Only name, state and reason are looked at. The reason is the last of them; where its writer put a signature like
    Slurm's own into it, the last one is Slurm's.
    """
    for number, row in lines([text.encode()], tally):
        if not row.startswith("NodeName="):  # a rest of somebody's text
            continue
        head, _, told = row.partition(" Reason=")
        states = _ONE_LINE_STATE.findall(head)
        if len(states) != 1:
            tally.unparsed += 1
            continue
        signature = _LAST_SIGNATURE.match(told)
        fields = {"NodeName": head[len("NodeName=") :].partition(" ")[0], "State": states[0]}
        fields |= {"Reason": signature[1] if signature else told} if told else {}
        node = _node_of(_Record("NodeName", number, fields, dict.fromkeys(fields, number)))
        if node is None:
            tally.unparsed += 1
        else:
            yield node


def _take(record: _Record, row: str, number: int, tally: Tally) -> None:
    if record.kind == "JobId" and "JobName=" in row and " JobState=" in row:
        row = _without_user_text(record, row, number)
    elif record.kind == "NodeName" and " State=" in row:
        row = _without_free_text(record, row, number)
    position = 0
    while match := _KEY.search(row, position):
        following = _KEY.search(row, match.end())
        free = match[1] in _FREE or (match[1] == "Reason" and record.kind != "JobId")  # of a job: one word of Slurm's
        last = free or following is None
        end = len(row) if last or following is None else following.start()
        record.put(match[1], row[match.end() : end], number)
        if last:
            return
        position = end


def _without_user_text(record: _Record, row: str, number: int) -> str:
    """A job in one line without its name and without the tail in which users write."""
    if row.count(" JobState=") > 1:
        record.twice.add("JobState")
        return ""
    tail = _JOB_TAIL.search(row, row.index(" JobState="))
    row = row[: tail.start()] if tail else row
    begin, end = row.find("JobName="), row.rfind(" UserId=")
    if end < begin:
        return row
    record.put("JobName", row[begin + len("JobName=") : end], number)
    return row[:begin] + row[end:]


def _without_free_text(record: _Record, row: str, number: int) -> str:
    """A node in one line without the values that hold blanks."""
    for key, pattern in (("OS", _ONE_LINE_OS), ("Reason", _ONE_LINE_REASON)):
        if match := pattern.search(row):
            record.put(key, match[1], number)
            row = row[: match.start()] + row[match.end(1) :]
    return row


def _readings(record: _Record | None, tally: Tally) -> Iterator[Reading]:
    if record is None:
        return
    mixed = record.kind == "NodeName" and "JobState" in record.fields
    if record.count > _MAX_LINES or mixed or record.twice.intersection(_DECIDING):
        tally.unparsed += 1
        tally.note(f"{record.kind} at line {record.line}: a field is told twice; left out")
    elif record.kind == "NodeName":
        yield from _node(record, tally)
    elif record.kind == "JobId":
        yield from _job(record, tally)
    elif record.kind == "ReservationName":
        begin, end = (stamps.iso(record.fields.get(key, "")) for key in ("StartTime", "EndTime"))
        for control in declared(record.fields, tally):
            yield Reading(control, record.line, begin, until=end)
    elif record.kind in ("SwitchName", "BlockName"):
        for edge in switch_edges(record.fields, tally):
            yield Reading(edge, record.line)


def _node(record: _Record, tally: Tally) -> Iterator[Reading]:
    fields = record.fields
    node = _node_of(record)
    if node is None:
        if "Arch" in fields or "CPUTot" in fields:  # else a line of slurm.conf
            tally.unparsed += 1
    elif "CPUTot" in fields or "CPUAlloc" in fields or "Arch" in fields:
        yield from node_readings(node)


def _node_of(record: _Record) -> Node | None:
    """The node of a record, None where its name or state cannot be one."""
    fields = record.fields
    host, state = fields["NodeName"], fields.get("State", "")
    states = node_states(state)
    if not states or len(host.split()) != 1 or set(host) & set("[],"):
        return None
    reason, user, at = signed(fields.get("Reason", ""))
    text = f"NodeName={host} State={state}" + (f" Reason={fields['Reason']}" if "Reason" in fields else "")
    line = record.lines.get("Reason", record.lines["State"])
    return Node(host, states, reason, user, stamps.iso(at), text, line)


def _job(record: _Record, tally: Tally) -> Iterator[Reading]:
    fields = record.fields
    state = job_state(fields.get("JobState", ""))
    if not is_job_id(fields["JobId"]) or not state:
        tally.unparsed += 1
        return
    told = ("JobId", "JobName", "JobState", "Reason", "ExitCode", "NodeList")
    restarts = fields.get("Restarts", "")
    job = Job(
        id=fields["JobId"],
        state=state,
        attempt=int(restarts) if len(restarts) < 7 and restarts.isascii() and restarts.isdigit() else 0,
        exit=fields.get("ExitCode", ""),
        nodes=fields.get("NodeList", ""),
        failed_node=fields.get("FailedNode", ""),
        start=stamps.iso(fields.get("StartTime", "")),
        end=stamps.iso(fields.get("EndTime", "")),
        name=fields.get("JobName", ""),
        user=fields.get("UserId", "").partition("(")[0],
        exclusive=fields.get("OverSubscribe", "") in ("NO", "EXCLUSIVE"),
        text=" ".join(f"{key}={fields[key]}" for key in told if key in fields),
        line=record.lines.get("JobState", record.line),
    )
    yield from job_readings(job, tally)
