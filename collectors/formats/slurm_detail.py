"""One running job in detail: which cards it has on each host, which task runs where, what it was started with.

`scontrol show job -d` prints the names and comments that users write among its own lines: where a line that decides
stands twice, none is believed. `sattach --layout` asks the controller for the tasks of a step.
Indices of cards are those of gres.conf: Slurm counts the files of a node's devices in their order. Checked: 22.05.8.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from collectors.formats import hostlist
from collectors.formats.masking import masked
from collectors.formats.reading import Tally
from sickbay.components import Kind, name
from sickbay.messages import RankPlace

MAX_TEXT = 600
MAX_INDEX = 64  # cards of a host
Cards = Mapping[str, tuple[int, ...]]
_CARDS = re.compile(r"^ {5}Nodes=(?P<nodes>\S{1,200000}) CPU_IDs=\S{0,4000} Mem=\d{1,12} GRES=(?P<gres>\S{0,4000})$")
_INDICES = re.compile(
    r"(?:^|,)(?:gres[:/])?(?:gpu|npu|dcu|mlu|xpu|gcu|tpu)(?::[^:,()]{1,60}){1,2}\(IDX:([0-9,-]{1,400})\)"
)
_RECIPE = re.compile(r"^ {3}(Command|WorkDir|Comment|Container)=(.{1,4000})$")
_NODE = re.compile(r"^\tNode \d{1,7} \((?P<host>[^()\s]{1,253})\), \d{1,7} task\(s\): (?P<tasks>[\d ]{1,200000})$")
_WORDS = {"Command": "arguments", "WorkDir": "code", "Comment": "comment", "Container": "image"}


class Detail(NamedTuple):
    """A job in detail. `cards`: indices by host, empty where they are not told."""

    cards: Cards
    recipe: Mapping[str, str]


def shown(text: str, hosts: Sequence[str], tally: Tally) -> Detail:
    """What `scontrol show job -d` says of a job that runs on `hosts`."""
    rows = text[: 8 << 20].split("\n")
    cards = _cards(rows, hosts, tally)
    found: dict[str, list[str]] = {}
    for row in rows:
        if match := _RECIPE.match(row):
            found.setdefault(match[1], []).append(match[2].strip())
    told = {_WORDS[key]: values[0] for key, values in found.items() if len(values) == 1 and values[0] != "(null)"}
    return Detail(cards, {what: " ".join(masked([value]))[:MAX_TEXT] for what, value in told.items()})


def _cards(rows: Sequence[str], hosts: Sequence[str], tally: Tally) -> dict[str, tuple[int, ...]]:
    cards: dict[str, tuple[int, ...]] = {}
    for row in rows:
        if (match := _CARDS.match(row)) is None:
            continue
        indices = tuple(sorted({one for told in _INDICES.findall(match["gres"]) for one in _expanded(told)}))
        for host in hostlist.names(match["nodes"], tally):
            if host in cards:
                tally.unparsed += 1
                return {}
            cards[host] = indices
    return cards if set(cards) == set(hosts) and all(cards.values()) else {}


def _expanded(text: str) -> list[int]:
    found: list[int] = []
    for piece in text.split(","):
        first, dash, last = piece.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or len(piece) > 9:
            return []
        begin, end = int(first), int(last or first)
        if end >= begin and end < 4096 and end - begin < MAX_INDEX:
            found += range(begin, end + 1)
    return found


def layout(text: str, hosts: Sequence[str]) -> tuple[str, ...]:
    """The host of each task in an answer of `sattach --layout`; empty where a task or host is missing or strange."""
    placed: dict[int, str] = {}
    for row in text[: 8 << 20].split("\n"):
        if match := _NODE.match(row):
            placed |= {int(task): match["host"] for task in match["tasks"].split() if len(task) < 8}
    whole = sorted(placed) == list(range(len(placed))) and set(placed.values()) <= set(hosts)
    return tuple(placed[task] for task in range(len(placed))) if whole else ()


def places(tasks: Sequence[str], cards: Cards) -> tuple[RankPlace, ...]:
    """Ranks where task N is rank N. The K-th of a host's tasks has its K-th card, where there are as many of both."""
    counts = {host: tasks.count(host) for host in dict.fromkeys(tasks)}
    seen = dict.fromkeys(counts, 0)
    found = []
    for rank, host in enumerate(tasks):
        own = cards.get(host, ())
        card = name(Kind.ACCELERATOR, host, str(own[seen[host]])) if len(own) == counts[host] else ""
        seen[host] += 1
        found.append(RankPlace(rank=rank, host=host, component=card))
    return tuple(found)
