"""Produce requests of Kafka's own protocol, made once and changed in place: one record a batch, one batch a request.

What an agent's client puts on the wire, without its cost. Version 7 of the request (Kafka 2.1 to 4.x) with acks of the
leader, to a broker that leads every partition; the checksum of the batch is written anew after each change.
"""

import struct
import time
from collections import deque
from socket import IPPROTO_TCP, SO_SNDBUF, SOL_SOCKET, TCP_NODELAY, create_connection, socket

import crc32c

_API, _VERSION, _CLIENT = 0, 7, b"benchmark"
_BATCH_CRC_AT, _BATCH_ATTRIBUTES_AT, _BATCH_HEAD = 17, 21, 61
TIMEOUT_MS = 30_000
CONNECT_S = 2.0
AGAIN_S = 1.0  # after a connection broke, or could not be made


def request(topic: str, partition: int, key: bytes, value: bytes) -> tuple[bytes, int]:
    """The whole request with its length, and where its batch begins."""
    record = b"\x00\x00\x00" + _varint(len(key)) + key + _varint(len(value)) + value + b"\x00"
    body = _varint(len(record)) + record
    length = _BATCH_HEAD + len(body)
    head = struct.pack(">qiibIhiqqqhii", 0, length - 12, -1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)
    name = topic.encode()
    before = struct.pack(">hhih", _API, _VERSION, 0, len(_CLIENT)) + _CLIENT
    before += struct.pack(f">hhiih{len(name)}siii", -1, 1, TIMEOUT_MS, 1, len(name), name, 1, partition, length)
    whole = struct.pack(">i", len(before) + length) + before + head + body
    return whole, 4 + len(before)


def value_at(whole: bytes, value: bytes) -> int:
    """Where the record's value begins: it is last but for the count of headers."""
    return len(whole) - 1 - len(value)


def seal_batch(whole: memoryview, batch: int) -> None:
    """Write the checksum of the batch that begins there."""
    struct.pack_into(">I", whole, batch + _BATCH_CRC_AT, crc32c.crc32c(whole[batch + _BATCH_ATTRIBUTES_AT :]))


def _varint(value: int) -> bytes:
    value, out = value << 1, bytearray()  # zigzag of what is not negative
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Connection:
    """One sender's connection. It never waits: what the socket does not take goes with the next call.

    Where the broker goes away, what was under way is `lost`, and so is all that is sent until it is back.
    """

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._waiting: deque[memoryview] = deque()
        self._heard = b""
        self.sent = self.acknowledged = self.refused = self.lost = 0
        self._again_s = 0.0
        self._socket: socket | None = self._connected()

    def _connected(self) -> socket:
        made = create_connection(self._address, CONNECT_S)
        made.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        made.setsockopt(SOL_SOCKET, SO_SNDBUF, 4 << 20)
        made.setblocking(False)
        return made

    @property
    def open(self) -> int:
        """Requests without an answer."""
        return self.sent - self.acknowledged - self.lost

    def send(self, whole: memoryview) -> None:
        """One request; its bytes must stay as they are until it is no longer open."""
        self.sent += 1
        if self._socket is None:
            self.lost += 1
            return
        self._waiting.append(whole)
        self.serve()

    def serve(self) -> None:
        """Hand over what waits, and take the answers that have come."""
        try:
            if self._socket is not None:
                self._push(self._socket)
                self._hear(self._socket)
            elif time.monotonic() >= self._again_s:
                self._socket = self._connected()
        except OSError:
            self._broken()

    def _push(self, to: socket) -> None:
        while self._waiting:
            try:
                taken = to.send(self._waiting[0])
            except BlockingIOError:
                return
            if taken < len(self._waiting[0]):
                self._waiting[0] = self._waiting[0][taken:]
                return
            self._waiting.popleft()

    def _hear(self, from_: socket) -> None:
        try:
            heard = from_.recv(1 << 16)
        except BlockingIOError:
            return
        if not heard:
            raise ConnectionError("the broker closed the connection")
        self._heard += heard
        while len(self._heard) >= 4 and len(self._heard) >= (end := 4 + int.from_bytes(self._heard[:4], "big")):
            self._answered(self._heard[4:end])
            self._heard = self._heard[end:]

    def _answered(self, answer: bytes) -> None:
        (size,) = struct.unpack_from(">h", answer, 8)
        (error,) = struct.unpack_from(">h", answer, 10 + size + 8)
        self.acknowledged += 1
        self.refused += error != 0

    def _broken(self) -> None:
        self.close()
        self.lost += self.open
        self._waiting.clear()
        self._heard, self._again_s = b"", time.monotonic() + AGAIN_S

    def close(self) -> None:
        """Close it."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
