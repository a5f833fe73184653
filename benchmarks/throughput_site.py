"""What the throughput benchmarks run: a real broker with small retention, a cluster's facts, the real stages, a sender.

Everything is a process of its own, started here and ended here by its id.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.throughput_load import Load
from sickbay import messages
from sickbay.app.asking.incidents_topic import IncidentsView
from sickbay.config import load as load_config
from sickbay.edges import log_key
from sickbay.log import Log, tasks_of
from sickbay.log.kafka_clients import confluent, properties
from sickbay.log.opened import open_log
from sickbay.settings import LogSettings
from sickbay.topics import FEATURES, MIB, PLACEMENT, TELEMETRY, TOPOLOGY
from simulator.telemetry import Fleet
from streams.runner import read_mark

RETENTION = {TELEMETRY: 128 * MIB, FEATURES: 64 * MIB}  # bytes a partition: what a benchmark sends would fill a disk
SEGMENT = 32 * MIB
BROKER: dict[str, Any] = {
    "log_initial_task_delay_ms": "1000",  # the tests' broker never removes anything
    "log_retention_check_interval_ms": "2000",
    "log_segment_delete_delay_ms": "1000",
    "num_network_threads": "1",  # a record costs 80 us of the broker, with two and four such threads 95
    "num_io_threads": "1",
    "socket_receive_buffer_bytes": "1048576",
    "log_cleaner_enable": "false",
}
JVM = "-XX:TieredStopAtLevel=4 -Xmx1g"  # the tests' broker compiles little and starts fast: here it shall run fast
WINDOWS = "streams.windows"
SPLIT = ("ticker,lag,explicit", "windows", "diagnosis")  # stages of each process
START_S = 120.0
BEGUN_S = 60.0  # less behind than this: not only started, but at work


class Look(NamedTuple):
    """How far behind the processors are, in seconds; `judged_s` None: diagnosis has not yet judged."""

    windows_s: float
    judged_s: float | None
    offset: int  # of all telemetry that was committed
    open: int  # incidents


@contextmanager
def broker(folder: Path) -> Iterator[Any]:
    """One real broker. Skips (raises) where it is not installed."""
    from tests.services import kafka

    before = os.environ.get("_JAVA_OPTIONS")
    os.environ["_JAVA_OPTIONS"] = JVM
    try:
        with kafka.running(folder / "kafka", **BROKER) as cluster:
            yield cluster
    finally:
        if before is None:
            del os.environ["_JAVA_OPTIONS"]
        else:
            os.environ["_JAVA_OPTIONS"] = before


def prepared(brokers: str, fleet: Fleet, folder: Path, retention: Mapping[str, int] = RETENTION) -> Log:
    """The log with its topics, their retention, and what the cluster is; and the settings file of the stages."""
    settings = f'[log]\nengine = "kafka"\nbrokers = "{brokers}"\nreplication = 1\n'
    (folder / "sickbay.toml").write_text(settings)
    told = load_config(folder / "sickbay.toml").log
    log = open_log(told)
    _keep_little(told, retention)
    _tell_facts(told, fleet)
    return log


def _keep_little(settings: LogSettings, retention: Mapping[str, int]) -> None:
    admin = confluent().admin
    client = admin.AdminClient(properties(settings))
    resources = [
        admin.ConfigResource(
            admin.ConfigResource.Type.TOPIC, settings.prefix + name, incremental_configs=[
                admin.ConfigEntry(key, str(value), incremental_operation=admin.AlterConfigOpType.SET)
                for key, value in (("retention.bytes", size), ("segment.bytes", min(SEGMENT, size // 2)))
            ])
        for name, size in retention.items()
    ]  # fmt: skip
    for future in client.incremental_alter_configs(resources).values():
        future.result(timeout=20)


def _tell_facts(settings: LogSettings, fleet: Fleet) -> None:
    """Placement and topology, as a scheduler's poller and a fabric's collector told them once."""
    producer = confluent().Producer(properties(settings, linger_ms=20, queue_buffering_max_messages=1_000_000))
    for placement in fleet.placements():
        producer.produce(settings.prefix + PLACEMENT, messages.encode(placement), placement.job.encode(), partition=0)
    for edge in fleet.edges():
        producer.produce(settings.prefix + TOPOLOGY, messages.encode(edge), log_key(edge).encode(), partition=0)
    if producer.flush(60):
        raise TimeoutError("the broker did not take the cluster's facts within 60 s")


class Child:
    """A process of ours with its files."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, **environment: str) -> None:
        self.name, self.folder, self._command, self._environment = name, folder, command, environment
        root = str(Path(__file__).parents[1])
        self._log = (folder / f"{name}.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, *command], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            env=os.environ | {"PYTHONPATH": root} | environment,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def alive(self) -> None:
        """Raises RuntimeError, with the end of what it said, where it has ended."""
        if self.process.poll() is not None:
            said = (self.folder / f"{self.name}.log").read_text(errors="replace")[-1500:]
            raise RuntimeError(f"{self.name} ended by itself with {self.process.returncode}: {said}")

    def say(self, line: str = "") -> None:
        """A line to its input."""
        assert self.process.stdin
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def hear(self) -> str:
        """A line of its output; empty where it ended."""
        assert self.process.stdout
        return self.process.stdout.readline().decode()

    def file(self, kind: str) -> Path:
        """A file of its own, `stats` or `account`."""
        return self.folder / f"{self.name}.{kind}"

    def kill(self) -> None:
        """A crash."""
        self.process.kill()
        self.end()

    def again(self) -> "Child":
        """The same command, started anew."""
        return Child(self.name, self._command, self.folder, **self._environment)

    def end(self, limit_s: float = 30.0) -> None:
        """TERM, and KILL where that does not help."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(limit_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        for stream in (self.process.stdin, self.process.stdout, self._log):
            if stream:
                stream.close()


def filesystem(folder: Path) -> str:
    """What the broker's data lie on: 100,000 accelerators write 42 MB/s, which not every disk takes many times over."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    return max((one for one in mounts if folder.resolve().is_relative_to(one[0])), key=lambda one: len(one[0]))[1]


def stages(folder: Path, split: Sequence[str] = SPLIT) -> list[Child]:
    """`sickbay process`, once for each part of the split, with an account of its time."""
    from sickbay.app.running.stages import STAGES

    found = []
    for place, names in enumerate(split):
        known = [name for name in names.split(",") if name in STAGES]
        if known:
            name = f"p{place}-{known[-1]}"
            command = ["-m", "benchmarks.accounting", str(folder / f"{name}.account"), *known]
            found.append(Child(name, command, folder, SICKBAY_MEMBER=name))
    return found


def sender(folder: Path, load: Load) -> tuple[Child, dict[str, Any]]:
    """The sender, ready to begin (`say`), and what it tells of itself."""
    child = Child("load", ["-m", "benchmarks.throughput_load", msgspec.json.encode(load).decode()], folder)
    facts = child.hear()
    if not facts:
        child.end()
        child.alive()
    return child, json.loads(facts)


class Watch:
    """How far the processors are, seen from outside."""

    def __init__(self, log: Log) -> None:
        self._log, self._reader, self._view = log, log.reader(), IncidentsView(log.reader())
        self._tasks = tasks_of(log.topics, [TELEMETRY])

    def look(self) -> Look:
        """Now."""
        now_ms = time.time_ns() // 1_000_000
        positions = self._reader.positions(WINDOWS, self._tasks)
        clocks = [read_mark(position).clock_ms for position in positions.values()]
        behind = (now_ms - min(clocks)) / 1000 if len(clocks) == len(self._tasks) else now_ms / 1000
        self._view.read()
        judged, open_ = self._view.judged, len(self._view.judged.open) if self._view.judged else 0
        offset = sum(position.offset for position in positions.values())
        return Look(behind, (now_ms - judged.as_of_ms) / 1000 if judged else None, offset, open_)


def until(true: Callable[[], bool], limit_s: float, what: str, children: Sequence[Child] = ()) -> None:
    """Returns once it is true. Raises TimeoutError, or RuntimeError where a child ended."""
    deadline = time.monotonic() + limit_s
    while not true():
        for child in children:
            child.alive()
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} within {limit_s:.0f} s")
        time.sleep(0.2)


def ready(watch: Watch, children: Sequence[Child]) -> None:
    """Returns once the stages work: windows commit ticks, diagnosis has judged. Raises TimeoutError or RuntimeError."""
    until(lambda: watch.look().windows_s < BEGUN_S, START_S, "work of the windows stage", children)
    until(lambda: watch.look().judged_s is not None, START_S, "heartbeat of diagnosis", children)


def accounts(children: Sequence[Child]) -> dict[str, float]:
    """Processor seconds of all stages so far, by what they were for."""
    total: dict[str, float] = {}
    for child in children:
        for what, seconds in json.loads(child.file("account").read_text())["cpu_s"].items():
            total[what] = total.get(what, 0.0) + seconds
    return total


def end_all(children: Sequence[Child]) -> None:
    """All at once asked to end, then each waited for."""
    for child in children:
        child.process.terminate()
    for child in children:
        child.end()
