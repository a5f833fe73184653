"""A card that is told to be lost and goes on telling: the line is old, or not true."""

import polars as pl
import pytest

from diagnosis.engine import diagnose
from sickbay.messages import Action, Incident
from tests.diagnosis.kit import HOSTS, T0, Change, Row, accelerators, card, case, event, placement

CARD = card("h17", 3)


def judged(change: Change | None, *, seen_s: float | None = None, to_s: int = 60) -> Incident:
    lost = event(
        "accelerator.off_bus", CARD, code="Xid 79", seen_ms=None if seen_s is None else T0 + int(seen_s * 1000)
    )
    telemetry: dict[str, pl.DataFrame] = {"accelerator": accelerators(HOSTS, change, to_s=to_s)}
    found = diagnose(case([lost], [placement("4471", HOSTS)], features=telemetry))
    (incident,) = [one for one in found if one.component == CARD]
    return incident


def gone(component: str, end_s: int, row: Row) -> Row | None:
    return None if component == CARD and end_s > 0 else row


def frozen(component: str, end_s: int, row: Row) -> Row | None:
    still = {"power_watts": 600.0, "temperature_celsius": 60.0, "matrix_active_ratio": 0.5}
    return row | still if component == CARD and end_s > 0 else row


def back(component: str, end_s: int, row: Row) -> Row | None:
    return None if component == CARD and 0 < end_s <= 90 else row


def soon_back(component: str, end_s: int, row: Row) -> Row | None:
    return None if component == CARD and 0 < end_s <= 20 else row  # power-cycled at once


@pytest.mark.parametrize("change", [gone, frozen, back, soon_back])
def test_a_card_that_is_gone_or_frozen_or_back_after_a_boot_is_lost(change: Change) -> None:
    incident = judged(change, to_s=180)
    assert (incident.fault, incident.action) == ("accelerator_off_bus", Action.REBOOT_HOST)
    assert incident.probability >= 0.95


def test_a_card_that_goes_on_telling_is_not_lost() -> None:
    incident = judged(None)
    assert incident.probability < 0.7
    assert incident.action is Action.WATCH
    assert [one.says for one in incident.evidence] == ["explicit_but_there"]


def test_what_counts_is_what_came_after_the_word_was_read() -> None:
    """The clock of the host's log is 90 s behind: the card lived until the line was written."""

    def later(component: str, end_s: int, row: Row) -> Row | None:
        return None if component == CARD and end_s > 90 else row

    assert judged(later, seen_s=90.5, to_s=180).probability >= 0.95
    assert judged(None, seen_s=90.5, to_s=180).probability < 0.7


def test_too_little_telemetry_tells_nothing() -> None:
    assert judged(None, to_s=30).probability >= 0.95
