"""Evidence of single events comes at once, under the ids of diagnosis; the parts that looks by log time rest on."""

from sickbay import messages
from sickbay.admission import Admission
from sickbay.app.diagnosing.diagnosis_inputs import Inputs
from sickbay.app.diagnosing.diagnosis_state import Memory, of_claims, of_incidents, read, task_of, without_claims
from sickbay.app.diagnosing.explicit import GROUP, explicit_maker
from sickbay.app.diagnosing.task_read import Stand, TaskRead, read_stand
from sickbay.app.diagnosing.window_clocks import WindowClocks
from sickbay.app.running.live import Pipeline
from sickbay.log import MAX_METADATA, Position, Record, Task
from sickbay.log.memory import MemoryLog
from sickbay.messages import Event, Evidence, Severity
from streams.feature_record import Clock
from streams.runner import Mark, Runner, read_mark
from tests.process.kit import EVENTS, EVIDENCE, INCIDENTS, SMALL, Agent, card, lost_card, only

START = 1_796_000_000_000


def test_an_event_is_evidence_at_once_under_the_id_that_diagnosis_gives_it() -> None:
    now = [START]
    log = MemoryLog(SMALL, clock=lambda: now[0])
    agent, pipeline = Agent("n1", log.appender(), key=None), Pipeline(log)
    explicit = Runner(log.join(GROUP, [EVENTS], "e"), explicit_maker(Admission()), group=GROUP)
    agent.say(lost_card("n1", START))
    agent.numbers[EVENTS] -= 1
    agent.say(lost_card("n1", START))  # again under its number
    agent.say(Event(component="port:n1/eth2", kind="port.down", at_ms=START, severity=Severity.ERROR, host="n1"))
    log.appender().append(EVENTS, b"n1", b"{]")
    explicit.drain()
    (record,) = only(log, EVIDENCE)
    claim = messages.decode(record.value or b"")
    assert isinstance(claim, Evidence)
    assert (claim.component, claim.fault) == (card("n1"), "accelerator_off_bus")
    for now[0] in range(START, START + 6000, 1000):
        pipeline.second(now[0])
    assert [one.key for one in only(log, EVIDENCE)].count(record.key) == 2  # the newest counts
    again = Runner(log.join(GROUP, [EVENTS], "e"), explicit_maker(Admission()), group=GROUP)
    before = len(only(log, EVIDENCE))
    again.drain()
    assert len(only(log, EVIDENCE)) == before


def test_what_a_commit_keeps_is_small_and_read_by_everybody() -> None:
    state = TaskRead(committed=5)
    state.heard(Record("t", 0, 9, START, b"", b""))
    position = state.position(Stand(frontier_ms=START, windows_ms=START, told_ms=START, behind=False, failed=True))
    assert len(position.metadata) < MAX_METADATA / 8
    assert read_stand(position).behind is False
    assert read_mark(position) == Mark(frontier_ms=START, low=9, clock_ms=START)
    assert read_stand(Position(7, "rubbish")) == Stand(low=7)
    assert position.offset == 10


def test_state_is_read_back_as_it_was_and_ends() -> None:
    now = [START]
    log = MemoryLog(SMALL, clock=lambda: now[0])
    assert read(log.reader(), SMALL) == Memory()
    agent, pipeline = Agent("n1", log.appender(), key=None), Pipeline(log)
    agent.say(lost_card("n1", START))
    for now[0] in range(START, START + 4000, 1000):
        pipeline.second(now[0])
    memory = read(log.reader(), SMALL)
    (bare,) = memory.bare
    assert (bare.plan, memory.told) == ((), pipeline.diagnoser.incidents)
    assert sum(memory.noted.values()) == len(memory.known) > 0
    task, put = task_of(SMALL), log.appender()
    ended = [
        *of_incidents({bare.id: bare}, [], task),
        *(one for at_ms, number in memory.noted.items() for one in without_claims(at_ms, number, task)),
    ]
    for one in ended:
        put.append(*one[:3], partition=one.partition)
    assert all(one.value is None for one in ended)
    left = read(log.reader(), SMALL)
    assert not left.known
    assert not list(of_incidents({bare.id: bare}, [bare], task))
    assert len(list(of_claims([str(number) for number in range(20_001)], START, task))) == 2
    assert only(log, INCIDENTS)


def test_clocks_tell_since_when_and_never_go_back() -> None:
    clocks = WindowClocks(1, 2)
    clocks.heard(0, START, Clock(0, START))
    assert clocks.since(0, START) is None
    clocks.heard(0, START + 50, Clock(1, START - 5))
    clocks.heard(0, START + 70, Clock(1, START + 5))
    assert (clocks.since(0, START - 5), clocks.since(0, START), clocks.since(0, START + 1)) == (
        START + 50, START + 70, None,
    )  # fmt: skip
    assert (clocks.by(START + 60), clocks.by(START + 70)) == (START - 5, START)
    assert clocks.since(0, START) == 0
    clocks.heard(0, START + 90, Clock(1, START - 90))
    assert clocks.by(START + 99) == START


def test_records_come_in_one_order_whatever_that_of_reading() -> None:
    a, b, facts = Task("a", 0), Task("b", 1), Task("f", 0)
    inputs = Inputs([a, b], [facts])
    for task, offset, at_ms in ((b, 0, 5), (b, 1, 7), (facts, 0, 6), (facts, 1, 1007), (a, 0, 5), (a, 1, 2000)):
        inputs.add(Record(*task, offset, at_ms, b"k", b"v"))
    assert (inputs.driven_ms, inputs.newest_ms, inputs.first_ms) == (7, 7, 5)
    found = [(one.topic, one.offset) for one in inputs.until(1006)]
    assert found == [("a", 0), ("b", 0), ("f", 0), ("b", 1)]
    assert [one.topic for one in inputs.until(1007)] == []
    assert [one.topic for one in inputs.until(2007)] == ["f", "a"]
