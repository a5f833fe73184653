"""The log is away, and the agent is killed meanwhile: nothing within the spool's bound is missing or double."""

import os
import signal
import time
from pathlib import Path

import pytest

from sickbay.log.sqlite import SqliteLog
from sickbay.sequences import Sequences
from sickbay.topics import BACKFILL, EVENTS, TELEMETRY
from tests.collectors.agent_kit import exporter_page, page, records, serving, wait_for
from tests.collectors.outage_kit import Process, away, dropped, frames, numbers, process, unique, whole

pytestmark = pytest.mark.slow

OUTAGE_S = float(os.environ.get("SICKBAY_OUTAGE_S", "9"))  # the promise speaks of 600
QUICK = "sample_s = 0.2\nframe_s = 0.5\n"
NARROW = "[windows]\nwidth_s = 1\nlateness_s = 1\n"  # what is older than two seconds is too old for windows


def pages(cards: int) -> str:
    """A scrape of so many accelerators."""
    row = (
        'DCGM_FI_DEV_POWER_USAGE{{gpu="{0}",UUID="GPU-{0:08d}-0000-0000-0000-000000000000",'
        'pci_bus_id="{0:08X}:CB:00.0",device="nvidia{0}",modelName="H100",Hostname="n1"}} 300.0\n'
    )
    return "".join(row.format(number) for number in range(cards))


def through_an_outage(one: Process, outage_s: float) -> None:
    """Live, away with two kills in between, and back until the spool is empty; a line in the kernel log each second."""
    one.start()
    wait_for(lambda: one.numbered(TELEMETRY) >= 2, 30)
    one.say()
    with away(one.folder):
        began = time.monotonic()
        for kill in range(3):
            while time.monotonic() < began + outage_s * (kill + 1) / 3:
                one.say()
                time.sleep(0.5)
            if kill < 2:
                one.kill()
                one.say()
                one.start()
    wait_for(lambda: one.waiting() == 0, 60 + outage_s)
    assert one.kill(signal.SIGTERM) == 0


def test_nothing_is_missing_or_double_after_an_outage_with_two_kills(tmp_path: Path) -> None:
    with serving(page(exporter_page())) as url, process(tmp_path, f'{QUICK}exporters = ["{url}"]', NARROW) as one:
        SqliteLog(tmp_path / "log").close()
        through_an_outage(one, OUTAGE_S)
    log = SqliteLog(tmp_path / "log")
    live, late = whole(log)
    last = one.numbered(TELEMETRY)
    assert live | late == set(range(1, last + 1))
    assert len(live & late) <= 8  # tried live when the log went away, then told as backfill: known by the number
    assert len(late) >= 0.3 * OUTAGE_S  # most of what the outage saw: it takes a while to start
    assert numbers(log, TELEMETRY) == set(range(1, last + 1))  # a planned way round is no loss to whoever reads here
    assert numbers(log, EVENTS) == set(range(1, one.numbered(EVENTS) + 1))
    codes = [event for event in unique(log) if event.code == "Xid 31"]
    assert sorted(int(event.process.split("[")[1].rstrip("]")) for event in codes) == list(range(1, one.lines + 1))
    assert dropped(log, TELEMETRY) == []
    seen, lost = Sequences(), 0
    for frame in frames(log, TELEMETRY):
        place = seen.place(TELEMETRY, frame.host, frame.incarnation, frame.sequence)
        lost += place.missed - place.found
    assert lost == 0
    log.close()


def test_live_data_are_there_at_once_while_a_backlog_takes_its_time(tmp_path: Path) -> None:
    with serving(page(exporter_page())) as url, process(tmp_path, f'{QUICK}exporters = ["{url}"]', NARROW) as one:
        log = SqliteLog(tmp_path / "log")
        one.start()
        wait_for(lambda: one.numbered(TELEMETRY) >= 2, 30)
        with away(tmp_path):
            began = one.numbered(TELEMETRY)
            wait_for(lambda: one.numbered(TELEMETRY) >= began + 20, 30)
            newest = one.numbered(TELEMETRY)
        back = time.monotonic()
        wait_for(lambda: max(whole(log)[0], default=0) > newest, 15)
        assert len(records(log, BACKFILL)) < 18  # some frames a second
        wait_for(lambda: one.waiting() == 0, 60)
        assert time.monotonic() - back > 4
        rest = [frame for frame in frames(log, TELEMETRY) if frame.tables and frame.sequence > newest]
        ages = [record.append_ms for record in records(log, TELEMETRY)]
        assert len(rest) >= 5
        assert ages == sorted(ages)
        log.close()


def test_beyond_the_bound_the_oldest_go_and_every_number_is_accounted_for(tmp_path: Path) -> None:
    agent = f"{QUICK}spool_max_bytes = {1 << 20}\n"
    with serving(page(pages(800))) as url, process(tmp_path, f'{agent}exporters = ["{url}"]', NARROW) as one:
        SqliteLog(tmp_path / "log").close()
        one.start()
        wait_for(lambda: one.numbered(TELEMETRY) >= 2, 30)
        with away(tmp_path):
            one.say()
            began = one.numbered(TELEMETRY)
            wait_for(lambda: one.numbered(TELEMETRY) >= began + 10, 60)
            one.kill()
            one.start()
            wait_for(lambda: one.numbered(TELEMETRY) >= began + 25, 90)
        wait_for(lambda: one.waiting() == 0, 60)
        time.sleep(1.5)  # the last drops are told within a second
        assert one.kill(signal.SIGTERM) == 0
    log = SqliteLog(tmp_path / "log")
    live, late = whole(log)
    missing = set(range(1, one.numbered(TELEMETRY) + 1)) - live - late
    gone = dropped(log, TELEMETRY)
    assert missing
    assert sum(lost for _, _, lost in gone) == len(missing)
    assert all(any(first <= number <= last for first, last, _ in gone) for number in missing)
    assert numbers(log, EVENTS) == set(range(1, one.numbered(EVENTS) + 1))  # events outlive telemetry
    assert len([event for event in unique(log) if event.code == "Xid 31"]) == 1
    log.close()
