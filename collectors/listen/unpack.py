"""Packed bodies, unpacked within a limit: what a body claims to become is looked at before any of it is made."""

import zlib

import cramjam

from collectors.listen import Unfit


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """The body in plain. Raises Unfit for one that is damaged, or would be larger than `most` bytes."""
    match encoding:
        case "" | "identity":
            plain = body
        case "gzip":
            plain = _gunzipped(body, most)
        case "snappy":
            plain = _unsnapped(body, most)
        case _:
            raise Unfit(f"Content-Encoding {encoding[:40]!r} is not read", 415, "encoding")
    if len(plain) > most:
        raise _too_large(most)
    return plain


def _too_large(most: int) -> Unfit:
    return Unfit(f"larger than {most} bytes unpacked: send less at once", 413, "too_large")


def _gunzipped(body: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        plain = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise Unfit(f"not gzip: {error}", reason="encoding") from None
    if len(plain) > most or unpacker.unconsumed_tail:
        raise _too_large(most)
    if not unpacker.eof or unpacker.unused_data:
        raise Unfit("the gzip stream ends before its end, or something follows it", reason="encoding")
    return plain


def _unsnapped(body: bytes, most: int) -> bytes:
    """The block format, which begins with its length in plain: a bomb tells of itself."""
    if not body or _length(body) > most:
        raise _too_large(most) if body else Unfit("an empty body", reason="encoding")
    try:
        return bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError as error:
        raise Unfit(f"not snappy: {str(error)[:200]}", reason="encoding") from None


def _length(body: bytes) -> int:
    """The varint that a block begins with. Raises Unfit where there is none."""
    length = 0
    for place, byte in enumerate(body[:5]):
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return length
    raise Unfit("not snappy: it begins with no length", reason="encoding")
