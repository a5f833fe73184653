"""The cables of a cluster: the module at each end of every link, its light, and what the ports at both ends count.

Modules are 400G-DR4 in kind: four lanes, -0.4 to 1.6 dBm sent, 0.6 to 1.9 dB lost on the way. Their own limits are
those of that kind. Errors are counted at the receiver; the ratio before correction grows tenfold with 1.5 dB.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sickbay.components import Kind, Name, name
from sickbay.schema import Samples
from simulator.parts.cluster import Card, Cluster
from simulator.parts.uplinks import Uplinks

Floats = NDArray[np.float64]
LANES = 4
HOST, LEAF = 0, 1  # ends of a cable; a direction is named after the end that receives
FLOOR_DBM = -40.0
RX_LOW_ALARM, RX_LOW_WARNING, TX_LOW_ALARM, TX_LOW_WARNING = -8.9, -5.9, -5.9, -2.9
LINE_BITS = 425e9  # a second, idle symbols included
COUNTED = ("symbol_errors_total", "rx_errors_total", "tx_discards_total")  # of ports: usually 0
PAUSE_FRAMES = 12_000.0  # a second hold a link of 400 Gb/s wholly: a frame holds it for 65,535 quanta of 512 bits
RATIO, PER_DB = -5.55, 0.65  # log10 of the usual error ratio before correction, and what a lost dB adds

End = tuple[int, int]  # row of the card, end of its cable


@dataclass(slots=True)
class Strain:
    """What is wrong with cables in one second. Effects write into it."""

    loss_db: dict[End, float] = field(default_factory=dict)  # on the way to that end, on `lanes`
    lanes: dict[End, int] = field(default_factory=dict)  # how many lose it; else all
    fade_db: dict[End, float] = field(default_factory=dict)  # the laser of that end sends less
    dark: set[End] = field(default_factory=set)  # the laser of that end sends nothing
    pauses: dict[End, float] = field(default_factory=dict)  # share of the second that this end makes the other hold
    stalled: dict[int, float] = field(default_factory=dict)  # seconds in which the host's bus stalled its adapter
    marked: dict[int, float] = field(default_factory=dict)  # packets that arrive with a congestion mark
    silent: set[str] = field(default_factory=set)  # switches that tell nothing
    noise_db: dict[End, float] = field(default_factory=dict)  # the receiver errs as if so much light were lost
    warmer: dict[End, float] = field(default_factory=dict)  # degrees above the module's own usual temperature
    out: set[End] = field(default_factory=set)  # no module is read at that end: none is there, or nobody answers for it
    swapped: dict[int, int] = field(default_factory=dict)  # row -> row at whose place of the switch its cable ends
    uplinks_down: set[int] = field(default_factory=set)  # rows of `uplinks`
    uplink_weights: dict[int, float] = field(default_factory=dict)  # row: how much the hashing prefers it, 1 = even
    uplink_counted: dict[tuple[int, int, str], float] = field(default_factory=dict)  # row, 0 leaf or 1 spine, column
    counted: dict[tuple[int, int, str], float] = field(default_factory=dict)  # row, end, column of ports: new counts

    def count(self, row: int, side: int, column: str, more: float) -> None:
        """The port at that end counted so much more in this second."""
        self.counted[row, side, column] = self.counted.get((row, side, column), 0.0) + more


@dataclass(frozen=True, slots=True)
class Light:
    """One second of all modules, (2, cards, lanes): dBm."""

    sent: Floats
    received: Floats


class Cables:
    """Readings of both ends of all cables; keeps the counters."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.rng = np.random.default_rng([seed, 0xCA])
        n = len(cluster.cards)
        self._power = self.rng.uniform(-0.4, 1.6, (2, n, 1)) + 0.15 * self.rng.standard_normal((2, n, LANES))
        self._loss = self.rng.uniform(0.6, 1.9, (2, n, 1)) + 0.1 * np.abs(self.rng.standard_normal((2, n, LANES)))
        self._ratio = RATIO + 0.25 * self.rng.standard_normal((2, n))
        self._warmth = 46 + 3 * self.rng.standard_normal((2, n))
        words = ("corrected", "bits", "rx_pause", "tx_pause", "rx_held", "tx_held", "stalled", "marked", "downs")
        self._counters = {word: np.zeros((2, n)) for word in (*words, *COUNTED)}
        self._counters["corrected"] += self.rng.uniform(1e9, 1e12, (2, n))
        self._counters["bits"] += self.rng.uniform(1e17, 4e17, (2, n))
        self._was_up, self.uplinks = np.ones(n, bool), Uplinks(cluster, seed)
        self.light, self.silent, self._now = self._shine(Strain()), frozenset[str](), Strain()

    def tick(self, now: Strain, up: NDArray[np.bool_], moved: Floats | None = None) -> None:
        """One second: light, then what it lets the ports count. `up`: per card; `moved`: bytes of each card's port."""
        self.uplinks.tick(now, np.zeros(len(up)) if moved is None else np.where(up, moved, 0.0))
        self.light, self.silent, self._now = self._shine(now), frozenset(now.silent), now
        counters, n = self._counters, len(up)
        lost = np.clip(self._arriving(self._power, now) - self.light.received, 0, 8)
        for (row, side), noise in now.noise_db.items():
            lost[side, row] += noise
        ratio = 10 ** (self._ratio + 0.06 * self.rng.standard_normal((2, n))) * (10 ** (PER_DB * lost)).mean(axis=2)
        counters["corrected"] += np.round(np.where(up, np.minimum(ratio, 0.1) * LINE_BITS, 0.0))
        counters["bits"] += np.where(up, LINE_BITS, 0.0)
        counters["downs"] += self._was_up & ~up
        self._was_up = up.copy()
        self._pause(now, up)
        for row, seconds in now.stalled.items():
            counters["stalled"][HOST, row] += seconds
        for row, packets in now.marked.items():
            counters["marked"][HOST, row] += round(packets)
        for (row, side, column), more in now.counted.items():
            counters.setdefault(column, np.zeros((2, n)))[side, row] += more

    def _arriving(self, sent: Floats, now: Strain) -> Floats:
        """What reaches each end of what the lasers send, through cables in health: the cable keeps its loss."""
        arriving: Floats = sent[::-1] - self._loss
        for row, there in now.swapped.items():
            arriving[HOST, row] = sent[LEAF, there] - self._loss[HOST, row]
            arriving[LEAF, there] = sent[HOST, row] - self._loss[LEAF, row]
        return arriving

    def _shine(self, now: Strain) -> Light:
        sent = self._power + 0.03 * self.rng.standard_normal(self._power.shape)
        for end, fade in now.fade_db.items():
            sent[end[1], end[0]] -= fade
        for row, side in now.dark:
            sent[side, row] = FLOOR_DBM
        received = self._arriving(sent, now) + 0.03 * self.rng.standard_normal(sent.shape)
        for (row, side), fall in now.loss_db.items():
            received[side, row, : now.lanes.get((row, side), LANES)] -= fall
        return Light(np.maximum(sent, FLOOR_DBM), np.maximum(received, FLOOR_DBM))

    def _pause(self, now: Strain, up: NDArray[np.bool_]) -> None:
        share = np.where(up, np.abs(self.rng.standard_normal((2, len(up)))) * 2e-4, 0.0)  # everybody sends a few
        for (row, side), told in now.pauses.items():
            share[side, row] = told if up[row] else 0.0
        frames = np.round(PAUSE_FRAMES * share)
        self._counters["tx_pause"] += frames
        self._counters["rx_pause"] += frames[::-1]
        self._counters["tx_held"] += np.round(1e6 * share)
        self._counters["rx_held"] += np.round(1e6 * share[::-1])

    def celsius(self, row: int, side: int) -> float:
        """Temperature of a module."""
        return float(self._warmth[side, row]) + self._now.warmer.get((row, side), 0.0)

    def present(self, row: int, side: int) -> bool:
        """A module is read at that end."""
        return (row, side) not in self._now.out

    def statistics(self, row: int, side: int) -> dict[str, int]:
        """What the port at that end has counted, by words of this module."""
        return {word: int(values[side, row]) for word, values in self._counters.items()}

    @cached_property
    def _modules(self) -> list[tuple[Name, int, int]]:
        """Names of all modules, with their end and row."""
        return [(optic(card, side), side, row) for row, card in enumerate(self.cluster.cards) for side in (HOST, LEAF)]

    def modules(self, at_ms: int) -> Samples:
        """The optic table of both ends, of those that tell anything; the weakest lane stands for all."""
        told = [
            (module, side, row)
            for module, side, row in self._modules
            if (side == HOST or self.cluster.cards[row].leaf not in self.silent) and self.present(row, side)
        ]
        columns = {
            "rx_power_dbm": np.array([self.light.received[side, row].min() for _, side, row in told]),
            "tx_power_dbm": np.array([self.light.sent[side, row].min() for _, side, row in told]),
            "rx_power_alarm_dbm": np.full(len(told), RX_LOW_ALARM),
        }
        return Samples("optic", [name for name, _, _ in told], np.full(len(told), at_ms, np.int64), columns)

    def leaf_ports(self, at_ms: int) -> Samples:
        """The port table of the switches' own ends, of those that tell anything."""
        told = [row for row, card in enumerate(self.cluster.cards) if card.leaf not in self.silent]
        return self._ports(told, LEAF, at_ms)

    def uplink_ports(self, at_ms: int) -> Samples:
        """The port table of both ends of the links between switches."""
        return self.uplinks.ports(at_ms, self.silent)

    def host_ports(self, at_ms: int) -> Samples:
        """The port table of the hosts' ends, as far as drivers' statistics tell it."""
        return self._ports(list(range(len(self.cluster.cards))), HOST, at_ms)

    def _ports(self, rows: list[int], side: int, at_ms: int) -> Samples:
        counters = {word: values[side][rows] for word, values in self._counters.items()}
        cards = [self.cluster.cards[row] for row in rows]
        columns = {
            "up": self._was_up[rows].astype(float),
            **{column: counters[column] for column in COUNTED},
            "corrected_bits_total": counters["corrected"],
            "received_bits_total": counters["bits"],
            "rx_pause_total": counters["rx_pause"],
            "tx_pause_total": counters["tx_pause"],
        }
        if side == HOST:
            columns |= {"bus_stalled_seconds_total": counters["stalled"], "link_downed_total": counters["downs"]}
        names = [card.port if side == HOST else card.switch_port for card in cards]
        return Samples("port", names, np.full(len(names), at_ms, np.int64), columns)


def serial(cluster: Cluster, card: Card, side: int) -> str:
    """Serial number of a module; ports of a switch that one breakout module serves show the same."""
    if side == HOST:
        return f"INH{card.serial[-8:]}{card.index}"
    first = mates(cluster, card)[0]
    return f"INL{first.serial[-9:]}"


def mates(cluster: Cluster, card: Card) -> tuple[Card, ...]:
    """Cards whose cables end in the same module at the switch."""
    own = cluster.under(card.leaf)
    place = own.index(card) // cluster.breakout * cluster.breakout
    return own[place : place + cluster.breakout]


def optic(card: Card, side: int) -> Name:
    """Name of a module, by the port that it stands in."""
    port = card.port if side == HOST else card.switch_port
    return name(Kind.OPTIC, *port.partition(":")[2].split("/"))
