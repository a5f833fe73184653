"""Sources that break in the ways hosts do: children that fork, clocks that are set back, folders of old logs, links."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from collectors.agent.evidence import Evidence
from collectors.agent.source import Host
from collectors.host import tool
from collectors.host.job_log import JobLog
from collectors.host.journal_log import JournalLog
from collectors.host.optic_ethtool import OpticEthtool
from sickbay.settings import Agent

NOW = 1_790_000_000_000
HOUR = 3_600_000


def lives(mark: str) -> bool:
    for number in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if mark.encode() in Path("/proc", number, "cmdline").read_bytes():
                return True
    return False


def test_what_a_tool_left_behind_is_ended_with_it(tmp_path: Path) -> None:
    mark = f"{97_000 + os.getpid() % 1000}.125"
    script = tmp_path / "forks"
    script.write_text(f"#!/bin/sh\nsleep {mark} &\nexit 0\n")
    script.chmod(0o755)
    with pytest.raises(tool.ToolHangs):
        tool.ask((str(script),), 0.3)
    deadline = time.monotonic() + 2.0
    while lives(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not lives(mark)


def test_a_clock_that_is_set_back_leaves_no_module_unread(tmp_path: Path) -> None:
    device = tmp_path / "sys/class/net/eth2"
    device.mkdir(parents=True)
    (device / "speed").write_text("400000\n")
    (device / "device").mkdir()
    (device / "address").write_text("02:00:00:00:00:01\n")
    (device / "addr_assign_type").write_text("0\n")
    (device / "type").write_text("1\n")
    asked: list[Sequence[str]] = []

    def ask(command: Sequence[str], timeout_s: float) -> bytes:
        asked.append(command)
        return b""

    source = OpticEthtool(Host("n7", Agent(root=str(tmp_path))), ask)
    source.collect(NOW + HOUR)
    for second in range(1, 70):
        source.collect(NOW + HOUR + second * 1000)
    before = len(asked)
    assert before
    for second in range(70):
        source.collect(NOW + second * 1000)
    assert len(asked) > before


def test_new_logs_are_looked_for_after_the_clock_was_set_back(tmp_path: Path) -> None:
    source = JobLog(Host("n7", Agent(root=str(tmp_path), job_logs=("*.out",))))
    ahead = round(time.time() * 1000) + HOUR
    source.collect(ahead)
    (tmp_path / "slurm-7.out").write_text("step 1\n")
    assert source.collect(ahead - HOUR + 60_000).absent == ""
    source.close()


def test_a_journal_without_its_tool_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "var/log/journal/abc"
    folder.mkdir(parents=True)
    (folder / "system.journal").write_bytes(b"LPKSHHRH")
    monkeypatch.setattr("collectors.host.journal_follow.shutil.which", lambda *told, **more: None)
    source = JournalLog(Host("n7", Agent(root=str(tmp_path))))
    assert source.collect(NOW).problem == "journal: journalctl is not installed"


def test_a_link_among_the_bundles_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "passwd").write_bytes(b"x" * 5_000)
    folder = tmp_path / "evidence"
    folder.mkdir()
    (folder / "20200101T000000.000Z-old").symlink_to(outside)
    kept = Evidence(folder, 4_000)
    first = kept.save("../../etc", NOW, {"../../passwd": b"a" * 3_000})
    assert first is not None
    assert first.parent == folder
    assert [one.name for one in first.iterdir()] == [".._.._passwd"]
    assert (outside / "passwd").stat().st_size == 5_000
    assert kept.size == 3_000
    second = kept.save("next", NOW + 1000, {"a": b"b" * 3_000})
    assert second is not None
    assert not first.exists()
