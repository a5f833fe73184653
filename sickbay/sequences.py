"""Sequence numbers of senders: what was told twice, and what is missing. They count per (host, topic), with no hole.

What is missing may still come: after an outage a sender puts live records before its backlog, and in the place of a
frame that went to the backfill topic stands an empty one with its number. So a gap is counted where it opens
(`missed`), and what fills it later is counted too (`found`): lost is the difference.
"""

from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_SENDERS = 200_000  # the longest silent ones are forgotten beyond
REMEMBERED = 1024  # numbers up to the newest by which a repeated record is known: some batches of a producer
MAX_HOLES = 64  # of one sender: of more, the oldest count as lost


class Place(NamedTuple):
    """What a number tells: whether the record is `fresh` (not there before), how many numbers are missing since, and
    whether it was `found`: missing before."""

    fresh: bool
    missed: int
    found: bool = False


_AGAIN, _NEXT = Place(False, 0), Place(True, 0)
_ALL = (1 << REMEMBERED) - 1


@dataclass(slots=True)
class _Sender:
    newest: int
    seen: int = 1  # bit k: the number that lies k before the newest one; a set of them would take 200 kB a sender
    holes: list[tuple[int, int]] = field(default_factory=list)  # first and last missing number, ascending

    def told(self, number: int) -> bool:
        """Takes a number; whether it was there before."""
        back = self.newest - number
        if back < 0:
            self.seen = (self.seen << -back | 1) & _ALL if -back < REMEMBERED else 1
            self.newest = number
        elif back < REMEMBERED:
            if self.seen >> back & 1:
                return True
            self.seen |= 1 << back
        return False

    def opened(self, first: int, last: int) -> None:
        self.holes.append((first, last))
        del self.holes[:-MAX_HOLES]

    def filled(self, number: int) -> bool:
        """Whether the number was missing; it is no more."""
        at = bisect_right(self.holes, number, key=lambda hole: hole[0]) - 1
        if at < 0 or not self.holes[at][0] <= number <= self.holes[at][1]:
            return False
        first, last = self.holes[at]
        self.holes[at : at + 1] = [one for one in ((first, number - 1), (number + 1, last)) if one[0] <= one[1]]
        del self.holes[:-MAX_HOLES]
        return True


class Sequences:
    """The numbers of all senders. An incarnation begins anew; the first number heard of one says nothing of a gap."""

    def __init__(self) -> None:
        self._senders: OrderedDict[tuple[str, str, int], _Sender] = OrderedDict()

    def place(self, topic: str, host: str, incarnation: int, sequence: int) -> Place:
        """Takes one more number. One older than what is remembered counts as fresh: twice is better than lost."""
        key = (topic, host, incarnation)
        sender = self._senders.get(key)
        if sender is None:
            self._senders[key] = _Sender(sequence)
            if len(self._senders) > MAX_SENDERS:
                self._senders.popitem(last=False)
            return Place(True, 0)
        self._senders.move_to_end(key)
        newest = sender.newest
        if sender.told(sequence):
            return _AGAIN
        if sequence == newest + 1:
            return _NEXT
        missed = max(0, sequence - newest - 1)
        if missed:
            sender.opened(newest + 1, sequence - 1)
        return Place(True, missed, sequence < newest and sender.filled(sequence))
