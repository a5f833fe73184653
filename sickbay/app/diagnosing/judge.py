"""Judging for the live stage: from a case to records of evidence and incidents, each told once, and the heartbeat."""

from collections import deque
from collections.abc import Callable, Iterable

from polars.exceptions import PanicException

from diagnosis.case import Case, Detector
from diagnosis.engine import advanced, detectors
from diagnosis.lasting import parts_of
from remediation.plan import planned
from remediation.verbs import verbs
from sickbay import actions, messages, selfmetrics
from sickbay.actions import JUDGED_KEY, Judged
from sickbay.app.diagnosing.diagnosis_state import Memory, of_claims, of_incidents, without_claims
from sickbay.components import Name
from sickbay.log import Output, Task
from sickbay.messages import Evidence, Incident, newest_sign_ms
from sickbay.selfmetrics import SelfMetrics
from sickbay.topics import EVIDENCE, INCIDENTS, STATE, TOPICS
from sickbay.trouble import Trouble

SIGN_MS = 10_000  # signs of an open incident that come closer together are told once
KNOWN_MS = 2 * 3_600_000  # how long the id of a claim is known after it was noted: some horizons
AGAIN_MS = KNOWN_MS // 8  # a claim that goes on is noted again after so long
CLOSED_MS = 24 * 3_600_000  # an incident that is over is remembered so long after its last sign

MOST_TOLD = 500  # characters of an error
MOST_OPEN = 50_000  # incidents that a heartbeat names: what the topic takes. Nobody acts on what it does not name

_STATE = Task(STATE, TOPICS[STATE].partitions - 1)


class Judge:
    """What has been said so far, so that only what is new is said again."""

    def __init__(
        self,
        lang: str = "en",
        metrics: SelfMetrics | None = None,
        say: Callable[[str], None] = lambda text: None,
        state: Task = _STATE,
    ) -> None:
        self._lang, self._metrics, self._say, self._state = lang, metrics or SelfMetrics(), say, state
        self._detectors = {name: self._guarded(name, detector) for name, detector in detectors().items()}
        self.looks = 0
        self.sound = True  # the newest look was
        self.trouble = ""  # why it was not
        self.begin(Memory())

    def begin(self, memory: Memory) -> None:
        """Goes on from what was said and judged before."""
        self.incidents, self._bare = memory.told, memory.bare  # with and without plans
        self._known = dict(memory.known)  # id of a claim that was put out: when that was noted
        self._noted = deque(sorted(memory.noted.items()))  # when so many were

    @property
    def parts(self) -> frozenset[Name]:
        """What open incidents rest on, whose rows the next look needs."""
        return parts_of(self._bare)

    def look(self, case: Case, outputs: list[Output]) -> list[Incident]:
        """Judges a case. Adds what is new to `outputs`; returns the incidents that are new or changed."""
        self.looks += 1
        now_ms = case.now_ms or 0
        before, bare_before = {one.id: one for one in self.incidents}, {one.id: one for one in self._bare}
        try:
            bare, claims = advanced(self._bare, case, self._lang, self._detectors)
            bare = tuple(one for one in bare if one.state == "open" or _last_ms(one) >= now_ms - CLOSED_MS)
            incidents = planned(bare, case, self._lang)
        except (
            Exception,
            PanicException,
        ) as error:  # one of all: a detector's own is kept apart
            self.failed(error)
            return []
        self._bare, self.incidents, self.sound, self.trouble = bare, incidents, True, ""
        outputs += self._new_claims(claims, now_ms)
        changed = [one for one in incidents if _word(before.get(one.id)) != _word(one)]
        outputs += [
            Output(INCIDENTS, one.id.encode(), messages.encode(one))
            for one in incidents
            if _record(before.get(one.id)) != _record(one)
        ]
        outputs += of_incidents(bare_before, bare, self._state)
        self._tell([one for one in changed if one.id not in before], now_ms)
        return changed

    def failed(self, error: BaseException) -> None:
        """This look came to nothing: no heartbeat says that all is well, and the next one may."""
        self._metrics.count(selfmetrics.DETECTOR_ERRORS, detector="judge")
        self.sound, self.trouble = False, f"cannot judge: {type(error).__name__}: {error}"[:MOST_TOLD]
        self._say(f"diagnosis: {self.trouble}")

    def _new_claims(self, claims: Iterable[Evidence], now_ms: int) -> list[Output]:
        found, noted = list[Output](), list[str]()
        for one in claims:
            at_ms = self._known.get(one.id)
            if at_ms is None or at_ms < now_ms - KNOWN_MS:
                found.append(Output(EVIDENCE, one.id.encode(), messages.encode(one)))
                self._metrics.count(selfmetrics.CLAIMS_MADE, detector=one.detector)
            elif at_ms >= now_ms - AGAIN_MS:
                continue
            self._known[one.id] = now_ms
            noted.append(one.id)
        return found + self._written(noted, now_ms)

    def _written(self, noted: list[str], now_ms: int) -> list[Output]:
        """The state of claims: those that were noted now, without those of long ago."""
        outputs: list[Output] = []
        if noted:
            self._noted.append((now_ms, len(noted)))
            outputs += of_claims(noted, now_ms, self._state)
        before = len(self._noted)
        while self._noted and self._noted[0][0] < now_ms - KNOWN_MS:
            outputs += without_claims(*self._noted.popleft(), self._state)
        if len(self._noted) < before:
            self._known = {id_: at for id_, at in self._known.items() if at >= now_ms - KNOWN_MS}
        return outputs

    def _tell(self, fresh: Iterable[Incident], now_ms: int) -> None:
        for one in fresh:
            if one.onset_ms is not None:
                after_s = max(0.0, (now_ms - one.onset_ms) / 1000)
                self._metrics.observe(selfmetrics.ONSET_TO_INCIDENT, after_s, verdict=one.verdict)
        standing: dict[tuple[str, ...], float] = {}
        for one in self.incidents:
            standing[(one.verdict,)] = standing.get((one.verdict,), 0.0) + (one.state == "open")
        self._metrics.tell(selfmetrics.INCIDENTS_OPEN, standing)

    def beat(self, as_of_ms: int, *, behind: bool) -> Output:
        """The heartbeat."""
        standing = tuple(one.id for one in self.incidents if one.state == "open")[-MOST_OPEN:]
        return Output(INCIDENTS, JUDGED_KEY, actions.encode(Judged(as_of_ms=as_of_ms, open=standing, behind=behind)))

    def _guarded(self, name: str, detector: Detector) -> Detector:
        """A detector that fails takes nobody with it."""

        trouble = Trouble(f"diagnosis: detector {name} fails", self._say)

        def guarded(case: Case) -> Iterable[Evidence]:
            try:
                found = list(detector(case))
                trouble.over()
                return found
            except (Exception, PanicException) as error:
                self._metrics.count(selfmetrics.DETECTOR_ERRORS, detector=name)
                trouble.failed(error)
                return []

        return guarded


def _word(incident: Incident | None) -> tuple[object, ...]:
    """What people would want to be told of again."""
    if incident is None:
        return ()
    return incident.verdict, incident.component, incident.fault, incident.action, incident.state


def _record(incident: Incident | None) -> tuple[object, ...]:
    """What a change of must go into the log: the word, what remediation acts on, and what all of it rests on."""
    if incident is None:
        return ()
    sure = tuple(incident.probability >= verbs()[step.do].least_p for step in incident.plan)
    sign = (newest_sign_ms(incident) or 0) // SIGN_MS
    rests_on = {(one.component, one.fault, one.says) for one in incident.evidence}
    return (*_word(incident), incident.plan, sure, incident.affected.jobs, incident.merged_into, sign, rests_on)


def _last_ms(incident: Incident) -> int:
    """Its last sign."""
    told = (at for one in incident.evidence for at in (one.window_end_ms, one.onset_to_ms, one.onset_from_ms) if at)
    return max(told, default=incident.detected_ms or 0)
