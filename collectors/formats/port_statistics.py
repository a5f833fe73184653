"""`ethtool -S` of one port as a row of the port table: what the driver counts and no file of /sys tells."""

import re
from collections.abc import Iterator

from collectors.formats.metric_names import statistics
from collectors.formats.reading import Reading, Tally
from collectors.formats.series_rows import SeriesRows
from sickbay.components import Name

MOST_ROWS = 20_000  # an adapter with 128 queues tells some 4,000
_ROW = re.compile(r"^[ \t]+(?P<key>[A-Za-z][\w.\[\]-]{0,63}): (?P<value>\d{1,20})$")
_PRIORITY = re.compile(r"^(?P<way>[rt]x_prio)(?P<priority>\d)(?P<rest>_pause)$")


def read(text: str, port: Name, now_ms: int) -> Iterator[Reading]:
    """At most one row."""
    rows = SeriesRows()
    known = statistics()
    for line in text.split("\n")[:MOST_ROWS]:
        if (match := _ROW.match(line.rstrip()[:200])) is None:
            continue
        key, labels = match["key"], dict[str, str]()
        if priority := _PRIORITY.match(key):
            key, labels = priority["way"] + priority["rest"], {"priority": priority["priority"]}
        if (target := known.get(key)) is not None:
            rows.add(target, labels, port, now_ms, float(match["value"]))
    yield from rows.flush(Tally())
