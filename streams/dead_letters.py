"""Dead letters: records that could not be read or used, kept with the reason, so that nothing is skipped in silence."""

import msgspec
from msgspec import Struct

from sickbay.log import Output, Record
from sickbay.topics import DEADLETTER

KEPT_BYTES = 64 * 1024  # of a value: the rest is cut off, its size is told
PER_SECOND = 100  # of one task: the rest is counted only, so that a storm of damage does not become one of letters
MAX_REASON = 500


class DeadLetter(Struct, frozen=True, kw_only=True, tag_field="type", tag="deadletter"):
    """One record that was refused. `key` and `value` are base64 in JSON; `size` is that of the whole value."""

    topic: str
    partition: int
    offset: int
    append_ms: int
    reason: str
    key: bytes = b""
    value: bytes | None = None
    size: int = 0

    @property
    def whole(self) -> bool:
        """Whether the value is there to its end, so that it can be appended again."""
        return self.size == len(self.value or b"")


_decoder = msgspec.json.Decoder(DeadLetter)


def encode(letter: DeadLetter) -> bytes:
    """The letter as JSON."""
    return msgspec.json.encode(letter)


def decode(payload: bytes) -> DeadLetter:
    """The letter in `payload`. Raises msgspec.DecodeError (a ValueError)."""
    return _decoder.decode(payload)


class DeadLetters:
    """Makes the letters of one task, at most PER_SECOND in each second of append time: a replay makes the same ones."""

    def __init__(self) -> None:
        self._second = self._made = 0

    def letter(self, record: Record, reason: str) -> Output | None:
        """The letter for a record, None where this second has had its share."""
        second = record.append_ms // 1000
        if second != self._second:
            self._second, self._made = second, 0
        self._made += 1
        if self._made > PER_SECOND:
            return None
        value = record.value
        told = DeadLetter(
            topic=record.topic, partition=record.partition, offset=record.offset, append_ms=record.append_ms,
            reason=reason.encode("utf-8", "replace").decode()[:MAX_REASON], key=record.key,
            value=None if value is None else value[:KEPT_BYTES], size=len(value or b""),
        )  # fmt: skip
        return Output(DEADLETTER, record.topic.encode(), encode(told))


def reason_of(error: Exception) -> str:
    """What a letter says of an error: that of a refusal in its own words, any other with its name."""
    text = str(error)
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"
