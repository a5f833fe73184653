"""The benchmark of the training hook prints the agreed keys, and loses nothing at its pace."""

import json

import pytest

from benchmarks.__main__ import main


@pytest.mark.slow
def test_steps_measures_the_hook_and_prints_the_agreed_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["steps", "--json", "--size", "100"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    keys = {
        "ns_per_step",
        "ns_per_step_p1",
        "ns_per_step_p99",
        "ns_per_long_step",
        "ns_per_step_without_agent",
    }
    assert keys | {"conditions"} == set(numbers)
    assert all(numbers[key] > 0 for key in keys)
    assert numbers["conditions"]["messages_lost"] == 0
