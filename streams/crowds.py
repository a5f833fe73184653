"""How many components a sender may name: one that makes names up must not fill the memory of all who read its rows.

What a window takes is decided by its rows and by what is remembered of the windows before, in the order of the names:
after a restart, and whatever the order of arrival, the same rows are taken.
"""

from collections import Counter

import numpy as np

from sickbay.admission import UNITS
from sickbay.components import HOST_SCOPED, Kind, Name, kind_of
from streams.side_inputs import owner_of
from streams.window_core import Last
from streams.window_rows import Rows

MOST_OF_ONE = 4_096  # in an hour, of one table: four times the ports and lanes of a large switch
MOST = 200_000  # of all senders of a partition: what a window's record may hold
_OWNED = frozenset({*HOST_SCOPED, Kind.SWITCH, *UNITS})


def within(
    rows: Rows, names: tuple[Name, ...], last: Last, *, of_one: int = MOST_OF_ONE, of_all: int = MOST
) -> tuple[Rows, int]:
    """The rows of a window that fit, and how many do not: those of new names beyond the bounds. `names`: sorted, by
    code. What is remembered stays known, so that a sender's old components are never lost to its new ones."""
    if len(names) + len(last.names) <= min(of_one, of_all) or names == last.names:
        return rows, 0
    known, heard = set(last.names), np.zeros(len(names), np.bool_)
    heard[rows.code] = True
    fresh = [code for code in np.flatnonzero(heard).tolist() if names[code] not in known]
    if not fresh:
        return rows, 0
    told, total = Counter(map(_sender_of, last.names)), len(last.names)
    beyond = np.zeros(len(names), np.bool_)
    for code in fresh:
        sender = _sender_of(names[code])
        if told[sender] >= of_one or total >= of_all:
            beyond[code] = True
        else:
            told[sender] += 1
            total += 1
    kept = ~beyond[rows.code]
    if bool(kept.all()):
        return rows, 0
    fit = Rows(
        rows.code[kept], rows.at_ms[kept], rows.gauge_columns, rows.gauges[kept], rows.counter_columns,
        rows.counters[kept],
    )  # fmt: skip
    return fit, int(np.count_nonzero(~kept))


def _sender_of(component: Name) -> str:
    """Whose name it is; names of which nobody is the owner, as those of jobs, count together."""
    kind = kind_of(component)
    return owner_of(component) if kind in _OWNED else f"{kind}:"
