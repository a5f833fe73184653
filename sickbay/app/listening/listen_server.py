"""The sockets of a listener: TLS, bounded connections, bodies and times; who is slow or too large holds up nobody else.

The way of a request: path, method, token, kind, rate, size as told, room; then its body is read within its time, and a
worker thread does the rest (`intake`). Every refusal is a 4xx or 503 with the reason as JSON, as early as can be.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.requests import Request as Asked
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from collectors.listen import Request
from sickbay.app.listening.intake import PATHS, Intake, Reply, header_of, refusal
from sickbay.app.listening.listen_sockets import Certificate, bound
from sickbay.app.listening.tokens import Grant, Tokens
from sickbay.source_settings import Listen

THREADS = 64  # requests that wait for the log at the same time: a relay's pod has 32 hosts
BYTES = 128 << 20  # of bodies in memory at the same time
SHARE = 3 / 4  # of both may be one token's: a flood of one leaves room for others
HEAD_S = 5.0  # for the beginning of TLS, and for the head of a request, from its first byte or the connection's begin
BODY_S = 15.0  # for the whole body
IDLE_S = 75.0  # that a connection is kept without a request
GOODBYE_S = 1.0  # at the end, for answers under way and the end of TLS
MAX_HEAD = 16 << 10
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")  # that are answered in our own words


class _Guarded(H11Protocol):
    """Closes connections whose head does not end in time."""

    def connection_made(self, transport: Any) -> None:
        """A connection begins."""
        self._late: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """More bytes: of a head that began, the time runs on."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._end()
        elif self._late is None and (self.cycle is None or self.cycle.response_complete):
            self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._end()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server ends: a peer that does not say goodbye is not waited for."""
        super().shutdown()
        self.loop.call_later(GOODBYE_S, self._leave, 4)

    def _leave(self, times: int) -> None:
        if times and self.cycle is not None and not self.cycle.response_complete:
            self.loop.call_later(GOODBYE_S, self._leave, times - 1)
        else:
            self.transport.abort()

    def _begin(self) -> None:
        self._late = self.loop.call_later(HEAD_S, self.transport.abort)

    def _end(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _Loop(asyncio.SelectorEventLoop):
    """Whoever begins no TLS is let go as soon as one who ends no head: by itself it would be a minute."""

    async def create_server(self, *args: Any, **named: Any) -> Any:
        """A server at work."""
        return await super().create_server(*args, **named, ssl_handshake_timeout=HEAD_S)


class Door:
    """The application: lets requests in, or says why not."""

    def __init__(self, settings: Listen, tokens: Tokens, intake: Intake, clock: Callable[[], int]) -> None:
        self._settings, self._tokens, self._intake, self._clock = settings, tokens, intake, clock
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="listen")
        self._bytes, self._open = Counter[str](), Counter[str]()  # by token
        self.app = Starlette(routes=[Route("/{path:path}", self._asked, methods=METHODS)])

    async def _asked(self, asked: Asked) -> Response:
        reply = await self._reply(asked)
        headers = dict(reply.headers)
        if reply.status >= 400:
            headers["Connection"] = "close"  # the body may be there still, unread
        return Response(reply.body, reply.status, headers, reply.content_type)

    async def _reply(self, asked: Asked) -> Reply:
        path = asked.url.path
        if path == "/healthz" and asked.method in ("GET", "HEAD"):
            return Reply(200, b"ok\n", "text/plain")
        if path not in PATHS:
            return refusal(404, "path", f"no such path; there are {', '.join(PATHS)}")
        if asked.method != "POST":
            return refusal(405, "method", "POST only", Allow="POST")
        grant = self._tokens.grant(asked.headers.get("authorization", ""))
        kind = PATHS[path].kind
        if refused := self._refused(path, grant, asked):
            self._intake.refused(kind, refused[1])
            return refused[0]
        assert grant is not None
        return await self._let_in(path, grant, asked)

    def _refused(self, path: str, grant: Grant | None, asked: Asked) -> tuple[Reply, str] | None:
        """Why a request is not let in, by its head alone."""
        kind, encoding = PATHS[path].kind, asked.headers.get("content-encoding", "").strip().lower()
        if grant is None:
            text = "a bearer token of [listen] tokens_file is wanted"
            return refusal(401, "token", text, WWW_Authenticate="Bearer"), "token"
        if kind not in grant.row.kinds:
            return refusal(403, "kind", f"this token may not send {kind}"), "kind"
        if not grant.passes(self._settings.requests_per_s):
            return refusal(429, "rate", "too many requests of this token"), "rate"
        if encoding not in PATHS[path].encodings:
            return refusal(
                415, "encoding", f"Content-Encoding must be {' or '.join(PATHS[path].encodings)}"
            ), "encoding"
        if _length(asked) > self._settings.max_bytes:
            return refusal(413, "too_large", f"larger than {self._settings.max_bytes} bytes"), "too_large"
        return None

    async def _let_in(self, path: str, grant: Grant, asked: Asked) -> Reply:
        size = _length(asked) if "content-length" in asked.headers else self._settings.max_bytes
        async with self._room(grant.name, size) as room:
            if not room:
                self._intake.refused(PATHS[path].kind, "busy")
                return refusal(503, "busy", "too many requests at once")
            try:
                body = await asyncio.wait_for(_body(asked, self._settings.max_bytes), BODY_S)
            except TimeoutError:
                return refusal(408, "slow", f"no whole body within {BODY_S:.0f} s")
            except ClientDisconnect:
                return refusal(400, "gone", "the body did not come")
            if body is None:
                self._intake.refused(PATHS[path].kind, "too_large")
                return refusal(413, "too_large", f"larger than {self._settings.max_bytes} bytes")
            headers, query = header_of(asked.headers.raw), dict(asked.query_params)
            request = Request(body, headers, query, self._clock(), grant.name)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._intake.answer, path, grant, request)

    @asynccontextmanager
    async def _room(self, token: str, size: int) -> AsyncIterator[bool]:
        """Room for one more body of that size; False: there is none, or none for this token."""
        room = all(
            held.total() + more <= most and held[token] + more <= most * SHARE
            for held, more, most in ((self._open, 1, THREADS), (self._bytes, size, BYTES))
        )
        told = Counter({token: int(room)}), Counter({token: size * room})
        self._open, self._bytes = self._open + told[0], self._bytes + told[1]
        try:
            yield room
        finally:
            self._open, self._bytes = self._open - told[0], self._bytes - told[1]

    def close(self) -> None:
        """Wait for nobody."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _length(asked: Asked) -> int:
    """The size that a request tells, 0 where it tells none."""
    told = asked.headers.get("content-length", "0")
    return int(told) if told.isascii() and told.isdecimal() and len(told) < 16 else 1 << 60


async def _body(asked: Asked, most: int) -> bytes | None:
    """The body, None where it is larger than `most`."""
    parts, size = list[bytes](), 0
    async for part in asked.stream():
        size += len(part)
        if size > most:
            return None
        parts.append(part)
    return b"".join(parts)


class Server:
    """The door at work on its address, in a thread of its own. Raises ConfigError where it cannot be."""

    def __init__(self, settings: Listen, door: Door, say: Callable[[str], None]) -> None:
        self._door = door
        self.certificate = Certificate(settings, say)
        self._socket = bound(settings.address)
        host, port = self._socket.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        config = uvicorn.Config(
            door.app, http=_Guarded, ws="none", lifespan="off",
            log_level="critical", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, h11_max_incomplete_event_size=MAX_HEAD,
            timeout_keep_alive=int(IDLE_S), timeout_graceful_shutdown=5, backlog=512,
            ssl_certfile=settings.certificate_file, ssl_keyfile=settings.private_key_file,
        )  # fmt: skip
        config.load()
        assert config.ssl is not None
        self.certificate.shown_by(config.ssl)
        self._server = uvicorn.Server(config)
        self.failed = ""
        self._thread = threading.Thread(target=self._run, name="listen", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_Loop) as runner:
                runner.run(self._server.serve(sockets=[self._socket]))
        except BaseException as error:  # uvicorn ends by SystemExit too
            self.failed = f"{type(error).__name__}: {error}"

    @property
    def alive(self) -> bool:
        """Whether it serves."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Answer what has come, and let go."""
        self._server.should_exit = True
        until = time.monotonic() + 8.0
        while self._thread.is_alive() and time.monotonic() < until:
            self._thread.join(0.2)
        self._door.close()
