"""What came by itself between two polls: kept until the log has it, so that it is told at least once, in bounds."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from collectors.cluster.poll import Outgoing, Polled
from sickbay.schema import Samples

MOST_RECORDS = 20_000
MOST_SAMPLES = 2_000


@dataclass(slots=True)
class Streamed:
    """Records and samples between the thread that hears them and the poll that tells them.

    The state of a source of this kind is the number of its last poll that got through: the poller keeps the old one
    where the log failed, and then all is told again.
    """

    dropped: int = 0
    _number: int = 0
    _records: deque[Outgoing] = field(default_factory=deque)
    _samples: deque[Samples] = field(default_factory=deque)

    def polled(
        self, state: int, records: Iterable[Outgoing], samples: Iterable[Samples], unparsed: int = 0
    ) -> Polled[int]:
        """The poll after `state`, with what has come since it. The oldest is dropped where the log is away too long."""
        if state == self._number:
            self._records.clear()
            self._samples.clear()
        self._records.extend(records)
        self._samples.extend(samples)
        for kept, most in ((self._records, MOST_RECORDS), (self._samples, MOST_SAMPLES)):
            while len(kept) > most:
                kept.popleft()
                self.dropped += 1
        self._number = state + 1
        unparsed, self.dropped = unparsed + self.dropped, 0
        return Polled(self._number, tuple(self._records), unparsed, tuple(self._samples))
