"""Carries the spool's entries to the log, in a thread of its own: a log that is away holds up no collection."""

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from collectors.spool import Entry, Fact, Spool
from sickbay.log import Appender, Closed, LogBusy, LogError, Outcome, TooLarge
from sickbay.selfmetrics import LOG_APPENDED, LOG_ERRORS, SelfMetrics

MAX_FLYING = 64  # entries handed to the client at once
MAX_FLYING_BYTES = 4 << 20
LIVE_MS = 30_000  # newer entries go before a backlog: windows still wait for them
RETRY_S = (0.5, 3.0)  # drawn between: all hosts must not come back in the same moment, and each within 5 s
STARTING = "nothing was sent yet"
REOPEN_AFTER = 5  # failures in a row


class Courier:
    """Sends what lies in `spools`, the first before the others. `connect` opens the log; it may fail and is retried."""

    def __init__(
        self,
        spools: Sequence[Spool],
        connect: Callable[[], Appender],
        clock: Callable[[], int],
        metrics: SelfMetrics,
        say: Callable[[str], None],
    ) -> None:
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
        return self.trouble if self._thread.is_alive() or self._stop.is_set() else "its thread ended by itself"

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
        live = self._clock() - LIVE_MS
        for spool in self._spools:
            facts = [fact for fact in spool.facts() if fact not in self._told]
            entries = spool.take(MAX_FLYING, MAX_FLYING_BYTES, live)
            if facts or entries:
                self._deliver(spool, facts, entries)
                return len(facts) + len(entries)
        return 0

    def _deliver(self, spool: Spool, facts: Sequence[Fact], entries: Sequence[Entry]) -> None:
        delivered: list[Entry] = []
        hopeless: list[Entry] = []
        try:
            appender = self._appender = self._appender or self._connect()
            self._tell(appender, facts)
            flying: list[tuple[Entry, Outcome]] = []
            for entry in entries:
                try:
                    flying.append((entry, appender.append(entry.topic, entry.key, entry.payload)))
                except TooLarge as error:
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
            self._failures, self.trouble = 0, ""
        elif self._failures >= REOPEN_AFTER:
            self._let_go()

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
        flying: Sequence[tuple[Entry, Outcome]],
        delivered: list[Entry],
        hopeless: list[Entry],
    ) -> None:
        with suppress(LogError):  # each outcome tells its own
            appender.flush()
        for entry, outcome in flying:
            try:
                if not outcome.done():
                    raise LogBusy("no outcome in time")
                outcome.result()
                delivered.append(entry)
                self._metrics.count(LOG_APPENDED, topic=entry.topic)
            except TooLarge as error:
                hopeless.append(entry)
                self._failed(error)
            except LogError as error:
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._metrics.count(LOG_ERRORS, kind=type(error).__name__)
        if isinstance(error, TooLarge):
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
