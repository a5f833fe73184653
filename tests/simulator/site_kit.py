"""Signatures of faults of the network, of storage and of the facility: each made once, however many tests look."""

from functools import lru_cache

from sickbay.components import Kind, Name, name
from simulator.parts.cluster import Card
from tests.simulator.signature_kit import Signature, signature, unread

AT = 30


@lru_cache(maxsize=64)
def _made(fault: str, settings: tuple[tuple[str, object], ...]) -> Signature:
    told = {"until_s": 75, "at_s": AT, "site": True} | dict(settings)
    return signature(fault, **told)  # type: ignore[arg-type]


def seen_of(fault: str, **settings: object) -> Signature:
    """What the fault changes when it begins at 30 s of a night of 75 s."""
    return _made(fault, tuple(sorted(settings.items(), key=lambda one: one[0])))


def seen_at(fault: str, **settings: object) -> tuple[Signature, Card]:
    """The same of a fault of a card, with the card."""
    seen = seen_of(fault, **settings)
    assert isinstance(seen.target, Card)
    return seen, seen.target


def misunderstood(seen: Signature) -> list[str]:
    """Added lines that no collector makes anything of; a job's own lines of steps left out."""
    ours = [line for _, line in seen.added if "elapsed time per iteration" not in line.text]
    return [line.text for line in unread(ours, seen.scenario.start_ms)]


def adapter(card: Card) -> Name:
    """The card's network adapter."""
    return name(Kind.NIC, card.host, card.nic_pci)


def columns(seen: Signature, *tables: str) -> dict[Name, set[str]]:
    """Component -> columns that differ, of these tables."""
    return {part: set(row) for table in tables for part, row in seen.changed(table).items()}


def parts_with(seen: Signature, table: str, column: str) -> set[Name]:
    """Components of a table of which a column differs."""
    return {part for part, row in seen.changed(table).items() if column in row}
