"""The alerts stage: follows incidents and the ledger, and keeps one alert per root cause alive in Alertmanager.

Its state is a fold over both topics, read whole at every start; it commits nothing, and a restart repeats harmlessly.
It is also the one that watches diagnosis from outside: no heartbeat for 30 s is an alert of its own.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from remediation.notify.alertmanager import (
    MAX_LABEL,
    SILENT_S,
    Alert,
    Labels,
    alert,
    identity,
    resolved,
    severity,
    silent,
    strays,
)
from remediation.notify.client import AlertError, Alertmanager
from remediation.notify.standing import Standing, Story
from sickbay import actions, messages, selfmetrics, topics
from sickbay.actions import JUDGED_KEY
from sickbay.app.running.service import Context
from sickbay.clock import rfc3339
from sickbay.log import LogError, OffsetOutOfRange, Reader, Record, Task
from sickbay.plain import harmless
from streams.runner import FATAL

INCIDENTS, ACTIONS = Task(topics.INCIDENTS, 0), Task(topics.ACTIONS, 0)
FOLLOWED = (ACTIONS, INCIDENTS)  # the ledger first: at a start an incident meets what was done for it
LIMIT = 500  # records of one read
CHUNK = 64  # alerts of one POST, one POST a step
READ_MS = 200  # between two reads that found nothing
LOOK_MS, GAP_MS = 1000, 200  # between two looks at what stands: usual, and after a change
RECONCILE_MS = 600_000  # between two looks at what Alertmanager has of ours
FIRST_WAIT_S = 0.5  # after a failure; doubles with each up to `[alerts] every_s`
SAY_MS = 60_000  # people are told of a failure that goes on once a minute


@dataclass(slots=True)
class Following:
    """How far the topics are read. Nothing is sent before all that was there at the start is known."""

    readers: Mapping[Task, Reader]  # one each: a reader goes on fastest where it stands
    offsets: dict[Task, int] = field(default_factory=dict)
    ends: dict[Task, int] = field(default_factory=dict)  # at the start

    def read(self, task: Task) -> list[Record]:
        """The next records. Raises LogError."""
        if task not in self.offsets:
            self.offsets[task], self.ends[task] = self.readers[task].bounds(task)
        try:
            records = self.readers[task].read(task, self.offsets[task], LIMIT)
        except OffsetOutOfRange as error:  # compaction keeps the newest of each key: nothing that counts is lost
            self.offsets[task] = error.bounds.begin
            return []
        if records:
            self.offsets[task] = records[-1].offset + 1
        elif self.offsets[task] < self.ends[task]:  # the tail at the start was removed, or ends in a marker
            self.ends[task] = self.offsets[task]
        return records

    @property
    def caught_up(self) -> bool:
        """Whether everything that was there at the start was read."""
        return all(task in self.ends and self.offsets[task] >= self.ends[task] for task in FOLLOWED)


class Alerts:
    """The stage (see `sickbay.app.running.service`). Without an address it sends nothing, and tells its metrics."""

    def __init__(self, context: Context, client: Alertmanager | None = None) -> None:
        settings = context.config.alerts
        self._context, self._metrics, self._settings = context, context.metrics, settings
        self._client = client or (Alertmanager(settings.url) if settings.url else None)
        self._cluster, self._lang = context.config.cluster.name, context.config.report.lang
        self._following = Following({task: context.log.reader() for task in FOLLOWED})
        self._standing = Standing()
        self._now_ms = self._born_ms = self._heard_ms = context.clock()
        self._changed = True
        self._looked_ms = self._said_ms = 0
        self._read_ms = self._repeat_ms = self._retry_ms = self._reconcile_ms = 0  # not before
        self._failures = 0
        self._behind = True
        self._told: dict[Labels, Alert] = {}  # what Alertmanager has, or may have, of us
        self._queue: list[Alert] = []

    def step(self, now_ms: int) -> bool:
        """Read what is new, look at what stands, send at most one request."""
        if now_ms < self._now_ms:
            self._set_back(now_ms)
        self._now_ms = now_ms
        moved = now_ms >= self._read_ms and self._follow(now_ms)
        ready = self._following.caught_up or now_ms - self._born_ms > SILENT_S * 1000  # a log that is away is silence
        if ready and now_ms >= self._looked_ms + (GAP_MS if self._changed else LOOK_MS):
            self._look(now_ms)
        if self._queue and now_ms >= self._retry_ms:
            self._send(now_ms)
        return moved or bool(self._queue and self._failures == 0)

    def close(self) -> None:
        """Nothing to finish: what stands goes on standing until its time is over or the next start repeats it."""

    def _set_back(self, now_ms: int) -> None:
        """The machine's clock was set back: nothing waits for a time that is far away now."""
        self._looked_ms = self._said_ms = 0
        self._read_ms = self._repeat_ms = self._retry_ms = self._reconcile_ms = 0
        self._born_ms, self._heard_ms = min(self._born_ms, now_ms), min(self._heard_ms, now_ms)

    def _follow(self, now_ms: int) -> bool:
        moved = behind = False
        for task in FOLLOWED:
            try:
                records = self._following.read(task)
            except FATAL:
                raise
            except LogError as error:  # the heartbeat grows old meanwhile, and people are told
                self._metrics.count(selfmetrics.LOG_ERRORS, kind=type(error).__name__)
                self._say(f"alerts: {error}", now_ms)
                behind = True
                continue
            moved |= bool(records)
            behind |= len(records) >= LIMIT
            for record in records:
                self._take(record, now_ms)
        self._behind = behind
        if not moved:
            self._read_ms = now_ms + READ_MS
        return moved

    def _take(self, record: Record, now_ms: int) -> None:
        if record.is_tick:
            return
        try:
            told = _message(record)
        except ValueError as error:
            self._metrics.count(selfmetrics.LOG_ERRORS, kind="damaged")
            self._say(f"alerts: {record.topic} offset {record.offset}: {error}", now_ms)
            return
        known_ms = self._standing.judged_ms
        self._changed |= self._standing.take(record.key, told, record.append_ms)
        if self._standing.judged_ms != known_ms:
            self._heard_ms = now_ms

    def _look(self, now_ms: int) -> None:
        """What stands now; what has to be said of it goes into the queue."""
        self._looked_ms, self._changed = now_ms, False
        stories = self._standing.worth_telling() if self._following.caught_up else ()
        every_s = self._settings.every_s
        wanted = [alert(story, self._cluster, now_ms, every_s, self._lang) for story in stories]
        seen_ms = max(min(self._standing.judged_ms or 0, self._heard_ms), self._born_ms)
        if now_ms - seen_ms > SILENT_S * 1000:
            wanted.append(silent(self._cluster, seen_ms, now_ms, every_s))
        self._show(stories, wanted, now_ms)
        if self._client is not None and not self._queue:
            self._plan({identity(one): one for one in wanted}, now_ms)

    def _plan(self, wanted: Mapping[Labels, Alert], now_ms: int) -> None:
        """All of it when the time for repeating has come, else what changed; and the ends of what is over."""
        again = now_ms >= self._repeat_ms
        fresh = [one for key, one in wanted.items() if again or not _same(one, self._told.get(key))]
        over = [resolved(one, now_ms) for key, one in self._told.items() if key not in wanted]
        if again:
            self._repeat_ms = now_ms + round(self._settings.every_s * 1000)
        over += self._strays(wanted, now_ms)
        self._told |= wanted
        self._queue = fresh + over

    def _strays(self, wanted: Mapping[Labels, Alert], now_ms: int) -> list[Alert]:
        """The ends of our alerts that a life before this one left in Alertmanager."""
        if self._client is None or self._behind or now_ms < max(self._reconcile_ms, self._retry_ms):
            return []  # who has not read all would end what another process keeps alive with reason
        try:
            known = self._client.ours(self._cluster)
        except AlertError as error:
            self._failed(error, now_ms)
            return []
        self._reconcile_ms = now_ms + RECONCILE_MS
        return strays(known, [*wanted.values(), *self._told.values()], self._cluster, now_ms)

    def _send(self, now_ms: int) -> None:
        assert self._client is not None
        chunk = self._queue[:CHUNK]
        try:
            self._client.send(chunk)
        except AlertError as error:
            self._failed(error, now_ms)
            self._queue = self._queue[CHUNK:] if error.reason == "refused" else []  # one bad one must not hide others
            if self._queue:
                self._retry_ms = now_ms
            else:
                self._repeat_ms = self._retry_ms  # made anew, with newer times
            return
        self._failures, self._queue = 0, self._queue[CHUNK:]
        for one in chunk:
            over = one["endsAt"] <= (rfc3339(now_ms) or "")
            self._metrics.count(selfmetrics.ALERTS_SENT, status="resolved" if over else "firing")
            if over:
                self._told.pop(identity(one), None)

    def _failed(self, error: AlertError, now_ms: int) -> None:
        self._metrics.count(selfmetrics.ALERT_ERRORS, reason=error.reason)
        wait_ms = 1000 * min(self._settings.every_s, FIRST_WAIT_S * 2**self._failures)
        self._failures = min(self._failures + 1, 16)
        self._retry_ms = now_ms + round(wait_ms * random.uniform(0.5, 1.0))  # many that wait must not come at once
        self._say(f"alerts: {error}", now_ms)

    def _show(self, stories: Sequence[Story], wanted: Sequence[Alert], now_ms: int) -> None:
        """The same for Prometheus: what stands since when, and how old the heartbeat is."""
        self._metrics.tell(selfmetrics.INCIDENT_SINCE, dict(map(_since, stories)))
        counts = Counter[tuple[str, ...]]((one["labels"]["severity"],) for one in wanted)
        self._metrics.tell(selfmetrics.ALERTS_STANDING, counts)
        if self._standing.judged_ms is not None:
            age_s = max(0, now_ms - self._standing.judged_ms) / 1000
            self._metrics.set(selfmetrics.HEARTBEAT_AGE, age_s)

    def _say(self, text: str, now_ms: int) -> None:
        if now_ms - self._said_ms >= SAY_MS:
            self._said_ms = now_ms
            self._context.say(text)


def _message(record: Record) -> messages.AnyMessage | actions.LedgerMessage | None:
    """What a record of the followed topics says. Raises ValueError."""
    if not record.value:
        return None
    ledger = record.task == ACTIONS or record.key == JUDGED_KEY
    return actions.decode(record.value) if ledger else messages.decode(record.value)


def _same(one: Alert, known: Alert | None) -> bool:
    return known is not None and all(one[part] == known[part] for part in ("annotations", "startsAt"))


def _since(story: Story) -> tuple[tuple[str, ...], float]:
    """The series of one incident and its value, 0 where its onset is not known."""
    one = story.incident
    words = (one.id, one.verdict.value, one.fault, severity(one).value, one.action.value, one.component)
    onset_ms = one.onset_ms if one.onset_ms is not None else one.detected_ms
    return tuple(harmless(word, MAX_LABEL) for word in words), (onset_ms or 0) / 1000
