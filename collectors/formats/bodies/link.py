"""Links as switches and bonded hosts tell them, beyond a plain change of state: causes, modules, light, pause frames.

Sources: Cumulus Linux kernel and switchd lines, SONiC xcvrd and orchagent, Cisco NX-OS and Arista EOS message
references, Huawei VRP log reference, Linux bonding driver. Shutting a port for its errors is the switch's own act: the
link behind it is what needs a look.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Action, Severity

_PORT = r"(?P<port>[A-Za-z][\w/.:-]{1,60}?)"

LITERALS = (
    "swp", "IF_DOWN_", "ERRDISABLE", "err-disable", "SFP removed event", "SFP inserted event", "rx power low",
    "Rx Power Low", "DOM_THRESHOLD", "ifName=", "link status definitely", "on lossy queue", "Set admin status",
)  # fmt: skip

_SWP = re.compile(
    r"(?:^|\s)(?P<port>swp\d{1,3}(?:s\d)?)(?::? (?:NIC )?[Ll]ink (?:is )?| carrier )(?P<state>[Uu]p|[Dd]own)\b"
)
_DOWN_FOR = re.compile(
    rf"%ETHPORT-\d-IF_DOWN_(?P<why>[A-Z_]{{3,40}}): Interface {_PORT} is down\b(?: \((?P<text>.{{1,120}})\))?"
)
_ERRDISABLE = re.compile(rf"%(?:ETH|PM)-\d-ERR_?DISABLE: (?P<why>[\w-]{{3,40}}) error detected on {_PORT}(?:,|\.|$| )")
_SFP = re.compile(rf"\b{_PORT}: Got SFP (?P<what>removed|inserted) event")
_LIGHT = re.compile(
    rf"(?:[Tt]ransceiver|[Ii]nterface|\bon) {_PORT}[ ,:].{{0,40}}?(?i:rx[ _]power)[ _](?i:low)"
    r"(?P<grade>[ _]alarm|[ _]warn)?"
)
_VRP = re.compile(
    r"\bifName=(?P<port>[\w/.-]{2,60}), AdminStatus=(?P<admin>UP|DOWN), OperStatus=(?P<state>UP|DOWN)"
    r"(?:, Reason=(?P<text>[^,)]{1,120}))?"
)
_BOND = re.compile(r"\blink status definitely (?P<state>down|up)(?: for interface (?P<port>[\w.-]{1,20}))?")
_SLAVE = re.compile(r"\(slave (?P<port>[\w.-]{1,20})\)")
_LOSSY = re.compile(rf"Got PFC (?P<frames>\d{{1,20}}) frame\(s\) on lossy queue (?P<queue>\d{{1,3}}) port {_PORT}$")
_ADMIN = re.compile(rf"Set admin status (?P<state>UP|DOWN)\b.{{0,60}}? (?:for|to) port {_PORT}$")
_ORDERED = ("ADMIN_DOWN", "PARENT_ADMIN_DOWN", "CFG_CHANGE", "SOFTWARE_FAILURE", "NONE")
_ELSEWHERE = ("LINK_FAILURE", "ADMIN_DOWN")  # the monitor grammar reads these two
_CLOSED = "administratively"


class GRAMMAR:
    """Events of ports and modules, one line each."""

    def read(self, line: Line) -> Iterator[Record]:
        """What a switch, or a host's own network, says of a link."""
        body = line.body[:LINE_LIMIT]
        if not any(literal in body for literal in LITERALS):
            return
        host = line.host or UNKNOWN
        for pattern, tell in _TELLS:
            if match := pattern.search(body):
                yield from tell(match, host)
                return

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()


def _carrier(match: re.Match[str], host: str) -> list[Record]:
    return [_event(f"port.{match['state'].lower()}", host, match["port"], code="carrier")]


def _down_for(match: re.Match[str], host: str) -> list[Record]:
    why = match["why"]
    if why in _ELSEWHERE:
        return []
    kind = "port.admin_down" if why in _ORDERED or _CLOSED in (match["text"] or "").lower() else "port.down"
    return [_event(kind, host, match["port"], {"reason": match["text"] or ""}, code=why)]


def _err_disable(match: re.Match[str], host: str) -> list[Record]:
    return [_event("port.down", host, match["port"], {"reason": match["why"]}, code="err-disable")]


def _module(match: re.Match[str], host: str) -> list[Record]:
    kind = "optic.unplugged" if match["what"] == "removed" else "optic.plugged"
    return [event(kind, name(Kind.OPTIC, host, match["port"]), code=match["what"])]


def _light(match: re.Match[str], host: str) -> list[Record]:
    mild = "warn" in (match["grade"] or "").lower()
    doubt: dict[str, Any] = {"severity": Severity.WARNING, "advice": Action.WATCH} if mild else {}
    return [event("optic.error", name(Kind.OPTIC, host, match["port"]), code="received light low", **doubt)]


def _status(match: re.Match[str], host: str) -> list[Record]:
    kind = "port.admin_down" if match["admin"] == "DOWN" else f"port.{match['state'].lower()}"
    return [_event(kind, host, match["port"], {"reason": match["text"] or ""}, code="link state")]


def _bond(match: re.Match[str], host: str) -> list[Record]:
    slave = _SLAVE.search(match.string[:LINE_LIMIT])
    port = match["port"] or (slave["port"] if slave else "")
    return [_event(f"port.{match['state']}", host, port.rstrip(","), code="bond")] if port else []


def _lossy(match: re.Match[str], host: str) -> list[Record]:
    facts = {"frames": match["frames"], "queue": match["queue"]}
    return [_event("port.config_notice", host, match["port"], facts, code="pause on a lossy queue")]


def _admin(match: re.Match[str], host: str) -> list[Record]:
    kind = "port.admin_down" if match["state"] == "DOWN" else "port.config_notice"
    return [_event(kind, host, match["port"], code=f"set {match['state'].lower()}")]


def _event(kind: str, host: str, port: str, facts: dict[str, str] | None = None, *, code: str) -> Record:
    return event(kind, name(Kind.PORT, host, port), facts, code=code)


_TELLS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], list[Record]]], ...] = (
    (_DOWN_FOR, _down_for), (_ERRDISABLE, _err_disable), (_SFP, _module), (_LIGHT, _light), (_VRP, _status),
    (_BOND, _bond), (_LOSSY, _lossy), (_ADMIN, _admin), (_SWP, _carrier),
)  # fmt: skip


def _expect(kind: str, component: str, **fields: object) -> tuple[dict[str, object], ...]:
    return ({"type": "event", "kind": kind, "component": component, **fields},)


SAMPLES = (
    Sample("[98231.120043] swp31: link down", _expect("port.down", "port:?/swp31")),
    Sample("swp5: NIC Link is Down", _expect("port.down", "port:?/swp5")),
    Sample("sync_port.c:1337 swp31s0 carrier down", _expect("port.down", "port:?/swp31s0")),
    Sample(
        "%ETHPORT-5-IF_DOWN_ERROR_DISABLED: Interface Ethernet1/7 is down (Error disabled. Reason:linkstateflapped)",
        _expect("port.down", "port:?/Ethernet1/7", code="ERROR_DISABLED"),
    ),
    Sample(
        "%ETHPORT-5-IF_DOWN_CFG_CHANGE: Interface Ethernet1/7 is down(Config change)",
        _expect("port.admin_down", "port:?/Ethernet1/7", severity="info"),
    ),
    Sample(
        "%ETH-4-ERRDISABLE: link-flap error detected on Ethernet5/1.",
        _expect("port.down", "port:?/Ethernet5/1", attributes={"reason": "link-flap"}),
    ),
    Sample("Ethernet8: Got SFP removed event", _expect("optic.unplugged", "optic:?/Ethernet8")),
    Sample("Ethernet8: Got SFP inserted event", _expect("optic.plugged", "optic:?/Ethernet8", severity="info")),
    Sample(
        "XcvrAgent: %TRANSCEIVER-4-DOM_THRESHOLD: Transceiver Ethernet12/1 rx power low alarm: -14.2 dBm",
        _expect("optic.error", "optic:?/Ethernet12/1", severity="error"),
    ),
    Sample(
        "%%01IFNET/2/linkDown_active(l)[44]:The interface status changes. (ifName=100GE1/0/12, AdminStatus=UP, "
        "OperStatus=DOWN, Reason=Interface physical link is down, mainIfname=100GE1/0/12)",
        _expect("port.down", "port:?/100GE1/0/12"),
    ),
    Sample(
        "bond0: (slave ens7f0np0): link status definitely down, disabling slave",
        _expect("port.down", "port:?/ens7f0np0"),
    ),
    Sample(
        ":- setPortAdminStatus: Set admin status DOWN host_tx_ready to false for port Ethernet97",
        _expect("port.admin_down", "port:?/Ethernet97", severity="info"),
    ),
    Sample(
        ":- pfcFrameCounterCheck: Got PFC 2232283 frame(s) on lossy queue 3 port Ethernet4",
        _expect("port.config_notice", "port:?/Ethernet4", severity="info"),
    ),
)
