"""The state of a job's communicators as NCCL's RAS service writes it for people (2.24 to 2.28): `VERBOSE STATUS`.

It names the ranks that stand out, not all of them: the others are those that are left where only one group of them is
not named. Where that is not so, or no communicator is as large as the job, nothing is said of who waits for whom.
A line that is not known here is no answer at all. Source: NCCL src/ras/client_support.cc, 2.24 and the newest.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.formats.collective_status import MAX_BYTES, NOBODY, Communicator, Rank, RankStatus, Status

BEGIN = b"NCCL version "
MOST_RANKS = 1 << 20  # of one communicator
TRIMMED = 900  # characters of a list of ranks, which older versions cut at about 1,000, also within a number
_ERRORS = {"Unhandled CUDA error": 1, "System error": 2, "Internal error": 3, "Invalid argument": 4,
           "Invalid usage": 5, "Remote process error": 6}  # fmt: skip
_GROUP = re.compile(r"^ {0,5}(\d{1,6}) +(\d{1,9}) +\d{1,9} +\d{1,9}(?:-\d{1,9})? +(\d{1,9}) +\d{1,9} +[A-Z]+ +[A-Z,]+$")
_BLOCK = re.compile(r"^#(\d{1,6})-(\d{1,9}) \(([0-9a-f]{1,16})\) (INCOMPLETE|ERROR|MISMATCH)$")
_OWN = r"GPU (\d{1,3})(?: \(NVML \d{1,3}\))? managed by process (-?\d{1,10}) on node (\S{1,64})"
_WHO = rf"(?:{_OWN}|\[process information not found\])"
_RANK = re.compile(rf"^  Rank (\d{{1,9}})(?: (reported|has) ([A-Za-z0-9 ]{{1,60}}))?(?: -- {_WHO})?$")
_PROCESS = re.compile(r"^  Process (\d{1,10}) on node (\S{1,64}) managing GPUs? (\d{1,3})[\d, ()NVML]{0,700}$")
_MISSING = re.compile(r"^  The (?:missing|unknown) ranks?: ([\d,]+)$")
_COUNTS = re.compile(r"^  Communicator ranks have different (\w{1,40}) operation counts$")
_REPORTED = re.compile(r"^  (\d{1,9}) ranks reported ([A-Za-z ]{1,40})$")
_LAUNCHED = re.compile(r"^(?:launched up to operation (\d{1,19})|not launched any operations)$")
_MANY = re.compile(r"^  (\d{1,9}) ranks have (launched up to operation \d{1,19}|not launched any operations)$")
_KNOWN = re.compile(  # what says nothing that another line does not
    r"^(?:=+|Errors|Warnings|TIMEOUT|No communicator data collected!|Group +Comms .*| +# +in group .*"
    r"|  (?:Missing communicator data from \d+ |Initialization errors? on |Asynchronous errors? on "
    r"|Encountered \d+ communication timeouts? |\d+ job process(?:es are| is) considered dead "
    r"|\[could not find information on |\d+ ranks have status "
    r"|Communicator ranks have different status$).{0,80})$"
)


class _Share(NamedTuple):
    """Ranks that launched equally many operations; those named of them."""

    operations: int
    size: int
    named: set[int]


@dataclass(slots=True)
class _Group:
    """What is known of one communicator."""

    hash: str
    size: int
    ranks: dict[int, Rank] = field(default_factory=dict)
    missing: dict[int, Rank] = field(default_factory=dict)
    shares: dict[str, list[_Share]] = field(default_factory=dict)


@dataclass(slots=True)
class _Read:
    """What has been read so far, and of what the next lines speak."""

    sizes: dict[int, int] = field(default_factory=dict)
    groups: dict[str, _Group] = field(default_factory=dict)
    lost: dict[tuple[str, int], Rank] = field(default_factory=dict)
    group: _Group | None = None
    about: str = ""  # INCOMPLETE, DEAD, ERROR, MISMATCH
    starting: bool = False  # of errors: those of the initialization
    error: int = 0
    op: str = ""
    share: _Share | None = None


def status(raw: bytes) -> Status:
    """An answer. Raises ValueError for what is none, or not understood."""
    if len(raw) > MAX_BYTES:
        raise ValueError(f"an answer of more than {MAX_BYTES >> 20} MiB")
    text = raw.decode("utf-8", "replace")
    head, found, tail = text.partition("\nCommunicators...")
    if not (raw.startswith(BEGIN) and found and "\nWarnings\n====" in tail):
        raise ValueError("not understood: no whole status")
    nodes, devices = _summary(head)
    read = _Read()
    for line in tail.partition("\n")[2].splitlines():
        if line.strip() and not _line(read, line.rstrip()):
            raise ValueError(f"not understood: {line.strip()[:120]!r}")
    whole = next((one for one in read.groups.values() if one.size == devices and one.shares), None)
    told = [_communicator(one, read, whole=one is whole) for one in read.groups.values()]
    told += [Communicator("process", missing_ranks=[one], secondary_hash=one.host) for one in _rankless(read)]
    key = next((one.key for one, group in zip(told, read.groups.values(), strict=False) if group is whole), NOBODY)
    return Status(told, head.splitlines()[0].split()[2][:40], key, nodes)


def _summary(head: str) -> tuple[int, int]:
    """How many nodes and devices the job has: the last row of numbers, of three or of five columns."""
    rows = [line.split() for line in head.splitlines() if re.fullmatch(r"[ \d]{10,80}", line)]
    if not rows or len(rows[-1]) not in (3, 5):
        raise ValueError("not understood: no job summary")
    return int(rows[-1][0]), int(rows[-1][-1])


def _line(read: _Read, line: str) -> bool:
    """Whether a line is understood."""
    if match := _GROUP.match(line):
        read.sizes[int(match[1])] = int(match[3])
    elif match := _BLOCK.match(line):
        size = read.sizes.get(int(match[1]), -1)
        read.group = read.groups.setdefault(f"{match[3]}-{match[2]}", _Group(f"0x{match[3].lstrip('0')}", size))
        read.about, read.share, read.starting = match[4], None, False
        return 0 <= size <= MOST_RANKS
    elif line in ("INCOMPLETE", "DEAD"):
        read.group, read.about = None, line
    elif match := _PROCESS.match(line):
        dead = read.about == "DEAD"
        lost = RankStatus(unresponsive=not dead, considered_dead=dead)
        read.lost[match[2], int(match[1])] = Rank(-1, match[2], int(match[1]), int(match[3]), lost)
    elif read.group is not None and line.startswith("  "):
        return _of_group(read, read.group, line)
    else:
        return _KNOWN.match(line) is not None
    return True


def _of_group(read: _Read, group: _Group, line: str) -> bool:
    if match := _COUNTS.match(line):
        read.op, read.share = match[1], None
        group.shares.setdefault(match[1], [])
    elif match := _MANY.match(line):
        read.share = _Share(_count(match[2]), int(match[1]), set())
        group.shares.setdefault(read.op, []).append(read.share)
    elif match := _REPORTED.match(line):
        read.error = _ERRORS.get(match[2], 0)
        return read.error > 0
    elif match := _MISSING.match(line):
        listed = [] if len(match[1]) > TRIMMED else [int(one) for one in match[1].split(",") if one and len(one) < 10]
        for number in listed if read.about == "INCOMPLETE" else ():
            group.missing.setdefault(number, Rank(number, status=RankStatus(unresponsive=True)))
    elif match := _RANK.match(line):
        return _rank(read, group, match)
    else:
        read.starting = line.startswith("  Initialization") or (read.starting and "Asynchronous" not in line)
        read.share = None if "status" in line else read.share
        return _KNOWN.match(line) is not None
    return True


def _rank(read: _Read, group: _Group, match: re.Match[str]) -> bool:
    number, verb, what = int(match[1]), match[2], match[3] or ""
    who = Rank(number, match[6] or "", int(match[5] or -1), int(match[4] or -1))
    if read.about == "INCOMPLETE":
        group.missing[number] = Rank(number, who.host, who.pid, who.cuda_dev, RankStatus(unresponsive=True))
        return verb is None
    if read.about == "ERROR":
        code = _ERRORS.get(what, 0) if verb == "reported" else read.error
        told = RankStatus(init_state=code) if read.starting else RankStatus(async_error=code)
        group.ranks[number] = Rank(number, who.host, who.pid, who.cuda_dev, told)
        return code > 0
    group.ranks.setdefault(number, who)
    if verb == "has" and _LAUNCHED.match(what):
        group.shares.setdefault(read.op, []).append(_Share(_count(what), 1, {number}))
        return True
    if read.share is not None and verb is None:
        read.share.named.add(number)
        return True
    return what.startswith("status ") or verb is None


def _count(words: str) -> int:
    match = _LAUNCHED.match(words)
    return int(match[1] or 0) if match else 0


def _communicator(group: _Group, read: _Read, *, whole: bool) -> Communicator:
    """As the other form tells it; `whole`: with all its ranks, those not named by a number that no process has."""
    counts = {op: _assigned(group, shares) for op, shares in group.shares.items()} if whole else {}
    known = bool(counts) and all(counts.values())
    numbers = sorted(set(range(group.size)) - set(group.missing)) if known else sorted(group.ranks)
    ranks = [
        Rank(one.rank, one.host, one.pid, one.cuda_dev, one.status, {op: told[number] for op, told in counts.items()})
        if known
        else one
        for number in numbers
        for one in [group.ranks.get(number, Rank(number, pid=-2 - number))]
    ]
    missing = [_dead(one, read) for one in group.missing.values()]
    return Communicator(group.hash, group.size, ranks, missing)


def _assigned(group: _Group, shares: Iterable[_Share]) -> dict[int, int]:
    """The count of each rank that answered; empty where the text leaves it open."""
    found = {number: one.operations for one in shares for number in one.named}
    left = set(range(group.size)) - set(group.missing) - set(found)
    open_ones = [one for one in shares if len(one.named) < one.size]
    if len(open_ones) > 1 or any(one.named for one in open_ones) or sum(one.size for one in open_ones) != len(left):
        return {}
    return found | dict.fromkeys(left, open_ones[0].operations if open_ones else 0)


def _dead(one: Rank, read: _Read) -> Rank:
    """A missing rank; dead where its process is."""
    process = read.lost.get((one.host, one.pid))
    dead = process is not None and process.status.considered_dead
    lost = RankStatus(unresponsive=not dead, considered_dead=dead)
    return Rank(one.rank, one.host, one.pid, one.cuda_dev, lost)


def _rankless(read: _Read) -> Iterator[Rank]:
    """Processes that are lost and that no communicator names."""
    named = {(one.host, one.pid) for group in read.groups.values() for one in group.missing.values()}
    return (one for key, one in read.lost.items() if key not in named)
