"""Judging for the live stage: from a case to records of evidence and incidents, each told once, and the heartbeat."""

from collections.abc import Callable, Iterable

from diagnosis.case import Case, Detector
from diagnosis.engine import advanced, detectors
from remediation.plan import planned
from remediation.verbs import verbs
from sickbay import actions, messages, selfmetrics
from sickbay.actions import JUDGED_KEY, Judged
from sickbay.app.incidents_topic import current
from sickbay.log import Output, Reader, Task
from sickbay.log.reading import records, since
from sickbay.messages import Evidence, Incident, newest_sign_ms
from sickbay.selfmetrics import SelfMetrics
from sickbay.topics import EVIDENCE, INCIDENTS
from sickbay.trouble import Trouble

BEAT_MS = 5_000  # of the log's clock, between two heartbeats
SIGN_MS = 10_000  # signs of an open incident that come closer together are told once
KNOWN_MS = 2 * 3_600_000  # how long the id of a claim is known after it was last made: some horizons


class Judge:
    """What has been said so far, so that only what is new is said again."""

    def __init__(self, reader: Reader, lang: str, metrics: SelfMetrics, say: Callable[[str], None]) -> None:
        self._reader, self._lang, self._metrics, self._say = reader, lang, metrics, say
        self._detectors = {name: self._guarded(name, detector) for name, detector in detectors().items()}
        self.looks = 0
        self.incidents: tuple[Incident, ...] = ()
        self._bare: tuple[Incident, ...] = ()  # without plans
        self._known: dict[str, int] = {}  # id of a claim that was put out: when it was last made
        self._beaten_ms = 0
        self._sound = True

    def recall(self) -> None:
        """Begins from what the log holds: incidents, and the claims of the last hours."""
        self.incidents = self._bare = tuple(current(self._reader)[0].values())
        self._known = {one.id: 2**62 for incident in self.incidents for one in (*incident.evidence, *incident.against)}
        self._beaten_ms = 0
        task = Task(EVIDENCE, 0)
        at = self._newest_ms(task)
        for record in records(self._reader, task, since(self._reader, task, at - KNOWN_MS)):
            if record.key and record.value:
                self._known[record.key.decode("utf-8", "replace")] = record.append_ms

    def _newest_ms(self, task: Task) -> int:
        bounds = self._reader.bounds(task)
        for back in (1, 8, 64):  # a transaction's marks may stand at the end
            if records := self._reader.read(task, max(bounds.begin, bounds.end - back), back):
                return records[-1].append_ms
        return 0

    def look(self, case: Case, outputs: list[Output]) -> list[Incident]:
        """Judges a case. Adds what is new to `outputs`; returns the incidents that are new or changed."""
        self.looks += 1
        before = {incident.id: incident for incident in self.incidents}
        try:
            bare, claims = advanced(self._bare, case, self._lang, self._detectors)
            incidents = planned(bare, case, self._lang)
        except Exception as error:  # a detector's own failure is kept apart before: this is one of all of us
            self._metrics.count(selfmetrics.DETECTOR_ERRORS, detector="judge")
            self._say(f"diagnosis: cannot judge: {type(error).__name__}: {error}")
            self._sound = False
            return []
        self._bare, self.incidents, self._sound = bare, incidents, True
        outputs += self._new_claims(claims, case.now_ms or 0)
        changed = [one for one in incidents if _word(before.get(one.id)) != _word(one)]
        outputs += [
            Output(INCIDENTS, one.id.encode(), messages.encode(one))
            for one in incidents
            if _record(before.get(one.id)) != _record(one)
        ]
        self._tell([one for one in changed if one.id not in before], case.now_ms or 0)
        return changed

    def _new_claims(self, claims: Iterable[Evidence], now_ms: int) -> list[Output]:
        found = []
        for one in claims:
            if one.id not in self._known:
                found.append(Output(EVIDENCE, one.id.encode(), messages.encode(one)))
                self._metrics.count(selfmetrics.CLAIMS_MADE, detector=one.detector)
            self._known[one.id] = now_ms
        self._known = {id_: at for id_, at in self._known.items() if at >= now_ms - KNOWN_MS}
        return found

    def _tell(self, fresh: Iterable[Incident], now_ms: int) -> None:
        for one in fresh:
            if one.onset_ms is not None:
                after_s = max(0.0, (now_ms - one.onset_ms) / 1000)
                self._metrics.observe(selfmetrics.ONSET_TO_INCIDENT, after_s, verdict=one.verdict)
        standing: dict[tuple[str, ...], float] = {}
        for one in self.incidents:
            standing[(one.verdict,)] = standing.get((one.verdict,), 0.0) + (one.state == "open")
        self._metrics.tell(selfmetrics.INCIDENTS_OPEN, standing)

    def beat(self, as_of_ms: int, outputs: list[Output], *, soon: bool) -> None:
        """The heartbeat, where it is due, or something changed; never after a look that failed."""
        if self._sound and as_of_ms > 0 and (soon or as_of_ms - self._beaten_ms >= BEAT_MS):
            self._beaten_ms = as_of_ms
            standing = tuple(one.id for one in self.incidents if one.state == "open")
            outputs.append(Output(INCIDENTS, JUDGED_KEY, actions.encode(Judged(as_of_ms=as_of_ms, open=standing))))

    def _guarded(self, name: str, detector: Detector) -> Detector:
        """A detector that fails takes nobody with it."""

        trouble = Trouble(f"diagnosis: detector {name} fails", self._say)

        def guarded(case: Case) -> Iterable[Evidence]:
            try:
                found = list(detector(case))
                trouble.over()
                return found
            except Exception as error:
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
