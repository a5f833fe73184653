"""Reports on collectives: of NCCL's RAS subsystem (`ncclras`, or its port), and of the flight recorder's analysis.

One report of different counts is normal (a race): it is told, and judged by nobody. A process that RAS cannot reach is
a question about that process.
"""

import re
from collections.abc import Iterable

from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event, rank_name
from collectors.formats.rank_prefix import origin
from collectors.formats.reading import Line, Record
from sickbay.messages import Progress

_SECTION = re.compile(r"^(?P<word>DEAD|INCOMPLETE|TIMEOUT|MISMATCH|ERROR)$")
_COMMUNICATOR = re.compile(r"^#(?P<id>\d{1,9}-\d{1,9}) \((?P<hash>[0-9a-f]{4,40})\) (?P<words>[A-Z,]{2,60})$")
_PROCESS = re.compile(
    r"^\s{0,8}Process (?P<pid>\d{1,10}) on node (?P<node>\S{1,253}) managing GPUs? (?P<device>[\d,-]{1,80})"
)
_MISSING = re.compile(r"^\s{0,8}(?:The missing ranks?|Missing ranks?): (?P<ranks>\d[\d, ]{0,2000})$")
_RANK = re.compile(
    r"^\s{0,8}Rank (?P<rank>\d{1,7}) -- GPU (?P<device>\d{1,4}) managed by process (?P<pid>\d{1,10}) "
    r"on node (?P<node>\S{1,253})"
)
_STATUS = re.compile(r"^\s{0,8}Rank (?P<rank>\d{1,7}) reported status (?P<status>\d{1,3}) \((?P<what>[^)]{1,80})\)")
_MAX_RANKS = 256
_TABLE = "{missing_or_completed} Ranks"  # nvidia-resiliency-ext, attribution of flight recorder dumps
_ROW = re.compile(
    r"(?:^|:)\s{0,8}(?P<group>\w{1,40})\s{1,20}\| (?P<title>[\w.-]{1,80})\s{0,40}\| nccl:(?P<op>\w{1,40})\s{0,40}\|"
    r"[^|]{1,80}\|[^|]{1,40}\|\s{0,8}(?P<ranks>\d[\d, ]{0,2000})$"
)

LITERALS = (
    "DEAD",
    "INCOMPLETE",
    "MISMATCH",
    ") ERROR",
    " managing GPU",
    "issing rank",
    " managed by process ",
    " reported status ",
    _TABLE,
    "| nccl:",
)


class CollectiveReport:
    """Body grammar of RAS reports. Keeps the section and the communicator that the next lines speak of."""

    def __init__(self) -> None:
        self._section = ""
        self._group = ""

    def read(self, line: Line) -> Iterable[Record]:
        """Events of the ranks and processes that the report names; a rank that RAS misses is an error of the job."""
        body = origin(line.body[:LINE_LIMIT]).rest
        if _TABLE in body:
            self._section = "analysis"
        if self._section == "analysis" and (row := _ROW.search(body)):
            return _analysed(row)
        if match := _SECTION.match(body):
            self._section, self._group = match["word"].lower(), ""
            return ()
        if match := _COMMUNICATOR.match(body):
            self._section, self._group = match["words"].lower(), match["hash"]
            facts = {"group": self._group, "communicator": match["id"]}
            return (event("rank.collective_notice", rank_name(-1), facts, code=match["words"]),)
        return self._detail(body) if self._section else ()

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()

    def _detail(self, body: str) -> list[Record]:
        facts = {"group": self._group}
        if match := _PROCESS.match(body):
            facts |= {"pid": match["pid"], "device": match["device"]}
            code = f"process {self._section}"
            return [event("rank.collective_error", rank_name(-1), facts, code=code, host=match["node"])]
        if match := _MISSING.match(body):
            ranks = [int(rank) for rank in match["ranks"].replace(",", " ").split()[:_MAX_RANKS] if len(rank) < 8]
            return [event("rank.collective_error", rank_name(rank), facts, code="rank missing") for rank in ranks]
        if match := _STATUS.match(body):
            code = f"status {match['status']} {match['what']}"
            return [event("rank.collective_error", rank_name(int(match["rank"])), facts, code=code)]
        if match := _RANK.match(body):
            facts |= {"pid": match["pid"], "device": match["device"]}
            told = {"code": self._section, "host": match["node"]}
            return [event("rank.collective_notice", rank_name(int(match["rank"])), facts, **told)]
        return []


def _analysed(row: re.Match[str]) -> list[Record]:
    """The ranks that a comparison of all ranks' dumps found missing in a collective."""
    ranks = [int(rank) for rank in row["ranks"].replace(",", " ").split()[:_MAX_RANKS] if len(rank) < 8]
    group, title, op = row["group"], row["title"], row["op"]
    facts = {"group": group, "group_name": title, "op": op}
    absent: list[Record] = [Progress(rank=rank, state="absent", group=group, group_name=title, op=op) for rank in ranks]
    return [*absent, *(event("rank.collective_notice", rank_name(rank), facts, code="missing") for rank in ranks)]


GRAMMAR = CollectiveReport

SAMPLES = (
    Sample(
        "#0-0 (ab12cd34ef56ab12) MISMATCH\n"
        "  Communicator ranks have different AllReduce operation counts\n"
        "  15 ranks have launched up to operation 812\n"
        "  1 rank has launched up to operation 811\n"
        "  Rank 9 -- GPU 1 managed by process 5511 on node 192.0.2.12",
        (
            {"type": "event", "component": "rank:?/?", "kind": "rank.collective_notice", "code": "MISMATCH"},
            {
                "type": "event",
                "component": "rank:?/9",
                "kind": "rank.collective_notice",
                "severity": "info",
                "host": "192.0.2.12",
            },
        ),
    ),
    Sample(
        "INFO:__main__:PGID   | Process Group Desc        | Op Type    | Size     | Dtype    | {missing_or_completed} "
        "Ranks\n"
        "INFO:__main__:72     | EXPERT_MODEL_PARALLEL_GROUP | nccl:all_to_all | 2048x5120     | BFloat16 | 3",
        (
            {"type": "progress", "rank": 3, "group": "72", "op": "all_to_all", "state": "absent"},
            {"type": "event", "component": "rank:?/3", "kind": "rank.collective_notice"},
        ),
    ),
    Sample(
        "INCOMPLETE\n"
        "  Missing communicator data from 1 job process\n"
        "  Process 5511 on node 192.0.2.12 managing GPU 5\n"
        "\n"
        "#0-0 (ab12cd34ef56ab12) INCOMPLETE\n"
        "  Missing communicator data from 1 rank\n"
        "  The missing rank: 21",
        (
            {"type": "event", "kind": "rank.collective_error", "host": "192.0.2.12", "code": "process incomplete"},
            {"type": "event", "kind": "rank.collective_notice"},
            {"type": "event", "component": "rank:?/21", "kind": "rank.collective_error", "severity": "warning"},
        ),
    ),
)
