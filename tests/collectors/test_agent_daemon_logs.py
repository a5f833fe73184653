"""The journal and logs of daemons: followed, resumed where an earlier run stopped, believed of no other host."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collectors.agent.hosting import host_of
from collectors.agent.source import Collected
from collectors.host.journal_follow import readable
from collectors.host.journal_log import JournalLog
from collectors.host.kernel_log import Device, KernelLog
from collectors.host.system_log import SystemLog
from sickbay.log import wall_ms
from sickbay.messages import Event
from sickbay.settings import Config
from tests.collectors.agent_kit import XID, settings, wait_for, write

# Prints what its file has, as `journalctl -f` does; `--after-cursor` passes over what was read.
FAKE = """#!/bin/sh
printf '%s\\n' "$*" >> {root}/asked
after=0
for word in "$@"; do case $word in --after-cursor=c*) after=${{word#*=c}};; --after-cursor=*) exit 1;; esac; done
exec tail -n +$((after + 1)) -f {root}/journal
"""


def entry(number: int, says: str, speaker: str = "systemd", host: str = "n1", at_ms: int = 0) -> str:
    """One entry as `journalctl -o json` prints it."""
    return json.dumps(
        {
            "__CURSOR": f"c{number}", "__REALTIME_TIMESTAMP": str((at_ms or wall_ms()) * 1000), "_HOSTNAME": host,
            "SYSLOG_IDENTIFIER": speaker, "_PID": "1", "PRIORITY": "6", "MESSAGE": says,
        }
    ) + "\n"  # fmt: skip


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with a journal; the file that its tool prints."""
    monkeypatch.setattr("collectors.host.journal_follow.FIRST_S", 0.4)
    root = tmp_path / "n1"
    (root / "var/log/journal/0f").mkdir(parents=True)
    (root / "var/log/journal/0f/system.journal").touch()
    (root / "journal").touch()
    tool = tmp_path / "bin/journalctl"
    tool.parent.mkdir()
    tool.write_text(FAKE.format(root=root))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    return root / "journal"


Made = Callable[..., JournalLog]


@pytest.fixture
def watching() -> Iterator[Made]:
    made: list[JournalLog] = []

    def make(config: Config, place: bytes | None = None) -> JournalLog:
        made.append(JournalLog(host_of(config, lambda source: place)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def events(source: KernelLog | SystemLog, least: int = 1) -> tuple[list[Event], Collected]:
    """Collections until there are as many events."""
    found: list[Event] = []
    last = Collected()

    def enough() -> bool:
        nonlocal last
        last = source.collect(wall_ms())
        found.extend(one.record for one in last.seen if isinstance(one.record, Event))
        return len(found) >= least

    wait_for(enough)
    return found, last


FABRIC = (
    "[ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 "
    "physical id 1 port 41"
)


@pytest.mark.slow
def test_what_a_daemon_says_is_an_event_and_is_told_once(journal: Path, tmp_path: Path, watching: Made) -> None:
    config = settings(tmp_path)
    source = watching(config)
    source.collect(wall_ms())
    write(journal, entry(1, FABRIC, "nv-fabricmanager") + entry(2, "hello", "cron"))
    (found,), last = events(source)
    assert (found.kind, found.component.partition(":")[0]) == ("fabric.switch_fatal", "fabric")
    source.close()
    write(journal, entry(3, FABRIC.replace("port 41", "port 7"), "nv-fabricmanager"))
    again = watching(config, last.place)
    (later,), _ = events(again)
    assert later.attributes["link"] == "7"
    asked = (journal.parent / "asked").read_text().splitlines()
    assert asked[0].startswith("-q -f -o json --no-pager -n 200 -D ")
    assert "-t nv-fabricmanager" in asked[0]
    assert any("--after-cursor=c" in line for line in asked[1:])


@pytest.mark.slow
def test_history_is_not_told_at_a_first_look(journal: Path, tmp_path: Path, watching: Made) -> None:
    write(journal, entry(1, FABRIC, "nv-fabricmanager", at_ms=wall_ms() - 86_400_000))
    source = watching(settings(tmp_path))
    for _ in range(5):
        assert source.collect(wall_ms()).seen == []
        time.sleep(0.05)


@pytest.mark.slow
def test_a_line_of_another_host_is_not_told_of_this_one(journal: Path, tmp_path: Path, watching: Made) -> None:
    source = watching(settings(tmp_path))
    source.collect(wall_ms())
    write(journal, entry(1, FABRIC, "nv-fabricmanager", host="n2") + entry(2, FABRIC, "nv-fabricmanager"))
    assert len(events(source)[0]) == 1


@pytest.mark.slow
def test_a_place_that_the_journal_no_longer_has_is_a_loss(
    journal: Path, tmp_path: Path, watching: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collectors.host.journal_follow.AGAIN_S", 0.1)
    source = watching(settings(tmp_path), b'["\\"gone\\"","\\"gone\\""]')
    found: list[Collected] = []

    def lost() -> int:
        found.append(source.collect(wall_ms()))
        return sum(one.lost for one in found)

    wait_for(lost, 5.0)
    assert any("ended by itself" in one.problem for one in found)
    write(journal, entry(1, FABRIC, "nv-fabricmanager"))
    assert events(source)[0]


def test_without_a_journal_there_is_nothing_and_without_the_right_it_is_blind(
    tmp_path: Path, watching: Made, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = watching(settings(tmp_path))
    monkeypatch.setattr("collectors.host.journal_follow.os.access", lambda *_: False)
    assert "add the agent's user to the group systemd-journal" in source.collect(wall_ms()).problem
    (journal.parent / "var/log/journal/0f/system.journal").unlink()
    assert source.collect(wall_ms()).absent == "no journal of the system"


@pytest.mark.slow
def test_the_kernels_messages_come_from_the_journal_where_the_device_may_not_be_read(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> Device:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("collectors.host.kernel_log.Device", refused)
    monkeypatch.setattr("collectors.host.kernel_log.stat.S_ISCHR", lambda mode: True)
    config = settings(tmp_path, kernel_log="dev/kmsg")
    (tmp_path / "n1/dev").mkdir()
    (tmp_path / "n1/dev/kmsg").touch()
    source = KernelLog(host_of(config, lambda source: None))
    try:
        source.collect(wall_ms())
        write(journal, entry(1, XID, "kernel"))
        assert events(source)[0][0].kind == "accelerator.off_bus"
        assert " -k" in (journal.parent / "asked").read_text()
    finally:
        source.close()


def test_the_fabric_managers_own_file_is_followed(tmp_path: Path) -> None:
    config = settings(tmp_path, system_logs=("var/log/tray-*.log",))
    source = SystemLog(host_of(config, lambda source: None))
    assert source.collect(wall_ms()).absent
    path = tmp_path / "n1/var/log/fabricmanager.log"
    path.parent.mkdir(parents=True)
    write(path, time.strftime("[%b %d %Y %H:%M:%S] ", time.gmtime()) + FABRIC + "\n")
    monkey = wall_ms() + 3_000  # the next look for files
    found = [one for step in range(0, 3_000, 500) for one in source.collect(monkey + step).seen]
    assert [(one.record.kind, one.host, one.path) for one in found] == [  # type: ignore[union-attr]
        ("fabric.switch_fatal", "n1", "var/log/fabricmanager.log")
    ]
    source.close()


def test_the_machines_own_journal_is_followed_where_there_is_one(watching: Made) -> None:
    if not readable(Path("/")):
        pytest.skip("this machine has no journal, or none that may be read here")
    source = watching(Config())
    assert source.collect(wall_ms()).problem == ""
    assert source.collect(wall_ms()).place is not None
