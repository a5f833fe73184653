"""What kernels said at boot of narrow host links, judged by peers: the line alone cannot tell a fault from a design.

Its "capable of" is what the card can do. A slot wired with fewer lanes prints the same line on every healthy host, so
only peers that are wider make it a fault. Lower speed alone, network adapters and disks stay events.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from diagnosis.case import Case
from diagnosis.evidence import STRONG, WEAK
from diagnosis.frames import names_of
from sickbay.components import UNKNOWN, Kind, Name, host_of, kind_of, name, parts_of, pci_address
from sickbay.messages import Event

OTHER_DEVICES = frozenset({"nic", "disk"})  # often behind fewer lanes by design
WIDER_HOSTS, WIDER_CARDS = 2, 3  # [house] that make a strong claim: the slot on other hosts, or cards beside it
BY_DESIGN = 0.25  # of the peers known: a larger share with the same width is how the machines are built


Place: TypeAlias = tuple[str, str]  # host, slot


@dataclass(frozen=True, slots=True)
class Told:
    """One narrow link as its host's kernel told it; `slot` is the address without its function."""

    component: Name
    host: str
    slot: str
    lanes: int
    limit: int
    known_card: bool
    events: tuple[Event, ...]


@dataclass
class Widths:
    """The width of each slot of each host, as far as known: what a kernel told goes before what was measured."""

    lanes: dict[Place, float] = field(default_factory=dict)
    models: dict[Place, str] = field(default_factory=dict)

    def on_hosts(self, own: Place) -> list[float]:
        """Of the same slot on other hosts."""
        return [
            lanes for at, lanes in self.lanes.items() if at[1] == own[1] and at[0] != own[0] and self._alike(at, own)
        ]

    def beside(self, own: Place) -> list[float]:
        """Of the other cards of a host."""
        return [
            lanes for at, lanes in self.lanes.items() if at[0] == own[0] and at[1] != own[1] and self._alike(at, own)
        ]

    def _alike(self, one: Place, other: Place) -> bool:
        """Cards of another model tell nothing."""
        return "" in (models := {self.models.get(one, ""), self.models.get(other, "")}) or len(models) == 1


def slots_of(case: Case) -> dict[Name, str]:
    """The address of each accelerator that an identity tells one of."""
    return {
        known: pci_address(one.pci) or one.pci
        for one in case.identities
        if one.kind == Kind.ACCELERATOR and one.pci
        for known in names_of(one)
    }


def slot_of(component: Name, slots: Mapping[Name, str]) -> str:
    """The address of an accelerator; its own name where that is none."""
    return slots.get(component) or "/".join(parts_of(component)[1:])


def place_of(component: Name, slots: Mapping[Name, str]) -> Place:
    """Where an accelerator sits."""
    return host_of(component) or UNKNOWN, slot_of(component, slots)


def widths_of(case: Case, measured: Mapping[Name, float], slots: Mapping[Name, str]) -> Widths:
    """The measured widths by place."""
    models = {place_of(known, slots): one.model for one in case.identities if one.model for known in names_of(one)}
    return Widths({place_of(card, slots): lanes for card, lanes in measured.items()}, models)


def told_widths(case: Case, measured: Mapping[Name, float], narrow: Iterable[Name]) -> tuple[list[Told], Widths]:
    """Links that kernels told to be narrow, and all widths known. `measured`: lanes; `narrow`: which cards are."""
    slots = slots_of(case)
    widths = widths_of(case, measured, slots)
    groups: dict[Name, list[Event]] = defaultdict(list)
    for event in case.events:
        if event.kind == "pcie.degraded" and _lanes(event) and event.attributes.get("device") not in OTHER_DEVICES:
            groups[event.component].append(event)
    cards = {place_of(card, slots): card for card in (*slots, *measured)}
    told = [one for events in groups.values() if (one := _told(events, cards)) is not None]
    for events in groups.values():
        host, slot = _place(events[0])
        widths.lanes[host, slot] = _lanes(events[-1])[0]
    return _same_fact(told, measured, list(narrow), slots), widths


def _place(event: Event) -> Place:
    words = parts_of(event.component)
    return words[0], pci_address(words[-1]) or words[-1]


def _lanes(event: Event) -> tuple[int, ...]:
    told = (event.attributes.get("width", ""), event.attributes.get("full_width", ""))
    return tuple(map(int, told)) if all(word.isascii() and word.isdigit() and len(word) < 4 for word in told) else ()


def _told(events: list[Event], cards: Mapping[Place, Name]) -> Told | None:
    """None where the latest word is of full width: only the speed is lower, or it has been repaired."""
    lanes, limit = _lanes(events[-1])
    if lanes >= limit or kind_of(events[-1].component) is not Kind.PCIE:
        return None
    host, slot = _place(events[-1])
    card = cards.get((host, slot))
    if card is None and events[-1].attributes.get("device") == Kind.ACCELERATOR:
        card = name(Kind.ACCELERATOR, host, slot)
    return Told(card or events[-1].component, host, slot, lanes, limit, card is not None, (events[-1],))


def _same_fact(
    told: list[Told], measured: Mapping[Name, float], narrow: list[Name], slots: Mapping[Name, str]
) -> list[Told]:
    """Where a host's exporter gives no addresses, its one narrow card is the one that the kernel told of."""
    result = []
    for one in told:
        unplaced = [card for card in narrow if host_of(card) == one.host and not pci_address(slot_of(card, slots))]
        alone = sum(other.host == one.host for other in told) == 1
        if alone and len(unplaced) == 1 and measured.get(unplaced[0]) == one.lanes:
            one = Told(unplaced[0], one.host, one.slot, one.lanes, one.limit, True, one.events)
        result.append(one)
    return result


def strength(one: Told, told: list[Told], widths: Widths, measured: Mapping[Name, float]) -> float:
    """The log-likelihood ratio that peers leave to what a kernel told; 0 where it is how the machines are built."""
    place = (one.host, one.slot)
    on_hosts, beside = widths.on_hosts(place), widths.beside(place)
    here = [other for other in told if other.host == one.host]
    if usual(on_hosts, one.lanes) or (len(here) > 1 and usual(beside, one.lanes)):
        return 0.0
    if measured.get(one.component, 0.0) > one.lanes:
        return WEAK  # a later reading says otherwise
    wider_hosts = sum(lanes > one.lanes for lanes in on_hosts)
    wider_cards = sum(lanes > one.lanes for lanes in beside)
    if wider_hosts >= WIDER_HOSTS or wider_cards >= WIDER_CARDS:
        return STRONG
    return WEAK if one.known_card else 0.0


def usual(peers: list[float], lanes: float) -> bool:
    """Whether enough peers have no more lanes for this to be by design."""
    alike = sum(other <= lanes for other in peers)
    return alike > 0 and alike > BY_DESIGN * len(peers)
