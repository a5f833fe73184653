"""What a listener stands on: the socket that it listens at, how many connections it takes, and its certificate."""

import re
import resource
import socket
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakSet

from sickbay.clock import rfc3339
from sickbay.config import ConfigError
from sickbay.source_settings import Listen

CONNECTIONS = 4096
SHARE = 4  # one address may have so much of them: a fourth
LEAST = 64
LOOK_S = 10.0  # between two looks whether the certificate was renewed
SOON_MS = 14 * 86_400_000  # before its end people are told
SAY_MS = 86_400_000
MAX_FILE = 1 << 20
# The validity of a certificate in DER: a sequence of two times (RFC 5280, 4.1.2.5), the first such one in it.
_TIME = rb"(?:\x17\x0d(\d{12})|\x18\x0f(\d{14}))Z"
_VALIDITY = re.compile(rb"\x30[\x1e\x20\x22]" + _TIME + _TIME)


def most_connections() -> int:
    """Connections at once: the process needs files for its log as well."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS if soft == resource.RLIM_INFINITY else max(LEAST, min(CONNECTIONS, soft // 2))


class _Connection(socket.socket):
    """One that knows who counts it."""

    counted: "tuple[WeakSet[_Connection], ...]" = ()

    def close(self) -> None:
        """It counts no more."""
        for one in self.counted:
            one.discard(self)
        super().close()

    __hash__ = object.__hash__


class Listening(socket.socket):
    """A socket that takes in so many connections, and closes those beyond: also before they say a word of TLS."""

    def __init__(self, family: int, most: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._most, self._all = most, WeakSet[_Connection]()
        self._of: dict[str, WeakSet[_Connection]] = {}
        self.refused = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection. Raises ConnectionAbortedError where it was one too many."""
        told, address = super().accept()
        made = _Connection(told.family, told.type, told.proto, fileno=told.detach())
        if len(self._of) > 2 * self._most:
            self._of = {host: held for host, held in self._of.items() if held}
        own = self._of.setdefault(str(address[0]), WeakSet())
        if len(self._all) >= self._most or len(own) >= max(LEAST, self._most // SHARE):
            self.refused += 1
            made.close()
            raise ConnectionAbortedError("one connection too many")
        made.counted = (self._all, own)
        for one in made.counted:
            one.add(made)
        return made, address


def bound(address: str) -> Listening:
    """A socket that listens at an address. Raises ConfigError."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "0.0.0.0"
    made = Listening(socket.AF_INET6 if ":" in host else socket.AF_INET, most_connections())
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, int(port)))
        made.listen(512)  # whoever comes before the server is at work waits
    except (OSError, OverflowError) as error:
        made.close()
        raise ConfigError(f"[listen] address = {address!r}: {getattr(error, 'strerror', None) or error}") from None
    return made


class Certificate:
    """The certificate that is shown: read again when its file changes, and watched for its end."""

    def __init__(self, settings: Listen, say: Callable[[str], None]) -> None:
        self._files, self._say = (settings.certificate_file, settings.private_key_file), say
        self._context: ssl.SSLContext | None = None
        self._stamp, self._looked, self._said_ms = self._stamped(), time.monotonic(), 0
        self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self.ends_ms = ends_ms(self._files[0])

    def shown_by(self, context: ssl.SSLContext) -> None:
        """This one shows it from now on."""
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._context = context

    def _load(self, context: ssl.SSLContext) -> None:
        """Certificate and key belong together: else ConfigError, before anybody is served."""
        try:
            context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"[listen] certificate_file, private_key_file: {error}") from None

    def look(self, now_ms: int) -> None:
        """Read it anew where it has changed: connections that begin from now on are shown the new one."""
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            self._renew()
        if self.trouble(now_ms, SOON_MS) and now_ms - self._said_ms >= SAY_MS:
            self._said_ms = now_ms
            self._say(f"listen: {self.trouble(now_ms, SOON_MS)}")

    def _renew(self) -> None:
        stamp = self._stamped()
        if stamp == self._stamp or self._context is None:
            return
        self._stamp = stamp
        try:
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # a pair that does not fit must not be half taken
            self._load(self._context)
        except ConfigError as error:
            self._say(f"listen: the certificate stays as it was: {error}")
            return
        self.ends_ms, self._said_ms = ends_ms(self._files[0]), 0
        self._say("listen: the certificate was read anew")

    def trouble(self, now_ms: int, soon_ms: int = 0) -> str:
        """What people must know of its end, empty where all is well."""
        if self.ends_ms is None or self.ends_ms > now_ms + soon_ms:
            return ""
        end = "ended" if self.ends_ms <= now_ms else "ends"
        return f"the certificate {self._files[0]} {end} at {rfc3339(self.ends_ms)}: renew it, or nobody can send"

    def _stamped(self) -> tuple[Any, ...]:
        try:
            told = [Path(file).stat() for file in self._files]
        except OSError:
            return ()
        return tuple((one.st_mtime_ns, one.st_size, one.st_ino) for one in told)


def ends_ms(path: str) -> int | None:
    """When the first certificate of a PEM file ends, UTC milliseconds; None where that cannot be read."""
    try:
        with Path(path).open(encoding="ascii", errors="replace") as file:
            text = file.read(MAX_FILE)
        first = text[text.index("-----BEGIN CERTIFICATE") :].partition("-----END CERTIFICATE-----")
        told = _VALIDITY.search(ssl.PEM_cert_to_DER_cert("".join(first[:2])))
        if told is None:
            return None
        century = "20" if told[3] and int(told[3][:2]) < 50 else "19"
        digits = f"{century}{told[3].decode()}" if told[3] else told[4].decode()
        when = datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except (OSError, ValueError):
        return None
    return round(when.timestamp() * 1000)
