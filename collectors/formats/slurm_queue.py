"""`squeue --Format=JobID:MARK,...`: jobs as a live cluster tells them, a mark behind every value.

Job names are free text: one with a line end in it forges whole records of `scontrol show job -o`, which prints it raw
(seen with 22.05.8). The mark is one that nobody can guess, so no name can end its own value.
Suffixes of fields exist since Slurm 20.02; checked against 22.05.8.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from collectors.formats import stamps
from collectors.formats.masking import struck
from collectors.formats.reading import Tally
from collectors.formats.slurm_records import Job, is_job_id, job_state
from collectors.formats.text import clean_text
from sickbay.clock import NO_STAMP, Stamp, resolve

FIELDS = (
    "JobID", "RestartCnt", "State", "NodeList", "StartTime", "EndTime", "UserName", "NumTasks", "NTPerNode",
    "OverSubscribe", "Requeue", "BatchFlag", "exit_code", "Name",
)  # fmt: skip
WITHOUT = (
    "SQUEUE_",
    "SCONTROL_",
    "SINFO_",
    "SLURM_TIME_FORMAT",
    "SLURM_CLUSTERS",
    "SLURM_BITSTR_LEN",
)  # change answers
_MAX_NUMBER = 10_000_000  # more tasks than any cluster has


class Unreadable(ValueError):
    """The text is no answer to `question`, or not all of it: nothing of it is to be believed."""


@dataclass(frozen=True, slots=True)
class Queued:
    """One job. `job.state` is "" where the state is not known here; stamps are absolute (asked with TZ=UTC)."""

    job: Job
    tasks: int = 0
    tasks_per_node: int = 0  # 0: not told
    may_requeue: bool = False  # a batch job whose owner allows it


def question(mark: str) -> list[str]:
    """Arguments of squeue for all jobs that it remembers. `mark`: see `mark_of`."""
    return ["--noheader", "--all", "--states=all", "--Format=" + ",".join(f"{field}:{mark}" for field in FIELDS)]


def mark_of(nonce: str) -> str:
    """The mark made of some random hex digits: it must not begin like a width, nor hold what separates fields."""
    return f"~{nonce}~"


def jobs(text: str, mark: str, tally: Tally) -> Iterator[Queued]:
    """The jobs in an answer to `question(mark)`. Raises Unreadable, before anything is given, where it is none."""
    *values, rest = clean_text(text).split(mark)
    if rest.strip() or len(values) % len(FIELDS):
        raise Unreadable("not the fields that squeue was asked for: it needs Slurm 20.02 or later")
    return filter(None, (_queued(values[at : at + len(FIELDS)], tally) for at in range(0, len(values), len(FIELDS))))


def _queued(values: list[str], tally: Tally) -> Queued | None:
    told = dict(zip(FIELDS, map(str.strip, values), strict=True))
    if not is_job_id(told["JobID"]):
        tally.unparsed += 1
        return None
    state = job_state(told["State"])
    if not state:
        tally.unparsed += 1
        tally.note(f"job state not known: {told['State'][:40]}")
    exit_code, nodes = _exit(told["exit_code"]), told["NodeList"]
    job = Job(
        id=told["JobID"],
        state=state,
        attempt=_number(told["RestartCnt"]),
        exit=exit_code,
        nodes=nodes,
        start=_utc(told["StartTime"]),
        end=_utc(told["EndTime"]),
        name=struck(" ".join(told["Name"].split()))[:200],
        user=told["UserName"][:64],
        exclusive=told["OverSubscribe"] in ("NO", "EXCLUSIVE"),
        text=f"JobId={told['JobID']} JobState={state} NodeList={nodes[:200]} ExitCode={exit_code}",
    )
    requeue = told["Requeue"] == "1" and told["BatchFlag"] == "1"
    return Queued(job, _number(told["NumTasks"]), _number(told["NTPerNode"]), requeue)


def _number(text: str) -> int:
    number = int(text) if len(text) < 9 and text.isascii() and text.isdigit() else 0
    return number if number < _MAX_NUMBER else 0


def _exit(text: str) -> str:
    """`code:signal` of a wait status."""
    if not (len(text) < 7 and text.isascii() and text.isdigit()):
        return text if ":" in text else ""
    return f"{int(text) >> 8 & 255}:{int(text) & 127}"


@lru_cache(1 << 14)
def _utc(text: str) -> Stamp:
    """The program is asked with TZ=UTC: its local time is UTC."""
    at_ms = resolve(stamps.iso(text))
    return NO_STAMP if at_ms is None else stamps.absolute(at_ms)
