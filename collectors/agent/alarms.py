"""Hardware codes straight to Alertmanager while the log is away: an outage of ours must not hide a dying device.

    Composer ─ severe events ─ Alarms ─ (log away over `alerts_after_s`) ─ Alertmanager

Only what blames hardware and is severe goes, each device and code once; the alert ends by its own `endsAt`, as the
log's return brings the incident that takes its place. The thread is its own: whatever Alertmanager does, nobody waits.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from collectors.agent.spool import Rank
from collectors.agent.spools import Spools
from collectors.http_get import HttpError, address_of, post
from sickbay import messages
from sickbay.clock import rfc3339
from sickbay.config import ConfigError
from sickbay.messages import Blame, Event, Severity
from sickbay.plain import harmless
from sickbay.seal import opened
from sickbay.selfmetrics import DIRECT_ALERTS, SelfMetrics
from sickbay.settings import Config

ALERTNAME = "SickbayHardwareCode"
LASTS_MS = 3_600_000  # an alert ends by itself after so long; the same code is told again then
OLD_MS = 3_600_000  # what happened longer ago is history, and told by the log only
GRACE_S = 5.0  # for an event to reach a log that takes records
LOOK_S, TIMEOUT_S = 1.0, 4.0
RETRY_S = (2.0, 5.0)  # drawn between
MAX_HELD = 64  # devices and codes of one host; 8 accelerators that all fail in several ways are fewer
MAX_LABEL, MAX_TEXT = 120, 500  # characters
_SEVERE = frozenset({Severity.ERROR, Severity.FATAL})

Key = tuple[str, str, str]  # component, kind, code


@dataclass(frozen=True, slots=True)
class Target:
    """Where alerts go: Alertmanager's address, as settings write it. `after_s`: without the log until then."""

    url: str
    after_s: float = 60.0
    host: str = ""
    cluster: str = ""


def is_alarming(event: Event) -> bool:
    """Whether an event speaks of broken hardware, whatever else is known."""
    return event.severity in _SEVERE and event.blame is Blame.HARDWARE


class Alarms:
    """Tells `target`. `away_s`: for how long the log has taken nothing. Raises ValueError for what is no address."""

    def __init__(
        self,
        target: Target,
        away_s: Callable[[], float],
        clock: Callable[[], int],
        metrics: SelfMetrics,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        from sickbay import addresses

        parts = urlsplit(target.url)
        self._address = address_of(f"{addresses.base_of(parts)}/api/v2/alerts")
        self._headers = {"Authorization": told} if (told := addresses.basic(parts)) else {}
        self._target, self._away_s, self._clock, self._metrics, self._say = target, away_s, clock, metrics, say
        self._lock = threading.Lock()
        self._held: dict[Key, tuple[Event, float]] = {}  # and since when
        self._told: dict[Key, int] = {}  # until when that alert lasts
        self._try_at = 0.0
        self._stop, self._news = threading.Event(), threading.Event()  # `_news` is set while something is held
        self._thread = threading.Thread(target=self._run, name="alarms", daemon=True)
        self.trouble = ""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, timeout_s: float = 0.0) -> None:
        """End; a call that is under way ends with the process."""
        self._stop.set()
        self._news.set()
        self._thread.join(timeout_s)

    def offer(self, events: Iterable[Event]) -> None:
        """These were spooled just now. Never waits for Alertmanager."""
        now_ms = self._clock()
        with self._lock:
            for event in filter(is_alarming, events):
                key = (event.component, event.kind, event.code)
                if (event.at_ms or now_ms) < now_ms - OLD_MS or 0 <= self._told.get(key, 0) - now_ms <= LASTS_MS:
                    continue
                if key not in self._held and len(self._held) >= MAX_HELD:
                    self._metrics.count(DIRECT_ALERTS, status="dropped")
                    if not self._gave_way(event):
                        continue
                self._held.setdefault(key, (event, time.monotonic()))
                self._news.set()

    def _gave_way(self, event: Event) -> bool:
        """In a storm the worst is told: one that is no more than an error makes room for what is fatal."""
        lesser = (key for key, (held, _) in self._held.items() if held.severity is not Severity.FATAL)
        if event.severity is not Severity.FATAL or (key := next(lesser, None)) is None:
            return False
        del self._held[key]
        return True

    def _run(self) -> None:
        while self._news.wait() and not self._stop.wait(LOOK_S):
            try:
                self.look(time.monotonic())
            except Exception as error:  # whatever it is, the next look may go well
                self._failed(error, time.monotonic())
            with self._lock:
                if not self._held and not self.trouble:
                    self._news.clear()

    def look(self, now_s: float) -> None:
        """Tell what is due; forget what the log has."""
        away_s = self._away_s()
        with self._lock:
            if not away_s:
                self._held = {key: held for key, held in self._held.items() if now_s - held[1] < GRACE_S}
                self.trouble = self.trouble if self._held else ""
            due = {key: event for key, (event, _) in self._held.items()} if away_s >= self._target.after_s else {}
        if due and now_s >= self._try_at:
            self._tell(due, now_s, away_s)

    def _tell(self, due: dict[Key, Event], now_s: float, away_s: float) -> None:
        now_ms = self._clock()
        body = msgspec.json.encode([alert(event, self._target, now_ms, away_s) for event in due.values()])
        try:
            post(self._address, body, TIMEOUT_S, headers=self._headers)
        except HttpError as error:
            return self._failed(error, now_s)
        with self._lock:
            self._held = {key: held for key, held in self._held.items() if key not in due}
            lasting = {key: ends for key, ends in self._told.items() if ends > now_ms}
            self._told = lasting | dict.fromkeys(due, now_ms + LASTS_MS)
        self.trouble = ""
        self._metrics.count(DIRECT_ALERTS, len(due), status="sent")
        self._say(f"the log is away: {len(due)} hardware codes were told to Alertmanager")

    def _failed(self, error: Exception, now_s: float) -> None:
        self._metrics.count(DIRECT_ALERTS, status="failed")
        self._try_at = now_s + random.uniform(*RETRY_S)
        if not self.trouble:
            self._say(f"Alertmanager was not told of hardware codes, and is tried again: {error}")
        self.trouble = f"alerts: {error}"


def alert(event: Event, target: Target, now_ms: int, away_s: float) -> dict[str, Any]:
    """One event as an alert of Alertmanager's API v2."""
    labels = {
        "alertname": ALERTNAME,
        "cluster": target.cluster,
        "host": target.host,
        "component": event.component,
        "kind": event.kind,
        "code": event.code,
        "severity": event.severity.value,
    }
    notes = {
        "summary": f"{event.component}: {event.code or event.kind}",
        "message": event.message,
        "why": f"told by the host's agent itself, without a verdict: the log has taken nothing for {away_s:.0f} s",
    }
    return {
        "labels": {name: text for name, value in labels.items() if (text := harmless(value, MAX_LABEL))},
        "annotations": {name: text for name, value in notes.items() if (text := harmless(value, MAX_TEXT))},
        "startsAt": rfc3339(max(0, min(event.at_ms or now_ms, now_ms))),
        "endsAt": rfc3339(now_ms + LASTS_MS),
    }


def alarms_of(
    config: Config,
    host: str,
    spools: Spools,
    away_s: Callable[[], float],
    clock: Callable[[], int],
    metrics: SelfMetrics,
    say: Callable[[str], None],
) -> Alarms | None:
    """At work where the settings name an Alertmanager; knows what an earlier run could not send. Raises ConfigError."""
    if not config.agent.alerts:
        return None
    try:
        target = Target(config.agent.alerts, config.agent.alerts_after_s, host, config.cluster.name)
        made = Alarms(target, away_s, clock, metrics, say)
    except ValueError as error:
        raise ConfigError(f"[agent] alerts: {error}") from None
    made.offer(_waiting(spools))
    made.start()
    return made


def _waiting(spools: Spools) -> Iterator[Event]:
    """The newest events that an earlier run left in the spool."""
    for payload in spools.disk.last(Rank.EVENTS, MAX_HELD):
        with suppress(ValueError):
            if isinstance(event := messages.decode(opened(payload).payload), Event):
                yield event
