"""Monitors, plugins and switches: loud lines that are harmless, codes as themselves, ports by switch and name."""

from collectors.formats.bodies.monitor import Monitor
from collectors.formats.reading import Line, Record
from sickbay.messages import Action, Event, Severity

DEVICE = "GPU-77aa0000-1111-2222-3333-444455556666"


ERROR_DOWN = "ERRDOWN/4/ERRDOWN_DOWNNOTIFY: Notify interface to change status to error-down. "
SWITCH_LINES = (
    ("%LINK-3-UPDOWN: Interface HundredGigE1/0/12, changed state to down", "port.down", "HundredGigE1/0/12"),
    ("%LINEPROTO-5-UPDOWN: Line protocol on Interface Et3/1, changed state to up", "port.up", "Et3/1"),
    ("%ETHPORT-5-IF_DOWN_ADMIN_DOWN: Interface Eth1/2 is down (Administratively down)", "port.admin_down", "Eth1/2"),
    ("%ETHPORT-5-IF_UP: Interface Ethernet1/2 is up in mode trunk", "port.up", "Ethernet1/2"),
    ("IFNET/3/PHY_UPDOWN: Physical state on the interface HGE1/0/12 changed to down.", "port.down", "HGE1/0/12"),
    (ERROR_DOWN + "(InterfaceName=100GE1/0/12, Cause=crc)", "port.down", "100GE1/0/12"),
)


def read(*lines: str, host: str = "") -> list[Record]:
    body = Monitor()
    return [record for number, line in enumerate(lines, 1) for record in body.read(Line(line, number, host=host))]


def event(line: str, host: str = "") -> Event:
    (record,) = read(line, host=host)
    assert isinstance(record, Event)
    return record


def test_a_loud_monitor_is_a_notice() -> None:
    found = event(
        "2025-01-01 00:00:00.1 ERROR [9:11] [[SysMon]] Couldn't open file '\ufffd\ufffd' [x.cpp:1]", host="n-1"
    )
    assert (found.component, found.kind, found.severity) == (
        "monitor:n-1/nv-hostengine",
        "monitor.notice",
        Severity.INFO,
    )


def test_two_lines_of_a_plugin_are_one_event() -> None:
    critical = f"XidCriticalError: Xid=31 on Device={DEVICE}, the device will go unhealthy."
    marked = f"'nvidia.com/gpu' device marked unhealthy: {DEVICE}"
    (found,) = read(critical, marked)
    assert isinstance(found, Event)
    assert (found.component, found.advice, found.severity) == (
        f"accelerator:?/{DEVICE}",
        Action.RESTART_JOB,
        Severity.WARNING,
    )
    assert len(read(marked)) == 1


def test_a_grave_code_keeps_its_meaning() -> None:
    found = event(f"XidCriticalError: Xid=79 on Device={DEVICE}, the device will go unhealthy.")
    assert (found.kind, found.severity) == ("accelerator.off_bus", Severity.FATAL)


def test_a_watchdog_that_could_not_start_is_no_storm() -> None:
    found = event(":- createEntry: Failed to start PFC Watchdog on port Ethernet8", host="leaf3")
    assert (found.kind, found.component, found.severity) == (
        "port.config_notice",
        "port:leaf3/Ethernet8",
        Severity.INFO,
    )
    assert event(":- x: PFC Watchdog storm restored on port Ethernet8, queue index 3").kind == "port.config_notice"
    assert event(":- x: PFC Watchdog detected PFC storm on port Ethernet8, queue index 3").kind == "port.pause_storm"


def test_ports_of_other_switches() -> None:
    for line, kind, port in SWITCH_LINES:
        found = event(line, host="s1")
        assert (found.kind, found.component) == (kind, f"port:s1/{port}")


def test_a_clock_is_no_host() -> None:
    assert (
        event("03:02:01 %ETHPORT-5-IF_UP: Interface Ethernet1/2 is up in mode trunk").component == "port:?/Ethernet1/2"
    )


def test_lost_lines_are_told_with_their_number() -> None:
    found = event("printk: collect.sh: 88 output lines suppressed due to ratelimiting")
    assert (found.kind, found.attributes) == ("monitor.lines_lost", {"lost": "88"})


def test_informative_lines_of_a_monitor_are_left_alone() -> None:
    assert read("2025-01-01 00:00:00.1 INFO [9:11] [[Core]] started") == []
