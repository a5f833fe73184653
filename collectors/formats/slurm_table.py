"""`squeue`, `sinfo` and `sacct`: aligned columns, `-p`/`-P` pipe tables, and `--json`.

Job names hold blanks, pipes, line ends and any bytes. A row with too many fields is read from its left end up to the
columns that people write and from its right end back to them; what lies between is theirs. A row is held until the
next one begins, so that the rest of a name behind a line end is still joined to it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from collectors.formats import hostlist, slurm_json, stamps
from collectors.formats.reading import Reading, Tally
from collectors.formats.slurm_columns import Blanks, Layout, Pipes, heading, ruled
from collectors.formats.slurm_records import (
    Job,
    Node,
    is_job_id,
    is_step_id,
    job_readings,
    job_state,
    node_readings,
    node_states,
)
from collectors.formats.text import lines
from sickbay.components import Kind, kind_of
from sickbay.messages import Event

MAX_ROW_LINES = 50  # line ends in one name
MAX_ROW = 1 << 16
MAX_SEEN = 200_000  # nodes of one table that are remembered, to tell each once


@dataclass(slots=True)
class _Table:
    """One table: what its columns hold, and what was told."""

    columns: list[str]
    layout: Layout
    seen: set[tuple[str, str]] = field(default_factory=set)
    times: dict[str, int] = field(default_factory=dict)  # rows per job: `sacct -D` lists every attempt, in order
    torn: bool = False  # the last row ended early: what follows may be the rest of its name
    held: str = ""
    line: int = 0
    pieces: int = 0


def confidence(head: bytes, name: str) -> float:
    """High where the first lines hold the heading of a table that tells jobs or nodes and their state."""
    text = head.decode("utf-8", "replace")
    if text.lstrip().startswith("{"):
        return slurm_json.confidence(text)
    rows = [row for row in text.replace("\r", "").split("\n") if row.strip()]
    for place, row in enumerate(rows[:20]):
        if heading(row) is not None:
            return 0.95 if place < 3 else 0.7
    return 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """Placements and ends of jobs, what the scheduler says against nodes."""
    stream = iter(chunks)
    head = next(stream, b"")
    while head and len(head) < 64 and (more := next(stream, b"")):
        head += more
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        yield from slurm_json.read(_chained(head, stream), tally)
        return
    table: _Table | None = None
    for number, row in lines(_chained(head, stream), tally):
        if first := heading(row):
            yield from _close(table, tally)
            table = _Table(first.columns, first.layout)
        elif table is not None and isinstance(table.layout, Blanks) and (layout := ruled(table.columns, row)):
            table.layout = layout
        elif table is not None and row.strip():
            yield from _take(table, row, number, tally)
    yield from _close(table, tally)


def _chained(head: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    yield head
    yield from rest


def _take(table: _Table, row: str, number: int, tally: Tally) -> Iterator[Reading]:
    """Joins the lines of a row of a pipe table; other rows are read as they come."""
    if not isinstance(table.layout, Pipes):
        yield from _row(table, row, number, tally)
        return
    if not table.held or _begins(table, row):
        yield from _close(table, tally)
        table.held, table.line, table.pieces = row, number, 1
        return
    whole = len(table.layout.split(table.held)) >= len(table.columns)
    if whole and "|" not in row:  # a prompt or a count behind the table
        tally.unparsed += 1
    elif table.pieces < MAX_ROW_LINES and len(table.held) + len(row) < MAX_ROW:
        table.held += f"\n{row}"
        table.pieces += 1
    else:
        tally.unparsed += 1


def _begins(table: _Table, row: str) -> bool:
    """Whether a line begins a row of its own: in a job table with a job id, else with all its fields."""
    if not isinstance(table.layout, Pipes):
        return True
    cells = table.layout.split(row)
    if table.columns[0] not in ("job", "raw"):
        return len(cells) >= len(table.columns)
    return len(cells) > 1 and (is_job_id(cells[0]) or is_step_id(cells[0]))


def _close(table: _Table | None, tally: Tally) -> Iterator[Reading]:
    if table is not None and table.held:
        row, table.held = table.held, ""
        accuses = not table.torn
        readings = list(_row(table, row, table.line, tally))
        table.torn = row.count("|") < len(table.columns) - 1
        yield from (reading for reading in readings if accuses or not _on_host(reading))


def _on_host(reading: Reading) -> bool:
    return isinstance(reading.record, Event) and kind_of(reading.record.component) is Kind.HOST


def _row(table: _Table, row: str, number: int, tally: Tally) -> Iterator[Reading]:
    cells = table.layout.cells(row)
    if cells is None:
        tally.unparsed += 1
        return
    told = {column: cell.strip() for column, cell in zip(table.columns, cells, strict=True)}
    text = " ".join(row.split())
    if "job" in told or "raw" in told:
        yield from _job(table, told, text, number, tally)
    else:
        yield from _nodes(table, told, text, number, tally)


def _job(table: _Table, told: dict[str, str], text: str, number: int, tally: Tally) -> Iterator[Reading]:
    job_id = told.get("raw") or told.get("job", "")
    state = job_state(told.get("state", ""))
    if is_step_id(job_id) or is_step_id(told.get("job", "")) or "[" in job_id:
        return  # a step's end says nothing that its job's does not; a waiting array has no place yet
    if not is_job_id(job_id) or ("state" in told and not state):
        tally.unparsed += 1
        return
    restarts = told.get("restarts", "")
    earlier = table.times.get(job_id, 0)
    if len(table.times) < MAX_SEEN:
        table.times[job_id] = earlier + 1
    job = Job(
        id=job_id,
        state=state,
        attempt=int(restarts) if len(restarts) < 7 and restarts.isascii() and restarts.isdigit() else earlier,
        exit=told.get("exit", ""),
        nodes=_hosts(told.get("nodes", ""), tally),
        failed_node=_hosts(told.get("failed", ""), tally),
        start=stamps.iso(told.get("start", "")),
        end=stamps.iso(told.get("end", "")),
        name=" ".join(told.get("name", "").split()),
        user=told.get("user", ""),
        text=text,
        line=number,
    )
    yield from job_readings(job, tally)


def _hosts(text: str, tally: Tally) -> str:
    """A cell of hosts; none where it tells why a job waits, or was cut to the width of its column."""
    if text.endswith("+"):
        tally.unparsed += 1
        tally.note("host list cut to the width of its column; print it with -P")
    return "" if text.startswith("(") or text.endswith("+") else text


def _nodes(table: _Table, told: dict[str, str], text: str, number: int, tally: Tally) -> Iterator[Reading]:
    reason = "" if told.get("reason", "").lower() in ("none", "") else told["reason"]
    states = node_states(told["state"]) if "state" in told else _state_of_reason(reason)
    if not states:
        tally.unparsed += 1
        return
    for host in hostlist.names(told.get("nodes", ""), tally):
        node = Node(host, states, reason, told.get("user", ""), stamps.iso(told.get("at", "")), text, number)
        for reading in node_readings(node):
            key = (host, getattr(reading.record, "kind", ""))
            if key not in table.seen and len(table.seen) < MAX_SEEN:  # a node stands in every partition it is in
                table.seen.add(key)
                yield reading


def _state_of_reason(reason: str) -> frozenset[str]:
    """`sinfo -R` lists what is down, drained or failing without saying which: only Slurm's own word tells."""
    return frozenset({"NOT_RESPONDING"} if reason.startswith("Not responding") else {"DRAIN"})
