"""The agent of one host: collectors → messages and frames → spool → log.

    kernel_log ──────────┐                          ┌─ events, steps (sealed)
    accelerator_exporter ┼─ queue ─ Agent.step ─ spool ─ frames ─────────── Courier ─ log
    job_log ─────────────┘                          └─ layouts, identities

Collectors work in threads of their own (`watching`), and so does what sends. `step` never waits for either of them.
"""

import queue
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from collectors.agent import states
from collectors.agent.alarms import alarms_of
from collectors.agent.catalogue import check_names, sources_of
from collectors.agent.composing import Composer, Work
from collectors.agent.courier import Courier
from collectors.agent.hosting import host_of, host_of_settings
from collectors.agent.reloading import needs_restart, taken_up
from collectors.agent.source import Collector
from collectors.agent.spool import Spool
from collectors.agent.spool_file import SpoolError
from collectors.agent.spools import Spools
from collectors.agent.states import State
from collectors.agent.watching import HELD_S, MAX_WAITING, Crew, Done, Queue
from sickbay.admission import secret
from sickbay.config import ConfigError
from sickbay.log import Appender, UnfitPlace, wall_ms
from sickbay.selfmetrics import (
    EVENTS_SENT,
    LOG_AWAY,
    PROBE_DURATION,
    PROBE_FAILED,
    SOURCE_STATE,
    SPOOL_AGE,
    SPOOL_BYTES,
    SPOOL_DROPPED,
    SelfMetrics,
)
from sickbay.settings import Config

UPKEEP_MS = 1_000  # between two looks for hanging collectors and drops
GATHER_S = 0.02  # after the first collection: all collectors wake together, and one step for all costs less than many
END_S = 3.0  # for what is underway when it ends


def start(
    config: Config,
    connect: Callable[[], Appender],
    *,
    clock: Callable[[], int] = wall_ms,
    metrics: SelfMetrics | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> "Agent":
    """The agent that the settings describe, at work. Raises ConfigError for settings that cannot be used."""
    check_names(config)
    key = secret(config.security.key_file) if config.security.key_file else None
    try:
        name = host_of_settings(config)
        spool = Spool(Path(config.agent.spool), name, config.agent.spool_max_bytes)
    except (SpoolError, UnfitPlace) as error:
        raise ConfigError(f"[agent] spool: {error}") from None
    except ValueError as error:
        raise ConfigError(f"[agent] host: {error}") from None
    if spool.damaged:
        say(f"the spool was damaged, a new one begins: {spool.damaged}")
    try:
        return Agent(config, Spools(spool, name, say), connect, key=key, clock=clock, metrics=metrics, say=say)
    except ConfigError:
        spool.close()
        raise
    except ValueError as error:
        spool.close()
        raise ConfigError(f"[agent] exporters: {error}") from None


def live_ms(config: Config) -> int:
    """The age beyond which no window takes telemetry any more: those that hold it are closed."""
    return (config.windows.width_s + config.windows.lateness_s) * 1000


class Agent:
    """One host's agent, a stage of a service or a process of its own (see `start`).

    `connect` opens the log, and is tried again and again where that fails. Raises ValueError for an exporter's address
    that is none.
    """

    def __init__(
        self,
        config: Config,
        spools: Spools,
        connect: Callable[[], Appender],
        *,
        key: bytes | None = None,
        clock: Callable[[], int] = wall_ms,
        metrics: SelfMetrics | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        host = host_of(config, spools.place)
        self._config, self._clock, self._say = config, clock, say
        self._metrics = metrics or SelfMetrics()
        self._spools = spools
        self._composer = Composer(host.name, config.agent.frame_s, key=key, known=spools.disk.facts())
        if spools.disk.damaged:
            self._composer.lose(1, "spool", "spool was damaged and put aside, with all that it held")
        self._queue: Queue = queue.Queue(MAX_WAITING)
        collectors, self._off = sources_of(host)
        self._shared = host.shared
        self._upkept_ms, self._shown = 0, list[State]()
        self.courier = Courier(spools.all, connect, clock, self._metrics, say, live_ms=live_ms(config), key=key)
        self._alarms = alarms_of(config, host.name, spools, lambda: self.courier.away_s, clock, self._metrics, say)
        self._crew = self._at_work(collectors, config)
        self.courier.start()

    def _at_work(self, collectors: Iterable[Collector], config: Config) -> Crew:
        return Crew(collectors, self._queue, self._clock, config.agent.timeout_s + 1.0, self._took)

    @property
    def waiting(self) -> str:
        """Why this agent is not ready: empty where everything it sees is told."""
        alarms = self._alarms.trouble if self._alarms else ""
        return self.courier.why or self._spools.trouble or self._composer.blind.trouble or alarms

    @property
    def states(self) -> list[State]:
        """The state of every source, also of those that are off."""
        return sorted([*self._crew.states, *self._off])

    def step(self, now_ms: int, wait_s: float = 0.0) -> bool:
        """Spool what was collected and send what is due; waits up to `wait_s` for a collection. True: did something."""
        work = Work()
        for done in self._done(min(wait_s, HELD_S) if self._crew.relieve() else wait_s):
            now_ms = max(now_ms, done.at_ms)
            self._composer.take(done.source, done.collected, now_ms, work)
        if not 0 <= now_ms - self._upkept_ms < UPKEEP_MS:  # also where the clock was set back
            self._upkept_ms = now_ms
            self._upkeep(now_ms, work)
        if self._composer.frame_due(now_ms):
            self._composer.frame(now_ms, work)
        if work:
            self._store(work, now_ms)
            self.courier.wake()
        elif work.places:
            self._spools.moved(work.places)
        return bool(work)

    def _done(self, wait_s: float) -> Iterator[Done]:
        try:
            yield self._queue.get(timeout=wait_s) if wait_s > 0 else self._queue.get_nowait()
            if wait_s > 0:
                time.sleep(GATHER_S)
            for _ in range(MAX_WAITING):
                yield self._queue.get_nowait()
        except queue.Empty:
            return

    def _took(self, done: Done) -> None:
        self._metrics.observe(PROBE_DURATION, done.took_s, source=done.source)
        if done.collected.problem:
            self._metrics.count(PROBE_FAILED, source=done.source)

    def _upkeep(self, now_ms: int, work: Work) -> None:
        """Collectors that hang, and what was lost, are told."""
        if (now := [*self._crew.states, *self._off]) != self._shown:
            self._shown = now
            states.shown(now, lambda source, word, on: self._metrics.set(SOURCE_STATE, on, source=source, state=word))
        for watch in self._crew.watches:
            if trouble := watch.trouble:
                events = self._composer.blind.told(watch.collector.name, trouble, now_ms)
                self._metrics.count(PROBE_FAILED, len(events), source=watch.collector.name)
                self._composer.tell(events, now_ms, work)
        dropped = self._spools.dropped()
        self._metrics.count(SPOOL_DROPPED, sum(one.lost for one in dropped))
        self._metrics.set(SPOOL_BYTES, self._spools.size)
        since_ms = self._spools.since_ms()
        self._metrics.set(SPOOL_AGE, 0.0 if since_ms is None else max(0, now_ms - since_ms) / 1000)
        self._metrics.set(LOG_AWAY, self.courier.away_s)
        self._composer.tell_losses(dropped, now_ms, work)

    def _store(self, work: Work, now_ms: int) -> None:
        self._spools.add(work.drafts, now_ms, facts=work.facts, places=work.places)
        for kind in work.kinds:
            self._metrics.count(EVENTS_SENT, kind=kind)
        if self._alarms:
            self._alarms.offer(work.alarming)
        for event in work.hard:
            self._shared.look_after(event)

    def reload(self, config: Config) -> list[str]:
        """Go on with the sources of these settings; what of them only a new start takes up.

        Raises ConfigError or ValueError for what cannot be used: then everything is as it was.
        """
        check_names(config)
        late = needs_restart(self._config, config)
        config = taken_up(self._config, config)
        for tried in sources_of(host_of(config, self._spools.place))[0]:  # before anything is let go: can it be made?
            tried.close()
        self._collected_last()
        self._config = config
        host = host_of(config, self._spools.place)
        collectors, self._off = sources_of(host)
        self._shared = host.shared
        gone = {watch.collector.name for watch in self._crew.watches} - {one.name for one in collectors}
        self._composer.blind.forget(gone)
        self._crew = self._at_work(collectors, config)
        return late

    def _collected_last(self) -> None:
        """End the collectors; what they saw, and where they stopped, is spooled."""
        late = self._crew.end(END_S)
        now_ms, work = self._clock(), Work()
        for done in self._done(0.0):
            self._composer.take(done.source, done.collected, now_ms, work)
        self._composer.frame(now_ms, work)
        self._store(work, now_ms)
        if late:
            self._say(f"{', '.join(late)}: hangs, and was left behind")

    def close(self) -> None:
        """End in good order: what was collected is spooled, what can be sent is sent."""
        self._collected_last()
        if self._alarms:
            self._alarms.close()
        if self.courier.close(END_S):
            self._spools.close()
