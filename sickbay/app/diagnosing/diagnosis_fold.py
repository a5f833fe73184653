"""Diagnosis as a function of the log: records in, looks out, and nothing else decides what a look says.

Log time goes in steps of a second. The look at T sees the events and steps that were appended by T, the windows that
telemetry's clock closes by T, and the facts that were appended a second before. So a look comes when all of that is
there: whatever the order and the batches of reading, after a crash, on a standby, or from an archive, it says the same.
What a look puts out stands with its time, and is suppressed by that: everything up to the committed time was said.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from diagnosis.case import Case
from sickbay import selfmetrics
from sickbay.admission import Admission
from sickbay.app.diagnosing.diagnosis_inputs import SIDE_MARGIN_MS, Inputs
from sickbay.app.diagnosing.diagnosis_state import Memory, task_of
from sickbay.app.diagnosing.horizon import HORIZON_MS, Horizon
from sickbay.app.diagnosing.judge import Judge
from sickbay.app.diagnosing.task_read import Stand, TaskRead
from sickbay.app.diagnosing.window_clocks import WindowClocks
from sickbay.app.diagnosing.wishes import wish
from sickbay.log import Output, Position, Record, Task, tasks_of
from sickbay.messages import Incident
from sickbay.selfmetrics import SelfMetrics
from sickbay.sequences import Sequences
from sickbay.topics import CHANGES, CONTROL, EVENTS, FEATURES, PLACEMENT, STEPS, TELEMETRY, TOPOLOGY, Topic
from streams.dead_letters import reason_of
from streams.feature_record import decode_clock, is_clock
from streams.open_windows import LATENESS_MS
from streams.windows import WIDTH_MS

WATCHED = (FEATURES, EVENTS, STEPS)  # driving: their partitions are ticked
KEPT = (TOPOLOGY, PLACEMENT, CHANGES, CONTROL)  # compacted: read whole at every start

STEP_MS = 1_000  # of log time between two looks, where they are worth it
BEAT_MS = 5_000  # between two heartbeats
PATIENCE_MS = 30_000  # a look waits so long for its windows, by the log's time; then it goes on without any
NEAR_MS = 5_000  # windows that were left out are waited for again once they are as near
BOUND_MS = 10_000  # how often what is old is let go where nothing is looked at


class Look(NamedTuple):
    """What one moment of log time gave: records to put out, and the incidents that are new or changed."""

    at_ms: int
    outputs: tuple[Output, ...] = ()
    changed: tuple[Incident, ...] = ()


class Windows(NamedTuple):
    """Which windows a look sees: none where they are `behind`. `told_ms`: up to when everything was read."""

    frontier_ms: int
    told_ms: int
    behind: bool


class DiagnosisFold:
    """The fold. Give it every record of its topics (`take`), and tell it what is complete; then ask for `looks`.

    It looks at nothing before `begin`, which says from where on; until then it only remembers (`follow`).
    """

    def __init__(
        self,
        topics: Mapping[str, Topic],
        lang: str = "en",
        *,
        admission: Admission | None = None,
        metrics: SelfMetrics | None = None,
        say: Callable[[str], None] = lambda text: None,
        window_ms: int = WIDTH_MS,
        lateness_ms: int = LATENESS_MS,
    ) -> None:
        self._admission, self._metrics = admission or Admission(), metrics or SelfMetrics()
        self._window_ms, self._lateness_ms = window_ms, lateness_ms
        self.horizon, self._sequences = Horizon(window_ms=window_ms), Sequences()
        self.judge = Judge(lang, self._metrics, say, task_of(topics))
        self.inputs = Inputs(tasks_of(topics, WATCHED), tasks_of(topics, KEPT))
        self.clocks = WindowClocks(topics[FEATURES].partitions, topics[TELEMETRY].partitions)
        self.read = {task: TaskRead() for task in (*tasks_of(topics, WATCHED), *tasks_of(topics, KEPT))}
        self.at_ms = 0  # everything up to here is taken in, and said or known to be
        self.waits = ""  # what the next look waits for
        self.damaged = 0
        self.behind = True
        self._windows_ms = 0  # of the newest look
        self._until_ms = self._bound_ms = 0
        self._leads = False

    def take(self, record: Record) -> None:
        """One more record, in the order of its task. Windows are kept at once: their clocks decide who sees them."""
        if record.topic == FEATURES and not record.is_tick:
            record = self._window(record)
        self.inputs.add(record)

    def _window(self, record: Record) -> Record:
        """What of a window's record waits for its moment: the time that it carries; all of it where it is damaged."""
        try:
            if is_clock(record.key):
                self.clocks.heard(record.partition, record.append_ms, decode_clock(record.value or b""))
            else:
                self.horizon.take(record)
        except Exception:  # told as a letter when its moment comes
            return record
        return record._replace(key=b"", value=b"")

    def follow(self, at_ms: int) -> None:
        """Somebody else judged everything up to here."""
        self._until_ms = max(self._until_ms, at_ms)
        self._pass()

    def begin(self, stand: Stand, memory: Memory) -> None:
        """From what was committed on, looks are this one's."""
        self._until_ms = max(self._until_ms, stand.frontier_ms)
        self.clocks.floor_ms, self._windows_ms = max(self.clocks.floor_ms, stand.told_ms), stand.windows_ms
        self.behind, self.judge.sound = stand.behind, not stand.failed
        self.judge.begin(memory)
        self._leads = True

    @property
    def until_ms(self) -> int:
        """Up to here all was said before: there are no looks until then."""
        return self._until_ms

    @property
    def stand(self) -> Stand:
        """What a commit keeps."""
        return Stand(
            frontier_ms=self.at_ms, windows_ms=self._windows_ms, told_ms=self.clocks.floor_ms,
            behind=self.behind, failed=not self.judge.sound,
        )  # fmt: skip

    def positions(self) -> dict[Task, Position]:
        """Of the driving tasks of which something was judged since they were `kept`; of one at least."""
        driving = {task: self.read[task] for task in self.inputs.clocks}
        news = {task: state for task, state in driving.items() if state.end is not None}
        stand, first = self.stand, min(driving)
        return {task: state.position(stand) for task, state in (news or {first: driving[first]}).items()}

    def kept(self) -> None:
        """The positions are committed."""
        for state in self.read.values():
            state.kept()

    def looks(self) -> Iterator[Look]:
        """What every further moment gives, as far as its inputs are complete."""
        self._pass()
        while self._leads and self.at_ms and self.at_ms >= self._until_ms:
            at_ms = self.at_ms // STEP_MS * STEP_MS + STEP_MS
            windows = self._windows(at_ms)
            if windows is None:
                return
            yield self._look(at_ms, windows)

    def _pass(self) -> None:
        """Takes in what was judged before, silently."""
        if not self.at_ms and not self._begun():
            return
        reach_ms = min(self._until_ms, self.inputs.driven_ms - 1, self.inputs.facts_ms + SIDE_MARGIN_MS)
        if reach_ms > self.at_ms:
            self._take_in(reach_ms, None)
            self.at_ms = reach_ms
            self.horizon.passed(reach_ms)
            self.clocks.by(reach_ms)
            if reach_ms - self._bound_ms >= BOUND_MS:
                self._bound()
        if self.at_ms < self._until_ms:
            self.waits = "what was judged before"

    def _begun(self) -> bool:
        """Where nothing was ever judged it begins with the first record of all."""
        if not self.inputs.driven_ms or self.inputs.first_ms is None:
            self.waits = "the first record of every partition"
            return False
        self.at_ms = self.inputs.first_ms // STEP_MS * STEP_MS - STEP_MS
        return True

    def _windows(self, at_ms: int) -> Windows | None:
        """Which windows the look at a moment sees; None where that cannot be told yet, or other inputs lack."""
        self.waits = ""
        if self.inputs.driven_ms <= at_ms or self.inputs.facts_ms < at_ms - SIDE_MARGIN_MS:
            self.waits = "events" if self.inputs.driven_ms <= at_ms else "facts"
            return None
        told_ms = self.clocks.by(at_ms)
        if self.behind and told_ms < at_ms - NEAR_MS:
            return Windows(0, told_ms, True)
        in_time = self._in_time(at_ms)
        if in_time is None:
            self.waits = "windows"
            return None
        if not in_time:
            return Windows(0, told_ms, True)
        return Windows((at_ms - self._lateness_ms) // self._window_ms * self._window_ms, at_ms, False)

    def _in_time(self, at_ms: int) -> bool | None:
        """Whether all windows that close by a moment were told in time; None: they may still be."""
        waits = False
        for task, clock_ms in self.inputs.clocks.items():
            if task.topic != FEATURES:
                continue
            since_ms = self.clocks.since(task.partition, at_ms)
            if (clock_ms if since_ms is None else since_ms) > at_ms + PATIENCE_MS:
                return False
            waits |= since_ms is None
        return None if waits else True

    def _look(self, at_ms: int, windows: Windows) -> Look:
        outputs: list[Output] = []
        urgent = self._take_in(at_ms, outputs)
        self.at_ms, self.behind = at_ms, windows.behind
        changed: list[Incident] = []
        if urgent or windows.frontier_ms > self._windows_ms or self.horizon.due(at_ms):
            case = self._case(at_ms, windows.frontier_ms)
            changed = self.judge.look(case, outputs) if case else []
            self._windows_ms = max(self._windows_ms, windows.frontier_ms)
        if (changed or at_ms % BEAT_MS == 0) and windows.told_ms and self.judge.sound:
            outputs.append(self.judge.beat(windows.told_ms, behind=windows.behind))
        if at_ms % BOUND_MS == 0:
            self._bound()
        return Look(at_ms, tuple(outputs), tuple(changed))

    def _bound(self) -> None:
        """Where nothing is looked at, memory has an end, too, and facts do not heap up."""
        self._bound_ms = self.at_ms
        self.horizon.bound(self.at_ms - HORIZON_MS)
        try:
            self.horizon.settle()
        except Exception as error:
            self.judge.failed(error)

    def _case(self, at_ms: int, frontier_ms: int) -> Case | None:
        """The case of a moment; None where something that was let in spoils it: it would be read again and again, and a
        process that died of it would do so again and again."""
        before_ms, parts = at_ms - HORIZON_MS, self.judge.parts
        try:
            case = self.horizon.case(at_ms, before_ms=before_ms, frontier_ms=frontier_ms, parts=parts)
        except Exception as error:
            self.judge.failed(error)
            return None
        self._metrics.set(selfmetrics.MESSAGES_DROPPED, float(self.horizon.dropped))
        self._metrics.set(selfmetrics.STEPS_FOLDED, float(self.horizon.steps.left_out))
        self._metrics.set(selfmetrics.STEPS_LATE, float(self.horizon.steps.late))
        self._metrics.set(selfmetrics.WINDOWS_CUT, float(self.horizon.windows.cut))
        return case

    def _take_in(self, at_ms: int, outputs: list[Output] | None) -> bool:
        """What was appended by then, in order. True where it is worth a look at once. `outputs` None: it was said."""
        urgent = False
        for record in self.inputs.until(at_ms):
            state = self.read[record.task]
            state.heard(record)
            if record.is_tick:
                continue
            try:
                urgent |= self._one(record, outputs)
            except Exception as error:
                self.damaged += 1
                letter = state.letters.letter(record, reason_of(error))
                if outputs is not None:
                    self._metrics.count(selfmetrics.DEAD_LETTERS, topic=record.topic, reason=type(error).__name__)
                    outputs += [letter] if letter else []
        return urgent

    def _one(self, record: Record, outputs: list[Output] | None) -> bool:
        if record.topic == FEATURES:
            decode_clock(record.value or b"") if is_clock(record.key) else self.horizon.take(record)
            return False
        if not record.value or record.topic == CONTROL:
            return self.horizon.take(record)
        told = self._admission.message(record)
        if told.seal is not None:
            place = self._sequences.place(record.topic, told.seal.host, told.seal.incarnation, told.seal.sequence)
            if outputs is not None and (place.missed or place.found or not place.fresh):  # each count takes its time
                self._metrics.count(selfmetrics.LOG_MISSED, place.missed, topic=record.topic)
                self._metrics.count(selfmetrics.LOG_FOUND, place.found, topic=record.topic)
                self._metrics.count(selfmetrics.LOG_DUPLICATE, not place.fresh, topic=record.topic)
            if not place.fresh:
                return False
        if outputs is not None and (said := wish(told.message, record.append_ms)):
            outputs.append(said)
        return self.horizon.take(record, told.message)
