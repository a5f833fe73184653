"""Sequence numbers of senders: what was told twice, and what is missing. They count per (host, topic), with no hole."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_SENDERS = 200_000  # the longest silent ones are forgotten beyond
REMEMBERED = 1024  # numbers behind the newest by which a repeated record is known: some batches of a producer


class Place(NamedTuple):
    """What a number tells: whether the record is `fresh` (not there before), and how many before it are missing."""

    fresh: bool
    missed: int


@dataclass(slots=True)
class _Sender:
    newest: int
    seen: set[int] = field(default_factory=set)  # within REMEMBERED of the newest


class Sequences:
    """The numbers of all senders. An incarnation begins anew; the first number heard of one says nothing of a gap."""

    def __init__(self) -> None:
        self._senders: OrderedDict[tuple[str, str, int], _Sender] = OrderedDict()

    def place(self, topic: str, host: str, incarnation: int, sequence: int) -> Place:
        """Takes one more number. One older than what is remembered counts as fresh: twice is better than lost."""
        key = (topic, host, incarnation)
        sender = self._senders.get(key)
        if sender is None:
            self._senders[key] = _Sender(sequence, {sequence})
            if len(self._senders) > MAX_SENDERS:
                self._senders.popitem(last=False)
            return Place(True, 0)
        self._senders.move_to_end(key)
        if sequence in sender.seen:
            return Place(False, 0)
        missed = max(0, sequence - sender.newest - 1)
        sender.seen.add(sequence)
        sender.newest = max(sender.newest, sequence)
        if len(sender.seen) > 2 * REMEMBERED:
            sender.seen = {one for one in sender.seen if one > sender.newest - REMEMBERED}
        return Place(True, missed)
