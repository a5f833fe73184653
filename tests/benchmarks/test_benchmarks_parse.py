"""The parse benchmark: composes its log, reads every event it wrote, prints the agreed keys."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_parse_reads_all_it_wrote_and_prints_the_agreed_keys(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "benchmarks", "parse", "--json", "--size", "1"]  # in a process that holds no more
    numbers = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120).stdout)
    assert {"mb_per_s", "lines_per_s", "peak_rss_mb", "grep_mb_per_s", "conditions"} <= set(numbers)
    assert numbers["conditions"]["records_read"] == numbers["conditions"]["events_written"] > 0
    assert numbers["peak_rss_mb"] < 300
    assert main(["parse", "--size", "1"]) == 0
    assert "mb_per_s" in capsys.readouterr().out
