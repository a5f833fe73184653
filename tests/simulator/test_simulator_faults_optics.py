"""Faults of optical modules and of what cables share: light tells which end it is."""

import pytest

from sickbay.components import Kind, name
from simulator.faults import modules, optics
from simulator.faults.modules import BadBatch, TrunkHurt
from simulator.parts.cables import HOST, LEAF, mates, optic, serial
from tests.simulator.site_kit import AT, misunderstood, parts_with, seen_at

FAULTS = {**optics.FAULTS, **modules.FAULTS}


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("severity", [1.0, 0.2])
def test_a_modules_fault_shows_at_its_links_alone(fault: str, severity: float) -> None:
    seen, _ = seen_at(fault, severity=severity)
    assert AT <= (seen.began() or 0) <= AT + 3
    about = {part for part in seen.expectation.touched if part.startswith("optic:")}
    assert {part for part in seen.parts() if part.startswith("optic:")} <= about
    assert not {part for part in seen.parts() if part.startswith(("switch:", "pdu:", "cdu:"))}
    ports = {part for part in seen.expectation.touched if part.startswith("port:")}
    assert parts_with(seen, "port", "up") <= ports
    assert seen.expectation.severity == severity


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_every_line_of_it_is_read(fault: str) -> None:
    seen, _ = seen_at(fault, severity=1.0)
    assert misunderstood(seen) == []
    kinds = {event.kind for event in seen.events("kernel", "switch")}
    assert kinds <= {"port.down", "port.up", "optic.unplugged", "optic.plugged", "optic.error"}


def test_dirt_takes_light_at_one_receiver_and_its_corrections_rise() -> None:
    seen, card = seen_at("link_attenuated", severity=1.0)
    assert parts_with(seen, "optic", "rx_power_dbm") == {optic(card, HOST)}
    assert not parts_with(seen, "optic", "tx_power_dbm")
    assert card.port in parts_with(seen, "port", "corrected_bits_total")
    assert not seen.added, "nobody says anything of it yet"
    assert {"replace_part", "drain_host"} <= seen.expectation.forbidden


def test_a_weak_laser_lowers_what_it_sends_and_what_the_far_end_receives() -> None:
    seen, card = seen_at("optic_fades", severity=1.0)
    assert parts_with(seen, "optic", "tx_power_dbm") == {optic(card, LEAF)}
    assert parts_with(seen, "optic", "rx_power_dbm") == {optic(card, HOST)}


def test_the_same_fault_is_smaller_where_it_is_hard_to_see() -> None:
    plain, card = seen_at("link_attenuated", severity=1.0)
    faint, same = seen_at("link_attenuated", severity=0.2)
    assert card == same
    assert plain.expectation.components == faint.expectation.components


def test_a_breakout_module_is_one_answer_for_all_that_it_serves() -> None:
    seen, card = seen_at("optic_shared", severity=1.0)
    cluster = seen.scenario.cluster
    part = name(Kind.OPTIC, card.leaf, serial(cluster, card, LEAF))
    assert seen.expectation.components == {part}
    assert parts_with(seen, "port", "up") == {
        one for mate in mates(cluster, card) for one in (mate.port, mate.switch_port)
    }


def test_a_hot_module_says_why_and_a_less_hot_one_says_nothing() -> None:
    seen, card = seen_at("optic_fault", severity=1.0, ramp_s=15)
    (told,) = seen.events("kernel")
    assert (told.kind, told.component) == ("optic.error", name(Kind.OPTIC, card.host, card.nic_pci))
    assert parts_with(seen, "port", "symbol_errors_total") == {card.port}
    assert not seen_at("optic_fault", severity=0.2, ramp_s=15)[0].events("kernel", "switch")


@pytest.mark.parametrize("side", [HOST, LEAF])
def test_a_module_out_of_its_cage_is_told_by_its_own_end(side: int) -> None:
    seen, card = seen_at("optic_unplugged", side=side, lasts_s=12)
    told = [event for event in seen.events("kernel", "switch") if event.kind.startswith("optic.")]
    assert [event.kind for event in told] == ["optic.unplugged", "optic.plugged"]
    at = name(Kind.OPTIC, card.host, card.nic_pci) if side == HOST else optic(card, LEAF)
    assert {event.component for event in told} == {at}
    assert optic(card, side) in seen.changed("optic"), "it is not read while it is out"


@pytest.mark.parametrize("fault", ["trunk_bent", "trunk_cut"])
def test_a_trunk_takes_light_both_ways_on_all_its_cables_in_one_second(fault: str) -> None:
    seen, card = seen_at(fault, severity=1.0)
    cards = TrunkHurt(at=AT, card=card).cards(seen.scenario.cluster)
    ends = {optic(one, side) for one in cards for side in (HOST, LEAF)}
    assert len(cards) == 4
    assert parts_with(seen, "optic", "rx_power_dbm") == ends
    assert {seen.first("optic", end, "rx_power_dbm") for end in ends} == {AT}
    assert f"switch:{card.leaf}" in seen.expectation.exonerated


def test_a_bad_batch_fades_one_module_after_another() -> None:
    seen, card = seen_at("optic_batch", severity=1.0, apart_s=12)
    chosen = BadBatch(at=AT, card=card, apart_s=12).chosen(seen.scenario.cluster)
    firsts = [seen.first("optic", optic(one, LEAF), "tx_power_dbm") for one in chosen]
    assert firsts == [AT, AT + 12, AT + 24]
    assert len(set(chosen)) == 3
