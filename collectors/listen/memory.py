"""What the requests of one token have taught: names, codes that were told, parts of sums, and what series speak of."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.agent.naming import Cards
from collectors.formats.metric_names import Target
from collectors.formats.series_events import CodeEvents
from collectors.formats.series_matrix import Series
from collectors.formats.series_names import Names
from collectors.identity import Names as Joined
from collectors.listen.sums import Sums
from sickbay.components import UNKNOWN, Name, host_of
from sickbay.messages import Identity

ROTATE_MS = 120_000  # a fault that stands only while its series is there is over when it was not told for so long
MAX_HOSTS = 20_000
MAX_SERIES = 200_000  # where the settings say nothing
HOUR_MS = 3_600_000
_NO_NAMES = Joined(())


class Known(NamedTuple):
    """A series that was resolved before, and says nothing but its value."""

    target: Target
    component: Name


@dataclass(slots=True)
class SeenSeries:
    """The series of a token in this hour, by a hash of their labels: at most `most`, and what some were resolved to."""

    most: int
    hour: int = 0
    seen: dict[int, Known | None] = field(default_factory=dict)
    taught: tuple[int, ...] = ()

    def keys(self, found: Sequence[Series], now_ms: int) -> list[int | None]:
        """The key of each series; None: there is no room for it."""
        if now_ms // HOUR_MS != self.hour:
            self.hour, self.seen = now_ms // HOUR_MS, {}
        return [self._key(series.labels) for series in found]

    def _key(self, labels: dict[str, str]) -> int | None:
        key = hash(frozenset(labels.items()))
        if key not in self.seen:
            if len(self.seen) >= self.most:
                return None
            self.seen[key] = None
        return key

    def learnt(self, taught: tuple[int, ...]) -> None:
        """Names were learnt: what was resolved with fewer of them is looked at again."""
        if taught != self.taught:
            self.taught, self.seen = taught, dict.fromkeys(self.seen)


@dataclass(slots=True)
class SeriesMemory:
    """What one token's series have taught and told."""

    names: Names = field(default_factory=Names)
    codes: CodeEvents = field(default_factory=CodeEvents)
    sums: Sums = field(default_factory=Sums)
    cards: dict[str, Cards] = field(default_factory=dict)  # by host
    rotated_ms: int = 0
    seen: "SeenSeries" = field(default_factory=lambda: SeenSeries(MAX_SERIES))

    def copy(self) -> "SeriesMemory":
        """A copy that changes apart: what could not be stored comes again, and must be news again."""
        names, codes = self.names, self.codes
        return SeriesMemory(
            Names(dict(names.host_of), dict(names.up_of), dict(names.pci_of_uuid), set(names.told)),
            CodeEvents(dict(codes.shown), set(codes.there), set(codes.now_there)),
            self.sums.copy(),
            dict(self.cards),
            self.rotated_ms,
            self.seen,  # a series that is seen twice counts once
        )

    def rotate(self, now_ms: int) -> None:
        """Forget faults whose series were not there for a while."""
        if abs(now_ms - self.rotated_ms) >= ROTATE_MS:
            self.rotated_ms = now_ms
            self.codes.end_of_scrape()

    @property
    def taught(self) -> tuple[int, ...]:
        """How much was learnt: what was resolved before it grew may be named otherwise now."""
        names = self.names
        return len(names.host_of), len(names.up_of), len(names.pci_of_uuid), len(names.told)

    def learn(self, one: Identity) -> bool:
        """Take a device's names; whether they are news."""
        cards = self.cards.get(one.host)
        if cards is None and len(self.cards) >= MAX_HOSTS:
            return False
        fresh = Cards([] if cards is None else cards.known)
        news = bool(fresh.learn([one]))
        self.cards[one.host] = fresh if news or cards is None else cards
        return news

    def canonical(self, component: Name, host: str = UNKNOWN) -> Name:
        """The component's one name."""
        cards = self.cards.get(host_of(component) or host)
        return (cards.names if cards else _NO_NAMES).canonical(component, host)
