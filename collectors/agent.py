"""The agent of one host: collectors → messages and frames → spool → log.

    kernel_log ──────────┐                          ┌─ events, steps (sealed)
    accelerator_exporter ┼─ queue ─ Agent.step ─ spool ─ frames ─────────── Courier ─ log
    job_log ─────────────┘                          └─ layouts, identities

Each collector has a thread of its own, and so has what sends. `step` never waits for either of them.
"""

import importlib
import queue
import socket
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from zoneinfo import ZoneInfo

from collectors.courier import Courier
from collectors.framing import Sender
from collectors.identity import told_host
from collectors.naming import Cards, event_of, identity_key, progress_of
from collectors.own_events import Blindness, dropped_event, lost_event
from collectors.source import Collector, Host, Make, Seen
from collectors.spool import Draft, Fact, Rank, Spool, SpoolError
from collectors.spools import Spools
from collectors.watching import MAX_WAITING, Done, Queue, Watch
from sickbay import messages
from sickbay.admission import secret
from sickbay.config import ConfigError
from sickbay.layouts import Layout
from sickbay.log import Appender, UnfitPlace, wall_ms
from sickbay.messages import Event, Identity, Progress, Severity, Step
from sickbay.schema import Samples
from sickbay.seal import Seal, sealed
from sickbay.selfmetrics import EVENTS_SENT, PROBE_DURATION, PROBE_FAILED, SPOOL_BYTES, SPOOL_DROPPED, SelfMetrics
from sickbay.settings import Config

TELEMETRY, EVENTS, STEPS = "sickbay.telemetry.v1", "sickbay.events.v1", "sickbay.steps.v1"
SCHEMAS, TOPOLOGY = "sickbay.schemas.v1", "sickbay.topology.v1"

# name -> function of a Host that makes the collectors which the settings ask for; loaded when an agent starts.
CATALOGUE = {
    "accelerator_exporter": "collectors.accelerator_exporter:collectors",
    "job_log": "collectors.job_log:collectors",
    "kernel_log": "collectors.kernel_log:collectors",
}

SEVERE = frozenset({Severity.ERROR, Severity.FATAL})
FRESH_MS = 60_000  # so long after a severe event frames go every second (design, section 2)
FAST_MS = 1_000
UPKEEP_MS = 1_000  # between two looks for hanging collectors and drops
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
    except ValueError as error:
        spool.close()
        raise ConfigError(f"[agent] exporters: {error}") from None


def host_of_settings(config: Config) -> str:
    """The name of the host to watch. Raises ValueError where nothing tells it."""
    told = config.agent.host or _calls_itself(Path(config.agent.root))
    if not (host := told_host(told)):
        raise ValueError("no name is known for this host: set host in [agent]")
    return host


def host_of(config: Config, places: Callable[[str], bytes | None]) -> Host:
    """What collectors need to know of the host."""
    aliases = frozenset({_calls_itself(Path(config.agent.root))} - {"", "localhost"})
    zone = ZoneInfo(config.cluster.timezone)
    return Host(host_of_settings(config), config.agent, zone, aliases, places)


def _calls_itself(root: Path) -> str:
    if root == Path("/"):
        return socket.gethostname()
    try:
        return (root / "etc/hostname").read_text(encoding="utf-8", errors="replace").strip()[:240]
    except OSError:
        return ""


def collectors_of(host: Host) -> list[Collector]:
    """All collectors that the settings ask for."""
    made: list[Collector] = []
    for where in CATALOGUE.values():
        module, _, function = where.partition(":")
        made += cast(Make, getattr(importlib.import_module(module), function))(host)
    return made


@dataclass(slots=True)
class Work:
    """What one step puts into the spool, in one transaction."""

    drafts: list[Draft] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    places: dict[str, bytes] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.drafts or self.facts)


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
        host = self._host = host_of(config, spools.disk.place)
        self._key, self._clock, self._say = key, clock, say
        self._metrics = metrics or SelfMetrics()
        self._spools = spools
        self._cards = Cards(_identities(spools.disk.facts()))
        self._sender = Sender(host.name, spools.disk.incarnation, key)
        self._layouts = {(fact.topic, fact.key) for fact in spools.disk.facts()}
        self._blind = Blindness(host.name)
        self._queue: Queue = queue.Queue(MAX_WAITING)
        self._watches = [Watch(one, self._queue, clock) for one in collectors_of(host)]
        self._fast_until_ms = self._upkept_ms = 0
        self._next_frame_ms: int | None = None
        self.courier = Courier(spools.all, connect, clock, self._metrics, say)
        for watch in self._watches:
            watch.start()
        self.courier.start()

    @property
    def waiting(self) -> str:
        """Why this agent is not ready: empty where everything it sees is told."""
        return self.courier.trouble or self._spools.trouble or self._blind.trouble

    def step(self, now_ms: int, wait_s: float = 0.0) -> bool:
        """Spool what was collected and send what is due; waits up to `wait_s` for a collection. True: did something."""
        work = Work()
        for done in self._done(wait_s):
            now_ms = max(now_ms, done.at_ms)
            self._take(done, now_ms, work)
        if now_ms - self._upkept_ms >= UPKEEP_MS:
            self._upkept_ms = now_ms
            self._upkeep(now_ms, work)
        if self._frame_due(now_ms):
            self._frame(now_ms, work)
        if work:
            self._spools.add(work.drafts, now_ms, facts=work.facts, places=work.places)
            self.courier.wake()
        elif work.places:
            self._spools.moved(work.places)
        return bool(work)

    def _done(self, wait_s: float) -> Iterator[Done]:
        try:
            yield self._queue.get(timeout=wait_s) if wait_s > 0 else self._queue.get_nowait()
            for _ in range(MAX_WAITING):
                yield self._queue.get_nowait()
        except queue.Empty:
            return

    def _take(self, done: Done, now_ms: int, work: Work) -> None:
        collected = done.collected
        self._metrics.observe(PROBE_DURATION, done.took_s, source=done.source)
        if collected.problem:
            self._metrics.count(PROBE_FAILED, source=done.source)
        self._events(self._blind.told(done.source, collected.problem, now_ms), now_ms, work)
        if collected.lost:
            self._events([lost_event(self._host.name, done.source, collected, now_ms)], now_ms, work)
        identities = [one.record for one in collected.seen if isinstance(one.record, Identity)]
        for news in self._cards.learn(identities):
            work.facts.append(Fact(TOPOLOGY, identity_key(news).encode(), messages.encode(news)))
        for seen in collected.seen:
            self._seen(seen, now_ms, work)
        if collected.place is not None:
            work.places[done.source] = collected.place

    def _seen(self, seen: Seen, now_ms: int, work: Work) -> None:
        record, names = seen.record, self._cards.names
        where = {"job": seen.job, "at_ms": seen.at_ms, "path": seen.path, "line": seen.line}
        if isinstance(record, Samples):
            component = [names.canonical(one, self._host.name) for one in record.component]
            self._sender.hold([Samples(record.table, component, record.at_ms, record.values)])
        elif isinstance(record, Event):
            event = event_of(record, names, host=seen.host, seen_ms=now_ms, **where)  # type: ignore[arg-type]
            self._events([event], now_ms, work)
        elif isinstance(record, Progress | Step):
            work.drafts.append(self._sealed(STEPS, Rank.STEPS, progress_of(record, **where)))  # type: ignore[arg-type]

    def _events(self, events: Iterable[Event], now_ms: int, work: Work) -> None:
        for event in events:
            self._metrics.count(EVENTS_SENT, kind=event.kind)
            if event.severity in SEVERE and (event.at_ms or 0) > now_ms - FRESH_MS:
                self._fast_until_ms = now_ms + FRESH_MS
            work.drafts.append(self._sealed(EVENTS, Rank.EVENTS, event))

    def _sealed(self, topic: str, rank: Rank, message: Event | Progress | Step) -> Draft:
        host, key, payload = self._host.name, self._key, messages.encode(message)

        def build(incarnation: int, sequence: int) -> bytes:
            return sealed(payload, Seal(host=host, incarnation=incarnation, sequence=sequence), key)

        return Draft(topic, host.encode(), rank, build)

    def _frame_due(self, now_ms: int) -> bool:
        """Every `frame_s`, hosts taking turns within it; every second while an event is fresh."""
        step = FAST_MS if now_ms < self._fast_until_ms else round(self._host.settings.frame_s * 1000)
        turn = zlib.crc32(self._host.name.encode()) % step
        following = (now_ms - turn) // step * step + turn + step
        due = self._next_frame_ms is not None and now_ms >= self._next_frame_ms
        if due or self._next_frame_ms is None or following < self._next_frame_ms:
            self._next_frame_ms = following
        return due

    def _frame(self, now_ms: int, work: Work) -> None:
        matrices = self._sender.matrices()
        if not matrices:
            return
        for layout in {matrix.layout for matrix in matrices}:
            self._learn(layout, work)

        def build(incarnation: int, sequence: int) -> bytes:
            self._sender.incarnation = incarnation
            return self._sender.encoded(matrices, sequence, now_ms)

        work.drafts.append(Draft(TELEMETRY, self._host.name.encode(), Rank.TELEMETRY, build))

    def _learn(self, layout: Layout, work: Work) -> None:
        if (SCHEMAS, layout.key) not in self._layouts:
            self._layouts.add((SCHEMAS, layout.key))
            work.facts.append(Fact(SCHEMAS, layout.key, layout.encoded()))

    def _upkeep(self, now_ms: int, work: Work) -> None:
        """Collectors that hang, and entries that had to be given up, are told."""
        for watch in self._watches:
            since, limit = watch.busy_since, self._host.settings.timeout_s + 1.0
            if since is not None and time.monotonic() - since > limit:
                problem = f"a collection did not end within {limit:g} s"
                if events := self._blind.told(watch.collector.name, problem, now_ms):
                    self._metrics.count(PROBE_FAILED, source=watch.collector.name)
                    self._events(events, now_ms, work)
        for dropped in self._spools.dropped():
            self._events([dropped_event(self._host.name, dropped, now_ms)], now_ms, work)
            self._metrics.count(SPOOL_DROPPED, dropped.lost)
        self._metrics.set(SPOOL_BYTES, self._spools.size)

    def close(self) -> None:
        """End in good order: what was collected is spooled, what can be sent is sent."""
        for watch in self._watches:
            watch.stop.set()
        deadline = time.monotonic() + END_S
        late = [one.collector.name for one in self._watches if not one.join(max(0.0, deadline - time.monotonic()))]
        now_ms, work = self._clock(), Work()
        for done in self._done(0.0):
            self._take(done, now_ms, work)
        self._frame(now_ms, work)
        self._spools.add(work.drafts, now_ms, facts=work.facts, places=work.places)
        if late:
            self._say(f"{', '.join(late)}: hangs, and was left behind")
        if self.courier.close(END_S):
            self._spools.close()


def _identities(facts: Iterable[Fact]) -> Iterator[Identity]:
    for fact in facts:
        if fact.topic == TOPOLOGY and isinstance(one := messages.decode(fact.payload), Identity):
            yield one
