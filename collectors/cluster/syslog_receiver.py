"""Receives syslog over UDP and TCP: lines of known senders, everything bounded, anybody else counted and dropped.

A sender is an address; no word of a line makes it another. TCP frames are RFC 6587's: counted octets, or lines. Bounds:
the size of a line, lines a second of one sender, connections, and the bytes that wait between two polls.
"""

import ipaddress
import selectors
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

MOST_LINE = 8_192  # bytes of one message; RFC 5424 asks receivers for 2,048
MOST_DATAGRAM = 65_535
LINES_PER_S, BURST = 500.0, 2_000.0  # of one sender
MOST_WAITING = 64 << 20  # bytes of all senders between two polls
MOST_CONNECTIONS, MOST_OF_SENDER = 2_048, 8
DATAGRAMS_AT_ONCE = 500  # then connections get their turn


@dataclass(slots=True)
class Framer:
    """Takes a TCP stream apart into messages. Keeps at most one message, and reads each byte a few times at most."""

    cut: int = 0  # messages longer than is kept
    _buffer: bytes = b""
    _at: int = 0  # where the next message begins
    _skip: int = 0  # octets of a message that are not kept; -1: up to the end of the line

    def take(self, data: bytes) -> list[bytes]:
        """The messages that end in this piece of the stream."""
        self._buffer, self._at = self._buffer[self._at :] + data, 0
        found: list[bytes] = []
        while self._at < len(self._buffer) and (message := self._next()) is not None:
            if message:
                found.append(message)
        return found

    def _next(self) -> bytes | None:
        """The next message, empty for what is skipped; None: more is needed."""
        if self._skip > 0:
            passed = min(self._skip, len(self._buffer) - self._at)
            self._at, self._skip = self._at + passed, self._skip - passed
            return b""
        head = self._buffer[self._at : self._at + 8]
        if self._skip == 0 and head[:1].isdigit() and head[:1] != b"0":
            count, space, _ = head.partition(b" ")
            if space and count.isdigit():
                return self._counted(int(count), self._at + len(count) + 1)
            if not space and len(head) < 8 and count.isdigit():
                return None
        return self._line()

    def _counted(self, length: int, start: int) -> bytes | None:
        kept = min(length, MOST_LINE)
        if len(self._buffer) < start + kept:
            return None
        self._at, self._skip = start + kept, length - kept
        self.cut += length > kept
        return self._buffer[start : self._at]

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._at)
        start, skipped = self._at, self._skip == -1
        if end < 0 and len(self._buffer) - start < MOST_LINE:
            return None
        whole = end >= 0
        self._at, self._skip = (end + 1, 0) if whole else (len(self._buffer), -1)
        long = (end if whole else len(self._buffer)) - start > MOST_LINE or not whole
        self.cut += long and not skipped
        return b"" if skipped else self._buffer[start : min(start + MOST_LINE, end if whole else start + MOST_LINE)]


@dataclass(slots=True)
class Sender:
    """One known sender: what waits of it, and what was lost."""

    waiting: deque[bytes] = field(default_factory=deque)
    lost: int = 0
    _tokens: float = BURST
    _at: float = 0.0

    def may(self, now: float) -> bool:
        """Whether one more line is within its rate."""
        self._tokens = min(BURST, self._tokens + (now - self._at) * LINES_PER_S) if self._at else BURST
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Receiver:
    """Listens until closed. `senders`: address -> name. Raises OSError where it cannot listen."""

    def __init__(self, host: str, port: int, senders: Mapping[str, str]) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._names = {plain(address): name for address, name in senders.items()}
        self._senders = {name: Sender() for name in self._names.values()}
        self.refused: Counter[str] = Counter()
        self._bytes, self._lock = 0, threading.Lock()
        self._open: dict[socket.socket, tuple[str, Framer]] = {}
        self._tcp = socket.create_server((host, port), family=family, backlog=128)
        self.port = int(self._tcp.getsockname()[1])
        self._udp = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._udp.bind((host, self.port))
        except OSError:
            self._udp.close()
            self._tcp.close()
            raise
        self._selector, self._stop = selectors.DefaultSelector(), threading.Event()
        for one in (self._udp, self._tcp):
            one.setblocking(False)
            self._selector.register(one, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="syslog", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it listens."""
        return self._thread.is_alive()

    def taken(self) -> dict[str, tuple[list[bytes], int]]:
        """Messages that came since the last look, and how many were lost, of each sender that said something."""
        with self._lock:
            found = {
                name: (list(sender.waiting), sender.lost)
                for name, sender in self._senders.items()
                if sender.waiting or sender.lost
            }
            for name in found:
                self._senders[name].waiting, self._senders[name].lost = deque(), 0
            self._bytes = 0
        return found

    def unknown(self) -> int:
        """How many messages and connections of others were dropped since the last look."""
        with self._lock:
            total, self.refused = self.refused.total(), Counter()
        return total

    def close(self) -> None:
        """Stop listening."""
        self._stop.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                for key, _ in self._selector.select(0.2):
                    if key.fileobj is self._udp:
                        self._datagrams()
                    elif key.fileobj is self._tcp:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket):
                        self._read(key.fileobj)
        finally:
            for one in (self._udp, self._tcp, *self._open):
                one.close()
            self._selector.close()

    def _datagrams(self) -> None:
        for _ in range(DATAGRAMS_AT_ONCE):
            try:
                data, address = self._udp.recvfrom(MOST_DATAGRAM)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # of an earlier answer that nobody took: it says nothing of what comes
                continue
            name = self._names.get(plain(str(address[0])), "")
            if name:
                self._keep(name, data[:MOST_LINE], cut=len(data) > MOST_LINE)
            else:
                self._refuse("datagram")

    def _accept(self) -> None:
        with suppress(OSError):
            connection, address = self._tcp.accept()
            name = self._names.get(plain(str(address[0])), "")
            own = sum(1 for other, _ in self._open.values() if other == name)
            if not name or len(self._open) >= MOST_CONNECTIONS or own >= MOST_OF_SENDER:
                connection.close()
                self._refuse("connection")
                return
            connection.setblocking(False)
            self._open[connection] = (name, Framer())
            self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, connection: socket.socket) -> None:
        name, framer = self._open[connection]
        try:
            data = connection.recv(MOST_DATAGRAM)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        for message in framer.take(data or b"\n"):  # what stood at the end without one is a message too
            self._keep(name, message)
        if framer.cut:
            with self._lock:
                self._senders[name].lost += framer.cut
            framer.cut = 0
        if not data:
            del self._open[connection]
            self._selector.unregister(connection)
            connection.close()

    def _keep(self, name: str, message: bytes, *, cut: bool = False) -> None:
        with self._lock:
            sender = self._senders[name]
            sender.lost += cut
            if self._bytes + len(message) > MOST_WAITING or not sender.may(time.monotonic()):
                sender.lost += 1
                return
            self._bytes += len(message)
            sender.waiting.append(message)

    def _refuse(self, what: str) -> None:
        with self._lock:
            self.refused[what] += 1


def plain(address: str) -> str:
    """An address as it is compared: IPv4 within IPv6 as IPv4, no zone. Raises ValueError for what is none."""
    told = ipaddress.ip_address(address.partition("%")[0])
    inner = getattr(told, "ipv4_mapped", None)
    return str(inner or told)
