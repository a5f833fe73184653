"""Faults of switches and of the fabric between them, and pause: hosts behind them show it, and are innocent."""

import pytest

from collectors.formats import log
from collectors.formats.reading import Tally
from sickbay.messages import Change
from simulator.faults import network, pause, switch
from simulator.parts.cluster import Card
from simulator.parts.uplinks import uplinks, uplinks_of
from tests.simulator.signature_kit import Signature
from tests.simulator.site_kit import AT, misunderstood, parts_with, seen_of

FAULTS = {**switch.FAULTS, **network.FAULTS, **pause.FAULTS}
QUIET = {"pause_sent", "path_broken", "switch_drops", "switch_drops_untold", "route_changed", "uplink_errors"}


def leaf_of(found: Signature) -> str:
    return found.target.leaf if isinstance(found.target, Card) else str(found.target)


def behind(found: Signature) -> set[str]:
    """Hosts of the jobs of which a part hangs on the leaf."""
    own = {card.host for card in found.scenario.cluster.under(leaf_of(found))}
    return {host for job in found.scenario.jobs if own & set(job.hosts) for host in job.hosts}


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("severity", [1.0, 0.2])
def test_it_shows_behind_its_switch_alone_and_not_before_it_begins(fault: str, severity: float) -> None:
    found = seen_of(fault, severity=severity)
    assert AT <= (found.began() or 0) <= AT + 3
    everywhere = set(found.scenario.cluster.hosts)
    assert found.hosts() <= (everywhere if fault in ("pause_sent", "spine_down") else behind(found))
    assert not parts_with(found, "optic", "rx_power_dbm")
    assert not {part for part in found.parts() if part.startswith(("pdu:", "cdu:"))}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_every_line_of_it_is_read(fault: str) -> None:
    assert misunderstood(seen_of(fault)) == []


@pytest.mark.parametrize("fault", sorted(QUIET))
def test_no_port_goes_down_for_what_is_no_fault_of_a_port(fault: str) -> None:
    assert not parts_with(seen_of(fault), "port", "up")


def test_a_restarting_leaf_takes_all_its_carriers_and_falls_silent() -> None:
    found = seen_of("switch_down", away=20)
    cards = found.scenario.cluster.under(leaf_of(found))
    assert {card.port for card in cards} <= parts_with(found, "port", "up")
    assert {event.kind for event in found.events("kernel")} == {"port.down", "port.up"}
    assert {f"host:{card.host}" for card in cards} <= found.expectation.exonerated


def test_a_chip_that_drops_shows_at_whoever_sends_again_and_counts_nothing_itself() -> None:
    told, untold = seen_of("switch_drops", breaks_s=30), seen_of("switch_drops_untold", breaks_s=30)
    cards = {card.port for card in told.scenario.cluster.under(leaf_of(told))}
    for found in (told, untold):
        assert parts_with(found, "port", "retransmits_total") == cards
        assert not parts_with(found, "port", "symbol_errors_total")
    assert [event.kind for event in told.events("switch")] == ["switch.asic_fatal"]
    assert not untold.events("switch")
    assert [event.kind for event in seen_of("switch_drops", severity=0.2).events("switch")] == ["switch.asic_notice"]


def test_one_uplink_of_many_is_told_by_both_switches_and_takes_no_carrier_of_a_host() -> None:
    found = seen_of("uplink_lost", which=2)
    (_, lost) = uplinks_of(found.scenario.cluster, leaf_of(found))[2]
    assert parts_with(found, "port", "up") == set(lost.ends)
    assert {event.component for event in found.events("switch")} == set(lost.ends)
    assert found.expectation.components == {lost.component, *lost.ends}
    others = {part for one in uplinks_of(found.scenario.cluster, leaf_of(found)) for part in one[1].ends} - set(
        lost.ends
    )
    assert parts_with(found, "port", "tx_bytes_total") & others, "the others carry what it carried"


def test_a_spine_takes_an_uplink_of_every_leaf_in_one_second_and_no_carrier_of_a_host() -> None:
    found = seen_of("spine_down", lasts_s=20)
    (switch,) = found.expectation.components
    below = [one for one in uplinks(found.scenario.cluster) if f"switch:{one.spine}" == switch]
    assert {one.leaf for one in below} == set(found.scenario.cluster.leaves)
    assert {one.ends[0] for one in below} <= parts_with(found, "port", "up")
    assert not parts_with(found, "port", "up") & set(found.scenario.cluster.ports)
    assert {event.kind for event in found.events("switch")} == {"port.down", "port.up"}
    assert {f"switch:{leaf}" for leaf in found.scenario.cluster.leaves} <= found.expectation.exonerated


def test_a_bad_uplink_counts_symbols_at_its_receiver_and_hosts_send_again() -> None:
    found = seen_of("uplink_errors")
    (_, bad) = uplinks_of(found.scenario.cluster, leaf_of(found))[1]
    assert parts_with(found, "port", "symbol_errors_total") == {bad.ends[0]}
    sending = {card.port for card in found.scenario.cluster.under(leaf_of(found))}
    assert parts_with(found, "port", "retransmits_total") == sending


def test_a_change_of_hashing_is_told_as_a_change_and_marks_follow() -> None:
    found = seen_of("route_changed")
    (line,) = [line for _, line in found.added if line.source == "switch"]
    (change,) = [one.record for one in log.read([line.text.encode() + b"\n"], Tally(), "a.log")]
    assert isinstance(change, Change)
    assert (change.who, change.what) == ("rong", "configuration")
    marked = parts_with(found, "port", "congestion_marked_total")
    assert {found.first("port", port, "congestion_marked_total") for port in marked} == {AT + 20}
    hosts = {part.partition(":")[2].split("/")[0] for part in marked}
    assert 0 < len(hosts) < len(found.scenario.cluster.hosts)
    assert "cost_out_link" in found.expectation.forbidden


def test_a_path_breaks_with_every_counter_well() -> None:
    found = seen_of("path_broken", timeout_s=60)
    told = [event for event in found.events("job") if event.kind == "path.retry_exceeded"]
    assert len(told) == 2
    assert {event.component for event in told} <= found.expectation.components
    assert not parts_with(found, "port", "retransmits_total")


def test_who_sends_pause_is_one_and_who_receives_it_are_all_others() -> None:
    found = seen_of("pause_sent")
    card = found.target
    assert isinstance(card, Card)
    assert found.first("port", card.port, "bus_stalled_seconds_total") == AT
    assert parts_with(found, "port", "bus_stalled_seconds_total") == {card.port}
    others = {one.port for one in found.scenario.cluster.cards if one.host != card.host}
    assert parts_with(found, "port", "rx_pause_total") >= others, "they are held, and send none"
    assert not parts_with(found, "port", "tx_pause_total") & others
    held = {event.component for event in found.events("switch")}
    assert card.switch_port in held
    assert len(held) == 2, "the leaf's host port, and a trunk above"
