"""The seal of a JSON record: who sent it, its place in that sender's sequence, and a signature; readable with any tool.

    {"type":"event", ... ,"seal":{"host":"n1","incarnation":7,"sequence":42,"mac":"<32 hex digits>"}}

The seal is the last member of the object. The signature is HMAC-SHA256, truncated to 16 bytes, of all bytes before
`,"mac":`. Frames carry the same facts in their header (see `wire`). Each host has a secret of its own, derived from the
cluster's key, so that a stolen host can speak for itself only.
"""

import hmac
from collections.abc import Callable
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct

MAC_HEX = 32
_MARK, _MAC = b',"seal":', b',"mac":"'
_TAIL = len(_MAC) + MAC_HEX + len(b'"}}')  # a signed record ends so

KeyOf: TypeAlias = Callable[[str], bytes | None]  # a host's secret; None: no such host


class SealError(ValueError):
    """The record is not from whom it says, or its seal cannot be read."""


class Seal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who sent a record, and its number: sequences count per (host, topic), an incarnation lives with the spool."""

    host: Annotated[str, Meta(min_length=1, max_length=240)]
    incarnation: Annotated[int, Meta(ge=0)]
    sequence: Annotated[int, Meta(ge=0)]
    mac: Annotated[str, Meta(max_length=MAC_HEX)] = ""


class Opened(NamedTuple):
    """A record without its seal. `seal` None: it had none. `proved`: its signature was there and right."""

    payload: bytes
    seal: Seal | None
    proved: bool


def host_key(cluster_key: bytes, host: str) -> bytes:
    """The secret of one host, derived from the cluster's."""
    return hmac.digest(cluster_key, b"host:" + host.encode(), "sha256")


def sealed(payload: bytes, seal: Seal, key: bytes | None = None) -> bytes:
    """The JSON object `payload` with the seal as its last member, signed where a key is given."""
    if not payload.startswith(b"{") or not payload.endswith(b"}") or len(payload) < 3:
        raise ValueError("only a JSON object with members can be sealed")
    head = msgspec.json.encode({"host": seal.host, "incarnation": seal.incarnation, "sequence": seal.sequence})
    body = payload[:-1] + _MARK + head[:-1]
    return body + b"}}" if key is None else body + _MAC + _mac(key, body) + b'"}}'


def opened(payload: bytes, key_of: KeyOf | None = None) -> Opened:
    """Takes the seal off. With `key_of` a signature is checked; whether an unsigned record is let in is the caller's
    to say (`proved`). Raises SealError for a wrong signature or a seal that cannot be read."""
    at = payload.rfind(_MARK)
    if at < 0 or not payload.endswith(b"}}"):
        return Opened(payload, None, False)
    try:
        seal = msgspec.json.decode(payload[at + len(_MARK) : -1], type=Seal)
    except msgspec.DecodeError as error:
        raise SealError(f"seal: {error}") from None
    return Opened(payload[:at] + b"}", seal, _proved(payload, seal, key_of))


def _proved(payload: bytes, seal: Seal, key_of: KeyOf | None) -> bool:
    if key_of is None or not seal.mac:
        return False
    key = key_of(seal.host)
    body, mac = payload[:-_TAIL], payload[-_TAIL + len(_MAC) : -3]
    if key is None or payload[-_TAIL : -_TAIL + len(_MAC)] != _MAC or not hmac.compare_digest(_mac(key, body), mac):
        raise SealError(f"the signature is not that of {seal.host}")
    return True


def _mac(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")[:16].hex().encode()
