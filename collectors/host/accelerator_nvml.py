"""NVIDIA's accelerators by the driver's own library, where no exporter measures them; and always their names.

A process of its own calls the library: a call that hangs is told within the time limit, with the card that it hangs at,
and holds up nothing else. While it hangs nothing more is asked of the driver.
"""

from collections.abc import Callable, Sequence

import numpy as np

from collectors.agent.source import Collected, Host, Seen
from collectors.formats import nvml_answers
from collectors.formats.metric_names import vendors
from collectors.formats.reading import Record
from collectors.host.accelerator_bus import look
from collectors.host.child import Child, ChildGone, Line, python
from collectors.host.tree import Tree
from sickbay.components import Kind, name
from sickbay.schema import TABLES, Samples

LOOK_MS, SLOW_MS, NAMES_MS = 30_000, 10_000, 600_000
GRACE_MS = 60_000  # so long an exporter may say nothing of accelerators; exporters fall silent where a device hangs
FIRST_S = 8.0  # of the first answer: the driver may have to wake its cards, some 1 s each
PATH = "NVML"
LIBRARY_NOT_FOUND = 12  # nvmlReturn_t
MISSING = "nvidia-ml-py is not installed: pip install 'sickbay[nvml]', or set their exporter in [agent] exporters"

MakeChild = Callable[[], Child]


def child() -> Child:
    """The process that calls the library."""
    return Child(python("collectors.host.nvml_calls"))


class AcceleratorNvml:
    """The collector `accelerator_nvml`."""

    name = "accelerator_nvml"
    asks_driver = True

    def __init__(self, host: Host, make: MakeChild) -> None:
        self.interval_s = host.settings.sample_s
        self._host, self._child, self._tree = host, make(), Tree(host.root)
        self._cards, self._lines = nvml_answers.Cards(), list[Line]()  # of the answer underway
        self._question, self._measures = "", False
        self._there, self._driven, self._looked_ms = 0, 0, -LOOK_MS  # cards on the bus, and those that its driver has
        self._began_ms: int | None = None
        self._slow_ms, self._named_ms, self._reread_ms = -SLOW_MS, -NAMES_MS, 0
        self._answered = False
        self._unread = list[Line]()  # came before it was clear whether the first answer hangs
        self._refused, self._refused_ms = "", -LOOK_MS  # why the library could not be used, and when

    def collect(self, now_ms: int) -> Collected:
        """A row for each card. A host without such cards is asked nothing."""
        self._began_ms = now_ms if self._began_ms is None else self._began_ms
        if not 0 <= now_ms - self._looked_ms < LOOK_MS:
            cards = [card for card in look(self._tree) if card.vendor == _vendor()]
            self._looked_ms, self._there = now_ms, len(cards)
            self._driven = sum(card.driver in vendors()["nvidia"].drivers for card in cards)
        if not self._there:
            return Collected(problem=self._tree.blind(), absent=f"no card of {_vendor()} on the bus")
        if not self._child.hangs_s:
            self._question, self._lines = self._next(now_ms), []
            if self._refused and 0 <= now_ms - self._refused_ms < SLOW_MS:
                return Collected(self._up(now_ms, 0.0), problem=self._refused)
            if not self._question:
                return Collected(absent="an exporter of [agent] exporters measures them")
        try:
            lines, whole = self._child.ask(self._question, self._host.settings.timeout_s)
        except ChildGone as error:
            self._host.shared.hangs = ""
            return Collected(self._up(now_ms, 0.0), problem=f"the driver's library: {error}")
        self._lines += lines
        return self._heard(lines, now_ms) if whole else self._hanging(lines, now_ms)

    def close(self) -> None:
        """Let the process go; one that hangs is left behind."""
        self._child.close()

    def _next(self, now_ms: int) -> str:
        """What to ask now, "" for nothing."""
        last_ms = self._host.shared.measured_ms or (self._began_ms or 0)
        stands_in = not self._host.settings.exporters or not 0 <= now_ms - last_ms < GRACE_MS
        self._measures = stands_in and not self._host.shared.measured_ms
        if not 0 <= now_ms - self._named_ms < NAMES_MS:
            return "names"
        if self._host.shared.reread_ms > self._reread_ms:
            return "slow"
        if not stands_in:
            return ""
        return "fast" if 0 <= now_ms - self._slow_ms < SLOW_MS else "slow"

    def _hanging(self, lines: Sequence[Line], now_ms: int) -> Collected:
        """No whole answer: what there is of it, and where it hangs."""
        if not self._answered and self._child.hangs_s < FIRST_S:
            self._unread += lines
            return Collected()
        begun = next((line["begins"] for line in reversed(self._lines) if "begins" in line), None)
        records, _ = self._read(lines, now_ms)
        where = f" at {self._cards.where(begun)}" if begun is not None else ""
        self._host.shared.hangs = f"a call of the driver hangs{where}"
        problem = f"{self._host.shared.hangs}, for {self._child.hangs_s:.0f} s"
        return Collected([*self._told(records, now_ms), *self._up(now_ms, 0.0)], problem=problem)

    def _heard(self, lines: Sequence[Line], now_ms: int) -> Collected:
        self._host.shared.hangs, self._answered, self._refused = "", True, ""
        if fatal := next((line["fatal"] for line in lines if "fatal" in line), None):
            return self._without(*_fatal(fatal), now_ms)
        if self._question == "names":
            self._named_ms = now_ms
        elif self._question == "slow":
            self._slow_ms = self._reread_ms = now_ms
        self._host.shared.driver = (now_ms, [line for line in self._lines if "card" in line])
        records, trouble = self._read(lines, now_ms)
        return Collected([*self._told(records, now_ms), *self._up(now_ms, 1.0)], problem=trouble or self._fewer())

    def _without(self, missing: bool, why: str, now_ms: int) -> Collected:
        """The library cannot be used. Where an exporter measures, one that is not there is not missed."""
        self._named_ms = now_ms
        if missing and self._host.shared.measured_ms:
            return Collected(absent=why)
        self._refused, self._refused_ms = why, now_ms
        return Collected(self._up(now_ms, 0.0), problem=why)

    def _read(self, lines: Sequence[Line], now_ms: int) -> tuple[list[Record], str]:
        unread, self._unread = [*self._unread, *lines], []
        return self._cards.read(unread, now_ms)

    def _fewer(self) -> str:
        """A card that the driver has and does not tell of is measured by nobody."""
        told = next((line["end"] for line in reversed(self._lines) if "end" in line), 0)
        fewer = isinstance(told, int) and told < self._driven
        return f"the driver tells of {told} of its {self._driven} cards on the bus" if fewer else ""

    def _told(self, records: Sequence[Record], now_ms: int) -> list[Seen]:
        """All of it where no exporter ever measured; beside one, or in place of one that fell silent, the gauges."""
        if not self._measures:
            records = [*(one for one in records if not isinstance(one, Samples)), *_gauges(records)]
        return self._seen(records, now_ms)

    def _seen(self, records: Sequence[Record], now_ms: int) -> list[Seen]:
        return [Seen(record, now_ms, PATH, host=self._host.name) for record in records]

    def _up(self, now_ms: int, answered: float) -> list[Seen]:
        """Whether the driver answers; where an exporter measures, that is the exporter's word."""
        if self._host.shared.measured_ms:
            return []
        host = [name(Kind.HOST, self._host.name)]
        values = {"up": np.ones(1), "accelerator_source_up": np.full(1, answered)}
        return self._seen([Samples("host", host, np.array([now_ms], np.int64), values)], now_ms)


def _gauges(records: Sequence[Record]) -> list[Record]:
    """What a second look may tell beside an exporter: values that stand for themselves. Counters would make steps."""
    told: list[Record] = []
    for one in records:
        if isinstance(one, Samples):
            kinds = {column.name: column.type for column in TABLES[one.table].columns}
            values = {key: value for key, value in one.values.items() if kinds[key] == "gauge"}
            told += [Samples(one.table, one.component, one.at_ms, values)] if values else []
    return told


def _vendor() -> str:
    return vendors()["nvidia"].name


def _fatal(told: object) -> tuple[bool, str]:
    """(whether it is not there at all, why it cannot be used)."""
    code, text = (told[0], str(told[1])[:200]) if isinstance(told, list) and len(told) == 2 else (-1, "no answer")
    return code in (0, LIBRARY_NOT_FOUND), MISSING if code == 0 else f"the driver's library: {text}"


def collectors(host: Host) -> Sequence[AcceleratorNvml]:
    """One."""
    return (AcceleratorNvml(host, child),)
