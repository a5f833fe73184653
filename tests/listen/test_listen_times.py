"""Times that senders tell: backlogs, clocks that are off, other units. Nothing is left out without a word."""

import time
from pathlib import Path

import pytest

from collectors.listen import Request
from collectors.listen.memory import SeriesMemory
from collectors.listen.remote_write import read
from collectors.listen.unpack import unpacked
from tests.listen.listen_kit import BACKFILL, NOW_MS, TELEMETRY, card, frames, site, values, written

CARD = "accelerator:n1/0000:cb:00"


def test_a_backlog_goes_where_no_window_waits(tmp_path: Path) -> None:
    now_ms = int(time.time() * 1000)
    with site(tmp_path) as one:
        assert one.write([(card("DCGM_FI_DEV_GPU_TEMP"), [(41.0, now_ms - 600_000), (42.0, now_ms)])]).status == 204
        for topic, told in ((TELEMETRY, (now_ms, 42.0)), (BACKFILL, (now_ms - 600_000, 41.0))):
            rows = [batch for frame in frames(one.log, (topic,)) for batch in frame.samples]
            assert values(rows, "accelerator", "temperature_celsius") == {(CARD, told[0]): told[1]}
        assert {frame.sequence for frame in one.frames()} == {1}  # each topic counts by itself: no hole in either


@pytest.mark.parametrize("at", [NOW_MS // 1000, NOW_MS * 1000, NOW_MS * 10**6, 0, -5])
def test_times_in_other_units_are_said(tmp_path: Path, at: int) -> None:
    with site(tmp_path) as one:
        assert one.write([(card("DCGM_FI_DEV_GPU_TEMP"), [(41.0, at)])]).status == 204
        assert "ms" in one.said[-1]
        assert one.frames() == []


@pytest.mark.parametrize(("off_s", "what"), [(7200, "ahead"), (-7200, "old"), (0, ""), (-60, "")])
def test_a_sender_s_clock_that_is_off_is_said(off_s: int, what: str) -> None:
    body = unpacked(written([(card("DCGM_FI_DEV_GPU_TEMP"), [(41.0, NOW_MS + 1000 * off_s)])]), "snappy", 1 << 20)
    request = Request(body, {"content-type": "application/x-protobuf"}, {}, NOW_MS)
    told = read(request, SeriesMemory(), lambda component: True)
    assert (what in told.note) if what else not told.note
    assert (told.status, told.written, len(told.samples)) == (0, 1, 1)
