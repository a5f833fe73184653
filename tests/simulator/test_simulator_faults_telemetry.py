"""Faults of telemetry: what goes blank, freezes or lies, where and when, and that nobody is held while jobs move."""

import numpy as np
import pytest

from sickbay.components import Kind, name
from sickbay.messages import Verdict
from simulator.faults.telemetry import FAULTS, MONITORS, PING_S
from simulator.moments import START_MS
from simulator.parts.cluster import Card
from simulator.parts.told import Told
from simulator.printing.clocks import skewed
from simulator.printing.host_lines import driver_loads
from simulator.printing.site_lines import switch_link
from simulator.scenario import scenario
from simulator.world import Second
from tests.simulator.signature_kit import TOLD, Signature
from tests.simulator.site_kit import misunderstood, seen_of

AT = 30
REAL = ("host_blind", "accelerator_blind")


def _seen(fault: str, **settings: object) -> Signature:
    return seen_of(fault, site=False, **settings)


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_it_shows_at_its_time_and_at_whom_it_touches(fault: str) -> None:
    seen = _seen(fault)
    assert seen.began() in (AT, AT + 1)
    touched = {part.partition(":")[2] for part in seen.expectation.touched if part.startswith("host:")}
    assert seen.hosts() <= touched
    assert misunderstood(seen) == []
    assert seen.expectation.family == "telemetry"


@pytest.mark.parametrize("how", sorted(MONITORS))
def test_while_jobs_move_nobody_is_held_and_no_step_changes(how: str) -> None:
    seen = _seen("monitor_fault", how=how)
    assert seen.expectation.decoy
    assert seen.expectation.exonerated
    assert {"drain_host", "exclude_for_job", "reboot_host"} <= seen.expectation.forbidden
    assert not [line for _, line in (*seen.added, *seen.lost) if line.source == "job"]


@pytest.mark.parametrize("fault", REAL)
def test_blind_in_the_second_of_the_stall_is_the_host_and_its_peers_are_innocent(fault: str) -> None:
    seen = _seen(fault)
    truth = seen.expectation
    assert truth.verdicts == {Verdict.COMPONENT}
    others = seen.job_hosts() - {seen.host}
    assert {name(Kind.HOST, host) for host in others} <= truth.exonerated
    assert name(Kind.HOST, seen.host) in truth.components
    cards = seen.scenario.cluster.of(seen.host)
    blind = {card.component for card in cards} if fault == "host_blind" else {seen.card.component}
    assert {part for part, row in seen.changed("accelerator").items() if TOLD in row} == blind
    assert seen.first("accelerator", seen.scenario.cluster.of(sorted(others)[0])[0].component, "power_watts") == AT


def test_the_host_of_blind_cards_is_alive_and_says_whose_exporter_is_gone() -> None:
    seen = _seen("host_blind")
    assert set(seen.changed("host")) == {name(Kind.HOST, seen.host)}
    assert set(seen.changed("host")[name(Kind.HOST, seen.host)]) == {"accelerator_source_up"}
    assert not _seen("accelerator_blind").changed("host")


def test_a_silent_host_tells_nothing_and_the_scheduler_misses_it_later() -> None:
    seen = _seen("host_silent", until_s=AT + PING_S + 5)
    assert seen.hosts() == {seen.host}
    assert all(TOLD in seen.changed(table)[part] for table in ("accelerator", "port", "host") for part in
               (part for part in seen.changed(table)))  # fmt: skip
    assert [(at, line.source) for at, line in seen.added] == [(AT + PING_S, "scheduler")]
    assert [event.component for event in seen.events()] == [name(Kind.HOST, seen.host)]
    assert seen.expectation.decoy


def test_the_poller_takes_all_cards_with_it_and_no_host() -> None:
    seen = _seen("monitor_fault", how="poller")
    assert set(seen.changed("accelerator")) == set(seen.scenario.cluster.components)
    assert {column for row in seen.changed("host").values() for column in row} == {"accelerator_source_up"}


def _night(how: str, until_s: int = 60, **settings: object) -> tuple[list[Second], str]:
    made = scenario(seed=5, hosts=4, per_host=4)
    host = made.cluster.hosts[1]
    made.at(AT).fault("monitor_fault", on=host, how=how, **settings)
    return list(made.seconds(until_s)), host


def _column(seconds: list[Second], name: str) -> np.ndarray:
    found = []
    for second in seconds:
        assert isinstance(second.samples, Told)
        found.append(second.samples.tables["accelerator"][name])
    return np.array(found)


def test_old_values_are_told_again_and_again_by_one_host() -> None:
    seconds, _ = _night("stale")
    for column in ("power_watts", "energy_millijoules_total"):
        told = _column(seconds, column)
        assert (told[AT:, 4:8] == told[AT - 1, 4:8]).all()
        assert (np.diff(told[AT:, 8:], axis=0) != 0).any(axis=0).all()


def test_an_updated_exporter_is_away_for_a_while_and_then_tells_milliwatts() -> None:
    seconds, host = _night("unit")
    told = _column(seconds, "power_watts")
    assert all("accelerator" not in {one.table for one in second.samples[host]} for second in seconds[AT : AT + 8])
    ratio = told[AT + 8 :, 4:8].mean() / told[:AT, 4:8].mean()
    assert 500 < ratio < 2000
    assert told[AT + 8 :, 8:].max() < 800


@pytest.mark.parametrize("off", [90.0, -120.0])
def test_rows_and_lines_of_a_host_lie_beside_the_time_of_all_others(off: float) -> None:
    made = scenario(seed=5, hosts=4, per_host=4)
    card: Card = made.cluster.of(made.cluster.hosts[1])[0]
    made.at(AT).fault("monitor_fault", on=card.host, how="clock", seconds=off)
    made.at(AT + 5).decoy("corrected_errors", on=card)
    second = list(made.seconds(AT + 6))[-1]
    assert isinstance(second.samples, Told)
    assert (second.samples.at_ms - second.at_ms).tolist() == [0, 1000 * off, 0, 0]
    kernel = [line for line in second.lines if line.source == "kernel"]
    assert {line.host for line in kernel} == {card.host}
    assert all(abs(line.at_ms - second.at_ms - 1000 * off) < 1000 for line in kernel)


def test_half_of_the_ports_are_not_told_and_their_leaves_are_silent() -> None:
    seconds, _ = _night("half_fabric")
    second = seconds[-1]
    assert isinstance(second.samples, Told)
    assert np.isnan(second.samples.tables["port"]["up"]).tolist() == [False] * 8 + [True] * 8
    assert second.cables is not None
    assert len(second.cables.silent) == 1


def test_a_stamp_within_the_text_moves_with_its_clock_and_a_jobs_line_does_not() -> None:
    line = switch_link(START_MS, "leaf-1", "Ethernet4", "down")
    (moved,) = skewed([line], {"leaf-1": 90_000})
    assert moved.text == switch_link(START_MS + 90_000, "leaf-1", "Ethernet4", "down").text
    loads = list(driver_loads(START_MS, "n1"))
    assert skewed(loads, {"n2": 90_000}) == loads
    assert [one.at_ms for one in skewed(loads, {"n1": -5_000})] == [one.at_ms - 5_000 for one in loads]


def test_what_a_monitor_does_wrong_follows_from_the_seed_where_it_is_not_said() -> None:
    names = {FAULTS["monitor_fault"](at=at, host="n1").__class__.__name__ for at in range(40)}
    assert names == {made.__name__ for made in MONITORS.values()}
