"""What an agent puts into its spool: collections as sealed events and steps, as frames, and as facts about the host.

No thread, no file, no clock in here: what was collected and the time go in, drafts come out.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from collectors.agent.alarms import is_alarming
from collectors.agent.framing import Sender
from collectors.agent.naming import Cards, event_of, fitting, identity_key, progress_of
from collectors.agent.own_events import Blindness, Losses, dropped_event
from collectors.agent.source import Collected, Seen
from collectors.agent.spool import Draft, Dropped, Fact, Rank
from collectors.formats.second_look import is_hard
from sickbay import messages
from sickbay.components import UNKNOWN, placed
from sickbay.layouts import Layout
from sickbay.messages import Change, Event, Identity, Progress, Severity, Step, replace
from sickbay.schema import Samples
from sickbay.seal import Seal, sealed
from sickbay.topics import CHANGES, EVENTS, SCHEMAS, STEPS, TELEMETRY, TOPOLOGY

SEVERE = frozenset({Severity.ERROR, Severity.FATAL})
FRESH_MS = 60_000  # so long after a severe event frames go every second (design, section 2)
FAST_MS = 1_000


@dataclass(slots=True)
class Work:
    """What one step puts into the spool, in one transaction."""

    drafts: list[Draft] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    places: dict[str, bytes] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)  # of the events in it
    alarming: list[Event] = field(default_factory=list)  # those of them that speak of broken hardware
    hard: list[Event] = field(default_factory=list)  # those that are worth a second look at the source

    def __bool__(self) -> bool:
        return bool(self.drafts or self.facts)


class Composer:
    """Composes for one host. `known`: the facts that earlier runs told."""

    def __init__(self, host: str, frame_s: float, *, key: bytes | None = None, known: Iterable[Fact] = ()) -> None:
        self._host, self._key, self._frame_ms = host, key, round(frame_s * 1000)
        known = list(known)
        self.cards = Cards(
            one
            for fact in known
            if fact.topic == TOPOLOGY and isinstance(one := messages.decode(fact.payload), Identity)
        )
        self._layouts = {fact.key for fact in known if fact.topic == SCHEMAS}
        self._sender, self._losses = Sender(host, 0, key), Losses(host)
        self.blind = Blindness(host)
        self._fast_until_ms = 0
        self.next_frame_ms: int | None = None

    def take(self, source: str, collected: Collected, now_ms: int, work: Work) -> None:
        """One collection."""
        self.tell(self.blind.told(source, collected.problem, now_ms), now_ms, work)
        self._losses.count(source, collected.lost, collected.lost_why)
        for news in self.cards.learn(self._own(collected)):
            work.facts.append(Fact(TOPOLOGY, identity_key(news).encode(), messages.encode(news)))
        for seen in collected.seen:
            self._seen(seen, now_ms, work)
        if collected.place is not None:
            work.places[source] = collected.place

    def _own(self, collected: Collected) -> Iterator[Identity]:
        """Identities of this host's devices."""
        for record in (seen.record for seen in collected.seen):
            if isinstance(record, Identity) and record.host in (self._host, UNKNOWN, ""):
                yield self.cards.names.ports.module(replace(record, host=self._host))

    def _seen(self, seen: Seen, now_ms: int, work: Work) -> None:
        record, names = seen.record, self.cards.names
        if isinstance(record, Samples):
            component = [names.canonical(one, self._host) for one in record.component]
            self._sender.hold([Samples(record.table, component, record.at_ms, record.values)])
        elif isinstance(record, Event):
            self.tell([fitting(event_of(record, seen, names, now_ms))], now_ms, work)
        elif isinstance(record, Progress | Step):
            work.drafts.append(self._sealed(STEPS, Rank.STEPS, progress_of(record, seen)))
        elif isinstance(record, Change):
            target = placed(record.target, seen.host if seen.host != UNKNOWN else self._host)
            payload = messages.encode(replace(record, target=target, at_ms=record.at_ms or seen.at_ms))
            work.drafts.append(Draft(CHANGES, target.encode(), Rank.EVENTS, lambda *_: payload))

    def tell(self, events: Iterable[Event], now_ms: int, work: Work) -> None:
        """Events that are named and dated."""
        for event in events:
            if event.severity in SEVERE and (event.at_ms or 0) > now_ms - FRESH_MS:
                self._fast_until_ms = now_ms + FRESH_MS
            work.kinds.append(event.kind)
            if is_alarming(event):
                work.alarming.append(event)
            if is_hard(event, self._host, now_ms):
                work.hard.append(event)
            work.drafts.append(self._sealed(EVENTS, Rank.EVENTS, event))

    def lose(self, lost: int, source: str, why: str) -> None:
        """So much was lost; `tell_losses` tells it."""
        self._losses.count(source, lost, why)

    def tell_losses(self, dropped: Iterable[Dropped], now_ms: int, work: Work) -> None:
        """What was lost here, and what the spool had to give up."""
        self._losses.count("frames", self._sender.dropped, "rows that no frame could hold")
        self._sender.dropped = 0
        self.tell([dropped_event(self._host, one, now_ms) for one in dropped], now_ms, work)
        self.tell(self._losses.told(now_ms), now_ms, work)

    def _sealed(self, topic: str, rank: Rank, message: Event | Progress | Step) -> Draft:
        host, key, payload = self._host, self._key, messages.encode(message)

        def build(incarnation: int, sequence: int) -> bytes:
            return sealed(payload, Seal(host=host, incarnation=incarnation, sequence=sequence), key)

        return Draft(topic, host.encode(), rank, build)

    def frame_due(self, now_ms: int) -> bool:
        """Every `frame_s`, hosts taking turns within it; every second while an event is fresh."""
        step = FAST_MS if 0 < self._fast_until_ms - now_ms <= FRESH_MS else self._frame_ms
        turn = zlib.crc32(self._host.encode()) % step
        following = (now_ms - turn) // step * step + turn + step
        due = self.next_frame_ms is not None and now_ms >= self.next_frame_ms
        if due or self.next_frame_ms is None or following < self.next_frame_ms:
            self.next_frame_ms = following
        return due

    def frame(self, now_ms: int, work: Work) -> None:
        """Everything held, as a frame."""
        matrices = self._sender.matrices()
        if not matrices or not self._sender.fits(matrices, now_ms):
            return
        for layout in sorted({matrix.layout for matrix in matrices}, key=lambda layout: layout.table):
            self._learn(layout, work)

        def build(incarnation: int, sequence: int) -> bytes:
            self._sender.incarnation = incarnation
            return self._sender.encoded(matrices, sequence, now_ms)

        work.drafts.append(Draft(TELEMETRY, self._host.encode(), Rank.TELEMETRY, build))

    def _learn(self, layout: Layout, work: Work) -> None:
        if layout.key not in self._layouts:
            self._layouts.add(layout.key)
            work.facts.append(Fact(SCHEMAS, layout.key, layout.encoded()))
