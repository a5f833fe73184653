"""The archive in a bucket of an S3-compatible store: written, kept in order, read; two archivers get in no trouble."""

from datetime import date
from pathlib import Path

import polars as pl
import pytest

from sickbay.admission import Admission
from sickbay.app.archiving.archive_frames import ArchiveFrames
from sickbay.archive_place import Place, place
from sickbay.history import History, NoArchive
from sickbay.log.memory import MemoryLog
from sickbay.selfmetrics import SelfMetrics
from sickbay.topics import TELEMETRY
from streams.archive import Archive
from tests.services import s3
from tests.streams.archive_full_kit import HOUR_MS, KEEPING, SMALL, START, Cluster, expected, upkeep
from tests.streams.archive_kit import Writer
from tests.streams.archive_kit import expected as expected_messages

EVENTS, INCIDENTS = "sickbay.events.v1", "sickbay.incidents.v1"


@pytest.mark.service
def test_an_archive_in_a_bucket_is_written_and_read_like_one_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [START]
    log = MemoryLog(SMALL, clock=lambda: now[0])
    with s3.running(tmp_path / "store", monkeypatch) as root:
        with pytest.raises(NoArchive, match="no archive here"):
            History(root)
        cluster, writer = Cluster(log), Writer(log)
        made = _archive(log, root)
        other = _archive(log, root)
        for turn in range(3):
            now[0] += 60_000
            cluster.send(now[0], 12, step_ms=5_000)
            writer.some(40)
            done = (made if turn % 2 else other).step()
            assert not any(one.beaten for one in done) or turn
        for one in (other, made):
            one.drain()
        history, wanted = History(root), expected(log)
        assert {"events", "incidents", "telemetry_port", "gaps"} <= set(history.tables)
        assert history.scan("telemetry_port").collect().height == len(wanted["port"])
        assert history.scan("events").collect().height == len(expected_messages(log, [EVENTS])["events"])
        now[0] = START + 30 * HOUR_MS
        cluster.tick()
        made.drain()
        complete_ms = made.feeds[TELEMETRY].complete_ms()
        for name, table in upkeep(made, root, KEEPING).items():
            done_here = []
            while what := table.step(complete_ms, date(2026, 12, 1)):
                done_here.append(what)
            assert done_here == ["minutes", "removed"], name
        best = history.telemetry_over("port", START, START + HOUR_MS).collect()
        assert best["step_ms"].unique().to_list() == [60_000]
        rows = history.minutes("port").select(pl.col("n").sum()).collect().item()
        assert rows == len(wanted["port"])
        assert history.files("telemetry_port_1m")[0].startswith("s3://archive/site/telemetry_port_1m/")


def _archive(log: MemoryLog, root: Place) -> Archive:
    frames = ArchiveFrames(log, Admission(), SelfMetrics())
    return Archive(log, root, topics=(EVENTS, INCIDENTS), frames=frames)


def test_what_a_store_is_asked_with() -> None:
    assert place("/var/lib/archive").asked() is None
    told = place("s3://bucket/a/", endpoint="http://127.0.0.1:9000")
    assert told.table("events") == "s3://bucket/a/events"
    assert told.asked() == {
        "aws_conditional_put": "etag",
        "aws_endpoint_url": "http://127.0.0.1:9000",
        "aws_allow_http": "true",
        "aws_region": "us-east-1",
    }
    assert place(told) is told
