"""Records on their way from an agent to a listener or relay, and what became of each: one request, one answer.

    POST /v1/records   msgpack: [[topic, key, value or nil], ...]
    200                msgpack: ["" or why it was not taken, ...], in the same order

A request may be repeated: what was taken before is known by its sender, incarnation and sequence.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

PATH = "/v1/records"
TYPE = "application/vnd.sickbay.records+msgpack"
MAX_RECORDS = 256  # of one request: a courier hands over 64
TOO_LARGE = "too large"  # how a refusal begins that no repeat mends


class Handed(NamedTuple):
    """One record as an agent hands it over."""

    topic: Annotated[str, Meta(max_length=249)]
    key: bytes
    value: bytes | None


_T = TypeVar("_T")
_records = msgspec.msgpack.Decoder(list[Handed])
_answers = msgspec.msgpack.Decoder(list[str])


def encode(records: Sequence[Handed]) -> bytes:
    """The body of a request."""
    return msgspec.msgpack.encode(records)


def decode(body: bytes) -> list[Handed]:
    """The records in a request. Raises ValueError."""
    return _read(_records, body)


def encode_answers(reasons: Sequence[str]) -> bytes:
    """The body of an answer: why each record was not taken, empty where it was."""
    return msgspec.msgpack.encode(reasons)


def decode_answers(body: bytes) -> list[str]:
    """What became of each record. Raises ValueError."""
    return _read(_answers, body)


def _read(decoder: "msgspec.msgpack.Decoder[list[_T]]", body: bytes) -> list[_T]:
    try:
        found = decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"not a list of records: {error}") from None
    if len(found) > MAX_RECORDS:
        raise ValueError(f"{len(found)} records, one request holds {MAX_RECORDS}")
    return found
