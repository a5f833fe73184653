"""The engine: who reads which hosts makes no difference, a second keeps its columns, seeds share their statistics."""

from collections import Counter

import numpy as np
import pytest

from sickbay.app.demonstrating.simulated_night import drawn
from simulator.parts import shelf
from simulator.scenario import Scenario, scenario
from simulator.world import Second


def _same(one: Second, other: Second, host: str) -> bool:
    pairs = zip(one.samples[host], other.samples[host], strict=True)
    return all(
        a.component == b.component and all(np.array_equal(a.values[c], b.values[c], equal_nan=True) for c in a.values)
        for a, b in pairs
    )


def test_hosts_read_what_they_read_whoever_else_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.parts.physics.SHELF", 2)
    monkeypatch.setattr(shelf, "SHELF", 2)
    made = scenario(seed=4, hosts=6, per_host=2)
    made.at(3).fault("accelerator_off_bus")
    whole = list(made.seconds(8))
    part = list(made.seconds(8, which=range(2, 6), site=False))
    for one, other in zip(whole, part, strict=True):
        assert list(other.samples) == list(made.cluster.hosts[2:6])
        assert all(_same(one, other, host) for host in made.cluster.hosts[2:6])
        assert one.lines == other.lines


def test_a_second_stays_what_it_was() -> None:
    made = scenario(seed=4, hosts=2, per_host=2)
    host = made.cluster.hosts[0]
    kept = list(made.seconds(5))
    for at_s, second in enumerate(made.seconds(5)):
        assert _same(kept[at_s], second, host)


def test_what_hosts_told_instead_stands_and_who_is_silent_is_left_out() -> None:
    made = scenario(seed=4, hosts=3, per_host=2)
    first, second, third = made.cluster.hosts
    told = next(made.seconds(1)).samples
    other = told.changed({first: None, second: told[third]})
    assert list(other) == [second, third]
    assert first not in other
    assert other[second] is not other[third]
    assert [one.component for one in other[second]] == [one.component for one in told[third]]
    assert list(told) == [first, second, third]


def _levels(made: Scenario) -> dict[str, tuple[float, float]]:
    """Mean and spread of some columns, over all cards and the later half of a minute."""
    late = list(made.seconds(60, site=False))[30:]
    columns = ("power_watts", "matrix_active_ratio", "temperature_celsius", "clock_megahertz")
    found = {column: np.array([one.samples.tables["accelerator"][column] for one in late]) for column in columns}
    return {column: (float(values.mean()), float(values.std())) for column, values in found.items()}


def test_two_seeds_have_other_faults_and_names_and_the_same_statistics() -> None:
    one, other = (_levels(drawn(256, 60, seed, count=0)) for seed in (1, 2))
    for column, (mean, spread) in one.items():
        assert other[column][0] == pytest.approx(mean, rel=0.05), column
        assert other[column][1] == pytest.approx(spread, rel=0.5), column
    nights = [drawn(256, 600, seed, count=4) for seed in range(6)]
    happened = [Counter(what for what, _ in night.recipes) for night in nights]
    assert len({tuple(sorted(one)) for one in happened}) > 3
    assert not set(nights[0].cluster.hosts) & set(nights[1].cluster.hosts)
