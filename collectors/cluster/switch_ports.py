"""Ports of one switch: their rows, and what a change of their state means.

Rules, each of which has a test:
  first look   a port that is down when it is first seen was perhaps never used: a state, no event
  settle       a port that goes down waits a second for the word that a person closed it: then nobody lost a link
  closed       a port that a person closed tells no state, so that nobody takes it for a lost link
  priorities   what is told for each priority adds up to the port's own column; of two names of one thing the larger
  taken away   a counter that is told no more is missing, not zero
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from collectors.formats.events import event
from collectors.formats.switch_facts import Fact, is_logical
from sickbay.components import Kind, Name, name
from sickbay.messages import Change, Event, replace
from sickbay.schema import PORT

SETTLE_MS = 1_000
BELIEVED_MS = 600_000  # a change that was so long before we heard of it: it came while nobody listened
MOST_WAITING = 32  # changes of one port between two looks
MOST_LANES = 64
COLUMNS = frozenset(PORT.names)
LARGER = frozenset({"carrier_changes_total"})
_ETHERNET = ("ethernetcsmacd", "6")  # IANAifType: everything else has no cable of its own


@dataclass(slots=True)
class Port:
    """One port as its switch tells it."""

    component: Name
    logical: bool = False
    used: bool = False  # it was up: only then it counts as a part of its switch, of which a share may be lost
    oper: str = ""  # up, down, "": not told, or between
    admin: str = ""
    module: str = ""
    last_change_s: float = 0.0  # since 1970, by our clock
    error_ratio: float | None = None  # before correction, told since the last row: the module's, told by its port
    fresh: dict[str, float] = field(default_factory=dict)  # columns told since the last row
    lanes: dict[str, dict[str, float]] = field(default_factory=dict)
    waiting: list[tuple[str, int, int]] = field(default_factory=list)  # kind, when it was, when it is due
    orders: list[tuple[str, str, int, bool]] = field(default_factory=list)  # new, old, when, and whether it was up
    _change_when_up_s: float = 0.0

    def take(self, fact: Fact, at_ms: int, now_ms: int) -> None:
        """One fact, of that time, that came now."""
        value = fact.value
        if fact.field in COLUMNS:
            self._column(fact)
        elif fact.field == "oper":
            self._oper(str(value or ""), at_ms, now_ms)
        elif fact.field == "admin":
            self._admin(str(value or ""), at_ms)
        elif fact.field == "errors_before_correction_ratio":
            told = isinstance(value, int | float) and 0 <= value <= 1
            self.error_ratio = float(value) if told else None  # type: ignore[arg-type]
        elif fact.field == "module":
            self.module = str(value or "")
        elif fact.field == "last_change_s":
            self.last_change_s = float(value or 0.0)
            if self.oper == "up":
                self._change_when_up_s = self.last_change_s
        elif fact.field == "type" and value:
            self.logical = str(value).rpartition(":")[2].lower() not in _ETHERNET

    def row(self) -> dict[str, float]:
        """The columns told since the last row, with the state as it stands."""
        row, self.fresh = self.fresh, {}
        if row and self.oper and self.admin != "down":
            row["up"] = float(self.oper == "up")
        elif self.admin == "down":
            row.pop("speed_gigabits_per_second", None)
        return row

    def due(self, now_ms: int) -> Iterator[Event | Change]:
        """What has happened and needs no further word, in order."""
        for told, before, at_ms, with_it in self.orders:
            yield from self._ordered(told, before, self._when(at_ms) if with_it else at_ms)
        self.orders = []
        while self.waiting and self.waiting[0][2] <= now_ms:
            kind, at_ms, _ = self.waiting.pop(0)
            if kind == "port.down" and not self.waiting:
                at_ms = self._when(at_ms)
            said = f"oper-status {kind.rpartition('.')[2]}"
            yield replace(event(kind, self.component, code="oper-status"), at_ms=at_ms, message=said)

    def _column(self, fact: Fact) -> None:
        if fact.lane:
            lanes = self.lanes.setdefault(fact.field, {})
            if fact.value is None:
                lanes.pop(fact.lane, None)
            elif fact.lane in lanes or len(lanes) < MOST_LANES:
                lanes[fact.lane] = float(fact.value)
            if lanes:
                join = max if fact.field in LARGER else sum
                self.fresh[fact.field] = join(lanes.values())
        elif fact.value is None:
            self.fresh.pop(fact.field, None)
        else:
            self.fresh[fact.field] = float(fact.value)

    def _oper(self, told: str, at_ms: int, now_ms: int) -> None:
        before, self.oper = self.oper, told or self.oper
        if told == "up":
            self._change_when_up_s = self.last_change_s
        if self.admin != "down":
            self.fresh["up"] = float(self.oper == "up")
        if not told or not before or told == before or self.logical or self.admin == "down":
            return
        due_ms = now_ms + (SETTLE_MS if told == "down" else 0)
        if len(self.waiting) < MOST_WAITING:
            self.waiting.append((f"port.{told}", at_ms, max([due_ms, *(due for *_, due in self.waiting)])))

    def _admin(self, told: str, at_ms: int) -> None:
        before, self.admin = self.admin, told or self.admin
        if told == before or not told:
            return
        if told == "down":
            self.waiting = [one for one in self.waiting if one[0] != "port.down" or one[1] < at_ms - SETTLE_MS]
            self.fresh.pop("up", None)
        if before and len(self.orders) < MOST_WAITING:
            self.orders.append((told, before, at_ms, told == "down" and self.oper == "up"))

    def _ordered(self, told: str, before: str, at_ms: int) -> Iterator[Event | Change]:
        what = f"port {'closed' if told == 'down' else 'opened'}"
        yield Change(target=self.component, what=what, old=before, new=told, at_ms=at_ms)
        if told == "down":
            closed = event("port.admin_down", self.component, code="admin-status")
            yield replace(closed, at_ms=at_ms, message="admin-status down")

    def _when(self, at_ms: int) -> int:
        """When it went down, which was noticed at `at_ms`: as the switch says, where it has said so since."""
        changed_ms = round(self.last_change_s * 1000)
        said = self.last_change_s != self._change_when_up_s
        return changed_ms if said and 0 <= at_ms - changed_ms <= BELIEVED_MS else at_ms


def port_of(switch: str, port: str) -> Port:
    """A port that was not known before."""
    return Port(name(Kind.PORT, switch, port), is_logical(port))
