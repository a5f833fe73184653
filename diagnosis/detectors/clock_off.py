"""Clocks that are off: a notice about the source, never a word on its host.

What such a host says keeps its content and loses its place in time (see `localise.hosts_with_wrong_clock`).
"""

import math
from collections.abc import Iterable

from diagnosis.case import Case
from diagnosis.clocks import FLAGGED_S, offsets_of
from diagnosis.evidence import CERTAIN, cites, identity
from sickbay.components import Kind, host_of, name
from sickbay.messages import Action, Evidence, Severity

NAME, VERSION = "clock_off", "1"


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per host whose clock is more than a second off. It has no onset: its own clock would tell it."""
    for host, seconds in offsets_of(case).items():
        if abs(seconds) <= FLAGGED_S:
            continue
        component = name(Kind.MONITOR, host, "clock")
        told = [e for e in case.events if e.kind == "monitor.clock_off" and (host_of(e.component) or e.host) == host]
        yield Evidence(
            id=identity(NAME, VERSION, component, "monitor_fault", "clock"),
            detector=NAME,
            version=VERSION,
            component=component,
            fault="monitor_fault",
            llr=CERTAIN,
            severity=Severity.WARNING,
            advice=Action.FIX_SOFTWARE,
            says="clock_off",
            facts={"host": host, "seconds": f"{seconds:.1f}" if math.isfinite(seconds) else "?"},
            cites=cites(told),
        )
