"""A listener over a log, with TLS and tokens, and a client that asks it."""

import hashlib
import http.client
import json
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cramjam
import numpy as np

from collectors.listen.write_schema import request as v2
from collectors.listen.write_schema import write_request as v1
from sickbay import messages
from sickbay.app.listening.listener import Listener
from sickbay.app.running.live import FrameReader
from sickbay.app.running.service import Context
from sickbay.log import Log, Record, tasks_of
from sickbay.log.memory import MemoryLog
from sickbay.schema import Samples
from sickbay.seal import opened
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config, Security
from sickbay.source_settings import Listen
from streams.window_task import Decoded
from tests.services.process import found

CERTIFICATE = (
    "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=site",
    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "server.key", "-out", "server.crt",
)  # fmt: skip
ALL = ("metrics", "logs", "conditions", "changes", "maintenance", "records")
TELEMETRY, EVENTS, CHANGES = "sickbay.telemetry.v1", "sickbay.events.v1", "sickbay.changes.v1"
BACKFILL = "sickbay.backfill.v1"
NOW_MS = 1_773_201_600_000


def certified(folder: Path) -> None:
    """A certificate of its own for loopback, in `folder`."""
    openssl, *_ = found("openssl")
    subprocess.run([openssl, *CERTIFICATE], cwd=folder, check=True, capture_output=True, timeout=30)


def tokens(folder: Path, **rows: Mapping[str, Any]) -> Path:
    """A file of tokens: name -> hosts, kinds, rate; a token is its own name."""
    lines = []
    for name, row in rows.items():
        lines += [f"[{name}]", f'sha256 = "{hashlib.sha256(name.encode()).hexdigest()}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in row.items()]
    path = folder / "tokens.toml"
    path.write_text("\n".join(lines))
    return path


def config(folder: Path, *, key_file: str = "", require_signed: bool = False, **listen: Any) -> Config:
    """Settings of a listener on a free port of loopback; `all` may send all for hosts n*, `one` metrics of n1."""
    certified(folder)
    rows: dict[str, Mapping[str, Any]] = {
        "all": {"hosts": ["n*", "rack:*"], "kinds": ALL},
        "one": {"hosts": ["n1"], "kinds": ["metrics"]},
    }
    told: dict[str, Any] = {"address": "127.0.0.1:0", "tokens_file": str(tokens(folder, **rows))} | listen
    files = {"certificate_file": str(folder / "server.crt"), "private_key_file": str(folder / "server.key")}
    security = Security(key_file=key_file, require_signed=require_signed)
    return Config(listen=Listen(**(files | told)), security=security)


class Held:
    """A log whose appenders can be away."""

    def __init__(self, log: Log) -> None:
        self._log, self.away = log, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def appender(self) -> Any:
        return _Appender(self, self._log.appender())


class _Never:
    def done(self) -> bool:
        return False


class _Appender:
    def __init__(self, held: Held, appender: Any) -> None:
        self._held, self._appender = held, appender

    def append(self, *args: Any, **named: Any) -> Any:
        return _Never() if self._held.away else self._appender.append(*args, **named)

    def flush(self, limit_s: float | None = None) -> None:
        self._appender.flush(limit_s)

    def close(self) -> None:
        self._appender.close()


@dataclass
class Site:
    """A listener at work and what it wrote."""

    log: Any
    listener: Listener
    ca_file: str
    metrics: SelfMetrics
    said: list[str] = field(default_factory=list)

    def post(self, path: str, body: bytes, token: str = "all", method: str = "POST", **headers: str) -> "Answer":
        """One request of its own connection."""
        host, _, port = self.listener.address.rpartition(":")
        context = ssl.create_default_context(cafile=self.ca_file)
        connection = http.client.HTTPSConnection(host, int(port), timeout=15, context=context)
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):  # it answered before it had the body
                connection.request(method, path, body, {"Authorization": f"Bearer {token}"} | told)
            with connection.getresponse() as got:
                return Answer(got.status, got.read(), dict(got.getheaders()))
        finally:
            connection.close()

    def write(self, series: Any, token: str = "all", version: int = 1) -> "Answer":
        """One request of remote_write."""
        body = written(series) if version == 1 else written_v2(series)
        proto = "" if version == 1 else ";proto=io.prometheus.write.v2.Request"
        return self.post(
            "/api/v1/write", body, token, Content_Type=f"application/x-protobuf{proto}", Content_Encoding="snappy"
        )

    def records(self, topic: str) -> list[Record]:
        """Everything in a topic."""
        return records(self.log, topic)

    def told(self, topic: str) -> list[Any]:
        """The messages of a topic, in the order of its partitions."""
        return [messages.decode(opened(record.value or b"").payload) for record in self.records(topic)]

    def samples(self) -> list[Samples]:
        """What all frames tell."""
        return [batch for one in self.frames() for batch in one.samples]

    def frames(self) -> list[Decoded]:
        """All frames, those of packs too."""
        return frames(self.log)

    def values(self, table: str, column: str) -> dict[tuple[str, int], float]:
        """(component, time) -> value."""
        return values(self.samples(), table, column)


@dataclass
class Answer:
    """What a listener answered."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def records(log: Log, topic: str) -> list[Record]:
    """Everything in a topic, partition after partition."""
    reader, found = log.reader(), []
    for task in tasks_of(log.topics, [topic]):
        found += reader.read(task, reader.bounds(task).begin, 100_000)
    return found


def frames(log: Log, topics: Sequence[str] = (TELEMETRY, BACKFILL)) -> list[Decoded]:
    """All frames, those of packs and of backlogs too."""
    read, found = FrameReader(log), list[Decoded]()
    for record in [record for topic in topics for record in records(log, topic)]:
        if record.value:
            told = read(record)
            found += [told] if isinstance(told, Decoded) else list(told.members)
    return found


def values(samples: list[Samples], table: str, column: str) -> dict[tuple[str, int], float]:
    """(component, time) -> value of one column."""
    return {
        (name, at): value
        for batch in samples
        if batch.table == table and column in batch.values
        for name, at, value in zip(batch.component, batch.at_ms.tolist(), batch.values[column].tolist(), strict=True)
        if not np.isnan(value)
    }


@contextmanager
def site(folder: Path, log: Any = None, *, packs: bool = False, settings: Config | None = None) -> Iterator[Site]:
    """A listener; `packs`: a relay."""
    settings, metrics, said = settings or config(folder), SelfMetrics(), list[str]()
    log = log or MemoryLog()
    listener = Listener(Context(settings, log, metrics, said.append), packs=packs)
    try:
        yield Site(log, listener, str(folder / "server.crt"), metrics, said)
    finally:
        listener.close()


Points = list[tuple[float, int]]
Row = tuple[dict[str, str], Points]


def written(series: list[Row]) -> bytes:
    """A body of remote_write 1.0: labels and (value, ms) of each series."""
    message = v1()()
    for labels, told in series:
        one = message.timeseries.add()
        for name, value in labels.items():
            one.labels.add(name=name, value=value)
        for number, at_ms in told:
            one.samples.add(value=number, timestamp=at_ms)
    return bytes(cramjam.snappy.compress_raw(message.SerializeToString()))


def written_v2(series: list[Row]) -> bytes:
    """The same of 2.0."""
    message, places = v2()(), {"": 0}
    for labels, told in series:
        refs = [places.setdefault(word, len(places)) for pair in labels.items() for word in pair]
        one = message.timeseries.add(labels_refs=refs, created_timestamp=NOW_MS - 1_000_000)
        for number, at_ms in told:
            one.samples.add(value=number, timestamp=at_ms)
    message.symbols.extend(places)
    return bytes(cramjam.snappy.compress_raw(message.SerializeToString()))


def card(name: str, host: str = "n1", pci: str = "00000000:CB:00.0") -> dict[str, str]:
    """The labels of one exporter's series of one card."""
    return {
        "__name__": name, "Hostname": host, "gpu": "0", "UUID": "GPU-1", "pci_bus_id": pci, "instance": "10.0.0.1:9400",
    }  # fmt: skip
