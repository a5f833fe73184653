"""Faults of cables and of the ports at their ends: both ends show them within two seconds, and nobody else's do."""

import pytest

from simulator.faults.link import FAULTS, CableSwapped
from simulator.faults.optics import PATIENCE_S
from simulator.parts.cables import HOST, LEAF, optic
from tests.simulator.site_kit import AT, columns, misunderstood, parts_with, seen_at

CARRIERS = ("link_down", "switch_port_dead", "link_flap", "link_narrow", "cable_swapped")


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("severity", [1.0, 0.2])
def test_a_links_fault_shows_at_its_ends_and_its_job_alone(fault: str, severity: float) -> None:
    seen, card = seen_at(fault, severity=severity)
    assert AT <= (seen.began() or 0) <= AT + 2
    hosts = {card.host}
    if fault == "cable_swapped":
        hosts |= {CableSwapped(at=AT, card=card).other(seen.scenario.cluster).host}
    jobs = {host for job in seen.scenario.jobs if hosts & set(job.hosts) for host in job.hosts}
    assert seen.hosts() <= jobs
    assert not {part for part in seen.parts() if part.startswith(("switch:", "pdu:", "cdu:"))}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_every_line_of_it_is_read(fault: str) -> None:
    seen, _ = seen_at(fault, severity=1.0)
    assert misunderstood(seen) == []
    kinds = {event.kind for event in seen.events("kernel", "switch")}
    assert kinds <= {"port.down", "port.up"}
    assert ("port.down" in kinds) is (fault in CARRIERS)


@pytest.mark.parametrize("fault", CARRIERS)
def test_both_ends_lose_the_carrier_within_two_seconds_the_host_first(fault: str) -> None:
    seen, card = seen_at(fault, severity=1.0)
    told = [line for at_s, line in seen.added if at_s == AT and line.text.lower().endswith("down")]
    mine = [line for line in told if card.interface in line.text or f"Port {card.leaf_port} " in line.text]
    mine = [line for line in mine if line.host in (card.host, card.leaf)]
    assert [line.source for line in mine] == ["kernel", "switch"]
    assert 0 < mine[1].at_ms - mine[0].at_ms <= 2_000
    assert seen.first("port", card.port, "up") == seen.first("port", card.switch_port, "up") == AT


def test_a_cut_cable_is_dark_at_both_ends_and_both_lasers_send() -> None:
    seen, card = seen_at("link_down", severity=1.0)
    modules = {optic(card, HOST), optic(card, LEAF)}
    assert parts_with(seen, "optic", "rx_power_dbm") == modules
    assert not parts_with(seen, "optic", "tx_power_dbm")
    assert card.component in seen.expectation.exonerated


def test_a_dead_port_of_a_switch_leaves_the_light_as_it_was() -> None:
    seen, _ = seen_at("switch_port_dead", severity=1.0)
    assert not parts_with(seen, "optic", "rx_power_dbm")


def test_the_job_dies_of_a_link_that_is_gone_and_lives_on_where_it_is_back_in_time() -> None:
    gone, _ = seen_at("link_down", timeout_s=50)
    kinds = [event.kind for event in gone.events("job")]
    assert kinds.count("path.retry_exceeded") == 2
    assert min(at_s for at_s, line in gone.added if "RETRY_EXC" in line.text) == AT + PATIENCE_S + 6
    back, card = seen_at("link_down", lasts_s=PATIENCE_S - 10)
    assert not {event.kind for event in back.events("job")} & {"path.retry_exceeded", "rank.collective_timeout"}
    assert back.changed("port")[card.port]["up"] == (AT, AT + PATIENCE_S - 11)


def test_a_flap_comes_and_goes_and_fewer_times_where_it_is_hard_to_see() -> None:
    seen, _ = seen_at("link_flap", severity=1.0, every_s=7)
    few, _ = seen_at("link_flap", severity=0.2, every_s=7)
    downs = [sum(event.kind == "port.down" for event in one.events("kernel")) for one in (seen, few)]
    assert downs == [6, 2]
    assert "stop_job" in seen.expectation.forbidden


@pytest.mark.parametrize("side", [HOST, LEAF])
def test_errors_are_counted_at_the_receiver_and_the_light_is_well(side: int) -> None:
    seen, card = seen_at("link_errors", side=side)
    own = card.port if side == HOST else card.switch_port
    assert parts_with(seen, "port", "symbol_errors_total") == {own}
    assert not parts_with(seen, "optic", "rx_power_dbm")
    assert parts_with(seen, "port", "retransmits_total") == {card.port}


def test_a_narrow_link_says_so_in_the_jobs_log() -> None:
    seen, card = seen_at("link_narrow", severity=1.0)
    (told,) = [event for event in seen.events("job") if event.kind == "port.speed_reduced"]
    assert told.component == f"port:{card.host}/{card.rdma}/1"
    assert parts_with(seen, "port", "speed_gigabits_per_second") == {card.port}


def test_swapped_cables_carry_each_others_light_where_no_list_has_them() -> None:
    seen, card = seen_at("cable_swapped", severity=1.0)
    other = CableSwapped(at=AT, card=card).other(seen.scenario.cluster)
    leaf_ends = {optic(card, LEAF), optic(other, LEAF)}
    assert leaf_ends <= parts_with(seen, "optic", "rx_power_dbm")
    after = {part for part, row in seen.changed("optic").items() if row.get("rx_power_dbm", (0, 0))[1] > AT + 20}
    assert leaf_ends <= after, "it stays that way"
    assert columns(seen, "port")[other.port] >= {"up"}
