"""The simulated cluster: the same for the same seed, other names for another, and numbers that could be real."""

import numpy as np
import pytest

from sickbay.schema import TABLES
from simulator.decoys import DECOYS
from simulator.faults import FAULTS
from simulator.parts.cluster import Card, build
from simulator.scenario import Scenario, scenario
from simulator.world import Second

EFFECTS = sorted({**FAULTS, **DECOYS})


def _card(made: Scenario) -> Card:
    card = made.recipes[0][1]["card"]
    assert isinstance(card, Card)
    return card


def _told(second: Second) -> list[tuple[str, int, str, str]]:
    return [(line.source, line.at_ms, line.host or line.job, line.text) for line in second.lines]


def _column(seconds: list[Second], host: str, table: str, column: str) -> np.ndarray:
    """[seconds, rows] of a host; NaN where a component was not told of, as of a host without power."""
    told = [[s for s in second.samples.get(host, ()) if s.table == table] for second in seconds]
    names = list(dict.fromkeys(part for found in told for s in found for part in s.component))
    rows = np.full((len(seconds), len(names)), np.nan)
    for row, found in zip(rows, told, strict=True):
        for s in found:
            row[[names.index(part) for part in s.component]] = s.values.get(column, np.nan)
    return rows


def _night(
    what: str, seed: int = 5, until_s: int = 120, at_s: int = 60, **settings: object
) -> tuple[Scenario, list[Second]]:
    made = scenario(seed=seed, hosts=4, timeout_s=60)
    made.add(what, at_s, None, dict(settings))
    return made, list(made.seconds(until_s))


@pytest.mark.slow
@pytest.mark.parametrize("what", EFFECTS)
def test_a_seed_tells_the_same_night_twice(what: str) -> None:
    (_, first), (_, second) = _night(what), _night(what)
    assert [_told(s) for s in first] == [_told(s) for s in second]
    for a, b in zip(first, second, strict=True):
        assert a.samples.keys() == b.samples.keys()
        for host in a.samples:
            for x, y in zip(a.samples[host], b.samples[host], strict=True):
                assert x.component == y.component
                for column in x.values:
                    np.testing.assert_array_equal(x.values[column], y.values[column])


def test_another_seed_renames_every_host_and_keeps_the_shape() -> None:
    first, second = build(seed=1), build(seed=2)
    assert not set(first.hosts) & set(second.hosts)
    assert [card.pci for card in first.cards] == [card.pci for card in second.cards]
    assert len({card.uuid for card in (*first.cards, *second.cards)}) == 128


@pytest.mark.parametrize("what", EFFECTS)
def test_counters_never_go_back_and_ratios_stay_ratios(what: str) -> None:
    _, seconds = _night(what)
    for table in TABLES.values():
        told = [second.samples.tables[table.name] for second in seconds if table.name in second.samples.tables]
        for column in table.columns:
            values = np.array([columns[column.name] for columns in told if column.name in columns])
            if column.type == "counter" and len(values):
                before = np.fmax.accumulate(values)[:-1]
                assert not (values[1:] < before).any(), column.name
            elif column.unit.startswith("ratio"):
                known = values[~np.isnan(values)]
                assert ((known >= 0) & (known <= 1)).all(), column.name


def test_a_training_step_looks_like_one() -> None:
    made = scenario(seed=3, hosts=2)
    host = made.cluster.hosts[0]
    late = list(made.seconds(120))[60:]
    power = _column(late, host, "accelerator", "power_watts")
    assert 500 < power.mean() < 690
    assert 1_400 < _column(late, host, "accelerator", "clock_megahertz").mean() < 1_800
    assert 0.35 < _column(late, host, "accelerator", "matrix_active_ratio").mean() < 0.6
    assert 45 < _column(late, host, "accelerator", "temperature_celsius").mean() < 75
    assert (_column(late, host, "accelerator", "temperature_celsius") < 90).all()


#  0            60 61              end
# [ 16 cards step ][ 8 blank, 8 wait ]
def test_a_lost_card_blinds_its_host_and_leaves_its_peers_waiting() -> None:
    made, seconds = _night("accelerator_off_bus", until_s=110)
    card = _card(made)
    peer = next(h for job in made.jobs if card.host in job.hosts for h in job.hosts if h != card.host)
    before, after = seconds[40:60], seconds[75:]
    assert np.isnan(_column(after, card.host, "accelerator", "power_watts")).all()
    assert (_column(after, card.host, "host", "up") == 1).all()
    assert (_column(after, card.host, "host", "accelerator_source_up") == 0).all()
    fallen = (
        _column(after, peer, "accelerator", "power_watts").mean()
        / _column(before, peer, "accelerator", "power_watts").mean()
    )
    assert 0.2 < fallen < 0.45
    assert (_column(after, peer, "accelerator", "matrix_active_ratio") == 0).all()
    assert (_column(after, peer, "accelerator", "utilisation_ratio") == 1).all()


def test_a_hot_card_slows_its_whole_job_and_is_itself_the_busy_one() -> None:
    made, seconds = _night("accelerator_thermal", until_s=200)
    card = _card(made)
    job = next(job for job in made.jobs if card.host in job.hosts)
    before, after = seconds[30:58], seconds[120:]
    for host in job.hosts:
        was, now = (_column(part, host, "accelerator", "matrix_active_ratio").mean(axis=0) for part in (before, after))
        for index, lost in enumerate(1 - now / was):
            slow = host == card.host and index == card.index
            assert abs(lost) < 0.02 if slow else 0.05 < lost < 0.1
    clock = _column(after, card.host, "accelerator", "clock_megahertz").mean(axis=0)
    assert clock.argmin() == card.index
    heat = _column(seconds, card.host, "accelerator", "thermal_violation_nanoseconds_total")
    assert heat[-1].argmax() == card.index
    assert heat[-1].max() > 1e9


def test_the_ranks_that_print_the_time_out_are_the_ones_that_waited() -> None:
    made, seconds = _night("accelerator_off_bus", until_s=180)
    card = _card(made)
    job = next(job for job in made.jobs if card.host in job.hosts)
    lost = list(job.hosts).index(card.host) * 8 + card.index
    printed = [(s.at_ms, line.text) for s in seconds for line in s.lines if "Watchdog caught" in line.text]
    ranks = {int(text.partition("[rank")[2].partition("]")[0]) for _, text in printed}
    assert ranks == set(range(16)) - {lost}
    assert {at for at, _ in printed} == {made.start_ms + 121_000}  # one time-out (60 s) after the stall


def test_a_deadlock_stops_both_attempts_at_the_same_step() -> None:
    made, seconds = _night("collective_mismatch", until_s=300)
    job = next(job for job in made.jobs if made.recipes[0][1]["host"] in job.hosts)
    attempts = [p.attempt for s in seconds for p in s.placements if p.job == job.id]
    assert attempts == [0, 1]
    timeouts = [(s.at_ms, line.text) for s in seconds for line in s.lines if "Watchdog caught" in line.text]
    assert len({at for at, _ in timeouts}) == 2
    assert len({text.partition("SeqNum=")[2].partition(",")[0] for _, text in timeouts}) == 1
    assert len({text.partition("OpType=")[2].partition(",")[0] for _, text in timeouts}) == 2


def test_with_spare_hosts_the_second_attempt_runs_elsewhere() -> None:
    made = scenario(seed=5, hosts=4, timeout_s=60, spare_hosts=2)
    made.at(60).fault("collective_mismatch")
    seconds = list(made.seconds(300))
    job = next(job for job in made.jobs if made.recipes[0][1]["host"] in job.hosts)
    first, second = [p for s in seconds for p in s.placements if p.job == job.id]
    assert not set(first.hosts) & set(second.hosts)
    assert {p.host for p in second.ranks} == set(second.hosts)
    steps = [line.text.partition("SeqNum=")[2][:5] for s in seconds for line in s.lines if "Watchdog" in line.text]
    assert len(steps) == 32
    assert len(set(steps)) == 1


def test_on_rails_a_leaf_takes_one_port_of_every_host() -> None:
    made = scenario(seed=5, hosts=6, layout="rail")
    made.at(30).fault("switch_down", on=made.cluster.leaves[3])
    seconds = list(made.seconds(60))
    for host in made.cluster.hosts:
        assert _column(seconds[40:41], host, "port", "up")[0].tolist() == [1, 1, 1, 0, 1, 1, 1, 1]
    assert sum("Link down" in line.text for s in seconds for line in s.lines) == 6


def test_names_that_do_not_exist_are_told() -> None:
    with pytest.raises(KeyError, match="accelerator_off_bus"):
        scenario().at(3).fault("accelerator_of_bus")
