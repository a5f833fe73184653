"""How a service runs its stages, ends them, and tells how they are."""

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from sickbay import selfmetrics
from sickbay.app.running.exposition import Exposition
from sickbay.app.running.service import Context, Service
from sickbay.app.running.starving import Starving
from sickbay.app.running.watched import Calls
from sickbay.config import ConfigError
from sickbay.log import Task
from sickbay.log.memory import MemoryLog
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config, Metrics
from sickbay.topics import EVENTS
from tests.process.kit import SMALL


class Fake:
    """A stage that does what the test says."""

    def __init__(self, step: Callable[[], bool] = lambda: False, waiting: str = "") -> None:
        self._step, self.waiting, self.closed = step, waiting, False

    def step(self, now_ms: int) -> bool:
        return self._step()

    def close(self) -> None:
        self.closed = True


def _service(stage: Fake, **fields: Any) -> tuple[Service, list[str]]:
    said: list[str] = []
    config = fields.pop("config", Config())
    context = Context(config, MemoryLog(SMALL), SelfMetrics(), said.append)
    return Service(context, {"one": lambda _: stage}, **fields), said


def _running(service: Service) -> tuple[threading.Thread, list[int]]:
    status: list[int] = []
    thread = threading.Thread(target=lambda: status.append(service.run(signals=())), daemon=True)
    thread.start()
    return thread, status


def test_a_service_ends_in_good_order() -> None:
    stage = Fake()
    service, _ = _service(stage)
    thread, status = _running(service)
    time.sleep(0.1)
    service.stop()
    thread.join(5)
    assert status == [0]
    assert stage.closed


def test_a_stage_that_fails_ends_the_process_and_says_why() -> None:
    def fail() -> bool:
        raise ValueError("no such thing")

    service, said = _service(Fake(fail))
    thread, status = _running(service)
    thread.join(5)
    assert status == [4]
    assert said == ["one: ValueError: no such thing"]


@pytest.mark.slow
def test_a_stage_that_hangs_ends_the_process() -> None:
    stuck = threading.Event()
    service, said = _service(Fake(lambda: stuck.wait(20)), step_s=0.3)
    thread, status = _running(service)
    thread.join(8)
    stuck.set()
    assert status == [4]
    assert service.left_behind
    assert "one step takes over" in said[0]


@pytest.mark.slow
def test_a_call_of_the_log_that_hangs_ends_the_process_long_before_a_step_would() -> None:
    stuck = threading.Event()

    class Stuck(MemoryLog):
        def join(self, *arguments: Any) -> Any:
            tasks = super().join(*arguments)
            tasks.commit = lambda *_: stuck.wait(20)  # type: ignore[method-assign, assignment]
            return tasks

    class Commits(Fake):
        def __init__(self, context: Context) -> None:
            tasks = context.log.join("group", [EVENTS], "m")
            super().__init__(lambda: bool(tasks.poll().records or tasks.commit([], {})))

    said: list[str] = []
    context = Context(Config(), Stuck(SMALL), SelfMetrics(), said.append)
    service = Service(context, {"one": Commits}, call_s=0.3, longer={"one": 50.0})
    thread, status = _running(service)
    thread.join(8)
    stuck.set()
    assert status == [4]
    assert said[0] == "one: one commit takes over 0 s: this process ends"


@pytest.mark.slow
def test_a_long_step_whose_calls_succeed_is_work_and_no_hang() -> None:
    class Long(Fake):
        def __init__(self, context: Context) -> None:
            reader, tasks = context.log.reader(), context.log.join("group", [EVENTS], "m")

            def work() -> bool:
                for _ in range(8):
                    time.sleep(0.1)
                    reader.read(Task(EVENTS, 0), 0)
                    time.sleep(0.1)
                    tasks.poll()
                done.set()
                return False

            super().__init__(work)

    done, said = threading.Event(), list[str]()
    context = Context(Config(), MemoryLog(SMALL), SelfMetrics(), said.append)
    service = Service(context, {"one": Long}, step_s=0.6)
    thread, status = _running(service)
    assert done.wait(8)
    service.stop()
    thread.join(5)
    assert status == [0]
    assert not said


def test_what_a_thread_waited_for_a_processor_does_not_count() -> None:
    waited = {"1": 5.0, "2": 7.0}
    starving, now = Starving(lambda: waited), time.monotonic()
    waited |= {"1": 5.05, "2": 7.05, "3": 90.0}  # a new one has waited before
    starving.look(now + 0.2)
    assert starving.since(now) == 0
    for second in range(1, 4):
        waited["2"] += 0.9
        starving.look(now + 0.2 + second)
    assert starving.since(now) == pytest.approx(2.7)
    assert starving.since(now + 1.5) == pytest.approx(1.8)


@pytest.mark.slow
@pytest.mark.parametrize("busy", [True, False])
def test_a_stage_on_a_busy_machine_is_not_taken_for_one_that_hangs(busy: bool) -> None:
    stuck = threading.Event()
    service, said = _service(Fake(lambda: stuck.wait(1.5)), step_s=0.6)
    service._starving = Starving(lambda: {"1": time.monotonic() if busy else 0.0})
    thread, status = _running(service)
    time.sleep(1.2)
    service.stop()
    stuck.set()
    thread.join(5)
    assert bool(said) is not busy
    assert status == [0 if busy else 4]


def test_a_process_that_stood_still_is_given_the_time_again() -> None:
    calls = Calls()
    with calls.under_way("poll"):
        now = time.monotonic() + 60
        assert calls.longest(now)[1] > 59  # type: ignore[index]
        calls.forgive(now)
        assert calls.longest(now)[1] == 0  # type: ignore[index]
    assert calls.longest(now) is None


def _get(address: str, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.fixture
def exposition() -> Iterator[tuple[Exposition, dict[str, str]]]:
    troubles: dict[str, str] = {}
    metrics = SelfMetrics()
    metrics.count(selfmetrics.WIRE_DECODED, 3)
    found = Exposition("127.0.0.1:0", metrics, lambda: troubles)
    yield found, troubles
    found.close()


def test_metrics_and_readiness_are_served(exposition: tuple[Exposition, dict[str, str]]) -> None:
    server, troubles = exposition
    assert _get(server.address, "/healthz") == (200, "ok\n")
    assert "sickbay_kernel_wire_decoded_frames_total 3.0" in _get(server.address, "/metrics")[1]
    assert _get(server.address, "/ready") == (200, "ready\n")
    troubles["diagnosis"] = "reads a backlog"
    assert _get(server.address, "/ready") == (503, "diagnosis: reads a backlog\n")
    assert _get(server.address, "/other")[0] == 404
    assert _get(server.address, "/metrics", "POST")[0] == 501


def test_idle_connections_hold_nobody_up(exposition: tuple[Exposition, dict[str, str]]) -> None:
    server, _ = exposition
    host, _, port = server.address.rpartition(":")
    idle = [socket.create_connection((host, int(port)), 5) for _ in range(3)]
    assert _get(server.address, "/healthz")[0] == 200
    for one in idle:
        one.close()


@pytest.mark.slow
def test_clients_that_send_a_byte_now_and_then_hold_nobody_up(
    exposition: tuple[Exposition, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sickbay.app.running.exposition.TIMEOUT_S", 0.5)
    server, _ = exposition
    host, _, port = server.address.rpartition(":")
    slow = [socket.create_connection((host, int(port))) for _ in range(8)]
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.1):
            for one in slow:
                with contextlib.suppress(OSError):
                    one.send(b"G")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        until = time.monotonic() + 4
        while time.monotonic() < until:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if _get(server.address, "/healthz")[0] == 200:
                    break
        else:
            pytest.fail("nobody was answered")
    finally:
        over.set()
        thread.join()
        for one in slow:
            one.close()


def test_an_address_in_use_is_a_clear_error(exposition: tuple[Exposition, dict[str, str]]) -> None:
    with pytest.raises(ConfigError, match=r"listen = .*in use"):
        Exposition(exposition[0].address, SelfMetrics())


def test_a_service_tells_what_is_not_ready() -> None:
    stage = Fake(waiting="reads a backlog")
    service, _ = _service(stage, config=replace(Config(), metrics=Metrics(listen="127.0.0.1:0")))
    assert service.troubles() == {"one": "starting"}
    thread, _ = _running(service)
    until = time.monotonic() + 5
    while service.troubles() != {"one": "reads a backlog"} and time.monotonic() < until:
        time.sleep(0.02)
    assert _get(service.listening, "/ready") == (503, "one: reads a backlog\n")
    stage.waiting = ""
    assert _get(service.listening, "/ready")[0] == 200
    service.beats["one"] -= 100
    assert "no step for" in str(service.troubles()) or service.troubles() == {}
    service.stop()
    thread.join(5)
