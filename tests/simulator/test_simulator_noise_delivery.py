"""How batches travel: late, twice, out of order; none is lost, and their content stays."""

from collections import Counter

import numpy as np
import pytest

from simulator.noise.delivery import PRESETS, TRAVELS, Batch, Delivery, delivered
from simulator.scenario import scenario


def _batches(strengths: dict[str, float], seed: int = 1, until_s: int = 60) -> list[tuple[int, Batch]]:
    night = scenario(seed=2, hosts=4, per_host=2)
    found = delivered(night.seconds(until_s), Delivery.of(strengths, seed))
    return [(now_ms, batch) for now_ms, batches in found for batch in batches]


def _overtaken(batches: list[tuple[int, Batch]]) -> int:
    newest: dict[str, int] = {}
    count = 0
    for _, batch in batches:
        if not batch.again:
            count += batch.second.at_ms < newest.get(batch.host, 0)
            newest[batch.host] = max(newest.get(batch.host, 0), batch.second.at_ms)
    return count


def test_with_no_noise_every_batch_comes_at_once_and_in_order() -> None:
    told = _batches({})
    assert len(told) == 4 * 60
    assert all(batch.arrives_ms == batch.second.at_ms for _, batch in told)
    assert _overtaken(told) == 0


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_no_batch_is_lost_none_comes_before_it_is_told_and_arrivals_are_in_order(preset: str) -> None:
    told = _batches(PRESETS[preset])
    once = Counter((batch.host, batch.second.at_ms) for _, batch in told if not batch.again)
    assert len(once) == 4 * 60
    assert set(once.values()) == {1}
    arrivals = [batch.arrives_ms for _, batch in told]
    assert arrivals == sorted(arrivals)
    assert all(batch.second.at_ms <= batch.arrives_ms <= now_ms for now_ms, batch in told)


def test_each_kind_does_what_it_is_called() -> None:
    late = _batches({"late": 300.0})
    assert max(batch.arrives_ms - batch.second.at_ms for _, batch in late) > 1_000
    astray = _batches({"out_of_order": 10.0})
    assert _overtaken(astray) > 0
    twice = _batches({"duplicate": 10.0})
    assert 0 < sum(batch.again for _, batch in twice) < 4 * 60
    assert not any(batch.again for _, batch in (*late, *astray))


def test_to_switch_one_off_changes_nothing_of_the_others() -> None:
    night = list(scenario(seed=2, hosts=4, per_host=2).seconds(40))
    every = Delivery.of(dict.fromkeys(TRAVELS, 10.0), 3)
    some = Delivery.of(dict.fromkeys(("late", "out_of_order"), 10.0), 3)
    for second in night:
        (first, again), (other, never) = every.times(second), some.times(second)
        np.testing.assert_array_equal(first, other)
        assert (never == -1).all()
        assert ((again == -1) | (again >= first)).all()


def test_a_name_that_does_not_exist_is_told() -> None:
    with pytest.raises(KeyError, match="duplicate"):
        Delivery.of({"dublicate": 1.0})
