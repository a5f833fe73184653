"""From an explicit event to its evidence as a reader sees it, and to its incident by the log's own times; else idle.

The stages are the real command in a process of its own; each event is a card that fell off the bus, on a host of its
own. On the embedded log, and on one Kafka broker of this machine where that is installed (`make services`).
"""

import argparse
import os
import platform
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

from sickbay import messages
from sickbay.app.asking.incidents_topic import IncidentsView, told
from sickbay.config import load as load_config
from sickbay.log import Log, Task, tasks_of
from sickbay.log.opened import open_log
from sickbay.log.reading import Followed
from sickbay.messages import Event, Incident
from sickbay.topics import EVENTS, EVIDENCE, INCIDENTS
from sickbay.vocabulary import event_kinds

COUNT, LOAD = 100, 100_000
GAP_S = (0.2, 0.6)  # between two events, at random: no beat of ours shall fall in step with the stages'
START_S, END_S = 60.0, 20.0
STAGES = ("ticker", "windows", "explicit", "diagnosis", "lag")
LOOK_S = 0.005  # between two looks of the reader of evidence


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument(
        "--load", type=int, default=LOAD, help="accelerators whose telemetry is half load; 0: only without load"
    )


def measure(size: int | None = None, load: int = LOAD) -> dict[str, Any]:
    """Numbers over `size` events on each log, and over a broker at half load."""
    count = size or COUNT
    found = {}
    for name in ("sqlite", "kafka"):
        with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="sickbay-latency-") as folder:
            settings = _log(name, Path(folder), stack)
            if settings is not None:
                evidence_ms, incidents_ms = _measured(Path(folder), settings, count)
                found[name] = _numbers(evidence_ms) | _numbers(incidents_ms, "incident_")
    used = "kafka" if "kafka" in found else "sqlite"
    half_load: dict[str, Any] = {"half_load_p99_ms": None}
    if load and used == "kafka":
        from benchmarks.latency_load import numbers

        half_load = numbers(load, count)
    return {
        **found[used],
        **half_load,
        "by_log": found,
        "conditions": {
            "log": used,
            "events": count,
            "half_load_is": f"telemetry of {load} accelerators at 1 Hz: half of what is to be sustained",
            "gap_s": list(GAP_S),
            "stages": ", ".join(STAGES) + " in one process",
            "from_to": "before the event is handed to the log, to a reader of evidence that has it (wall clock)",
            "incident_from_to": "append time of the event to append time of its incident, which waits for a second",
            "cpus": os.cpu_count(),
            "load_1m": round(os.getloadavg()[0], 1),  # other work of this machine delays all of it
            "python": platform.python_version(),
            "machine": platform.machine(),
        },
    }


def _numbers(times_ms: Sequence[float], what: str = "") -> dict[str, float]:
    cuts = quantiles(times_ms, n=100, method="inclusive")
    return {f"{what}idle_p50_ms": round(cuts[49], 1), f"{what}idle_p99_ms": round(cuts[98], 1)}


def _log(name: str, folder: Path, stack: ExitStack) -> str | None:
    """The `[log]` section; None where that log is not installed."""
    if name == "sqlite":
        return 'path = "log"'
    from tests.services import kafka

    try:
        broker = stack.enter_context(kafka.running(folder / "kafka"))
    except BaseException as error:  # pytest's own way of saying that it is missing
        if isinstance(error, KeyboardInterrupt):
            raise
        return None
    return f'engine = "kafka"\nbrokers = "{broker.brokers}"\nreplication = 1'


def _measured(folder: Path, settings: str, count: int) -> tuple[list[float], list[int]]:
    """Milliseconds from each event to its evidence, and to its incident."""
    (folder / "sickbay.toml").write_text(f"[log]\n{settings}\n")
    with closing(open_log(load_config(folder / "sickbay.toml").log)) as log, _process(folder):
        view = IncidentsView(log.reader())
        _await(lambda: _seen(view).judged is not None, START_S, "heartbeat of diagnosis")
        return timed(log, count), _times(log)


def timed(log: Log, count: int, name: str = "n{}") -> list[float]:
    """Milliseconds from each of `count` events to its evidence, and waits for their incidents. `name`: of the hosts."""
    view, appender, chance, watch = IncidentsView(log.reader()), log.appender(), random.Random(1), _Watch(log)
    watch.start()
    said: dict[str, float] = {}
    for number in range(count):
        event = _event(number, name)
        said[event.component] = time.monotonic()
        appender.append(EVENTS, (event.host or "").encode(), messages.encode(event))
        appender.flush()
        time.sleep(chance.uniform(*GAP_S))
    _await(lambda: said.keys() <= watch.seen.keys(), END_S, f"evidence of {count} events")
    _await(lambda: len(_seen(view).incidents) >= count, END_S, f"{count} incidents")
    watch.over.set()
    watch.join(END_S)
    appender.close()
    return [(watch.seen[part] - at) * 1000 for part, at in said.items()]


class _Watch(threading.Thread):
    """Reads evidence as it comes; `seen`: when that of a component was there first."""

    def __init__(self, log: Log) -> None:
        super().__init__(daemon=True)
        self._topic = Followed(log.reader(), Task(EVIDENCE, 0))
        self.over, self.seen = threading.Event(), dict[str, float]()

    def run(self) -> None:
        while not self.over.wait(LOOK_S):
            for record in self._topic.read():
                if record.value:
                    self.seen.setdefault(messages.decode(record.value).component, time.monotonic())  # type: ignore[union-attr]


def _seen(view: IncidentsView) -> IncidentsView:
    view.read()
    return view


def _event(number: int, name: str = "n{}") -> Event:
    row = event_kinds()["accelerator.off_bus"]
    host, at_ms = name.format(number), time.time_ns() // 1_000_000
    return Event(
        component=f"accelerator:{host}/0000:{number % 8:02x}:00", kind="accelerator.off_bus", at_ms=at_ms, host=host,
        severity=row.severity, blame=row.blame, code="79", path=f"{host}/kmsg", line=1, message="fell off the bus",
    )  # fmt: skip


def _times(log: Log) -> list[int]:
    """Of each event that became an incident."""
    first: dict[str, int] = {}
    for at_ms, value in _records(log, INCIDENTS):
        incident = told(value)
        if isinstance(incident, Incident):
            first.setdefault(incident.component, at_ms)
    events = [(at_ms, messages.decode(value)) for at_ms, value in _records(log, EVENTS)]
    return [first[one.component] - at_ms for at_ms, one in events if isinstance(one, Event) and one.component in first]


def _records(log: Log, topic: str) -> Iterator[tuple[int, bytes]]:
    reader = log.reader()
    for task in tasks_of(log.topics, [topic]):
        offset = reader.bounds(Task(*task)).begin
        while records := reader.read(task, offset, 2000):
            yield from ((one.append_ms, one.value) for one in records if one.value)
            offset = records[-1].offset + 1


@contextmanager
def _process(folder: Path) -> Iterator[None]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "sickbay", "process", *STAGES]
    with (folder / "stderr").open("wb") as log:
        child = subprocess.Popen(command, cwd=folder, stderr=log, env=environment)
    try:
        yield
    finally:
        child.terminate()
        child.wait(30)


def _await(true: Callable[[], bool], limit_s: float, what: str) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} within {limit_s:.0f} s")
        time.sleep(0.2)
