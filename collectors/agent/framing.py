"""One host's telemetry as frames: collected for some seconds, packed, numbered and signed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sickbay import wire
from sickbay.frames import Matrix, matrix_of, strange
from sickbay.schema import Samples

MAX_HELD = 250_000  # values held for one frame, at most 2 MB: a host tells some 5,000


@dataclass(slots=True)
class Sender:
    """Holds a host's samples until they are sent. `dropped`: rows that no frame could hold."""

    host: str
    incarnation: int
    key: bytes | None = None
    sequence: int = 0
    dropped: int = 0
    _held: list[Samples] = field(default_factory=list)
    _size: int = 0

    def hold(self, samples: Iterable[Samples]) -> None:
        """Keep the samples of one moment."""
        for batch in samples:
            size = len(batch.component) * len(batch.values)
            if self._size + size > MAX_HELD:
                self.dropped += len(batch.component)
                continue
            self._size += size
            self._held.append(batch)

    def matrices(self) -> list[Matrix]:
        """Everything held, table by table; empty for nothing. What cannot be a table is dropped and counted."""
        held, self._held, self._size = self._held, [], 0
        return [matrix for samples in joined(held) for matrix in self._matrix(samples)]

    def _matrix(self, samples: Samples) -> Iterator[Matrix]:
        try:
            matrix = matrix_of(samples)
        except (ValueError, KeyError):
            self.dropped += len(samples.component)
            return
        if len(matrix.at_ms) > wire.MAX_ROWS or strange(matrix):
            self.dropped += len(samples.component)
        else:
            yield matrix

    def fits(self, matrices: Sequence[Matrix], sent_ms: int) -> bool:
        """Whether one frame holds them; if not they are dropped and counted, as the next ones may fit again."""
        try:
            self.encoded(matrices, 0, sent_ms)
        except ValueError:
            self.dropped += sum(len(matrix.at_ms) for matrix in matrices)
            return False
        return True

    def encoded(self, matrices: Sequence[Matrix], sequence: int, sent_ms: int) -> bytes:
        """The frame. Raises ValueError for more than one holds."""
        return wire.encode(
            self.host, matrices, sequence=sequence, incarnation=self.incarnation, sent_ms=sent_ms, key=self.key
        )

    def frames(self, sent_ms: int) -> tuple[list[Matrix], bytes] | None:
        """Everything held as the next frame, and its matrices, whose layouts readers must know; None for nothing."""
        matrices = self.matrices()
        if not matrices:
            return None
        self.sequence += 1
        return matrices, self.encoded(matrices, self.sequence, sent_ms)


def joined(samples: Sequence[Samples]) -> Iterator[Samples]:
    """Batches of a table with the same columns as one batch."""
    groups: dict[tuple[str, tuple[str, ...]], list[Samples]] = {}
    for batch in samples:
        groups.setdefault((batch.table, tuple(batch.values)), []).append(batch)
    for (table, columns), same in groups.items():
        yield Samples(
            table,
            [name for batch in same for name in batch.component],
            np.concatenate([batch.at_ms for batch in same]),
            {column: np.concatenate([batch.values[column] for batch in same]) for column in columns},
        )
