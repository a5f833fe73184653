"""Faults of power, cooling and the management network: what hangs on the part shows them together, and is innocent."""

import pytest

from simulator.faults import cooling, facility
from simulator.parts.facility import feeds
from tests.simulator.signature_kit import TOLD, Signature
from tests.simulator.site_kit import AT, misunderstood, parts_with, seen_of

FAULTS = {**facility.FAULTS, **cooling.FAULTS}


def seen(fault: str, **settings: object) -> Signature:
    return seen_of(fault, **{"hosts": 8, "feeds": 2 if fault == "power_feed_lost" else 1} | settings)


def rack(found: Signature) -> set[str]:
    fed = feeds(found.scenario.cluster, 1).values()
    return {host for one in fed if found.target in one.hosts for host in one.hosts}


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("severity", [1.0, 0.2])
def test_it_shows_at_its_own_unit_and_at_what_hangs_on_it(fault: str, severity: float) -> None:
    found = seen(fault, severity=severity)
    assert AT <= (found.began() or 0) <= AT + (15 if fault == "cold_plate" else 3)
    units = {part for part in found.parts() if part.startswith(("pdu:", "cdu:"))}
    right = {part for part in found.expectation.components if part.startswith(("pdu:", "cdu:"))}
    drawn = {one for one in units if one.startswith("pdu:")} if fault in ("power_lost", "power_feed_lost") else set()
    assert units <= right | drawn
    jobs = {host for job in found.scenario.jobs for host in job.hosts if f"job:{job.id}" in found.expectation.touched}
    touched = {part.partition(":")[2] for part in found.expectation.touched if part.startswith("host:")}
    assert found.hosts() <= jobs | touched


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_every_line_of_it_is_read(fault: str) -> None:
    assert misunderstood(seen(fault)) == []


def test_a_tripped_unit_takes_its_rack_in_one_second_and_the_leaf_sees_no_light() -> None:
    found = seen("power_lost", noticed=20)
    gone = {part.partition(":")[2] for part, row in found.changed("host").items() if TOLD in row}
    assert gone == rack(found)
    assert {found.changed("host")[f"host:{host}"][TOLD][0] for host in gone} == {AT}
    dark = {part for part in parts_with(found, "optic", "rx_power_dbm") if part.startswith("optic:leaf")}
    cards = [card for host in gone for card in found.scenario.cluster.of(host)]
    assert dark == {f"optic:{card.leaf}/{card.leaf_port}" for card in cards}
    assert {event.kind for event in found.events("scheduler")} == {"scheduler.host_down"}
    assert {event.component for event in found.events("switch")} == {card.switch_port for card in cards}


def test_with_a_second_feed_nothing_goes_and_the_twin_carries_all() -> None:
    found = seen("power_feed_lost")
    assert found.hosts() == set()
    lost, twin = (f"pdu:pdu-{next(iter(rack(found))).rpartition('-n')[0]}-{side}" for side in "ab")
    assert found.expectation.components == {lost}
    assert parts_with(found, "pdu", "power_watts") == {lost, twin}
    assert found.expectation.faults == {"power_feed_lost"}


@pytest.mark.parametrize("fault", ["power_brake", "power_brake_rack"])
def test_a_brake_halves_the_clocks_of_all_its_cards_in_one_second(fault: str) -> None:
    found = seen(fault, severity=1.0)
    hosts = rack(found) if fault == "power_brake_rack" else {str(found.target)}
    held = parts_with(found, "accelerator", "throttle_mask")
    assert held == {card.component for host in hosts for card in found.scenario.cluster.of(host)}
    assert {found.first("accelerator", card, "throttle_mask") for card in held} == {AT}
    slower = parts_with(found, "accelerator", "clock_megahertz")
    assert held <= slower
    assert held <= found.expectation.exonerated


def test_the_coolant_tells_of_itself_before_any_card_does() -> None:
    found = seen("cooling_lost")
    (unit,) = found.expectation.components
    assert found.first("cdu", unit, "flow_litres_per_minute") == AT
    assert not found.changed("accelerator"), "cards grow warm two minutes later"


def test_a_pump_and_a_leak_tell_in_columns_of_their_own() -> None:
    pump, leak = seen("pump_failed"), seen("coolant_leak", wet_s=20)
    assert parts_with(pump, "cdu", "pump_ratio") == pump.expectation.components
    assert parts_with(leak, "cdu", "leak") == leak.expectation.components
    (unit,) = leak.expectation.components
    assert leak.first("cdu", unit, "leak") == AT + 20
    assert (leak.first("cdu", unit, "pressure_kilopascals") or 0) <= AT + 1


def test_one_hosts_clogged_plates_warm_its_cards_and_leave_the_unit_as_it_was() -> None:
    found = seen("cold_plate", ramp_s=20)
    own = {card.component for card in found.scenario.cluster.of(str(found.target))}
    assert not found.changed("cdu")
    assert own <= parts_with(found, "accelerator", "temperature_celsius")
    assert found.hosts() <= found.job_hosts()


def test_a_lost_management_switch_silences_its_rack_and_the_jobs_go_on_until_the_scheduler_ends_them() -> None:
    quiet, ended = seen("management_lost"), seen("management_lost", noticed=30)
    gone = {part.partition(":")[2] for part, row in quiet.changed("host").items() if TOLD in row}
    assert gone == quiet.hosts() == rack(quiet)
    assert not quiet.added
    assert not quiet.lost, "the jobs still step"
    assert not parts_with(quiet, "optic", "rx_power_dbm")
    assert {event.kind for event in ended.events("scheduler", "job")} == {"scheduler.host_down", "job.node_failed"}
    assert {"drain_host", "power_cycle", "stop_job"} <= quiet.expectation.forbidden
