"""Any bytes: no format raises, crashes or hangs. Each worker is a process of its own, so that a crash is seen.

5,000 inputs of every document format and 40,000 of logs (every grammar's samples); `make fuzz` ten times that.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from collectors.inputs.sniff import formats

WORKER = Path(__file__).with_name("any_bytes.py")
FACTOR = int(os.environ.get("FUZZ_FACTOR", "1"))
WORKERS = [(kind, seed) for kind in sorted(formats()) for seed in range(8 if kind == "log" else 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), WORKERS)
def test_fuzzed_bytes_never_raise_crash_or_hang(kind: str, seed: int) -> None:
    count = 5_000 * FACTOR
    done = subprocess.run(
        [sys.executable, str(WORKER), kind, str(seed), str(count)], capture_output=True, text=True, timeout=900 * FACTOR
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) == count


def test_every_format_is_fuzzed() -> None:
    text = WORKER.read_text(encoding="utf-8")
    assert all(f'"{kind}"' in text for kind in formats())
