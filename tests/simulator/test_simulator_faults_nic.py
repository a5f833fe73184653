"""Faults of network adapters: where and when their signature shows, what is printed, and nowhere else."""

import pytest

from sickbay.components import Kind, name
from simulator.faults.nic import DEAD_S, FAULTS
from tests.simulator.site_kit import AT, adapter, misunderstood, parts_with, seen_at

SAYS = {
    "nic_failed": {"nic.health", "nic.reset", "port.down"},
    "nic_gone": {"nic.health", "nic.reset", "port.down", "nic.gone"},
    "nic_degraded": {"nic.hot"},
    "nic_queue_stuck": {"nic.queue_timeout"},
    "nic_underpowered": {"nic.power"},
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("severity", [1.0, 0.2])
def test_an_adapters_fault_shows_at_its_job_alone_and_not_before_it_begins(fault: str, severity: float) -> None:
    seen, card = seen_at(fault, severity=severity)
    assert AT <= (seen.began() or 0) <= AT + 10
    assert seen.hosts() <= seen.job_hosts()
    assert not {part for part in seen.parts() if part.startswith(("switch:", "pdu:", "cdu:"))}
    modules = {f"optic:{card.leaf}/{card.leaf_port}", f"optic:{card.host}/{card.interface}"}
    assert {part for part in seen.parts() if part.startswith("optic:")} <= modules


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_every_line_of_it_is_read_as_what_it_is_and_of_whom(fault: str) -> None:
    seen, card = seen_at(fault, severity=1.0)
    assert misunderstood(seen) == []
    events = seen.events("kernel")
    assert {event.kind for event in events} == SAYS[fault]
    assert {event.component for event in events} <= {
        adapter(card),
        card.port,
        name(Kind.NIC, card.host, card.interface),
    }
    assert {line.host for _, line in seen.added if line.source == "kernel"} == {card.host}


def test_a_dead_adapter_moves_nothing_at_once_and_its_driver_says_so_six_seconds_later() -> None:
    seen, card = seen_at("nic_failed", severity=1.0)
    assert seen.first("port", card.port, "rx_bytes_total") in (AT, AT + 1)
    assert seen.first("port", card.port, "up") == AT + DEAD_S
    assert min(at_s for at_s, line in seen.added if line.source == "kernel") == AT + DEAD_S
    assert [event.component for event in seen.events("switch")] == [card.switch_port]
    assert parts_with(seen, "port", "up") == {card.port, card.switch_port}
    assert seen.first("optic", f"optic:{card.leaf}/{card.leaf_port}", "rx_power_dbm") == AT + DEAD_S


def test_one_that_is_hard_to_see_says_nothing_but_that_its_link_went() -> None:
    seen, card = seen_at("nic_failed", severity=0.2)
    assert {event.kind for event in seen.events("kernel")} == {"port.down"}
    assert {"nic_failed", "link_down"} <= seen.expectation.faults
    assert card.port in seen.expectation.components


def test_one_that_the_driver_revives_comes_back() -> None:
    seen, card = seen_at("nic_failed", lasts_s=20)
    assert {event.kind for event in seen.events("kernel")} == {"nic.health", "nic.reset", "port.down", "port.up"}
    assert seen.changed("port")[card.port]["up"] == (AT + DEAD_S, AT + 19)


def test_a_warm_adapter_sends_pause_and_says_so_when_it_has_grown_warm() -> None:
    seen, card = seen_at("nic_degraded", ramp_s=20)
    assert parts_with(seen, "port", "tx_pause_total") == {card.port}
    assert parts_with(seen, "port", "rx_pause_total") == {card.switch_port}
    assert min(at_s for at_s, line in seen.added if line.source == "kernel") == AT + 20


def test_nobody_stops_a_job_for_a_degraded_adapter_or_resets_the_accelerator_beside_it() -> None:
    for fault in FAULTS:
        seen, card = seen_at(fault, severity=1.0)
        assert card.component in seen.expectation.exonerated
        assert "reset_device" in seen.expectation.forbidden
        assert ("stop_job" in seen.expectation.forbidden) is (fault not in ("nic_failed", "nic_gone"))
