"""`kubectl get pods -o wide`: pods that a node refused. Why, and since when, only their JSON tells (`-o json`).

Pods that run or wait say nothing of a node.
"""

from collections.abc import Iterable, Iterator

from collectors.codes.kubernetes import table
from collectors.formats.kubernetes_pods import Member, Refused
from collectors.formats.kubernetes_refusals import Refusals, refusals
from collectors.formats.reading import Reading, Tally
from collectors.formats.text import lines
from sickbay.messages import replace

MOST = 200_000  # pods of one table
_NEEDED = ("NAME", "STATUS", "RESTARTS", "AGE", "NODE")


def confidence(head: bytes, name: str) -> float:
    """High for its heading in the first lines."""
    rows = head[: 16 << 10].decode("utf-8", "replace").replace("\r", "").split("\n")[:20]
    return 0.9 if any(_columns(row) for row in rows) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """One event for each node and reason."""
    found, first = list[Member](), 0
    heads: list[str] = []
    for number, row in lines(chunks, tally):
        if told := _columns(row):
            heads, first = told, first or number
        elif heads and row.strip() and (one := _refused(row.split(), heads, tally)):
            found.append(one)
    for event in refusals(Refusals(), found[:MOST], 0)[1]:
        host = event.component.partition(":")[2]
        yield Reading(replace(event, at_ms=None, until_ms=None, seen_ms=None), first, host=host)


def _refused(cells: list[str], heads: list[str], tally: Tally) -> Member | None:
    """Cells up to STATUS are counted from the left, those behind RESTARTS, which may hold blanks, from the right."""
    if len(cells) < len(heads):
        tally.unparsed += 1
        return None
    tally.records += 1
    status, node = cells[heads.index("STATUS")], cells[heads.index("NODE") - len(heads)]
    if not status.startswith(table().rejections) or node == "<none>":
        return None
    pod = "/".join(cells[: heads.index("NAME") + 1])
    return Member(pod, pod, "", "", "", (), False, node[:253], refused=Refused(status[:120], "", None))


def _columns(row: str) -> list[str]:
    """The headings; none for a row that is no heading."""
    words = row.replace("NOMINATED NODE", "NOMINATED").replace("READINESS GATES", "READINESS").split()
    return words if set(_NEEDED) <= set(words) and words[0] in ("NAMESPACE", "NAME") else []
