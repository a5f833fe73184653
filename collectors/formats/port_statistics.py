"""`ethtool -S` of one port as a row of the port table: what the driver counts and no file of /sys tells."""

import re
from collections.abc import Iterator, Mapping

from collectors.formats.metric_names import statistics
from collectors.formats.reading import Reading, Tally
from collectors.formats.series_rows import SeriesRows
from sickbay.components import Name

MOST_ROWS = 20_000  # an adapter with 128 queues tells some 4,000
_ROW = re.compile(r"^[ \t]+(?P<key>[A-Za-z][\w.\[\]-]{0,63}): (?P<value>\d{1,20})$")
_PRIORITY = re.compile(r"^(?P<way>[rt]x_prio)(?P<priority>\d)(?P<rest>_pause(?:_duration)?)$")


def read(text: str, port: Name, now_ms: int) -> Iterator[Reading]:
    """At most one row."""
    found = (_ROW.match(line.rstrip()[:200]) for line in text.split("\n")[:MOST_ROWS])
    yield from of_counters({match["key"]: int(match["value"]) for match in found if match}, port, now_ms)


def of_counters(counters: Mapping[str, int], port: Name, now_ms: int = 0) -> Iterator[Reading]:
    """The same of statistics that were read already. Time 0: as its reading tells."""
    rows, known = SeriesRows(), statistics()
    for told, value in counters.items():
        key, labels = told, dict[str, str]()
        if priority := _PRIORITY.match(told):
            key, labels = priority["way"] + priority["rest"], {"priority": priority["priority"]}
        if (target := known.get(key)) is not None:
            rows.add(target, labels, port, now_ms, float(value))
    yield from rows.flush(Tally())
