"""The benchmark of latency prints the agreed keys; an idle event becomes an incident soon."""

import json

import pytest

from benchmarks import latency
from benchmarks.__main__ import main


@pytest.mark.slow
def test_latency_on_the_embedded_log(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ours = latency._log
    monkeypatch.setattr(latency, "_log", lambda name, *rest: ours(name, *rest) if name == "sqlite" else None)
    assert main(["latency", "--json", "--size", "5"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    agreed = {"idle_p50_ms", "idle_p99_ms", "half_load_p99_ms", "by_log", "conditions"}
    assert agreed | {"incident_idle_p50_ms", "incident_idle_p99_ms"} == set(numbers)
    assert numbers["conditions"]["log"] == "sqlite"
    assert 0 < numbers["idle_p50_ms"] <= numbers["idle_p99_ms"] < 5000
