"""Time services: what chronyd and the ntpd of either make say when the host's own clock was wrong.

Offsets up to a second are their daily work and are not told. The lines themselves bear the wrong clock's time.
"""

import re
from collections.abc import Iterable, Iterator

from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from collectors.formats.speaking import told
from sickbay.components import UNKNOWN, Kind, name

LITERALS = ("System clock wrong by ", "System clock was stepped by ", "adjusting local clock by ", "time reset ")

_SECONDS = r"(?P<seconds>[+-]?\d{1,12}(?:\.\d{1,9})?)"
_TELLS = (
    ("chronyd", re.compile(rf"^System clock (?:wrong|was stepped) by {_SECONDS} seconds")),
    ("ntpd", re.compile(rf"^adjusting local clock by {_SECONDS}s")),
    ("ntpd", re.compile(rf"^time reset {_SECONDS} s")),
)
_FLAGGED_S = 1.0  # [house] below it no order among hosts is lost


class GRAMMAR:
    """One event a line."""

    def read(self, line: Line) -> Iterator[Record]:
        """The offset that the service found or took away, in seconds; its sign is the correction's."""
        for speaker, pattern in _TELLS:
            match = pattern.match(line.body) if line.origin in (speaker, "") else None
            if match and abs(float(match["seconds"])) > _FLAGGED_S:
                offset = {"offset_s": match["seconds"], "service": speaker}
                yield told("monitor.clock_off", name(Kind.MONITOR, UNKNOWN, "clock"), attributes=offset)

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing stays open."""
        return ()


def _expect(seconds: str, service: str) -> tuple[dict[str, object], ...]:
    return (
        {
            "type": "event",
            "kind": "monitor.clock_off",
            "component": "monitor:?/clock",
            "attributes": {"offset_s": seconds, "service": service},
        },
    )


SAMPLES = (
    Sample("System clock wrong by 17.250113 seconds", _expect("17.250113", "chronyd")),
    Sample(
        "System clock wrong by -3600.000412 seconds, adjustment started",
        _expect("-3600.000412", "chronyd"),
    ),
    Sample("System clock was stepped by 17.250113 seconds", _expect("17.250113", "chronyd")),
    Sample("System clock wrong by 0.004120 seconds", ()),
    Sample("adjusting local clock by -61.204410s", _expect("-61.204410", "ntpd")),
    Sample("time reset +2.118400 s", _expect("+2.118400", "ntpd")),
)
