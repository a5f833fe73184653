"""Appending over HTTPS, for agents whose site gives them no way to the brokers: a listener or relay has one.

Standard library only. What is appended waits until `flush`, or until somebody asks for an outcome, and goes in one
request; each record has an outcome of its own. At least once: a request without an answer is repeated by the spool.
"""

import http.client
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from sickbay.handover import MAX_RECORDS, PATH, TOO_LARGE, TYPE, Handed, decode_answers, encode
from sickbay.log import Closed, LogBusy, LogError, Output, Receipt, TooLarge, UnfitPlace, checks
from sickbay.settings import LogSettings
from sickbay.topics import MIB, Topic

CALL_S = 10.0  # for one request, from the first byte to the last of its answer
WAITING_BYTES = 6 * MIB  # that wait for a request: a courier hands over 4 MiB
LEAST_BYTES = 64 << 10
MAX_ANSWER = 1 * MIB
MAX_SECRET = 4096
_NO_CA = ": name its authority, or the certificate itself, in [log] ca_file"
_TRUST = {  # codes of OpenSSL's x509_vfy.h
    10: ": renew it on the listener, or set this host's clock",
    9: ": set this host's clock",
    18: _NO_CA, 19: _NO_CA, 20: _NO_CA, 21: _NO_CA,
    62: ": [log] url must name the listener as its certificate does",
    64: ": [log] url must name the listener as its certificate does",
}  # fmt: skip


class HttpsOutcome:
    """What became of one append of an HttpsAppender."""

    __slots__ = ("_appender", "error", "settled")

    def __init__(self, appender: "HttpsAppender") -> None:
        self._appender, self.settled = appender, False
        self.error: LogError | None = None

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self.settled

    def result(self) -> Receipt:
        """Where it landed: the listener does not tell, so partition and offset are -1. Raises LogError."""
        if not self.settled:
            with suppress(LogError):
                self._appender.flush()
        if not self.settled:
            raise LogBusy("the listener did not answer in time")
        if self.error is not None:
            raise self.error
        return Receipt("", -1, -1, -1)


class HttpsAppender:
    """An `Appender` of one listener. Safe between threads."""

    def __init__(self, settings: LogSettings, topics: Mapping[str, Topic]) -> None:
        address = urlsplit(settings.url)
        if address.scheme != "https" or not address.hostname:
            raise UnfitPlace('[log] engine = "https" needs [log] url = "https://host:port" of a listener or relay')
        self._topics, self._path = topics, (address.path.rstrip("/") or "") + PATH
        self._host, self._port = address.hostname, address.port or 443
        self._token, self._context = _token(settings.token_file), _context(settings.ca_file)
        self._connection: http.client.HTTPSConnection | None = None
        self._waiting: list[tuple[Handed, HttpsOutcome]] = []
        self._lock = threading.RLock()
        self._most = WAITING_BYTES  # of one request, as far as is known
        self._closed = False

    def append(self, topic: str, key: bytes, value: bytes | None, *, partition: int | None = None) -> HttpsOutcome:
        """Hand over one record; it goes with the next `flush`."""
        checks.placed(self._topics, Output(topic, key, value, partition))
        outcome = HttpsOutcome(self)
        with self._lock:
            if self._closed:
                raise Closed("the appender was closed")
            waiting = sum(len(one.value or b"") for one, _ in self._waiting) + len(value or b"")
            if len(self._waiting) >= MAX_RECORDS or (self._waiting and waiting > self._most):
                self.flush()
            self._waiting.append((Handed(topic, key, value), outcome))
        return outcome

    def flush(self, limit_s: float | None = None) -> None:
        """Send what waits. Raises the first error of it."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            if not waiting:
                return
            errors = self._sent([one for one, _ in waiting], CALL_S if limit_s is None else min(limit_s, CALL_S))
            for (_, outcome), error in zip(waiting, errors, strict=True):
                outcome.error, outcome.settled = error, True
        if first := next((error for error in errors if error is not None), None):
            raise first

    def close(self) -> None:
        """Flush and let go."""
        with self._lock:
            try:
                self.flush()
            finally:
                self._closed = True
                self._let_go()

    def tried(self) -> None:
        """Ask with nothing to say: whether the listener is there, trusted, and knows the token. Raises LogError."""
        with self._lock:
            self._answers([], CALL_S)

    def _sent(self, records: list[Handed], limit_s: float) -> list[LogError | None]:
        deadline = time.monotonic() + limit_s
        try:
            return [_error(reason) for reason in self._answers(records, limit_s)]
        except TooLarge as error:  # the listener's own limit may be lower than what goes together here
            half, left = len(records) // 2, deadline - time.monotonic()
            if half and left > 0:
                self._most = max(LEAST_BYTES, sum(len(one.value or b"") for one in records) // 2)
                return self._sent(records[:half], left) + self._sent(records[half:], deadline - time.monotonic())
            return [error if len(records) == 1 else LogBusy(str(error)) for _ in records]
        except LogError as error:
            return [error for _ in records]

    def _answers(self, records: list[Handed], limit_s: float) -> list[str]:
        try:
            answers = decode_answers(self._posted(encode(records), time.monotonic() + limit_s))
            if len(answers) != len(records):
                raise LogBusy(f"the listener answered for {len(answers)} of {len(records)} records")
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._let_go()
            raise LogBusy(f"https://{self._host}:{self._port}: {_why(error)}") from None
        except LogError:
            self._let_go()
            raise
        return answers

    def _posted(self, body: bytes, deadline: float) -> bytes:
        """The answer's body. A kept connection that the other side closed meanwhile is opened anew, once."""
        kept = self._connection is not None
        try:
            return self._asked(body, deadline)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self._let_go()
            if not kept:
                raise
        return self._asked(body, deadline)

    def _asked(self, body: bytes, deadline: float) -> bytes:
        left = max(0.1, deadline - time.monotonic())
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(self._host, self._port, timeout=left, context=self._context)
        elif self._connection.sock is not None:
            self._connection.sock.settimeout(left)
        head = {"Content-Type": TYPE} | ({"Authorization": f"Bearer {self._token}"} if self._token else {})
        try:
            self._connection.request("POST", self._path, body, head)
        except (BrokenPipeError, ConnectionResetError):  # it may have answered before it had all
            if self._connection.sock is None:
                raise
        with self._connection.getresponse() as answer:
            told = _bounded(answer, deadline)
        if answer.status == 413:
            raise TooLarge(f"https://{self._host}:{self._port}: {_words(told)}: raise its [listen] max_bytes")
        if answer.status != 200:
            hint = ": look at [log] token_file" if answer.status == 401 else ""
            raise LogBusy(f"https://{self._host}:{self._port} answers {answer.status}: {_words(told)}{hint}")
        return told

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _bounded(answer: http.client.HTTPResponse, deadline: float) -> bytes:
    parts, size = list[bytes](), 0
    while part := answer.read1(64 << 10):
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER or time.monotonic() > deadline:
            raise OSError("the answer is too long, or takes too long")
    return b"".join(parts)


def _why(error: Exception) -> str:
    """What went wrong, and what is to be done where that is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}{_TRUST.get(error.verify_code, '')}"
    if isinstance(error, ssl.SSLError) and "WRONG_VERSION" in str(error.reason):
        return "no TLS is spoken there: is it the port of a listener or relay?"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _words(body: bytes) -> str:
    return "".join(one if one.isprintable() else " " for one in body[:300].decode("utf-8", "replace"))


def _error(reason: str) -> LogError | None:
    if not reason:
        return None
    return TooLarge(reason[:500]) if reason.startswith(TOO_LARGE) else LogBusy(f"refused: {reason[:500]}")


def _token(path: str) -> str:
    """The token in a file, "" where none is named."""
    if not path:
        return ""
    try:
        with Path(path).open(encoding="ascii", errors="replace") as file:
            token = file.read(MAX_SECRET).strip()
    except OSError as error:
        raise UnfitPlace(f"[log] token_file {path}: {error.strerror or error}") from None
    if not token or not token.isprintable() or " " in token:
        raise UnfitPlace(f"[log] token_file {path}: must hold one line, the token")
    return token


def _context(ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise UnfitPlace(f"[log] ca_file {ca_file}: {error}") from None
