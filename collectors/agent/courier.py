"""Carries the spool's entries to the log, in a thread of its own: a log that is away holds up no collection.

Telemetry that is too old for any window goes to the backfill topic, some frames a second, after everything else. In
its place in the telemetry topic goes an empty frame with its number, so that nobody there takes it for lost.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from collectors.agent.spool import Entry, Fact, Spool
from sickbay import wire
from sickbay.log import Appender, Closed, LogBusy, LogError, Outcome, TooLarge
from sickbay.selfmetrics import FRAMES_SENT, LOG_APPENDED, LOG_ERRORS, SelfMetrics
from sickbay.topics import BACKFILL, TELEMETRY

MAX_FLYING = 64  # entries handed to the client at once
MAX_FLYING_BYTES = 4 << 20
LIVE_MS = 20_000  # newer entries go before a backlog: windows still wait for them (the defaults of [windows])
OLD_PER_S = 2.0  # frames of a backlog: ten times what a host tells, so that ten minutes are made up for within one
OLD_AT_ONCE = 4
SILENT_S = 15.0  # without an outcome of what was handed over: a broker that answers takes a second
RETRY_S = (0.5, 3.0)  # drawn between: all hosts must not come back in the same moment, and each within 5 s
STARTING = "nothing was sent yet"
REOPEN_AFTER = 5  # failures in a row
_HOPELESS = (TooLarge, wire.FrameError)  # of one entry, which no other try would help: it is dropped, and told


class Courier:
    """Sends what lies in `spools`, the first before the others. `connect` opens the log; it may fail and is retried.

    `live_ms`: telemetry older than that goes to the backfill topic. `key`: the host's, which signs its frames.
    """

    def __init__(
        self,
        spools: Sequence[Spool],
        connect: Callable[[], Appender],
        clock: Callable[[], int],
        metrics: SelfMetrics,
        say: Callable[[str], None],
        *,
        live_ms: int = LIVE_MS,
        key: bytes | None = None,
    ) -> None:
        self._live_ms, self._key = live_ms, key
        self._old, self._old_at = float(OLD_AT_ONCE), time.monotonic()  # frames of a backlog that may go now
        self._since: float | None = None  # when what waits for an outcome was handed over first
        self._spools, self._connect, self._clock, self._metrics, self._say = spools, connect, clock, metrics, say
        self._appender: Appender | None = None
        self._told: set[Fact] = set()
        self._failures = 0
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="courier", daemon=True)
        self.trouble = STARTING  # why nothing goes; empty: all is well

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def why(self) -> str:
        """Why nothing goes, empty where all is well."""
        if not self._thread.is_alive() and not self._stop.is_set():
            return "its thread ended by itself"
        silent_s = self.away_s
        return self.trouble or (f"the log has not answered for {silent_s:.0f} s" if silent_s > SILENT_S else "")

    @property
    def away_s(self) -> float:
        """For how long the log has taken nothing whole of what it was given; 0 where it does, or nothing waits."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def wake(self) -> None:
        """There is something to send."""
        self._wake.set()

    def close(self, timeout_s: float) -> bool:
        """Send what is there if it can be done in that time. False: it hangs, and ends with the process."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            last = self._stop.is_set()
            while (sent := self._tried()) and not self.trouble:
                pass
            if last or (self._stop.is_set() and self.trouble):
                break
            if self.trouble and sent:
                self._stop.wait(random.uniform(*RETRY_S))
            else:
                self._wake.wait(1.0)
                self._wake.clear()
        self._let_go()

    def _tried(self) -> int:
        try:
            return self._send()
        except Exception as error:  # whatever it is, the next try may go well; what is silently gone looks healthy
            self._failed(error)
            return 1

    def _send(self) -> int:
        """One batch; how many entries and facts were tried. `trouble` tells whether it went."""
        live, old = self._clock() - self._live_ms, self._old_frames()
        for spool in self._spools:
            entries = spool.take(MAX_FLYING, MAX_FLYING_BYTES, live, old)
            facts = [fact for fact in spool.facts() if fact not in self._told]  # after it: with those that they need
            self._old -= sum(1 for entry in entries if _is_old_frame(entry))
            if facts or entries:
                self._deliver(spool, facts, entries)
                return len(facts) + len(entries)
        return 0

    def _old_frames(self) -> int:
        """How many frames of a backlog may go now."""
        now = time.monotonic()
        self._old = min(OLD_AT_ONCE, self._old + (now - self._old_at) * OLD_PER_S)
        self._old_at = now
        return int(self._old)

    def _deliver(self, spool: Spool, facts: Sequence[Fact], entries: Sequence[Entry]) -> None:
        delivered: list[Entry] = []
        hopeless: list[Entry] = []
        self._since = time.monotonic() if self._since is None else self._since
        try:
            appender = self._appender = self._appender or self._connect()
            self._tell(appender, facts)
            flying: list[tuple[Entry, Sequence[Outcome]]] = []
            for entry in entries:
                try:
                    flying.append((entry, [appender.append(*record) for record in self._records(entry)]))
                except _HOPELESS as error:
                    hopeless.append(entry)
                    self._failed(error)
            self._land(appender, flying, delivered, hopeless)
        except LogError as error:
            self._failed(error)
        except Exception as error:  # a client's own fault: what it holds is not lost, but it must not be used on
            self._failed(error)
            self._failures = REOPEN_AFTER
        done = {entry.id for entry in (*delivered, *hopeless)}
        spool.settle(delivered, [entry for entry in entries if entry.id not in done], hopeless)
        if len(done) == len(entries) and (entries or not self.trouble):
            self._failures, self.trouble, self._since = 0, "", None
        elif self._failures >= REOPEN_AFTER:
            self._let_go()

    def _records(self, entry: Entry) -> list[tuple[str, bytes, bytes]]:
        """What goes out for an entry: itself; for an old frame itself elsewhere, and then its number in its place."""
        if not _is_old_frame(entry):
            return [(entry.topic, entry.key, entry.payload)]
        return [
            (BACKFILL, entry.key, entry.payload),
            (TELEMETRY, entry.key, wire.emptied(entry.payload, self._key)),
        ]

    def _tell(self, appender: Appender, facts: Sequence[Fact]) -> None:
        """Facts first: a frame is read with its layout."""
        for fact, outcome in [(fact, appender.append(fact.topic, fact.key, fact.payload)) for fact in facts]:
            outcome.result()
            self._told.add(fact)
        if facts:
            self.trouble = ""

    def _land(
        self,
        appender: Appender,
        flying: Sequence[tuple[Entry, Sequence[Outcome]]],
        delivered: list[Entry],
        hopeless: list[Entry],
    ) -> None:
        with suppress(LogError):  # each outcome tells its own
            appender.flush()
        for entry, outcomes in flying:
            try:
                for outcome in outcomes:
                    if not outcome.done():
                        raise LogBusy("no outcome in time")
                    self._metrics.count(LOG_APPENDED, topic=outcome.result().topic)
                delivered.append(entry)
                if entry.topic == TELEMETRY:
                    self._metrics.count(FRAMES_SENT, way="live" if entry.live else "backfill")
            except _HOPELESS as error:
                hopeless.append(entry)
                self._failed(error)
            except LogError as error:
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._metrics.count(LOG_ERRORS, kind=type(error).__name__)
        if isinstance(error, _HOPELESS):
            return
        self._failures += 1
        if isinstance(error, Closed):
            self._failures = REOPEN_AFTER
        trouble = f"{type(error).__name__}: {error}"
        if self.trouble in ("", STARTING):
            self._say(f"the log does not take records, they stay in the spool: {trouble}")
        self.trouble = trouble

    def _let_go(self) -> None:
        """Close the client; the next send opens a new one, and tells all facts again."""
        appender, self._appender, self._told, self._failures = self._appender, None, set(), 0
        if appender is not None:
            try:
                appender.close()
            except Exception as error:
                self._say(f"closing the log: {type(error).__name__}: {error}")


def _is_old_frame(entry: Entry) -> bool:
    return entry.topic == TELEMETRY and not entry.live
