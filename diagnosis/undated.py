"""Claims about undated lines get the bounds that the dated lines around them give.

A bound is enough to say that a cause may explain it, and never enough to say which came first.
"""

from collections.abc import Iterable, Iterator

from diagnosis.case import Case
from diagnosis.evidence import when
from sickbay.messages import Evidence, replace

OPEN_MS = 3_600_000  # [house] how far behind the last dated line of its input an undated one is looked for
SHARP_MS = 300_000  # [house] a wider bound is no time to tell people


def bounded(evidence: Iterable[Evidence], case: Case) -> Iterator[Evidence]:
    """The evidence, the undated with the bounds of the first line that it cites."""
    known = {
        (event.path, event.line): (event.not_before_ms, event.not_after_ms)
        for event in case.events
        if event.not_before_ms is not None or event.not_after_ms is not None
    }
    for one in evidence:
        low, high = known.get((one.cites[0].path, one.cites[0].line), (None, None)) if one.cites else (None, None)
        if when(one) is not None or (low is None and high is None):
            yield one
        else:
            start = low if low is not None else (high or 0) - OPEN_MS
            yield replace(one, onset_from_ms=start, onset_to_ms=high if high is not None else start + OPEN_MS)
