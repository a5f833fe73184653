"""Subscriptions to many switches in one thread: each switch a few streams over one connection, followed until closed.

A switch that cannot be reached, falls silent or refuses one question holds up no other, and is asked again after a
pause that grows and varies. Only Capabilities and Subscribe are ever called: nothing here can change a switch.
"""

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import grpc
import grpc.aio
from pygnmi.spec.v080 import gnmi_pb2, gnmi_pb2_grpc

from collectors.cluster.asking import Target
from collectors.cluster.gnmi_access import Access, request
from collectors.cluster.gnmi_updates import OPENCONFIG, SONIC, Model, Reader, Slots
from collectors.cluster.switch_state import Switch, device_time
from collectors.formats import gnmi_openconfig, gnmi_sonic
from collectors.formats.gnmi_openconfig import PART_OF_QUESTION, Subscribed
from collectors.formats.switch_facts import Fact

PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
REFUSED_AGAIN_S = 3_600.0  # a question that a switch does not know is asked again so seldom
REFUSED = frozenset({grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND})
LINGER_S = 0.25  # gRPC still hands the ends of its calls to the loop
QUIET_SAMPLES = 3  # samples that a switch may leave out before its stream counts as dead


class Lost(Exception):
    """The connection, or a stream of it, is of no use any more; the text says why."""


@dataclass(slots=True)
class Heard:
    """One question to one switch, and how its answer comes."""

    question: Subscribed
    last_s: float
    synced: bool = False
    flows: bool = False  # samples came after its first answer: a question that is told nothing is silent for ever
    refused: bool = False
    told_half: bool = False


@dataclass(slots=True)
class Followed:
    """One switch, with what is wrong with it now ("": nothing). Touch `switch` with `lock` held."""

    target: Target
    switch: Switch
    why: str = ""
    answered: bool = False
    unread: int = 0  # updates unknown or unreadable since the last look
    refused: set[str] = field(default_factory=set)
    half: set[str] = field(default_factory=set)  # questions whose first answer is not whole


class Streams:
    """Follows all targets until closed."""

    def __init__(
        self,
        targets: Sequence[Target],
        access: Access,
        clock: Callable[[], float] = time.time,
        pause_s: float = PAUSE_S,
    ) -> None:
        self.followed = [Followed(target, Switch(target.name, "gnmi")) for target in targets]
        self.lock = threading.Lock()
        self._access, self._clock, self._pause_s = access, clock, pause_s
        self._slots: tuple[Slots, Slots] = ({}, {})  # of OpenConfig, of SONiC: switches have the same paths
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._main: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, where it has not begun: who only asks what sources there are follows nobody."""
        if self._thread is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name="gnmi", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End all streams."""
        if self._loop is None or self._thread is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(10.0)

    @property
    def alive(self) -> bool:
        """Whether anybody still follows."""
        return self._thread is not None and self._thread.is_alive()

    def _stop(self) -> None:
        if self._main is not None:
            self._main.cancel()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            self._main = loop.create_task(self._all())
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(self._main)
        finally:
            loop.run_until_complete(asyncio.sleep(LINGER_S))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    async def _all(self) -> None:
        await asyncio.gather(*(self._follow(one) for one in self.followed))

    async def _follow(self, one: Followed) -> None:
        pause_s = self._pause_s
        await asyncio.sleep(random.uniform(0, min(self._access.sample_s, len(self.followed) / 50)))
        while True:
            began = time.monotonic()
            try:
                async with self._access.channel(one.target) as channel:
                    await self._connected(one, channel)
                why = "the switch ended its streams"
            except Lost as error:
                why = str(error)
            except grpc.aio.AioRpcError as error:
                why = f"{error.code().name}: {error.details()}"[:300]
            except Exception as error:  # whatever one switch does to its client must not silence the others
                why = f"{type(error).__name__}: {error}"[:300]
            with self.lock:
                one.why = why
                one.switch.reached(False, self._now_ms(), why)
            pause_s = self._pause_s if time.monotonic() - began > LONGEST_PAUSE_S else min(LONGEST_PAUSE_S, pause_s * 2)
            await asyncio.sleep(random.uniform(pause_s / 2, pause_s))

    async def _connected(self, one: Followed, channel: grpc.aio.Channel) -> None:
        """One connection, from what it speaks to its end. Raises Lost, AioRpcError."""
        stub = gnmi_pb2_grpc.gNMIStub(channel)
        model, encoding, questions = await self._capabilities(one, stub)
        heard = [Heard(question, time.monotonic()) for question in questions if question.name not in one.refused]
        if not heard:
            raise Lost("it refuses all that it is asked")
        tasks = [asyncio.create_task(self._question(one, stub, ear, model, encoding)) for ear in heard]
        tasks.append(asyncio.create_task(self._watch(one, heard)))
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, one: Followed, heard: Sequence["Heard"]) -> None:
        """Silence where words must come, and first answers that do not end."""
        began = time.monotonic()
        while not all(ear.refused for ear in heard):
            await asyncio.sleep(min(1.0, self._access.timeout_s / 4))
            now = time.monotonic()
            for ear in heard:
                quiet_s = QUIET_SAMPLES * self._every_s(ear.question) + self._access.timeout_s
                if ear.question.sampled and ear.flows and now - ear.last_s > quiet_s:
                    raise Lost(f"{ear.question.name}: silent for {quiet_s:.0f} s")
                if not (ear.synced or ear.refused or ear.told_half) and now - began > self._access.timeout_s:
                    ear.told_half = True
                    self._half(one, ear.question.name)
            if one.refused and now - began > REFUSED_AGAIN_S:
                one.refused.clear()
                raise Lost("what it refused is asked again")
        raise Lost("it refuses all that it is asked")

    def _half(self, one: Followed, question: str) -> None:
        with self.lock:
            one.half.add(question)
            why = f"{question}: the first answer has no end, so nothing is taken for absent"
            one.switch.notice("monitor.blind", "half an answer", why, self._now_ms())

    async def _question(
        self, one: Followed, stub: gnmi_pb2_grpc.gNMIStub, ear: "Heard", model: Model, encoding: int
    ) -> None:
        """One subscription; where it may not be told as it changes it is sampled, where not even that, left."""
        for sampled in (True,) if ear.question.sampled else (False, True):
            try:
                await self._stream(
                    one,
                    stub,
                    ear,
                    Reader(model, slots=self._slots[model is SONIC]),
                    request(ear.question, encoding, sampled, self._every_s(ear.question)),
                )
            except grpc.aio.AioRpcError as error:
                if error.code() not in REFUSED or ear.synced:
                    raise
                why = f"{ear.question.name}: {error.code().name}: {error.details()}"
                continue
            raise Lost(f"{ear.question.name}: the switch ended the stream")
        ear.refused = True
        with self.lock:
            one.refused.add(ear.question.name)
            one.switch.notice("monitor.notice", "question refused", why, self._now_ms())

    async def _stream(
        self, one: Followed, stub: gnmi_pb2_grpc.gNMIStub, ear: "Heard", reader: Reader, asked: object
    ) -> None:
        part = PART_OF_QUESTION.get(ear.question.name)
        if part is not None:
            with self.lock:
                one.switch.begun(part)
        call = stub.Subscribe(metadata=self._access.metadata)
        await call.write(asked)
        async for response in call:
            ear.last_s = time.monotonic()
            if response.sync_response:
                ear.synced = True
                with self.lock:
                    one.half.discard(ear.question.name)
                    if part is not None:
                        one.switch.told_all(part, self._now_ms())
            else:
                ear.flows = ear.synced
                self._take(one, reader, response.update)

    def _take(self, one: Followed, reader: Reader, told: gnmi_pb2.Notification) -> None:
        now_ms = self._now_ms()
        stamp_ms = told.timestamp // 1_000_000 if told.timestamp > 0 else now_ms
        facts = [_in_our_time(fact, now_ms - stamp_ms) for fact in reader.facts(told)]
        with self.lock:
            one.switch.take(facts, device_time(stamp_ms, now_ms), now_ms)
            one.unread += reader.unknown + reader.bad
        reader.unknown = reader.bad = 0

    def _every_s(self, question: Subscribed) -> float:
        return max(self._access.sample_s, question.every_s)

    async def _capabilities(
        self, one: Followed, stub: gnmi_pb2_grpc.gNMIStub
    ) -> tuple[Model, int, tuple[Subscribed, ...]]:
        """Which model it speaks, and how."""
        try:
            told = await stub.Capabilities(
                gnmi_pb2.CapabilityRequest(), timeout=self._access.timeout_s, metadata=self._access.metadata
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
            told = gnmi_pb2.CapabilityResponse()
        with self.lock:
            one.why, one.answered = "", True
            one.switch.reached(True, self._now_ms())
        known = (gnmi_pb2.PROTO, gnmi_pb2.JSON_IETF, gnmi_pb2.JSON)
        encoding = next((one for one in known if one in told.supported_encodings), gnmi_pb2.JSON_IETF)
        if any(model.name == "sonic-db" for model in told.supported_models):
            return SONIC, gnmi_pb2.JSON_IETF, gnmi_sonic.SUBSCRIBED
        return OPENCONFIG, encoding, gnmi_openconfig.SUBSCRIBED

    def _now_ms(self) -> int:
        return round(self._clock() * 1000)


def _in_our_time(fact: Fact, behind_ms: int) -> Fact:
    """A time that the device tells by its own clock, by ours."""
    if fact.field != "last_change_s" or not isinstance(fact.value, float):
        return fact
    return fact._replace(value=fact.value + behind_ms / 1000)
