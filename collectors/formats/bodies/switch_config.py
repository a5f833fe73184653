"""Switches that were reconfigured, started anew or lost a supply, in their own words.

Sources: Cisco IOS and NX-OS and Arista EOS message references (CONFIG_I, VSHD_SYSLOG_CONFIG_I, RESTART), H3C Comware
log reference (CFGMAN_CFGCHANGED), the PSU daemon of SONiC (its design document names the texts).
"""

import re
from collections.abc import Iterable

from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Change

LITERALS = ("CONFIG_I: ", "CFGMAN_CFGCHANGED", "SYS-5-RESTART: ", "absence warning: ", "PSU temperature warning: ")

_CONFIGURED = re.compile(
    r"%(?:SYS-(?:SW\d-)?5-CONFIG_I|VSHD-5-VSHD_SYSLOG_CONFIG_I): Configured from (?P<way>\S{1,60})"
    r"(?: by (?P<who>\S{1,60}))?(?: on (?P<where>\S{1,80}))?"
)
_CHANGED = re.compile(r"CFGMAN/5/CFGMAN_CFGCHANGED(?:\(l\))?: -EventIndex=")
_RESTARTED = re.compile(r"%SYS-5-RESTART: System restarted\b")
_SUPPLY = re.compile(
    r"(?P<what>PSU absence|Power absence|PSU temperature) warning: (?P<part>\S{1,40}(?: \d{1,3})?)"
    r" (?:is not present|is out of power|temperature too hot)"
)


class SwitchConfig:
    """Changes and events of switches as a whole. Keeps nothing between lines."""

    def read(self, line: Line) -> Iterable[Record]:
        """What happened to the switch, at most one a line."""
        body = line.body[:LINE_LIMIT]
        if not any(literal in body for literal in LITERALS):
            return ()
        switch = name(Kind.SWITCH, line.host or UNKNOWN)
        if match := _CONFIGURED.search(body):
            told = f"configured from {match['way']}" + (f" on {match['where']}" if match["where"] else "")
            return [Change(target=switch, what="configuration", who=match["who"] or "", message=told)]
        if _CHANGED.search(body):
            return [Change(target=switch, what="configuration", message=body[:500])]
        if _RESTARTED.search(body):
            return [event("switch.restarted", switch, code="SYS-5-RESTART")]
        if match := _SUPPLY.search(body):
            return [event("switch.environment", switch, {"part": match["part"]}, code=match["what"].lower())]
        return ()

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()


GRAMMAR = SwitchConfig

SAMPLES = (
    Sample(
        "%VSHD-5-VSHD_SYSLOG_CONFIG_I: Configured from vty by rong on 198.51.100.7@pts/0",
        ({"type": "change", "target": "switch:?", "what": "configuration", "who": "rong"},),
    ),
    Sample(
        "%SYS-5-CONFIG_I: Configured from console by rong on vty4 (198.51.100.7)",
        ({"type": "change", "target": "switch:?", "what": "configuration", "who": "rong"},),
    ),
    Sample(
        "%%10CFGMAN/5/CFGMAN_CFGCHANGED: -EventIndex=12-CommandSource=2-ConfigSource=4-ConfigDestination=2; "
        "Configuration is changed.",
        ({"type": "change", "target": "switch:?", "what": "configuration"},),
    ),
    Sample("%SYS-5-RESTART: System restarted --", ({"type": "event", "kind": "switch.restarted"},)),
    Sample(
        "PSU absence warning: PSU 1 is not present.",
        ({"type": "event", "component": "switch:?", "kind": "switch.environment", "severity": "warning"},),
    ),
)
