"""Hosts, exporters and logs for tests of the agent."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from sickbay import messages
from sickbay.log import Appender, Log, LogBusy, Outcome, Record, tasks_of
from sickbay.log.memory import MemoryLog
from sickbay.seal import Opened, opened
from sickbay.settings import Agent, Config

TELEMETRY, EVENTS, STEPS = "sickbay.telemetry.v1", "sickbay.events.v1", "sickbay.steps.v1"
XID = "NVRM: Xid (PCI:0000:cb:00): 79, pid=1234, name=python3, GPU has fallen off the bus."


def settings(folder: Path, host: str = "n1", **agent: Any) -> Config:
    """Settings of one host below `folder`."""
    root = folder / host
    root.mkdir(parents=True, exist_ok=True)
    told = {"kernel_log": "var/log/kern.log"} | agent
    return Config(agent=Agent(host=host, root=str(root), spool=str(folder / f"spool-{host}"), **told))


def kernel_log(config: Config) -> Path:
    """The host's kernel log, made where it is not there."""
    path = Path(config.agent.root) / config.agent.kernel_log
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def write(path: Path, text: str) -> None:
    """Append to a log as a logger does."""
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def wait_for(what: Callable[[], Any], timeout_s: float = 10.0) -> Any:
    """What `what` gives once it is true. Fails after the time."""
    deadline = time.monotonic() + timeout_s
    while not (found := what()):
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)
    return found


def records(log: Log, topic: str) -> list[Record]:
    """Everything in a topic, in the order of its append times."""
    reader, found = log.reader(), []
    for task in tasks_of(log.topics, [topic]):
        found += reader.read(task, reader.bounds(task).begin, 100_000)
    return sorted(found, key=lambda record: record.append_ms)


def told(log: Log, topic: str = EVENTS) -> list[Opened]:
    """Sealed records of a topic, opened, in the order of their numbers."""
    found = [opened(record.value or b"") for record in records(log, topic)]
    return sorted(found, key=lambda one: one.seal.sequence if one.seal else 0)


def events(log: Log, kind: str = "") -> list[messages.Event]:
    """Events in the log, of one kind."""
    found = [messages.decode(one.payload) for one in told(log)]
    return [one for one in found if isinstance(one, messages.Event) and (not kind or one.kind == kind)]


class Gate:
    """A log that can be away. `open`: whether it takes records."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self.log, self.open, self.tried = log or MemoryLog(), True, 0
        self._appender = self.log.appender()

    def connect(self) -> Appender:
        """As an agent opens it."""
        self.tried += 1
        if not self.open:
            raise LogBusy("no broker was reached")
        return self

    def append(self, topic: str, key: bytes, value: bytes | None, *, partition: int | None = None) -> Outcome:
        if not self.open:
            raise LogBusy("no broker was reached")
        return self._appender.append(topic, key, value, partition=partition)

    def flush(self, limit_s: float | None = None) -> None:
        self._appender.flush()

    def close(self) -> None:
        """The log itself stays."""


Answer = Callable[[socket.socket], None]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """A server that lets `answer` speak on each connection; its address as a URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.1)
    end = threading.Event()

    def one(connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(10)
                connection.recv(4096)
                answer(connection)
            except OSError:
                pass  # the agent went away, which is its right

    def run() -> None:
        while not end.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/metrics"
    finally:
        end.set()
        thread.join(5)
        listener.close()


def page(body: str | bytes) -> Answer:
    """Answers with this body."""
    raw = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(raw)}\r\n\r\n".encode()
    return lambda connection: connection.sendall(head + raw)


def exporter_page(host: str = "n1", cards: int = 2, power: float = 300.0) -> str:
    """What a card exporter says of `cards` cards."""
    rows = []
    for index in range(cards):
        labels = (
            f'gpu="{index}",UUID="GPU-00000000-0000-0000-0000-00000000000{index}",'
            f'pci_bus_id="00000000:{0xCB + index:02X}:00.0",device="nvidia{index}",modelName="H100",Hostname="{host}"'
        )
        rows += [
            f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} {power}",
            f"DCGM_FI_DEV_GPU_TEMP{{{labels}}} 61",
            f"DCGM_FI_DEV_XID_ERRORS{{{labels}}} 0",
        ]
    return "\n".join(rows) + "\n"


def plain(message: Any) -> dict[str, Any]:
    """A message as a plain table."""
    return msgspec.json.decode(messages.encode(message))  # type: ignore[no-any-return]
