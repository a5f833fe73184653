"""Monitoring daemons, device plugins, switches and log pipelines: what they say of others, and of themselves.

The severity a daemon prints is its own mood: a line of ERROR level is a notice unless its text is a known fault.
Switch texts: SONiC swss, Arista EOS, Cisco NX-OS and IOS, Huawei VRP, H3C Comware.
"""

import re
from collections.abc import Iterable

from collectors.codes.nvidia import xid
from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Action, Severity, strength

_MAX_DEVICES = 4096  # whose second line is recognised

_HOSTENGINE = re.compile(
    r"(?:(?P<level>[A-Z]{3,8}) )?\[\d{1,10}:\d{1,10}\] \[\[(?P<module>\w{1,40})\]\] (?P<text>.{1,300})"
)
_PLUGIN_CODE = re.compile(r"XidCriticalError: Xid=(?P<code>\d{1,6}) on Device=(?P<device>[\w-]{3,80})")
_PLUGIN_MARK = re.compile(r"'[\w./-]{3,80}' device marked unhealthy: (?P<device>[\w-]{3,80})")

_SONIC = re.compile(
    r"(?:(?<![\w.-])(?P<host>[\w.-]{1,253}) (?:EMERG|ALERT|CRIT|ERR|WARNING|NOTICE|INFO|DEBUG) "
    r"\w{1,20}#\w{1,20}(?:\[\d{1,10}\])?: )?"
    r":- (?P<speaker>\w{1,60}): (?P<text>.+)"
)
_SONIC_PORT = re.compile(r"\bport (?P<port>Ethernet\d{1,5}|PortChannel\d{1,5})\b", re.IGNORECASE)
_SONIC_STATE = re.compile(r"Port (?P<port>\S{1,60}) oper state set from \w{1,20} to (?P<state>up|down)")
_ASIC = re.compile(
    r"\[(?P<level>fatal|notice|warning)\] ASIC/SDK health event occurred.{0,80}?category (?P<what>\w{1,40})"
)
_CONFIG = (
    "Failed to start PFC Watchdog on port",
    "No lossless TC found on port",
    "Failed to stop PFC Watchdog on port",
)

_PERCENT = re.compile(
    r"(?:(?<![\w.-])(?P<host>[\w.-]{1,253})(?: \w{1,40}:)? )?"
    r"%(?P<tag>[A-Z_]{2,30}(?:-[A-Z0-9_]{1,30})?-\d-[A-Z_]{2,60}): (?P<text>.+)"
)
_INTERFACE = re.compile(r"\bInterface (?P<port>[\w/.-]{2,60})")
_WENT = re.compile(r"changed state to (?P<state>administratively down|down|up)\b")
_HUAWEI = re.compile(r"the interface (?P<port>[\w/.-]{2,60}) has entered the (?P<state>DOWN|UP) state")
_ERROR_DOWN = re.compile(
    r"status to error-down\. \(InterfaceName=(?P<port>[\w/.-]{2,60}), Cause=(?P<cause>[^)]{1,80})\)"
)
_H3C = re.compile(r"Physical state on the interface (?P<port>[\w/.-]{2,60}) changed to (?P<state>down|up)\b")
_BEFORE = re.compile(r"(?<![\w.-])(?P<host>[A-Za-z][\w.-]{0,252}) (?:%%\d\d|IFNET/)")

_LOST = (  # pattern -> who lost lines; the first group, where there is one, is how many
    (re.compile(r"\bMissed (\d{1,9}) kernel messages"), "systemd-journald"),
    (re.compile(r"\bSuppressed (\d{1,9}) messages from "), "systemd-journald"),
    (re.compile(r"printk: \S{1,60}: (\d{1,9}) output lines suppressed due to ratelimiting"), "printk"),
    (re.compile(r"\b\w{3,60}: (\d{1,9}) callbacks suppressed"), "printk"),
    (re.compile(r"\bimjournal: begin to drop messages due to rate-limiting"), "rsyslogd"),
    (re.compile(r"\bimjournal: (\d{1,9}) messages lost due to rate-limiting"), "rsyslogd"),
    (re.compile(r"\bimuxsock lost (\d{1,9}) messages from pid \d{1,10} due to rate-limiting"), "rsyslogd"),
)

LITERALS = (
    "] [[",
    "XidCriticalError",
    "device marked unhealthy",
    ":- ",
    "changed state to",
    "ETHPORT-5-",
    "has entered the",
    "error-down",
    "Physical state on the interface",
    "kernel messages",
    "messages from ",
    "suppressed",
    "rate-limiting",
)


class Monitor:
    """Body grammar of monitoring and switch lines. Keeps the devices a plugin has told, to fold its two lines."""

    def __init__(self) -> None:
        self._unhealthy: set[str] = set()

    def read(self, line: Line) -> Iterable[Record]:
        """Events of devices, ports, switches and of the monitors themselves."""
        body = line.body[:LINE_LIMIT]
        if not any(literal in body for literal in LITERALS):
            return ()
        if "unhealthy" in body or "XidCriticalError" in body:
            return self._plugin(body)
        host = line.host or UNKNOWN
        for reader in (_hostengine, _sonic, _percent, _huawei, _lost):
            if found := reader(body, host):
                return found
        return ()

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()

    def _plugin(self, body: str) -> list[Record]:
        """A plugin calls every code critical and never takes a device back: the code's own row says what it means."""
        match = _PLUGIN_CODE.search(body) or _PLUGIN_MARK.search(body)
        if not match:
            return []
        device, code = match["device"], match.groupdict().get("code") or ""
        if device in self._unhealthy and not code:
            return []
        if len(self._unhealthy) < _MAX_DEVICES:
            self._unhealthy.add(device)
        component = name(Kind.ACCELERATOR, UNKNOWN, device)
        return [_coded(component, int(code))] if code else [event("scheduler.device_unhealthy", component)]


def _coded(component: str, code: int) -> Record:
    """A grave code is told as itself; a program's error only as the plugin's mark, with no more than a restart."""
    row = xid(code)
    grave = row.severity in (Severity.ERROR, Severity.FATAL)
    advice = row.advice
    if not grave and advice and strength(advice) > strength(Action.RESTART_JOB):
        advice = Action.RESTART_JOB
    told = {"severity": row.severity, "blame": row.blame, "advice": advice, "scope": row.scope}
    facts = {"plugin": "marked unhealthy", "meaning": row.meaning}
    kind = row.kind if grave else "scheduler.device_unhealthy"
    return event(kind, component, facts, code=f"XID {code}", **told)


def _hostengine(body: str, host: str) -> list[Record]:
    match = _HOSTENGINE.search(body)
    if not match or match["level"] in ("INFO", "DEBUG", "VERB", "TRACE"):
        return []
    monitor = name(Kind.MONITOR, host, "nv-hostengine")
    return [event("monitor.notice", monitor, {"level": match["level"] or ""}, code=match["module"])]


def _sonic(body: str, host: str) -> list[Record]:
    match = _SONIC.search(body)
    if not match:
        return []
    text, switch = match["text"], match["host"] or host
    if state := _SONIC_STATE.search(text):
        return [event(f"port.{state['state']}", _port(switch, state["port"]), code="oper state")]
    if asic := _ASIC.search(text):
        kind = "switch.asic_fatal" if asic["level"] == "fatal" else "switch.asic_notice"
        return [event(kind, name(Kind.SWITCH, switch), code=asic["what"])]
    port = _SONIC_PORT.search(text)
    if not port:
        return []
    if "PFC Watchdog detected PFC storm" in text:
        return [event("port.pause_storm", _port(switch, port["port"]), code="pause storm")]
    if "PFC Watchdog storm restored" in text:
        return [event("port.config_notice", _port(switch, port["port"]), code="pause storm over")]
    known = any(words in text for words in _CONFIG)
    notice = event("port.config_notice", _port(switch, port["port"]), code="pause watchdog not started")
    return [notice] if known else []


def _percent(body: str, host: str) -> list[Record]:
    """`%FACILITY-severity-MNEMONIC: text` of EOS, NX-OS and IOS."""
    match = _PERCENT.search(body)
    interface = _INTERFACE.search(match["text"]) if match else None
    if not match or not interface:
        return []
    port = _port(_told(host, match["host"]), interface["port"].rstrip(",."))
    tag = match["tag"]
    if tag.endswith("IF_DOWN_LINK_FAILURE"):
        return [event("port.down", port, code=tag)]
    if tag.endswith("IF_DOWN_ADMIN_DOWN"):
        return [event("port.admin_down", port, code=tag)]
    if tag.endswith("-IF_UP"):
        return [event("port.up", port, code=tag)]
    went = _WENT.search(match["text"]) if tag.endswith(("-UPDOWN", "-CHANGED")) else None
    kinds = {"down": "port.down", "up": "port.up", "administratively down": "port.admin_down"}
    return [event(kinds[went["state"]], port, code=tag)] if went else []


def _huawei(body: str, host: str) -> list[Record]:
    before = _BEFORE.search(body)
    switch = _told(host, before["host"] if before else None)
    if match := _HUAWEI.search(body) or _H3C.search(body):
        return [event(f"port.{match['state'].lower()}", _port(switch, match["port"].rstrip(".")), code="link state")]
    if match := _ERROR_DOWN.search(body):
        return [event("port.down", _port(switch, match["port"]), {"cause": match["cause"]}, code="error-down")]
    return []


def _lost(body: str, host: str) -> list[Record]:
    for pattern, who in _LOST:
        if match := pattern.search(body):
            lost = match[1] if pattern.groups else ""
            return [event("monitor.lines_lost", name(Kind.MONITOR, host, who), {"lost": lost}, code="lines lost")]
    return []


def _told(host: str, in_text: str | None) -> str:
    """The envelope's host, else one in the text that can be a name (a clock or a number cannot)."""
    named = in_text or ""
    return host if host != UNKNOWN or not named[:1].isalpha() else named


def _port(switch: str, port: str) -> str:
    return name(Kind.PORT, switch, port)


GRAMMAR = Monitor

SAMPLES = (
    Sample(
        "2025-03-02 10:11:12.205 ERROR [710:712] [[SysMon]] Couldn't open CPU Vendor info file file "
        "'/sys/devices/soc0/soc_id' for reading: '\ufffd\ufffdV' [DcgmSystemMonitor.cpp:261] [ReadCpuVendorAndModel]",
        ({"type": "event", "component": "monitor:?/nv-hostengine", "kind": "monitor.notice", "severity": "info"},),
    ),
    Sample(
        "2025/03/02 10:11:12 XidCriticalError: Xid=43 on Device=GPU-5a17e3c0-1111-2222-3333-0123456789ab, the device "
        "will go unhealthy.\n"
        "2025/03/02 10:11:12 'nvidia.com/gpu' device marked unhealthy: GPU-5a17e3c0-1111-2222-3333-0123456789ab",
        (
            {
                "type": "event",
                "component": "accelerator:?/GPU-5a17e3c0-1111-2222-3333-0123456789ab",
                "kind": "scheduler.device_unhealthy",
                "code": "XID 43",
            },
        ),
    ),
    Sample(
        "2025/03/02 10:11:12 XidCriticalError: Xid=79 on Device=GPU-5a17e3c0-1111-2222-3333-0123456789ab, the device "
        "will go unhealthy.",
        ({"type": "event", "kind": "accelerator.off_bus", "code": "XID 79", "severity": "fatal"},),
    ),
    Sample(
        "Nov  3 17:27:22.878468 leaf9 ERR swss#orchagent: :- createEntry: Failed to start PFC Watchdog on port "
        "Ethernet64",
        ({"type": "event", "component": "port:leaf9/Ethernet64", "kind": "port.config_notice", "severity": "info"},),
    ),
    Sample(
        "leaf9 NOTICE swss#orchagent: :- updatePortOperStatus: Port Ethernet24 oper state set from up to down",
        ({"type": "event", "component": "port:leaf9/Ethernet24", "kind": "port.down"},),
    ),
    Sample(
        ":- report_pfc_storm: PFC Watchdog detected PFC storm on port Ethernet24, queue index 3, queue id "
        "0x1500000000abcd and port id 0x1000000000019",
        ({"type": "event", "component": "port:?/Ethernet24", "kind": "port.pause_storm"},),
    ),
    Sample(
        "leaf9 ERR swss#orchagent: :- onSwitchAsicSdkHealthEvent: [fatal] ASIC/SDK health event occurred at 2026-05-04 "
        "03:02:01, category asic_hw: parity error in block 7",
        ({"type": "event", "component": "switch:leaf9", "kind": "switch.asic_fatal", "severity": "fatal"},),
    ),
    Sample(
        "leaf07 Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface Ethernet12/1, changed state to down",
        ({"type": "event", "component": "port:leaf07/Ethernet12/1", "kind": "port.down"},),
    ),
    Sample(
        "2026 May  4 03:02:01 leaf07 %ETHPORT-5-IF_DOWN_LINK_FAILURE: Interface Ethernet1/12 is down (Link failure)",
        ({"type": "event", "component": "port:leaf07/Ethernet1/12", "kind": "port.down"},),
    ),
    Sample(
        "%LINK-5-CHANGED: Interface HundredGigE1/0/12, changed state to administratively down",
        ({"type": "event", "component": "port:?/HundredGigE1/0/12", "kind": "port.admin_down", "severity": "info"},),
    ),
    Sample(
        "May  4 2026 03:02:01 leaf07 %%01IFNET/4/LINK_STATE(l)[15]:The line protocol IP on the interface 100GE1/0/12 "
        "has entered the DOWN state.",
        ({"type": "event", "component": "port:leaf07/100GE1/0/12", "kind": "port.down"},),
    ),
    Sample(
        "systemd-journald[812]: Missed 312 kernel messages",
        ({"type": "event", "component": "monitor:?/systemd-journald", "attributes": {"lost": "312"}},),
    ),
    Sample(
        "aer_ratelimit: 12 callbacks suppressed",
        ({"type": "event", "component": "monitor:?/printk", "kind": "monitor.lines_lost"},),
    ),
    Sample(
        "rsyslogd: imjournal: begin to drop messages due to rate-limiting",
        ({"type": "event", "component": "monitor:?/rsyslogd", "kind": "monitor.lines_lost"},),
    ),
)
