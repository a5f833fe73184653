"""What pollers sample as frames: one a sender and poll, with the layouts that readers need to know."""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from collectors.agent.framing import Sender
from sickbay.components import host_of, parts_of
from sickbay.schema import Samples
from sickbay.seal import host_key
from sickbay.topics import SCHEMAS, TELEMETRY


class Framed(NamedTuple):
    """One record for the log, packed."""

    topic: str
    key: bytes
    payload: bytes


@dataclass(slots=True)
class Framer:
    """Frames of many senders, for `topic`. `key`: the cluster's. `dropped`: rows that no frame could hold."""

    key: bytes | None = None
    topic: str = TELEMETRY
    dropped: int = 0
    incarnation: int = field(default_factory=lambda: secrets.randbits(48))
    _senders: dict[str, Sender] = field(default_factory=dict)
    _layouts: set[bytes] = field(default_factory=set)

    def framed(self, samples: Sequence[Samples], sent_ms: int) -> Iterator[Framed]:
        """The samples as frames, layouts that were not told yet before them."""
        told: dict[str, None] = {}
        for batch in samples:
            for sender, own in _by_sender(batch):
                self._sender(sender).hold([own])
                told[sender] = None
        for name in told:
            yield from self._frame(name, sent_ms)

    def _sender(self, name: str) -> Sender:
        if name not in self._senders:
            key = None if self.key is None else host_key(self.key, name)
            self._senders[name] = Sender(name, self.incarnation, key)
        return self._senders[name]

    def _frame(self, name: str, sent_ms: int) -> Iterator[Framed]:
        sender = self._senders[name]
        sent = sender.frames(sent_ms)
        self.dropped += sender.dropped
        sender.dropped = 0
        if sent is None:
            return
        for layout in (matrix.layout for matrix in sent[0]):
            if layout.key not in self._layouts:
                self._layouts.add(layout.key)
                yield Framed(SCHEMAS, layout.key, layout.encoded())
        yield Framed(self.topic, name.encode(), sent[1])


def sender_of(component: str) -> str:
    """Who speaks for a component: its host or switch, else what its name says first (`cdu:c3` -> `c3`)."""
    return host_of(component) or parts_of(component)[0]


def _by_sender(batch: Samples) -> Iterator[tuple[str, Samples]]:
    senders = [sender_of(one) for one in batch.component]
    for sender in dict.fromkeys(senders):
        rows = np.array([place for place, own in enumerate(senders) if own == sender])
        yield (
            sender,
            Samples(
                batch.table,
                [batch.component[row] for row in rows],
                batch.at_ms[rows],
                {name: values[rows] for name, values in batch.values.items()},
            ),
        )
