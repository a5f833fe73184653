"""Columns of Slurm's tables: what a heading says, and where the cells of a row begin and end."""

import re
from dataclasses import dataclass
from typing import NamedTuple, Protocol

# Headings as the commands print them, by what they hold.
_COLUMNS = {
    "JOBID": "job", "JOBIDRAW": "raw", "NAME": "name", "JOBNAME": "name", "STATE": "state", "ST": "state",
    "EXITCODE": "exit", "EXIT_CODE": "exit", "NODELIST": "nodes", "NODELIST(REASON)": "nodes", "HOSTNAMES": "nodes",
    "START": "start", "START_TIME": "start", "END": "end", "END_TIME": "end", "USER": "user", "RESTARTS": "restarts",
    "RESTART_COUNT": "restarts", "FAILEDNODE": "failed", "REASON": "reason", "TIMESTAMP": "at", "COMMENT": "comment",
    "ADMINCOMMENT": "admin_comment", "SYSTEMCOMMENT": "system_comment", "WORKDIR": "directory", "WORK_DIR": "directory",
    "SUBMITLINE": "command", "COMMAND": "command", "WCKEY": "wckey", "EXTRA": "extra",
}  # fmt: skip
_FREE = frozenset(
    {"name", "reason", "comment", "admin_comment", "system_comment", "directory", "command", "wckey", "extra"}
)
_HEADING = re.compile(r"[A-Za-z][A-Za-z_:/()%]{0,40}")
_RULE = re.compile(r"-{2,}(?: +-{2,})*")
_CANCELLED = re.compile(r"CANCELLED by \d{1,10}")
_PENDING = re.compile(r"\s(\([^()]*\))$")  # squeue's last column: why a job waits


class Layout(Protocol):
    """Where the cells of a row are."""

    def cells(self, row: str) -> list[str] | None:
        """The cells of a row, None where they cannot be told apart."""
        ...


@dataclass(frozen=True, slots=True)
class Pipes:
    """`-p` and `-P`: cells between bars."""

    columns: list[str]
    trailing: bool

    def cells(self, row: str) -> list[str] | None:
        """The cells of a row."""
        return _aligned(self.split(row), self.columns, "|")

    def split(self, row: str) -> list[str]:
        """What stands between the bars, however many."""
        return (row.removesuffix("|") if self.trailing else row).split("|")


@dataclass(frozen=True, slots=True)
class Blanks:
    """Cells are words; only the text that people write holds blanks."""

    columns: list[str]

    def cells(self, row: str) -> list[str] | None:
        """The cells of a row; a job that waits may have no last cell."""
        row = _CANCELLED.sub("CANCELLED", row)
        waiting = _PENDING.search(row) if self.columns[-1] == "nodes" else None
        words = (row[: waiting.start()] if waiting else row).split()
        if waiting or (self.columns[-1] == "nodes" and len(words) == len(self.columns) - 1):
            words.append(waiting[1] if waiting else "")
        return _aligned(words, self.columns, " ")


@dataclass(frozen=True, slots=True)
class Ruled:
    """Columns under a line of dashes."""

    columns: list[str]
    spans: list[tuple[int, int]]

    def cells(self, row: str) -> list[str] | None:
        """The cells of a row; none where a column's end falls into a word."""
        if any(end < len(row) and row[end] != " " for _, end in self.spans[:-1]):
            return None
        last = len(self.spans) - 1
        return [row[start : None if place == last else end].strip() for place, (start, end) in enumerate(self.spans)]


class Heading(NamedTuple):
    """The first row of a table: what its columns hold, and how its rows are cut."""

    columns: list[str]
    layout: Layout


def heading(row: str) -> Heading | None:
    """The heading in a row, None where it is none of a table that tells jobs or nodes and their state."""
    if len(row) > 2_000:
        return None
    pipes = row.count("|") >= 2
    headings = row.strip().removesuffix("|").split("|") if pipes else row.split()
    if len(headings) < 2 or not all(_HEADING.fullmatch(text) for text in headings):
        return None
    columns = [_COLUMNS.get(text.partition("%")[0].upper(), text.upper()) for text in headings]
    told = set(columns)
    jobs = told & {"job", "raw"} and told & {"state", "nodes"}
    nodes = "nodes" in told and told & {"state", "reason"}
    if not (jobs or nodes) or len(told) < len(columns) - 1:
        return None
    layout: Layout = Pipes(columns, row.rstrip().endswith("|")) if pipes else Blanks(columns)
    return Heading(columns, layout)


def ruled(columns: list[str], row: str) -> Ruled | None:
    """The layout that a line of dashes under a heading shows, None where the line is none or does not fit."""
    if not _RULE.fullmatch(row.strip()):
        return None
    spans = [(match.start(), match.end()) for match in re.finditer("-+", row)]
    return Ruled(columns, spans) if len(spans) == len(columns) else None


def _aligned(cells: list[str], columns: list[str], glue: str) -> list[str] | None:
    """Cells as many as columns, read from both ends where people's own text holds the separator."""
    extra = len(cells) - len(columns)
    if extra == 0:
        return cells
    free = [place for place, column in enumerate(columns) if column in _FREE]
    if extra < 0 or not free:
        return None
    first, last = free[0], free[-1]
    between = glue.join(cells[first : last + 1 + extra]) if first == last else ""
    middle = [between] + [""] * (last - first)
    return [*cells[:first], *middle, *cells[last + 1 + extra :]]
