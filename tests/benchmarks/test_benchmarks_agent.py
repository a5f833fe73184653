"""The agent benchmark: measures the real command and prints the agreed keys."""

import json

import pytest

from benchmarks.__main__ import main


@pytest.mark.slow
def test_agent_measures_the_command_and_prints_the_agreed_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "--json", "--size", "6"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    keys = {"cpu_ratio", "rss_mb", "node_exporter_cpu_ratio", "node_exporter_rss_mb", "conditions"}
    assert keys <= set(numbers)
    assert numbers["conditions"]["records_in_log"] > 10  # layouts, identities, frames
    assert 0 < numbers["rss_mb"] < 80
    assert numbers["cpu_ratio"] < 0.1  # the target is a tenth of it; other tests share the machine
