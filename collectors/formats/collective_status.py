"""The state of a job's communicators as NCCL's RAS service tells it in JSON (2.28.7 and later; `SET FORMAT json`).

Counts are of collectives that a rank launched. That they differ is normal for a moment; it means something where they
differ and do not move: the lowest have not come, the highest wait. Ranks are those of each communicator: a rank of the
job is told only where one communicator holds every process that any other names.
Source: NCCL src/ras/client_support.cc.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from collectors.formats.events import event, rank_name
from sickbay.messages import Event, Progress

MAX_BYTES = 32 << 20
MOST_TOLD = 64  # ranks of each kind that are told of one communicator
MOST_MEMBERS = 512  # of a communicator whose members are told
NOBODY = "none"  # in place of a communicator's key: none holds all processes
_OF_PAIRS = ("Send", "Recv")
STALL_MS = 60_000  # that counts must differ and stand still
STARTING = "initialization: "
ERRORS = {1: "unhandled device error", 2: "system error", 3: "internal error", 4: "invalid argument",
          5: "invalid usage", 6: "remote process error"}  # fmt: skip # ncclResult_t; 7 is still in progress


class RankStatus(Struct, frozen=True):
    """A rank's own state."""

    init_state: int = 0
    async_error: int = 0
    abort_flag: bool = False
    unresponsive: bool = False
    considered_dead: bool = False


class Rank(Struct, frozen=True):
    """A rank of a communicator; `host` is an address."""

    rank: int
    host: str = ""
    pid: int = -1
    cuda_dev: int = -1
    status: RankStatus = RankStatus()
    collective_counts: dict[str, int] = {}

    @property
    def process(self) -> tuple[str, int, int]:
        """What is the same in all communicators."""
        return self.host, self.pid, self.cuda_dev


class Communicator(Struct, frozen=True):
    """A communicator."""

    hash: str
    size: int = 0
    ranks: list[Rank] = []
    missing_ranks: list[Rank] = []
    secondary_hash: str = ""

    @property
    def key(self) -> str:
        """Its name: the same on every host."""
        return f"{self.hash}:{self.secondary_hash}"[:120]


class Status(Struct, frozen=True):
    """One answer."""

    communicators: list[Communicator]
    nccl_version: str = ""
    whole: str = ""  # the communicator that holds all processes; empty: to be found by its members
    nodes: int = 0  # 0: not told


class Still(NamedTuple):
    """A communicator's counts, since when they stand still, and whether that was told."""

    counts: tuple[tuple[int, int], ...]
    since_ms: int
    told: bool = False


class Standing(NamedTuple):
    """What is remembered between two answers. `said`: what was told of ranks."""

    still: Mapping[str, Still] = {}
    said: frozenset[tuple[str, int, str]] = frozenset()


def status(raw: bytes) -> Status:
    """An answer. Raises ValueError for what is none."""
    if len(raw) > MAX_BYTES:
        raise ValueError(f"an answer of more than {MAX_BYTES >> 20} MiB")
    try:
        return msgspec.json.decode(raw, type=Status)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def world(told: Status) -> dict[tuple[str, int, int], int]:
    """The rank of each process in the job; empty where no communicator holds them all, each once."""
    if told.whole:
        return {
            one.process: one.rank
            for comm in told.communicators
            if comm.key == told.whole
            for one in (*comm.ranks, *comm.missing_ranks)
        }
    every = {one.process for comm in told.communicators for one in (*comm.ranks, *comm.missing_ranks)}
    for comm in sorted(told.communicators, key=lambda one: -one.size):
        members = [*comm.ranks, *comm.missing_ranks]
        found = {one.process: one.rank for one in members}
        if len(found) == len(members) == comm.size and every <= set(found):
            return found
    return {}


def news(before: Standing, told: Status, now_ms: int) -> tuple[Standing, list[Event | Progress]]:
    """The state after an answer, and what is to be told: stalls once each, errors and lost ranks once each."""
    of_job = world(told)
    still: dict[str, Still] = {}
    said: set[tuple[str, int, str]] = set()
    found: list[Event | Progress] = []
    for comm in told.communicators:
        counts = tuple(sorted((one.rank, _launched(one)) for one in comm.ranks))
        known = before.still.get(comm.key)
        now = known if known and known.counts == counts else Still(counts, now_ms)
        stalled = now_ms - now.since_ms >= STALL_MS
        if stalled and not now.told:
            told_now = list(_stall(comm, of_job, now.since_ms))
            found += told_now
            now = now._replace(told=bool(told_now))
        still[comm.key] = now
        for one, code in _complaints(comm):
            key = (comm.key, one.rank if one.rank >= 0 else -1 - one.pid, code)
            said.add(key)
            if key not in before.said:
                found.append(_complaint(comm, one, code, of_job, now_ms))
    return Standing(still, frozenset(said)), found


def _launched(one: Rank) -> int:
    """Collectives that all ranks of the communicator launch; sends and receives are of pairs."""
    return sum(count for op, count in one.collective_counts.items() if not op.startswith(_OF_PAIRS))


def _stall(comm: Communicator, of_job: Mapping[tuple[str, int, int], int], since_ms: int) -> Iterator[Progress]:
    """Who came, who did not; nothing where all came equally far, or where ranks of the job are not known."""
    counts = {one.rank: _launched(one) for one in comm.ranks}
    most = max(counts.values(), default=0)
    late = [one for one in comm.ranks if counts[one.rank] < most]
    lost = [one for one in comm.missing_ranks if one.status.considered_dead]
    if not (late or lost) or not of_job or not most:
        return
    waits = [one for one in comm.ranks if counts[one.rank] == most]
    members = [*comm.ranks, *comm.missing_ranks]
    ranks = tuple(sorted(of_job[one.process] for one in members)) if len(members) <= MOST_MEMBERS else ()
    op = _differing(comm.ranks)
    for state, some in (("entered", waits), ("", late), ("absent", lost)):
        for one in some[:MOST_TOLD]:
            seq = counts.get(one.rank, most)
            yield Progress(
                rank=of_job[one.process], group=comm.key, group_ranks=ranks, op=op, state=state, at_ms=since_ms,
                seq=-1 if state == "" else seq, last_enqueued=seq if state == "" else -1,
            )  # fmt: skip


def _differing(ranks: Iterable[Rank]) -> str:
    """The operation whose counts differ."""
    counts: dict[str, set[int]] = {}
    for one in ranks:
        for op, count in one.collective_counts.items():
            if op.startswith(_OF_PAIRS):
                continue
            counts.setdefault(op[:40], set()).add(count)
    return next((op for op, told in counts.items() if len(told) > 1), "")


def _complaints(comm: Communicator) -> Iterator[tuple[Rank, str]]:
    for one in comm.ranks[: 1 << 16]:
        if one.status.async_error in ERRORS:
            yield one, ERRORS[one.status.async_error]
        if one.status.init_state in ERRORS:
            yield one, f"{STARTING}{ERRORS[one.status.init_state]}"
    for one in comm.missing_ranks[: 1 << 16]:
        if one.status.considered_dead or one.status.unresponsive:
            yield one, "dead" if one.status.considered_dead else "unresponsive"


def _complaint(
    comm: Communicator, one: Rank, code: str, of_job: Mapping[tuple[str, int, int], int], now_ms: int
) -> Event:
    """A process that does not answer may have ended by order, one that did not begin may be called wrongly: notices."""
    lost = code in ("dead", "unresponsive") or code.startswith(STARTING)
    who = f"rank {one.rank} of {comm.size}" if one.rank >= 0 else f"process {one.pid} at {one.host}"
    facts = {"address": one.host, "pid": str(one.pid), "device": str(one.cuda_dev), "group": comm.key,
             "rank_in_group": str(one.rank)}  # fmt: skip
    kind = "rank.collective_notice" if lost else "rank.collective_error"
    return event(kind, rank_name(of_job.get(one.process, -1)), facts, code=code, at_ms=now_ms,
                 message=f"status service: {who}: {code}")  # fmt: skip
