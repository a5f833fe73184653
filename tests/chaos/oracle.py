"""What the log must hold, computed in one pass from what was put into it: no crash, no batch, no second process.

Inputs are read from the log after the end. Every stage is judged up to where it committed: features from telemetry and
the facts alone; what diagnosis says from events, steps, facts and windows; claims of single events; dead letters;
state; rows of the archive. Features are also computed by plain loops that share no code with the windows.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from sickbay.admission import Admission
from sickbay.app.diagnosing.diagnoser import GROUP, newest
from sickbay.app.diagnosing.diagnosis_fold import KEPT, WATCHED, DiagnosisFold
from sickbay.app.diagnosing.diagnosis_state import Memory
from sickbay.app.diagnosing.explicit import GROUP as EXPLICIT
from sickbay.app.diagnosing.explicit import explicit_maker
from sickbay.app.diagnosing.task_read import Stand
from sickbay.app.running.live import WINDOWS_GROUP, FrameReader
from sickbay.log import Log, LogBusy, Output, Position, Record, Task, tasks_of
from sickbay.log.reading import records
from sickbay.messages import Edge, Placement
from sickbay.topics import (
    CONTROL,
    DEADLETTER,
    EVENTS,
    EVIDENCE,
    FEATURES,
    INCIDENTS,
    PLACEMENT,
    STATE,
    TELEMETRY,
    TOPOLOGY,
)
from streams.dead_letters import DeadLetters, reason_of
from streams.feature_record import is_clock
from streams.runner import Mark, TaskProcessor
from streams.side_inputs import Facts, Told, Versions
from streams.window_task import WindowTask
from tests.chaos.site import LATENESS_MS, WIDTH_MS

Pair: TypeAlias = tuple[bytes, bytes | None]
PATIENCE_S = 60.0
T = TypeVar("T")
Place: TypeAlias = tuple[int, int]  # features partition, upstream partition


@dataclass
class Words:
    """What stages put out. `single`: claims of single events, at least and at most so often each."""

    features: dict[Place, list[Pair]] = field(default_factory=lambda: defaultdict(list))
    state: dict[bytes, list[bytes | None]] = field(default_factory=lambda: defaultdict(list))
    letters: Counter[Pair] = field(default_factory=Counter)
    evidence: list[Pair] = field(default_factory=list)
    incidents: list[Pair] = field(default_factory=list)
    control: list[Pair] = field(default_factory=list)
    single: tuple[Counter[Pair], Counter[Pair]] = field(default_factory=lambda: (Counter(), Counter()))
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, outputs: Iterable[Output | Record]) -> None:
        """Sorts them by topic."""
        for one in outputs:
            pair = one.key, one.value
            match one.topic:
                case "sickbay.features.v1":
                    self.features[one.partition or 0, int(one.key.rpartition(b"/")[2])].append(pair)
                case "sickbay.state.v1":
                    self.state[one.key].append(one.value)
                case "sickbay.deadletter.v1":
                    self.letters[pair] += 1
                case "sickbay.evidence.v1":
                    self.evidence.append(pair)
                case "sickbay.incidents.v1":
                    self.incidents.append(pair)
                case "sickbay.control.v1":
                    self.control.append(pair)


def everything(log: Log, *topics: str) -> Iterator[Record]:
    """All records of the topics, task by task."""
    for task in tasks_of(log.topics, topics):
        yield from whole(log, task)


def whole(log: Log, task: Task) -> list[Record]:
    """All records of a task, by one who has patience with a broker that is as busy as the machine."""
    return _patiently(lambda: list(records(log.reader(), task)))


def _patiently(ask: Callable[[], T]) -> T:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except LogBusy:
            if time.monotonic() > until:
                raise


def written(log: Log) -> Words:
    """What the log does hold."""
    words = Words()
    outputs = (FEATURES, STATE, DEADLETTER, EVIDENCE, INCIDENTS, CONTROL)
    words.add(one for one in everything(log, *outputs) if not one.is_tick)
    return words


def positions(log: Log, group: str, topics: Sequence[str]) -> dict[Task, Position]:
    """How far a group came, of those tasks that it ever committed."""
    return _patiently(lambda: log.reader().positions(group, tasks_of(log.topics, topics)))


def expected(log: Log, admission: Admission) -> Words:
    """What it must hold."""
    words = Words()
    _windows(log, admission, words)
    _diagnosis(log, admission, words)
    _explicit(log, admission, words)
    return words


def _upto(log: Log, task: Task, end: int) -> Iterator[Record]:
    return (record for record in whole(log, task) if record.offset < end)


def _folded(processor: TaskProcessor, told: Iterable[Record], letters: bool = True) -> Iterator[Output]:
    """As a runner that never fails folds: what cannot be used is a letter, and still carries time."""
    own = DeadLetters()
    for record in told:
        try:
            yield from processor.take(record)
        except ValueError as error:
            letter = own.letter(record, reason_of(error))
            yield from [letter] if letter and letters else []
            yield from processor.take(record._replace(key=b"", value=b""))


class Known:
    """Side inputs that were all read before."""

    def __init__(self, log: Log, admission: Admission) -> None:
        self.versions = Versions()
        for record in everything(log, PLACEMENT, TOPOLOGY):
            message = admission.message(record).message
            assert isinstance(message, Placement | Edge)
            self.versions.add(Told(record.append_ms, record.key, message))

    def at(self, cutoff_ms: int, clock_ms: int) -> Facts:
        """Everything by then."""
        return self.versions.at(cutoff_ms)

    def known(self, cutoff_ms: int) -> Facts:
        """The same."""
        return self.versions.at(cutoff_ms)


def _windows(log: Log, admission: Admission, words: Words) -> None:
    decode, sides = FrameReader(log, admission), Known(log, admission)
    for task, position in positions(log, WINDOWS_GROUP, [TELEMETRY]).items():
        made = WindowTask(
            task, Mark(), decode, sides=sides, width_ms=WIDTH_MS, lateness_ms=LATENESS_MS,
            partitions=log.topics[FEATURES].partitions,
        )  # fmt: skip
        words.add(_folded(made, _upto(log, task, position.offset)))
        for (what, _), count in made.counts.items():
            words.counts[what] += count


def fold(log: Log, admission: Admission) -> DiagnosisFold:
    """Diagnosis with everything in it, from the beginning on."""
    made = DiagnosisFold(log.topics, admission=admission, window_ms=WIDTH_MS, lateness_ms=LATENESS_MS)
    for record in everything(log, *WATCHED, *KEPT):
        made.take(record)
    made.inputs.facts_ms = made.inputs.newest_ms
    made.begin(Stand(), Memory())
    return made


def _diagnosis(log: Log, admission: Admission, words: Words) -> None:
    stand = newest(positions(log, GROUP, WATCHED).values())
    made = fold(log, admission)
    for look in made.looks():
        if look.at_ms > stand.frontier_ms:
            break
        words.add(look.outputs)
        words.counts["looks"] += 1
        words.counts["behind"] += made.behind
    words.counts["damaged"] = made.damaged


def _explicit(log: Log, admission: Admission, words: Words) -> None:
    """A repeated event is told once by one who remembers it, and again by one who began after it."""
    make = explicit_maker(admission)
    for task, position in positions(log, EXPLICIT, [EVENTS]).items():
        told = list(_upto(log, task, position.offset))
        once = _folded(make(task, Mark()), told)
        each = (output for record in told for output in _folded(make(task, Mark()), [record]))
        for counter, outputs in zip(words.single, (once, each), strict=True):
            counter.update((one.key, one.value) for one in outputs)


class Difference(NamedTuple):
    """One thing that is not as it must be."""

    what: str
    says: str


def differences(found: Words, right: Words, *, clocks: bool = True) -> list[Difference]:
    """Everything that differs. `clocks` False: some may be missing, as side inputs could not be read for a while."""
    return [
        *_features(found.features, right.features, clocks=clocks),
        *_compacted("state", found.state, right.state),
        *_in_order("incidents", found.incidents, right.incidents),
        *_in_order("control", found.control, right.control),
        *_bounded("letter", found.letters, right.letters, right.letters),
        *_evidence(found, right),
    ]


def _features(
    found: Mapping[Place, list[Pair]], right: Mapping[Place, list[Pair]], *, clocks: bool
) -> Iterator[Difference]:
    for place in sorted({*found, *right}):
        mine, theirs = found.get(place, []), right.get(place, [])
        name = f"features[{place[0]}] of telemetry[{place[1]}]"
        if not clocks:
            known = set(theirs)
            missing = [one for one in mine if is_clock(one[0]) and one not in known]
            yield from (Difference(name, f"a clock that is none: {one!r}") for one in missing)
            mine, theirs = ([one for one in pairs if not is_clock(one[0])] for pairs in (mine, theirs))
        yield from _in_order(name, mine, theirs)


def _compacted(
    what: str, found: Mapping[bytes, list[bytes | None]], right: Mapping[bytes, list[bytes | None]]
) -> Iterator[Difference]:
    """Of a compacted topic the newest record of a key counts; older ones may be gone, and none may be a strange one."""
    for key in sorted({*found, *right}):
        mine, theirs = found.get(key, []), right.get(key, [])
        if (mine or [None])[-1:] != (theirs or [None])[-1:]:
            yield from _in_order(f"{what} {key!r}", mine[-1:], theirs[-1:])
        left = iter(theirs)
        if not all(one in left for one in mine):
            yield Difference(f"{what} {key!r}", f"one of {len(mine)} records is not the oracle's, or stands twice")


def _in_order(what: str, found: Sequence[object], right: Sequence[object]) -> Iterator[Difference]:
    if found == right:
        return
    at = next(
        (at for at, pair in enumerate(zip(found, right, strict=False)) if pair[0] != pair[1]),
        min(len(found), len(right)),
    )
    mine = repr(found[at])[:600] if at < len(found) else "nothing"
    theirs = repr(right[at])[:600] if at < len(right) else "nothing"
    yield Difference(what, f"{len(found)} records, not {len(right)}; number {at} is\n  {mine}\nnot\n  {theirs}")


def _bounded(what: str, found: Counter[Pair], least: Counter[Pair], most: Counter[Pair]) -> Iterator[Difference]:
    for pair in {*found, *least}:
        if not least[pair] <= found[pair] <= most[pair]:
            yield Difference(what, f"{found[pair]} times, not {least[pair]} to {most[pair]}: {pair!r}"[:900])


def _evidence(found: Words, right: Words) -> Iterator[Difference]:
    """Claims of diagnosis in their order, each once; between them those of single events."""
    once, each = right.single
    of_diagnosis = Counter(right.evidence)
    yield from _bounded("claim", Counter(found.evidence), once + of_diagnosis, each + of_diagnosis)
    own = [pair for pair in found.evidence if pair in of_diagnosis and pair not in each]
    yield from _in_order("claims of diagnosis", own, [pair for pair in right.evidence if pair not in each])
