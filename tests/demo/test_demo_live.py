"""The live run: stages speak through the log only, so that any of them may die and come back."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from collectors.agent.framing import Sender
from collectors.identity import Names
from sickbay.app.demonstrating.agents import Agents, NewLines, Tail
from sickbay.app.demonstrating.demo import small_site, told
from sickbay.app.diagnosing.horizon import HORIZON_MS, Horizon
from sickbay.app.running.live import FrameReader, Pipeline
from sickbay.log import Record, Task
from sickbay.log.memory import MemoryLog
from sickbay.messages import Event, Severity, Step, encode
from sickbay.schema import Samples
from sickbay.topics import FEATURES
from simulator.scenario import scenario
from streams.window_task import Decoded

START = 1_773_194_400_000


class Crash(Exception):
    """The process ends here."""


def _night(seed: int, hook: Callable[[str], None] = lambda moment: None) -> set[tuple[object, ...]]:
    """What is said of a lost card in 150 s, with a pipeline that starts anew after each crash."""
    made = scenario(seed=4, hosts=4, timeout_s=60)
    made.at(50).fault("accelerator_off_bus")
    now = [made.start_ms]
    log = MemoryLog(small_site(), clock=lambda: now[0], seed=seed, hook=hook)
    agents = Agents(log, Names(made.cluster.identities()), made.cluster.hosts)
    agents.tell_facts(made.cluster.edges(), made.cluster.identities())
    pipeline = Pipeline(log)
    for second in made.seconds(150):
        now[0] = second.at_ms + 1000
        agents.tell_placements(second.placements)
        agents.tell_lines(told(second, made.start_ms), now[0])
        agents.tell_samples(second.samples, now[0])
        while True:
            try:
                pipeline.second(now[0])
                break
            except Crash:
                pipeline = Pipeline(log)
    incidents = pipeline.diagnoser.incidents
    return {(one.id, one.verdict, one.component, one.fault, one.action, one.state) for one in incidents}


@pytest.mark.slow
def test_crashes_around_commits_change_nothing() -> None:
    calm = _night(0)
    assert len(calm) == 1
    for seed, every in ((1, 7), (2, 23)):
        count = [0]

        def hook(moment: str, count: list[int] = count, every: int = every) -> None:
            count[0] += 1
            if count[0] % every == 0:
                raise Crash

        assert _night(seed, hook) == calm


def _samples(at_s: int, columns: tuple[str, ...] = ("power_watts",)) -> Samples:
    values = {column: np.array([float(at_s)]) for column in columns}
    return Samples("accelerator", ["accelerator:h1/0000:18:00"], np.array([START + 1000 * at_s]), values)


def test_frames_of_a_layout_not_seen_before_are_read() -> None:
    log = MemoryLog(small_site(), clock=lambda: START)
    agents = Agents(log, Names(()), ["h1"])
    for at_s in range(10):
        columns = ("power_watts",) if at_s < 5 else ("power_watts", "clock_megahertz")
        agents.tell_samples({"h1": [_samples(at_s, columns)]}, START + 1000 * at_s)
    read = FrameReader(log)
    frames = [read(record) for record in _records(log, "sickbay.telemetry.v1")]
    rows = [samples for frame in frames if isinstance(frame, Decoded) for samples in frame.samples]
    assert {tuple(sorted(samples.values)) for samples in rows} == {("power_watts",), ("clock_megahertz", "power_watts")}
    assert sorted(at for samples in rows for at in samples.at_ms.tolist()) == [START + 1000 * s for s in range(6)]


def _records(log: MemoryLog, topic: str) -> Iterator[Record]:
    for partition in range(small_site()[topic].partitions):
        yield from log.reader().read(Task(topic, partition), 0, 1000)


def test_frames_are_numbered_without_a_gap() -> None:
    sender = Sender("h1", 7)
    assert sender.frames(START) is None
    for at_s in range(3):
        sender.hold([_samples(at_s)])
        assert sender.frames(START)
    assert sender.sequence == 3


def test_lines_are_numbered_across_seconds_and_dated_by_their_reader_if_need_be() -> None:
    tail = Tail(Names(()))
    warning = "h1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.9<4> with status=12 opcode=0 len=0"
    assert not list(tail.read(NewLines("slurm-1.out", "one\ntwo", job="1"), START))
    (event,) = tail.read(NewLines("slurm-1.out", warning, job="1"), START + 5)
    assert isinstance(event, Event)
    assert (event.path, event.line, event.at_ms, event.job) == ("slurm-1.out", 3, START + 5, "1")


def test_the_horizon_forgets_what_is_old_and_counts_what_is_damaged() -> None:
    horizon = Horizon()
    old = Event(component="host:a", kind="host.boot", at_ms=START - HORIZON_MS - 1)
    new = Event(component="host:a", kind="host.panic", at_ms=START, severity=Severity.FATAL)
    assert not horizon.take(_record(encode(old)))
    assert horizon.take(_record(encode(new)))
    horizon.take(_record(encode(Step(step=1, job="1", at_ms=START))))
    case = horizon.case(START)
    assert [event.kind for event in case.events] == ["host.panic"]
    assert len(case.steps) == 1
    now = [START]
    log = MemoryLog(small_site(), clock=lambda: now[0])
    log.appender().append(FEATURES, b"x", b"rubbish")
    log.appender().append("sickbay.events.v1", b"x", b"{}")
    pipeline = Pipeline(log)
    for now[0] in (START, START + 1000):
        pipeline.second(now[0])
    assert pipeline.diagnoser.damaged == 2


def _record(value: bytes) -> Record:
    return Record("sickbay.events.v1", 0, 0, START, b"h", value)


@pytest.mark.parametrize("value", [b"\xff", b"[]", b'{"type":"event"}', b'{"type":"nobody"}'])
def test_damaged_messages_never_stop_the_stage(value: bytes) -> None:
    now = [START]
    log = MemoryLog(small_site(), clock=lambda: now[0])
    log.appender().append("sickbay.events.v1", b"x", value)
    pipeline = Pipeline(log)
    for now[0] in (START, START + 1000):
        assert pipeline.second(now[0]) == []
    assert pipeline.diagnoser.damaged == 1
