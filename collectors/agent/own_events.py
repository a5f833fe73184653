"""What an agent tells of itself: that it is blind, that it sees again, and what it lost."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from collectors.agent.spool import Dropped
from collectors.formats.events import event
from sickbay.components import Kind, name
from sickbay.messages import MAX_MESSAGE, Event, replace

LOST_MS = 10_000  # between two events of losses of one source
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

    def forget(self, sources: Iterable[str]) -> None:
        """These are not asked any more."""
        for source in sources:
            self._since.pop(source, None)

    def told(self, source: str, problem: str, now_ms: int) -> list[Event]:
        """The events of one collection: at the beginning, again while it lasts, and at the end."""
        since, last, _ = self._since.get(source, (now_ms, 0, ""))
        if not problem:
            return [self._back(source, since, now_ms)] if self._since.pop(source, None) else []
        again = not 0 <= now_ms - last < AGAIN_MS  # also where the clock was set back
        self._since[source] = (since, now_ms if again else last, problem)
        facts = {"source": source, "since_ms": str(since)}
        return [_of("monitor.blind", self.host, source, problem, facts, now_ms)] if again else []

    def _back(self, source: str, since: int, now_ms: int) -> Event:
        facts = {"source": source, "blind_ms": str(max(0, now_ms - since))}
        return _of("monitor.notice", self.host, source, f"{source} collects again", facts, now_ms, code="sees again")


@dataclass(slots=True)
class Losses:
    """Lines and rows that a host's collectors lost, summed up: a storm of them is not told by a storm."""

    host: str
    _lost: dict[str, tuple[int, str]] = field(default_factory=dict)  # source -> how many, why
    _told_ms: dict[str, int] = field(default_factory=dict)

    def count(self, source: str, lost: int, why: str) -> None:
        """So many more."""
        if lost:
            self._lost[source] = (self._lost.get(source, (0, ""))[0] + lost, why)

    def told(self, now_ms: int) -> list[Event]:
        """The events that are due."""
        due = [one for one in self._lost if not 0 <= now_ms - self._told_ms.get(one, 0) < LOST_MS]
        self._told_ms |= dict.fromkeys(due, now_ms)
        return [self._event(source, *self._lost.pop(source), now_ms) for source in due]

    def _event(self, source: str, lost: int, why: str, now_ms: int) -> Event:
        facts = {"source": source, "lost": str(lost)}
        return _of("monitor.lines_lost", self.host, source, f"{lost} {why}", facts, now_ms)


def dropped_event(host: str, dropped: Dropped, now_ms: int) -> Event:
    """Entries given up by the spool: explains the gap in the topic's sequence."""
    facts = {"topic": dropped.topic, "from": str(dropped.first), "to": str(dropped.last), "lost": str(dropped.lost)}
    text = f"{dropped.lost} records of {dropped.topic} were dropped, numbers {dropped.first} to {dropped.last}"
    return _of("monitor.lines_lost", host, "spool", text, facts, now_ms)


def _of(kind: str, host: str, source: str, text: str, facts: dict[str, str], now_ms: int, code: str = "") -> Event:
    told = event(kind, name(Kind.MONITOR, host, source), facts, code=code, message=text[:MAX_MESSAGE], host=host)
    return replace(told, at_ms=now_ms, seen_ms=now_ms)  # type: ignore[no-any-return]
