"""The management controller's log as the agent follows it: history is none of today's, and each state is one."""

from pathlib import Path

import pytest

from collectors.agent.source import Host
from collectors.host import tool
from collectors.host.host_management_log import HostManagementLog
from sickbay.messages import Event, Severity
from sickbay.settings import Agent

NOW = 1_790_000_000_000
OLD = "  1 | 05/04/2024 | 03:02:11 | Memory A1 | Uncorrectable ECC | Asserted\n"
LOST = "  2 | 05/04/2026 | 03:02:11 | Power Supply PSU2 | Power Supply AC lost | Asserted\n"
BACK = "  3 | 05/04/2026 | 03:05:11 | Power Supply PSU2 | Power Supply AC lost | Deasserted\n"


class Answers:
    def __init__(self, *told: str | Exception) -> None:
        self.told = list(told)

    def __call__(self, command: object, timeout_s: float) -> bytes:
        told = self.told.pop(0)
        if isinstance(told, Exception):
            raise told
        return told.encode()


def source(root: Path, *told: str | Exception) -> HostManagementLog:
    (root / "dev").mkdir()
    (root / "dev/ipmi0").touch()
    return HostManagementLog(Host("n1", Agent(root=str(root))), Answers(*told))


def test_what_is_new_is_told_once_and_what_stood_there_is_not(tmp_path: Path) -> None:
    log = source(tmp_path, OLD, OLD + LOST, OLD + LOST, OLD + LOST + BACK)
    looks = [[one.record for one in log.collect(NOW + 30_000 * look).seen] for look in range(4)]
    told = [[(one.component, one.code, one.severity) for one in look if isinstance(one, Event)] for look in looks]
    assert told == [
        [], [("host:n1", "Power Supply AC lost", Severity.WARNING)], [], [("host:n1", "well again", Severity.INFO)]
    ]  # fmt: skip


def test_an_empty_log_is_no_trouble_and_its_first_entry_is_news(tmp_path: Path) -> None:
    log = source(tmp_path, "SEL has no entries\n", LOST)
    assert not log.collect(NOW).problem
    assert len(log.collect(NOW + 30_000).seen) == 1


def test_a_log_that_was_cleared_begins_anew(tmp_path: Path) -> None:
    log = source(tmp_path, OLD + LOST, "SEL has no entries\n", LOST.replace("03:02:11", "09:00:00"))
    assert [len(log.collect(NOW + look).seen) for look in range(3)] == [0, 0, 1]


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (tool.ToolMissing("ipmitool is not installed"), "absent"),
        (tool.ToolFailed("Could not open device at /dev/ipmi0: Permission denied"), "absent"),
        (tool.ToolFailed("ipmitool sel elist: no whole answer within 20 s"), "blind"),
        ("Unable to establish IPMI v2\n", "blind"),
    ],
)
def test_each_trouble_is_one_state(tmp_path: Path, told: str | Exception, state: str) -> None:
    found = source(tmp_path, told).collect(NOW)
    assert (bool(found.problem), bool(found.absent)) == (state == "blind", state == "absent")


def test_a_host_without_a_controller_is_asked_nothing(tmp_path: Path) -> None:
    log = HostManagementLog(Host("n1", Agent(root=str(tmp_path))), Answers())
    assert log.collect(NOW).absent.startswith("no management controller")
