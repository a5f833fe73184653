"""Slurm's daemons on hosts: registrations that do not fit, prologs that fail, steps that do not end, restarts.

None of these says that a part is broken: memory below the configuration is a configuration, a process that cannot be
killed waits for a driver or a file system. Source: slurmctld node_mgr.c, job_mgr.c, agent.c; slurmstepd; gres.c.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from collectors.formats import hostlist
from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, Name, name
from sickbay.messages import Action, Severity

_MAX_HOSTS = 4096  # of one expression
_HOST = r"(?P<host>[A-Za-z0-9][\w.-]{0,252})"
_HOSTS = r"(?P<host>[A-Za-z0-9][\w.,\[\]-]{0,1000})"

LITERALS = (
    " has low ", "unexpectedly rebooted", " now responding", "Setting node ", "drain_nodes: node ",
    "setup failure on node", "pilog error on ", "NOT ENDING WITH SIGNALS", "is_node_resp: node:",
    "can't stat gres.conf file", "returned to service",
)  # fmt: skip

_LOW = re.compile(rf"\bNode {_HOST} has low (?P<why>[\w*/ -]{{3,40}} \(\d{{1,12}} < \d{{1,12}}\))")
_REBOOTED = re.compile(rf"\bNode {_HOST} unexpectedly rebooted\b")
_BACK = re.compile(rf"\b[Nn]ode {_HOST} (?:now responding|returned to service)$")
_SET = re.compile(
    rf"(?:Setting|drain_nodes:) node {_HOSTS} state (?:set )?to (?P<state>[A-Z_+]{{2,30}})"
    r"(?: with reason: ?(?P<why>.{1,200}))?$"
)
_SETUP = re.compile(
    rf"(?P<why>(?:Prolog|Epilog) (?:or job env setup failure|error)) on (?:node )?{_HOSTS}(?:, draining the node|:)"
)
_UNENDING = re.compile(
    rf"\*\*\* (?:JOB|STEP) (?P<job>\d{{1,12}})(?:[._+]\S{{1,20}})? STEPD TERMINATED ON {_HOST} AT \S{{1,30}} "
    r"DUE TO (?P<why>JOB NOT ENDING WITH SIGNALS)"
)
_MUTE = re.compile(rf"is_node_resp: node:{_HOST} RPC:\w{{1,60}} ?: (?P<why>.{{3,120}})$")
_NO_DEVICE = re.compile(r"can't stat gres\.conf file (?P<why>/dev/\S{1,80}): No such file or directory")
_DEVICE_SHORT = "gres/"  # the daemon's own count of devices: the scheduler grammar reads that line


class GRAMMAR:
    """Events of hosts, one line each."""

    def read(self, line: Line) -> Iterator[Record]:
        """What a daemon says of a host."""
        body = line.body[:LINE_LIMIT]
        if any(literal in body for literal in LITERALS):
            for pattern, tell in _TELLS:
                if match := pattern.search(body):
                    yield from tell(match)
                    return

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()


def _low(match: re.Match[str]) -> list[Record]:
    return _condition(match, Action.FIX_SOFTWARE)


def _condition(match: re.Match[str], advice: Action | None = None) -> list[Record]:
    job, code = match.groupdict().get("job") or "", match["why"].strip()
    kind = "scheduler.host_condition"
    return [event(kind, host, job=job, code=code, advice=advice) for host in _hosts(match["host"])]


def _rebooted(match: re.Match[str]) -> list[Record]:
    host = name(Kind.HOST, match["host"])
    return [event("scheduler.host_down", host, code="unexpected reboot", severity=Severity.WARNING)]


def _back(match: re.Match[str]) -> list[Record]:
    return [event("scheduler.host_back", name(Kind.HOST, match["host"]), code="responds")]


def _set(match: re.Match[str]) -> list[Record]:
    if _DEVICE_SHORT in (match["why"] or ""):
        return []
    kind = "scheduler.host_down" if match["state"].startswith("DOWN") else "scheduler.host_drained"
    facts = {"state": match["state"], "reason": match["why"] or ""}
    return [event(kind, host, facts, code=match["state"]) for host in _hosts(match["host"])]


def _mute(match: re.Match[str]) -> list[Record]:
    return [event("scheduler.host_silent", name(Kind.HOST, match["host"]), code=match["why"].strip())]


def _no_device(match: re.Match[str]) -> list[Record]:
    return [event("scheduler.accelerators_none", name(Kind.HOST, UNKNOWN), {"file": match["why"]}, code="no device")]


def _hosts(expression: str) -> list[Name]:
    try:
        return [name(Kind.HOST, host) for host in hostlist.expand(expression, _MAX_HOSTS)]
    except ValueError:
        return []


_TELLS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], list[Record]]], ...] = (
    (_LOW, _low), (_REBOOTED, _rebooted), (_BACK, _back), (_SET, _set), (_SETUP, _condition),
    (_UNENDING, _condition), (_MUTE, _mute), (_NO_DEVICE, _no_device),
)  # fmt: skip


def _expect(kind: str, host: str, **fields: object) -> tuple[dict[str, object], ...]:
    return ({"type": "event", "kind": kind, "component": f"host:{host}", **fields},)


SAMPLES = (
    Sample(
        "error: Node gx-r2-n04 has low real_memory size (1031200 < 1031900)",
        _expect("scheduler.host_condition", "gx-r2-n04", advice="fix_software"),
    ),
    Sample(
        "error: Node gx-r2-n04 has low cpu count (96 < 192)",
        _expect("scheduler.host_condition", "gx-r2-n04", code="cpu count (96 < 192)"),
    ),
    Sample(
        "error: Node gx-r2-n07 unexpectedly rebooted boot_time=1717200300 last response=1717200180",
        _expect("scheduler.host_down", "gx-r2-n07", severity="warning"),
    ),
    Sample("Node gx-r2-n07 now responding", _expect("scheduler.host_back", "gx-r2-n07", severity="info")),
    Sample(
        "error: Setting node gx-r2-n04 state to DRAIN",
        _expect("scheduler.host_drained", "gx-r2-n04", severity="info", code="DRAIN"),
    ),
    Sample(
        "drain_nodes: node gx-r2-n[04-05] state set to DRAIN",
        _expect("scheduler.host_drained", "gx-r2-n04") + _expect("scheduler.host_drained", "gx-r2-n05"),
    ),
    Sample(
        "error: validate_node_specs: Prolog or job env setup failure on node gx-r2-n04, draining the node",
        _expect("scheduler.host_condition", "gx-r2-n04"),
    ),
    Sample(
        "error: Epilog error on gx-r2-n04, draining the node",
        _expect("scheduler.host_condition", "gx-r2-n04", code="Epilog error"),
    ),
    Sample(
        "error: *** STEP 71532.0 STEPD TERMINATED ON gx-r2-n06 AT 2025-02-14T09:44:56 DUE TO JOB NOT ENDING WITH "
        "SIGNALS ***",
        _expect("scheduler.host_condition", "gx-r2-n06", job="71532"),
    ),
    Sample(
        "agent/is_node_resp: node:gx-r2-n09 RPC:REQUEST_PING : Communication connection failure",
        _expect("scheduler.host_silent", "gx-r2-n09"),
    ),
    Sample(
        "fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory",
        _expect("scheduler.accelerators_none", "?"),
    ),
)
