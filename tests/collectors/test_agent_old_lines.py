"""A line that is read now and dated long ago: when it was counts, not when it was read."""

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from collectors.agent.hosting import zone_of
from collectors.agent.source import Host
from collectors.host.growing import Lines
from collectors.host.kernel_log import KernelLog
from collectors.lines import Dated, Follower, at_of
from sickbay.clock import Clock, Stamp
from sickbay.messages import Event
from sickbay.settings import Agent, Cluster, Config
from tests.collectors.agent_kit import XID, write

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def utc(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


NOW = utc("2026-11-30T15:00:00")


def no_year(text: str) -> Stamp:
    return Stamp(Clock.NO_YEAR, utc(f"2000-{text}") - utc("2000-01-01T00:00:00"))


@pytest.mark.parametrize(
    ("line", "read", "at"),
    [
        ("11-30T14:59:58", "2026-11-30T15:00:00", "2026-11-30T14:59:58"),
        ("11-30T15:01:30", "2026-11-30T15:00:00", "2026-11-30T15:00:00"),  # a clock that is ahead: read at the latest
        ("12-14T10:00:00", "2026-11-30T15:00:00", "2025-12-14T10:00:00"),  # not in two weeks, but a year ago
        ("12-01T16:00:00", "2026-11-30T15:00:00", "2025-12-01T16:00:00"),
        ("12-31T23:59:59", "2027-01-01T00:00:02", "2026-12-31T23:59:59"),
        ("01-01T00:00:01", "2026-12-31T23:59:58", "2026-12-31T23:59:58"),  # a second ahead, in the next year
        ("02-29T12:00:00", "2029-01-05T00:00:00", "2028-02-29T12:00:00"),
    ],
)
def test_a_line_without_a_year_is_of_the_newest_that_is_not_ahead(line: str, read: str, at: str) -> None:
    assert at_of(no_year(line), utc(read), UTC) == utc(at)


def follower(*, history: bool = False) -> Follower:
    one = Follower(UTC, history=history)
    if not history:
        one.caught_up(NOW - 200)
    return one


def taken(one: Follower, *lines: str, boot_ms: float | None = None) -> list[Dated]:
    """The events of lines and what comes a quiet second later."""
    text = "".join(f"{line}\n" for line in lines).encode()
    found = one.take([Lines(text, 1, True)], NOW, boot_ms=boot_ms)
    found += one.take([], NOW + 2000, boot_ms=boot_ms)
    return [dated for dated in found if isinstance(dated.reading.record, Event)]


@pytest.mark.parametrize("age_ms", [15 * 60_000, 5 * HOUR_MS, DAY_MS])
def test_what_is_dated_long_ago_keeps_its_time_and_is_counted(age_ms: int) -> None:
    one = follower()
    stamp = datetime.fromtimestamp((NOW - age_ms) / 1000, UTC)
    for line in (f"{stamp:%b %d %H:%M:%S} n1 kernel: [123.456789] {XID}", f"{stamp.isoformat()} n1 kernel: {XID}"):
        assert {dated.at_ms for dated in taken(one, line)} == {NOW - age_ms}
    assert one.old > 0


def test_what_was_missed_while_nobody_followed_is_no_surprise() -> None:
    one = Follower(UTC, history=False)  # it reads on after a restart
    assert taken(one, f"2026-11-30T12:00:00+00:00 n1 kernel: {XID}")
    assert one.old == 0


def test_a_first_look_tells_nothing_from_before_the_boot() -> None:
    booted = NOW - 120_000
    before, after = NOW - 180_000, NOW - 60_000
    lines = [f"{datetime.fromtimestamp(at / 1000, UTC).isoformat()} n1 kernel: {XID}" for at in (before, after)]
    assert {dated.at_ms for dated in taken(follower(history=True), *lines, boot_ms=booted)} == {after}
    assert {dated.at_ms for dated in taken(follower(), *lines, boot_ms=booted)} == {before, after}


@pytest.mark.parametrize(("seconds", "told"), [(3600, True), (7210, True), (90_000, False)])
def test_seconds_of_another_boot_are_no_time_of_this_one(seconds: int, told: bool) -> None:
    """Two hours after the boot; the kernel's own clock may be some seconds ahead."""
    found = taken(follower(), f"[{seconds:12.6f}] {XID}", boot_ms=NOW - 2 * HOUR_MS)
    assert bool(found) == told
    assert all(dated.at_ms <= NOW for dated in found)


def test_an_agent_says_that_lines_are_dated_long_before_they_are_written(tmp_path: Path) -> None:
    """A host west of Greenwich whose logger tells no zone: a live fault would else be dropped in silence."""
    log = tmp_path / "kern.log"
    log.touch()
    one = KernelLog(Host("n1", Agent(root=str(tmp_path), kernel_log="kern.log")))
    one.collect(NOW)
    write(log, f"Nov 30 10:00:00 n1 kernel: [123.456789] {XID}\n")
    found = [one.collect(NOW + 200), one.collect(NOW + 2000)]
    assert sum(collected.lost for collected in found) > 0
    assert any("timezone" in collected.lost_why for collected in found)
    assert {seen.at_ms for collected in found for seen in collected.seen if isinstance(seen.record, Event)} == {
        NOW - 5 * HOUR_MS
    }


def test_stamps_without_zone_are_in_the_hosts_own_unless_the_settings_say(tmp_path: Path) -> None:
    def zone(timezone: str = "") -> object:
        return zone_of(Config(cluster=Cluster(timezone=timezone), agent=Agent(root=str(tmp_path))))

    assert zone() is UTC
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/localtime").symlink_to("/usr/share/zoneinfo/America/New_York")
    assert zone() == ZoneInfo("America/New_York")
    assert zone("Asia/Shanghai") == ZoneInfo("Asia/Shanghai")
    (tmp_path / "etc/localtime").unlink()
    (tmp_path / "etc/localtime").write_bytes(b"junk")
    assert zone() is UTC


@pytest.mark.parametrize("how", ["replaced", "rewritten"])
def test_undated_lines_of_a_log_that_was_put_there_whole_are_no_news(tmp_path: Path, how: str) -> None:
    """`dmesg > kern.log` on a host whose boot nobody knows: the line may be of any time."""
    log, other = tmp_path / "kern.log", tmp_path / "other"
    log.write_text("[   12.000000] usb 1-1: new device, with some more words\n" * 3)
    one = KernelLog(Host("n1", Agent(root=str(tmp_path), kernel_log="kern.log")))
    one.collect(NOW)
    other.write_text(f"[  123.456789] {XID}\n")
    if how == "replaced":
        other.replace(log)
    else:
        log.write_text(other.read_text())
    found = [one.collect(NOW + ms) for ms in (200, 400, 2000, 4000)]
    assert not any(isinstance(seen.record, Event) for collected in found for seen in collected.seen)
    assert any("without a time" in collected.lost_why for collected in found)
    write(log, f"[  125.000000] {XID}\n")  # what is seen to be written is news
    found = [one.collect(NOW + ms) for ms in (5000, 7000)]
    assert any(isinstance(seen.record, Event) for collected in found for seen in collected.seen)
