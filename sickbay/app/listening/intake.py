"""What a listener does with a request, apart from the sockets: token, limits, reading, storing, answering.

An answer of 2xx means that the log has everything. Where it has not, nothing of the request counts as told: what its
token's requests had taught is put back, so that the same request tells it again (at least once).
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import NamedTuple, cast

from collectors.agent.agent import live_ms
from collectors.cluster.poll import Outgoing, Signer
from collectors.cluster.poll_frames import Framer
from collectors.listen import READERS, Entry, Reader, Request, Told, Unfit
from collectors.listen.rows import by_age
from collectors.listen.unpack import unpacked
from sickbay import handover, selfmetrics
from sickbay.admission import admission
from sickbay.app.listening import hooks
from sickbay.app.listening.handing import Handing
from sickbay.app.listening.sink import Sink
from sickbay.app.listening.tokens import Grant
from sickbay.app.running.frame_layouts import Layouts
from sickbay.app.running.service import Context
from sickbay.commands.people import zone_of
from sickbay.handover import Handed
from sickbay.log import LogError, TooLarge
from sickbay.plain import plain
from sickbay.schema import Samples
from sickbay.topics import BACKFILL

CHANGES, MAINTENANCE = "/v1/changes", "/v1/maintenance"
OWN: Mapping[str, Entry] = {
    handover.PATH: Entry("records", "", ("", "identity", "gzip"), 64 << 20),
    CHANGES: Entry("changes", ""),
    MAINTENANCE: Entry("maintenance", ""),
}
PATHS: Mapping[str, Entry] = {**READERS, **OWN}
AT_ONCE = 2  # bodies of others that are read at the same time: each may take 20 times its size
PATIENCE_S = 5.0  # that a request waits for its turn
RETRY_AFTER = "5"
SAY_MS = 600_000


class Reply(NamedTuple):
    """An answer."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}


def refusal(status: int, reason: str, text: str, **headers: str) -> Reply:
    """An answer that says why not, and what would be right."""
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    if status in (429, 503):
        told.setdefault("Retry-After", RETRY_AFTER)
    return Reply(status, json.dumps({"error": text, "reason": reason}).encode(), headers=told)


class Away(Exception):
    """The log did not take it; the text says why."""


class Intake:
    """All paths of a listener over one sink. Safe between threads."""

    def __init__(self, context: Context, sink: Sink) -> None:
        self._context, self._sink = context, sink
        self._admission = admission(context.config.security)
        self._zone, self._live_ms = zone_of(context.config.cluster), live_ms(context.config)
        self._frames = Layouts(context.log, self._admission, context.metrics)
        self._handing = Handing(self._admission, self._frames, self._stored)
        self._new_senders()
        self._order = threading.Lock()  # numbers reach the log in their order
        self._said: dict[tuple[str, str], int] = {}
        self._turns = threading.BoundedSemaphore(AT_ONCE)

    def _new_senders(self) -> None:
        """Numbers begin anew: where some were used up in vain, readers would take them for records that are missing."""
        key = self._admission.key
        self._framers = Framer(key), Framer(key, topic=BACKFILL)
        self._signer = Signer(key)

    def most(self, path: str) -> int:
        """Bytes that a body may have, unpacked."""
        return min(self._context.config.listen.max_bytes, PATHS[path].most)

    def answer(self, path: str, grant: Grant, request: Request) -> Reply:
        """The answer to a request; whatever goes wrong with its body is the sender's to mend."""
        kind = PATHS[path].kind
        try:
            plain = unpacked(request.body, request.headers.get("content-encoding", "").strip().lower(), self.most(path))
            reply = self._answer(path, grant, request._replace(body=plain))
        except Unfit as error:
            self.refused(kind, error.reason)
            return refusal(error.status, error.reason, str(error))
        except Away as error:
            self.refused(kind, "log_away")
            return refusal(503, "log_away", str(error))
        except Exception as error:  # a fault of ours: the sender must not repeat the same body for ever
            self._context.metrics.count(selfmetrics.LOG_ERRORS, kind=f"listen {type(error).__name__}")
            self.refused(kind, "unreadable")
            return refusal(422, "unreadable", f"it could not be read: {type(error).__name__}")
        return reply

    def refused(self, kind: str, reason: str, count: int = 1) -> None:
        """Count what was not taken."""
        self._context.metrics.count(selfmetrics.LISTEN_REFUSED, count, kind=kind, reason=reason)

    def _answer(self, path: str, grant: Grant, request: Request) -> Reply:
        if path == handover.PATH:
            return self._records(grant, request)
        if path == MAINTENANCE:
            return self._maintenance(grant, request)
        reader = hooks.changes(self._zone) if path == CHANGES else _reader(path)
        with grant.lock:
            return self._told(path, grant, request, reader)

    def _told(self, path: str, grant: Grant, request: Request, reader: Reader) -> Reply:
        before = grant.memory.copy()
        try:
            with self._turn():
                told = reader(request, grant.memory, grant.allowed)
            self._keep(told, request.now_ms)
        except Exception:
            grant.memory = before
            raise
        kind = PATHS[path].kind
        self._context.metrics.count(selfmetrics.LISTEN_ACCEPTED, told.written, kind=kind)
        for reason, count in told.left_out.items():
            self.refused(kind, reason, count)
        self._say(grant.name, kind, told)
        return _reply(told)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """A turn to read a body; nobody waits for the log with it. Raises Away."""
        if not self._turns.acquire(timeout=PATIENCE_S):
            raise Away("too many requests are being read")
        try:
            yield
        finally:
            self._turns.release()

    def _say(self, sender: str, kind: str, told: Told) -> None:
        """Now and then a line for people: what is left out of an answer of 2xx would be missed by nobody."""
        now_ms = self._context.clock()
        if told.note and now_ms - self._said.get((sender, kind), -SAY_MS) >= SAY_MS:
            self._said[sender, kind] = now_ms
            self._context.say(f"listen: {kind} of {sender}: {plain(told.note)} ({dict(told.left_out)})")

    def _keep(self, told: Told, now_ms: int) -> None:
        """Everything into the log. Raises Away where it did not take all."""
        if not told.samples and not told.records:
            return
        with self._order:
            records = [*self._signed(told.records), *self._framed(told.samples, now_ms)]
            wait = self._sink.direct.begin(records)
        errors = wait()
        if away := next((one for one in errors if one is not None and not isinstance(one, TooLarge)), None):
            with self._order:
                self._new_senders()
            raise Away(str(away))
        for _ in (error for error in errors if error is not None):
            told.refuse("too_large", 1, "a record that the log does not hold", 413)

    def _signed(self, told: Sequence[Outgoing]) -> list[Handed]:
        return [Handed(one.topic, one.key.encode("utf-8", "replace"), self._signer.payload(one)) for one in told]

    def _framed(self, samples: Sequence[Samples], now_ms: int) -> list[Handed]:
        """Rows that no window waits for, such as a sender's backlog, go to the backfill topic, as those of agents."""
        framed = list[Handed]()
        for framer, own in zip(self._framers, by_age(samples, now_ms - self._live_ms), strict=True):
            framed += [Handed(*one) for one in framer.framed(own, now_ms)]
            if framer.dropped:
                self.refused("metrics", "unfit", framer.dropped)
                framer.dropped = 0
        return framed

    def _stored(self, records: Sequence[Handed]) -> list[LogError | None]:
        return self._sink.begin(records)()

    def _records(self, grant: Grant, request: Request) -> Reply:
        if request.media_type != handover.TYPE:
            raise Unfit(f"Content-Type must be {handover.TYPE}", 415, "type")
        try:
            records = handover.decode(request.body)
        except ValueError as error:
            raise Unfit(str(error)[:300]) from None
        reasons = self._handing.take(records, grant, request.now_ms)
        refused = sum(map(bool, reasons))
        self._context.metrics.count(selfmetrics.LISTEN_ACCEPTED, len(reasons) - refused, kind="records")
        if refused:
            self.refused("records", "not_taken", refused)
        return Reply(200, handover.encode_answers(reasons), handover.TYPE)

    def _maintenance(self, grant: Grant, request: Request) -> Reply:
        found, records = hooks.maintenance(request, grant.allowed, self._zone)
        if error := next((one for one in self._stored(records) if one is not None), None):
            raise Away(str(error))
        self._context.metrics.count(selfmetrics.LISTEN_ACCEPTED, len(found), kind="maintenance")
        return Reply(201, json.dumps(hooks.answer(found)).encode())

    def close(self) -> None:
        """Let go."""
        self._sink.close()


def _reply(told: Told) -> Reply:
    if told.status:
        reason = max(told.left_out, key=lambda one: told.left_out[one], default="refused")
        reply = refusal(told.status, reason, told.note)
        body = json.dumps({"error": told.note, "taken": told.written, "left_out": dict(told.left_out)}).encode()
        return reply._replace(body=body, headers={**reply.headers, **told.headers})
    if told.body or told.content_type != "application/json":
        return Reply(200, told.body, told.content_type, told.headers)
    return Reply(204, headers=told.headers)


@cache
def _reader(path: str) -> Reader:
    module, _, name = READERS[path].where.partition(":")
    return cast(Reader, getattr(import_module(module), name))


def header_of(pairs: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by lower-case name; of one that is told twice the first."""
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return found
