"""What an agent tells of itself: that it is blind, that it sees again, and what it lost."""

from dataclasses import dataclass, field

from collectors.formats.events import event
from collectors.source import Collected
from collectors.spool import Dropped
from sickbay.components import Kind, name
from sickbay.messages import MAX_MESSAGE, Event, replace

AGAIN_MS = 60_000  # blindness that lasts is told so often: readers look back half an hour only


@dataclass(slots=True)
class Blindness:
    """Which collectors of a host cannot collect, and since when."""

    host: str
    _since: dict[str, tuple[int, int, str]] = field(default_factory=dict)  # source -> since, last told, why

    @property
    def trouble(self) -> str:
        """Why it is blind somewhere, empty where it is not."""
        return "; ".join(f"{source}: {why}" for source, (_, _, why) in list(self._since.items()))

    def told(self, source: str, problem: str, now_ms: int) -> list[Event]:
        """The events of one collection: at the beginning, again while it lasts, and at the end."""
        since, last, _ = self._since.get(source, (now_ms, 0, ""))
        if not problem:
            return [self._back(source, since, now_ms)] if self._since.pop(source, None) else []
        again = now_ms - last >= AGAIN_MS
        self._since[source] = (since, now_ms if again else last, problem)
        facts = {"source": source, "since_ms": str(since)}
        return [_of("monitor.blind", self.host, source, problem, facts, now_ms)] if again else []

    def _back(self, source: str, since: int, now_ms: int) -> Event:
        facts = {"source": source, "blind_ms": str(max(0, now_ms - since))}
        return _of("monitor.notice", self.host, source, f"{source} collects again", facts, now_ms, code="sees again")


def lost_event(host: str, source: str, collected: Collected, now_ms: int) -> Event:
    """Lines that were not read, or not told."""
    facts = {"source": source, "lost": str(collected.lost)}
    return _of("monitor.lines_lost", host, source, f"{collected.lost} {collected.lost_why}", facts, now_ms)


def dropped_event(host: str, dropped: Dropped, now_ms: int) -> Event:
    """Entries given up by the spool: explains the gap in the topic's sequence."""
    facts = {"topic": dropped.topic, "from": str(dropped.first), "to": str(dropped.last), "lost": str(dropped.lost)}
    text = f"{dropped.lost} records of {dropped.topic} were dropped, numbers {dropped.first} to {dropped.last}"
    return _of("monitor.lines_lost", host, "spool", text, facts, now_ms)


def _of(kind: str, host: str, source: str, text: str, facts: dict[str, str], now_ms: int, code: str = "") -> Event:
    told = event(kind, name(Kind.MONITOR, host, source), facts, code=code, message=text[:MAX_MESSAGE], host=host)
    return replace(told, at_ms=now_ms, seen_ms=now_ms)  # type: ignore[no-any-return]
