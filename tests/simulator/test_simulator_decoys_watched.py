"""Decoys, live: what the detectors of today say of each, and that nobody is taken out of service for it."""

import pytest

from simulator.decoys import DECOYS
from simulator.noise import noise
from simulator.scenario import Scenario, scenario
from simulator.truth.expectation import contains, score
from tests.simulator.watch_kit import watched

AT, UNTIL_S = 80, 240
KNOWN: dict[str, str] = {}  # decoys for which somebody is taken out today, and why; also in docs/simulator.md


def _night(seed: int) -> Scenario:
    return scenario(seed=seed, hosts=8, per_host=4, hosts_per_job=4, spare_hosts=2, timeout_s=60)


@pytest.mark.slow
@pytest.mark.parametrize("what", sorted(DECOYS))
def test_nobody_is_taken_out_for_a_decoy(what: str, request: pytest.FixtureRequest) -> None:
    if what in KNOWN:
        request.applymarker(pytest.mark.xfail(reason=KNOWN[what], strict=True))
    made = _night(3)
    made.add(what, AT, None, {})
    scores, left = score(made.expectations(), watched(made, UNTIL_S))
    assert [one.why for one in scores] == [""]
    assert [one.component for one in left if contains(one)] == []


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["field", "harsh"])
def test_nobody_is_taken_out_for_noise(preset: str) -> None:
    made = _night(4)
    found = watched(made, UNTIL_S, noise(preset, 4)(made.seconds(UNTIL_S)))
    assert [one.component for one in found if contains(one)] == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["host_blind", "accelerator_blind"])
def test_who_goes_blind_as_the_job_stalls_is_found_in_the_noise_of_the_field(fault: str) -> None:
    made = _night(3)
    made.add(fault, AT, None, {})
    scores, left = score(made.expectations(), watched(made, UNTIL_S, noise("field", 3)(made.seconds(UNTIL_S))))
    assert [one.why for one in scores] == [""]
    assert [one.component for one in left if contains(one)] == []
