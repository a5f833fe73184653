"""Nights 12, 13, 16, 17 and 34 as composed folders: raw files of both ends, the right verdict, no forbidden act.

Each night has twins that look alike and are another thing. Names, places, sizes and noise come from the seed.
"""

import numpy as np
import pytest

from sickbay.components import link
from simulator.parts.cables import HOST, LEAF, mates, optic, serial
from simulator.parts.cluster import Card
from simulator.scenario import Scenario
from tests.nights.network_kit import CONTAIN, REPAIR, Judge, acts, by_component, drawn, fabric, judge, rails, touched

SEEDS = (21, 22)

__all__ = ["judge"]
pytestmark = pytest.mark.slow


def cable(card: Card) -> str:
    return link(card.port.partition(":")[2], card.switch_port.partition(":")[2])


# --- night 12 --------------------------------------------------------------------------------------------------------


def dirty(seed: int, **settings: object) -> tuple[Scenario, Card]:
    night = rails(seed)
    card, rng = drawn(night)
    told = {"fall_db": float(rng.uniform(2.2, 3.4)), "lanes": int(rng.integers(1, 5)), "flap_after": 150} | settings
    night.at(int(rng.integers(300, 360))).fault("link_attenuated", on=card, **told)
    return night, card


@pytest.mark.parametrize("seed", SEEDS)
def test_night_12_a_dirty_connector_is_cleaned_and_nothing_is_held(judge: Judge, seed: int) -> None:
    night, card = dirty(seed)
    result = judge(night, 620)
    (row,) = result.answer.incidents
    assert (row.verdict, row.component, row.fault) == ("component", cable(card), "link_attenuated")
    assert optic(card, HOST) in row.summary, "towards the host"
    assert row.action == "check_link"
    order = [step.do for step in row.plan]
    assert order.index("check_link") < order.index("soft_avoid") < order.index("watch")
    assert touched(result, "soft_avoid") == {f"host:{card.host}"}
    assert not touched(result, *CONTAIN, *REPAIR, "page_owner", "stop_job", "requeue")


@pytest.mark.parametrize("seed", SEEDS)
def test_night_12_twin_towards_the_switch(judge: Judge, seed: int) -> None:
    night, card = dirty(seed, towards=LEAF)
    (row,) = judge(night, 620).answer.incidents
    assert (row.verdict, row.component) == ("component", cable(card))
    assert f"towards {optic(card, LEAF)}" in row.summary


@pytest.mark.parametrize("seed", SEEDS)
def test_night_12_twin_both_directions_lose_light(judge: Judge, seed: int) -> None:
    night, card = dirty(seed, both=True)
    result = judge(night, 620)
    (row,) = result.answer.incidents
    assert (row.component, row.action) == (cable(card), "check_link")
    assert "Both ends" in row.summary
    assert not touched(result, *CONTAIN, *REPAIR)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("side", [HOST, LEAF])
def test_night_12_twin_a_laser_fades_and_the_far_receiver_is_well(judge: Judge, seed: int, side: int) -> None:
    night = rails(seed)
    card, rng = drawn(night)
    night.at(310).fault("optic_fades", on=card, side=side, fall_db=float(rng.uniform(2.4, 4.0)))
    result = judge(night, 620)
    (row,) = result.answer.incidents
    assert (row.verdict, row.component, row.fault) == ("component", optic(card, side), "optic_fault")
    assert not touched(result, *CONTAIN, *REPAIR, "stop_job")


@pytest.mark.parametrize("seed", SEEDS)
def test_night_12_twin_the_far_end_was_not_read(judge: Judge, seed: int) -> None:
    night, card = dirty(seed, flap_after=None)
    (row,) = judge(night, 620, drop=("leaf-*-modules.txt",)).answer.incidents
    assert row.component == optic(card, HOST)
    assert "was not read" in row.summary
    assert {one.component for one in row.suspects} > {optic(card, HOST)}, "the other end stays a suspect"
    assert max(one.probability for one in row.suspects) < 0.75


@pytest.mark.parametrize("seed", SEEDS)
def test_night_12_twin_a_port_that_a_person_closed_is_no_fault(judge: Judge, seed: int) -> None:
    night = rails(seed)
    card, _ = drawn(night)
    night.at(310).decoy("port_closed", on=card)
    assert judge(night, 560).answer.incidents == ()


# --- night 13 --------------------------------------------------------------------------------------------------------


def breakout(seed: int) -> tuple[Scenario, tuple[Card, ...]]:
    """A module that serves the last host of one job and the first of the next."""
    night = rails(seed, hosts=12, per_job=3, breakout=2)
    rng = np.random.default_rng([seed, 0x13])
    host = night.cluster.hosts[2 + 6 * int(rng.integers(2))]
    card = night.cluster.of(host)[int(rng.integers(2))]
    night.at(310 + int(rng.integers(30))).fault("optic_shared", on=card)
    return night, mates(night.cluster, card)


@pytest.mark.parametrize("seed", SEEDS)
def test_night_13_a_breakout_module_is_one_shared_incident(judge: Judge, seed: int) -> None:
    night, cards = breakout(seed)
    result = judge(night, 480)
    (row,) = result.answer.incidents
    module = f"optic:{cards[0].leaf}/{serial(night.cluster, cards[0], LEAF)}"
    assert (row.verdict, row.component, row.fault) == ("shared", module, "optic_fault")
    jobs = {job.id for job in night.jobs for card in cards if card.host in job.hosts}
    assert (len(jobs), set(row.affected.jobs)) == (2, jobs)
    hosts = {f"host:{card.host}" for card in cards}
    assert {one for one in row.dependants if one.startswith("host:")} == hosts
    assert touched(result, "dependency_hold") == hosts
    assert touched(result, "stop_job") == touched(result, "relaunch_in_allocation") == {f"job:{job}" for job in jobs}
    assert touched(result, "replace_part") == {module}
    assert not touched(result, "drain_host", "exclude_for_job", "isolate_port", "reboot_host")


@pytest.mark.parametrize("seed", SEEDS)
def test_night_13_twin_two_modules_of_their_own_are_two_incidents(judge: Judge, seed: int) -> None:
    night = rails(seed, hosts=12, per_job=3)
    card, rng = drawn(night)
    other = next(one for one in reversed(night.cluster.under(card.leaf)) if one.host not in near(night, card))
    night.at(310).fault("optic_dark", on=card, side=LEAF)
    night.at(310 + int(rng.integers(2, 40))).fault("optic_dark", on=other, side=LEAF)
    result = judge(night, 480)
    assert set(by_component(result)) == {optic(card, LEAF), optic(other, LEAF)}
    assert {row.verdict for row in result.answer.incidents} == {"component"}
    assert touched(result, "dependency_hold") == {f"host:{card.host}", f"host:{other.host}"}
    assert not touched(result, "drain_host")


def near(night: Scenario, card: Card) -> tuple[str, ...]:
    return next(job.hosts for job in night.jobs if card.host in job.hosts)


@pytest.mark.parametrize("seed", SEEDS)
def test_night_13_twin_without_serial_numbers_the_hosts_are_still_innocent(judge: Judge, seed: int) -> None:
    night, cards = breakout(seed)
    result = judge(night, 480, drop=("*-modules.txt",))
    assert {row.verdict for row in result.answer.incidents} == {"component"}
    assert all(row.component.startswith("port:") for row in result.answer.incidents)
    assert touched(result, "dependency_hold") == {f"host:{card.host}" for card in cards}
    assert not touched(result, "drain_host", *REPAIR)


# --- night 16 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("watchdog", [True, False])
def test_night_16_who_sends_pause_is_the_cause(judge: Judge, seed: int, watchdog: bool) -> None:
    night = rails(seed, hosts=12, per_job=3)
    card, _ = drawn(night)
    night.at(200).fault("pause_sent", on=card, watchdog=watchdog)
    result = judge(night, 280)
    (row,) = result.answer.incidents
    assert (row.verdict, row.component, row.fault) == ("component", card.port, "pause_sent")
    assert row.action == "drain_host"
    assert touched(result, "isolate_port") == {card.port}, "its one host port, never a trunk"
    assert all(step.needs_approval for step in row.plan if step.do == "isolate_port")
    assert touched(result, *CONTAIN, *REPAIR) == {card.port, f"host:{card.host}"}
    own = next(job for job in night.jobs if card.host in job.hosts)
    assert touched(result, "stop_job") <= {f"job:{own.id}"}, "the jobs of those that are held go on once it ends"
    others = {f"host:{host}" for host in night.cluster.hosts if host != card.host}
    assert others <= set(row.dependants)
    assert ("watchdog saw it" if watchdog else "is one configured?") in row.summary


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("decoy", ["pause_from_afar", "congestion"])
def test_night_16_twins_without_a_sender_blame_nobody(judge: Judge, seed: int, decoy: str) -> None:
    night = rails(seed, hosts=12, per_job=3)
    night.at(200).decoy(decoy)
    result = judge(night, 320)
    assert [row for row in result.answer.incidents if row.action not in ("ignore", "watch")] == []
    assert not touched(result, *CONTAIN, *REPAIR, "stop_job")


@pytest.mark.parametrize("seed", SEEDS)
def test_night_5a_the_pause_of_a_narrow_bus_closes_no_port(judge: Judge, seed: int) -> None:
    night = rails(seed, per_job=8)
    card, _ = drawn(night)
    night.at(200).fault("pcie_degraded", on=card, sends_pause=0.3)
    result = judge(night, 420)
    (row,) = result.answer.incidents
    assert (row.verdict, row.fault) == ("component", "pcie_degraded")
    assert not touched(result, "isolate_port", "cost_out_link")
    assert touched(result, *CONTAIN, *REPAIR) <= {f"host:{card.host}"}
    assert not [step for step in row.plan if step.do in ("stop_job", "drain_host") and step.when == "now"]


# --- night 17 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_night_17_half_a_sweep_is_a_notice(judge: Judge, seed: int) -> None:
    night = fabric(seed)
    night.at(200).decoy("partial_sweep")
    result = judge(night, 300)
    assert result.answer.incidents == ()
    notices = [event for event in result.answer.events if event.kind == "monitor.partial_sweep"]
    assert len(notices) == 1
    assert result.answer.topology.links == len(night.cluster.cards) + len(night.cluster.leaves), "all links are kept"
    assert result.status == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_night_17_twin_a_leaf_goes_beside_the_partial_sweep(judge: Judge, seed: int) -> None:
    night = fabric(seed)
    leaf = night.cluster.leaves[-1]
    night.at(150).fault("switch_down", on=leaf)
    night.at(200).decoy("partial_sweep")
    result = judge(night, 300)
    (row,) = result.answer.incidents
    assert (row.verdict, row.component) == ("shared", f"switch:{leaf}")
    assert not touched(result, *CONTAIN, *REPAIR)
    assert "hold_job" in {do for do, _ in acts(result)}
    assert [event for event in result.answer.events if event.kind == "monitor.partial_sweep"]


# --- night 34 --------------------------------------------------------------------------------------------------------


def two_faults(seed: int, same_host: bool) -> tuple[Scenario, Card, Card]:
    night = rails(seed, per_job=8)
    card, rng = drawn(night)
    hosts = [host for host in night.cluster.hosts if (host == card.host) is same_host]
    others = [one for host in hosts for one in night.cluster.of(host) if one != card]
    dark = others[int(rng.integers(len(others)))]
    night.at(310).fault("accelerator_off_bus", on=card, coded=bool(rng.integers(2)))
    night.at(340).fault("optic_dark", on=dark, side=HOST)
    return night, card, dark


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("same_host", [False, True])
def test_night_34_a_lost_card_never_explains_lost_light(judge: Judge, seed: int, same_host: bool) -> None:
    night, card, dark = two_faults(seed, same_host)
    result = judge(night, 480)
    found = by_component(result)
    assert set(found) == {card.component, optic(dark, HOST)}
    assert {row.verdict for row in found.values()} == {"component"}
    assert touched(result, "drain_host", "power_cycle") == {f"host:{card.host}"}
    assert touched(result, "dependency_hold") == {f"host:{dark.host}"}
    assert touched(result, "check_link") == {optic(dark, HOST)}
    assert touched(result, "stop_job") == {f"job:{night.jobs[0].id}"}
    assert touched(result, *CONTAIN, *REPAIR) == {f"host:{card.host}", f"host:{dark.host}"}
