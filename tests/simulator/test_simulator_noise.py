"""Noise: each source by name and strength, from a source of randomness of its own, and the truth stays as it is."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from simulator.moments import START_MS
from simulator.noise import PRESETS, SOURCES, noise
from simulator.noise.kit import COUNTERS
from simulator.parts.told import Told
from simulator.printing.lines import Printed, kernel
from simulator.scenario import Scenario, scenario
from simulator.world import Second

UNTIL_S = 40
OFTEN = 400.0  # strength at which what is rare happens in a short night
STRENGTHS = dict.fromkeys(("offsets", "diurnal", "jitter", "clock_skew"), 1.0) | {
    "counter_wraps": 5.0, "stuck": 1e4, "exporter_restarts": 3e3, "agent_deaths": 2e4, "maintenance": 3e3,
    "shutdowns": 3e3, "driver_reloads": 3e3, "bring_up_storms": 3e3,
}  # fmt: skip
TOUCHES: dict[str, set[str]] = {  # what each may change, and nothing else
    "offsets": {"accelerator"},
    "diurnal": {"accelerator", "host"},
    "spikes": {"accelerator"},
    "stuck": {"accelerator"},
    "counter_resets": {"accelerator", "port"},
    "counter_wraps": {"accelerator", "port"},
    "maintenance": {"up", "host", "lines", "declared"},
    "shutdowns": {"up", "host", "lines"},
    "driver_reloads": {"seen", "lines"},
    "bring_up_storms": {"lines"},
    "partial_sweeps": {"port"},
    "exporter_restarts": {"seen", "host"},
    "missing": {"up", "seen"},
    "jitter": {"times"},
    "clock_skew": {"times", "host", "lines"},
    "agent_deaths": {"up", "lines"},
}


def _night() -> Scenario:
    made = scenario(seed=6, hosts=4, per_host=4, spare_hosts=2, timeout_s=60)
    made.at(20).fault("accelerator_off_bus")
    return made


@lru_cache(maxsize=1)
def _plain() -> tuple[Second, ...]:
    return tuple(_night().seconds(UNTIL_S))


def _noisy(what: str | Mapping[str, float], seed: int = 1, source: tuple[Second, ...] | None = None) -> list[Second]:
    return list(noise(what, seed)(iter(_plain() if source is None else source)))


def _strong(name: str) -> dict[str, float]:
    return {name: STRENGTHS.get(name, OFTEN)}


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(((a == b) | (np.isnan(a) & np.isnan(b))).all())


def _changed(before: Second, after: Second) -> Iterator[str]:
    old, new = before.samples, after.samples
    assert isinstance(old, Told)
    assert isinstance(new, Told)
    for table in old.tables:
        if not all(_same(old.tables[table][one], new.tables[table][one]) for one in old.tables[table]):
            yield table
    parts = (("times", old.at_ms, new.at_ms), ("up", old.up, new.up), ("seen", old.seen, new.seen))
    yield from (word for word, a, b in parts if (a != b).any())
    yield from (["lines"] if before.lines != after.lines else [])
    yield from (["declared"] if before.declared != after.declared else [])


@pytest.mark.parametrize("name", SOURCES)
def test_each_source_changes_what_it_is_about_and_nothing_else(name: str) -> None:
    after = _noisy(_strong(name))
    found = {word for a, b in zip(_plain(), after, strict=True) for word in _changed(a, b)}
    assert found
    assert found <= TOUCHES[name]


@pytest.mark.parametrize("name", SOURCES)
def test_a_seed_tells_the_same_noise_twice_and_another_one_another(name: str) -> None:
    first, second, other = (_noisy(_strong(name), seed) for seed in (1, 1, 2))
    assert not [word for a, b in zip(first, second, strict=True) for word in _changed(a, b)]
    assert [word for a, b in zip(first, other, strict=True) for word in _changed(a, b)]


def test_to_switch_one_off_changes_no_draw_of_the_others() -> None:
    def draws(off: str) -> dict[str, object]:
        made = noise({name: 30.0 for name in SOURCES if name != off}, 3)
        for _ in made(iter(_plain())):
            pass
        return {name: rng.bit_generator.state for name, rng in made.rngs.items()}

    every = draws("")
    for name in ("spikes", "missing", "agent_deaths", "maintenance", "offsets"):
        assert draws(name) == {other: state for other, state in every.items() if other != name}


def test_what_one_source_does_is_the_same_with_others_beside_it() -> None:
    alone, both = (
        _noisy({"offsets": 1.0}),
        _noisy({"offsets": 1.0, "counter_resets": OFTEN, "missing": 20.0, "jitter": 1.0}),
    )
    for a, b in zip(alone, both, strict=True):
        assert isinstance(a.samples, Told)
        assert isinstance(b.samples, Told)
        assert _same(a.samples.tables["accelerator"]["power_watts"], b.samples.tables["accelerator"]["power_watts"])


def test_none_is_the_night_itself_and_the_presets_are_all_sources() -> None:
    assert all(a is b for a, b in zip(_plain(), _noisy("none"), strict=True))
    assert set(PRESETS["field"]) == set(PRESETS["harsh"]) == set(SOURCES)
    with pytest.raises(KeyError, match="jitter"):
        noise({"jiter": 1.0})
    with pytest.raises(KeyError, match="field"):
        noise("feild")


def test_the_truth_does_not_change() -> None:
    made = _night()
    before = made.expectations()
    for _ in noise("harsh", 1)(made.seconds(30)):
        pass
    assert made.expectations() == before


def test_ratios_stay_ratios_under_constant_errors() -> None:
    for second in _noisy({"offsets": 20.0}):
        assert isinstance(second.samples, Told)
        for name, values in second.samples.tables["accelerator"].items():
            assert not name.endswith("_ratio") or ((values >= 0) & (values <= 1)).all()


def test_a_stuck_gauge_tells_one_value_for_a_minute_at_least() -> None:
    seconds = list(noise({"stuck": 6e4}, 2)(scenario(seed=6, hosts=2, per_host=4).seconds(100)))
    watts = np.array([_table(second, "accelerator")["power_watts"] for second in seconds])
    longest = max(_run(watts[:, row]) for row in range(watts.shape[1]))
    assert longest >= 60


def _table(second: Second, table: str) -> dict[str, np.ndarray]:
    assert isinstance(second.samples, Told)
    return dict(second.samples.tables[table])


def _run(values: np.ndarray) -> int:
    """Longest run of equal values."""
    longest = length = 1
    for same in (np.diff(values) == 0).tolist():
        length = length + 1 if same else 1
        longest = max(longest, length)
    return longest


def test_a_reset_brings_all_counters_of_a_device_to_zero_and_they_count_on_from_there() -> None:
    after = _noisy({"counter_resets": 2 * OFTEN})
    name = "energy_millijoules_total"
    plain, told = (np.array([_table(s, "accelerator")[name] for s in one]) for one in (_plain(), after))
    reset = np.diff(told, axis=0) < 0
    assert reset.any()
    assert (told[1:][reset] == 0).all()
    grown, before = np.diff(told, axis=0)[~reset], np.diff(plain, axis=0)[~reset]
    np.testing.assert_allclose(grown, before)
    assert COUNTERS["accelerator"]
    boot = [_table(s, "host")["boot_time_seconds"] for s in after]
    assert _same(boot[0], boot[-1])


def test_a_counter_of_32_bits_counts_alike_and_wraps() -> None:
    after = _noisy({"counter_wraps": 20.0})
    name = "energy_millijoules_total"
    plain, told = (np.array([_table(s, "accelerator")[name] for s in one]) for one in (_plain(), after))
    assert (told < 2**32).all()
    np.testing.assert_allclose(np.diff(told, axis=0) % 2**32, np.diff(plain, axis=0))


def test_a_clock_that_is_off_shifts_rows_and_lines_of_its_host_by_one_amount() -> None:
    hosts = _night().cluster.hosts
    told: list[Printed] = [kernel(START_MS, host, "mce: CPU0 is on") for host in hosts]
    (second,) = noise({"clock_skew": 200.0}, 4)(iter([replace(_plain()[0], lines=tuple(told))]))
    assert isinstance(second.samples, Told)
    ahead = second.samples.at_ms - START_MS
    assert [line.at_ms - START_MS for line in second.lines] == ahead.tolist()
    assert np.abs(ahead[ahead != 0]).min() >= 500
    assert np.abs(ahead).max() <= 120_000
    offset = _table(second, "host")["clock_offset_seconds"]
    knows = np.abs(offset) > 0.4
    assert np.allclose(offset[knows], ahead[knows] / 1000, atol=0.01)
    assert 0 < knows.sum() < (ahead != 0).sum()


def _line(host: str, at_s: int) -> Printed:
    return kernel(START_MS + 1000 * at_s, host, f"usb 1-1: new device {at_s}")


def test_what_a_host_printed_while_its_agent_was_away_comes_when_it_is_back() -> None:
    host, base = _night().cluster.hosts[0], _plain()[0]
    assert isinstance(base.samples, Told)
    plain = [replace(base, at_ms=START_MS + 1000 * at_s, lines=(_line(host, at_s),)) for at_s in range(600)]
    after = list(noise({"agent_deaths": 3e3}, 5)(iter(plain)))
    assert any(host not in second.samples for second in after)
    kept = [line for second in after for line in second.lines]
    assert sorted(line.at_ms for line in kept) == [line.at_ms for line in kept]
    late = [line.at_ms for second in after for line in second.lines if line.at_ms < second.at_ms]
    assert late
    assert all(line.host != host or host in second.samples for second in after for line in second.lines)


def test_work_happens_on_idle_hosts_alone_and_what_is_declared_covers_it() -> None:
    made = scenario(seed=6, hosts=4, per_host=2, spare_hosts=2)
    idle = set(made.cluster.hosts[4:])
    every = dict.fromkeys(("maintenance", "shutdowns", "driver_reloads", "bring_up_storms"), 2e3)
    after = list(noise(every, 1)(made.seconds(100)))
    assert {line.host for second in after for line in second.lines if line.source == "kernel"} == idle
    assert all(host in second.samples for second in after for host in set(made.cluster.hosts) - idle)
    controls = [one for second in after for one in second.declared]
    assert controls
    assert all(one.until_ms is not None and one.until_ms - one.at_ms > 400_000 for one in controls)
    busy = list(noise(every, 1)(scenario(seed=6, hosts=4, per_host=2).seconds(50)))
    assert not [line for second in busy for line in second.lines if line.source == "kernel"]


def test_half_a_sweep_hides_the_ports_of_half_of_the_leaves() -> None:
    made = scenario(seed=6, hosts=4, per_host=2, hosts_per_leaf=1)
    hidden = set()
    for second in noise({"partial_sweeps": 120.0}, 1)(made.seconds(100)):
        gone = np.isnan(_table(second, "port")["up"]).reshape(4, 2)
        assert (gone.all(axis=1) == gone.any(axis=1)).all()
        hidden.add(int(gone.any(axis=1).sum()))
        assert second.cables is not None
        assert len(second.cables.silent) == gone.any(axis=1).sum()
    assert hidden == {0, 2}
