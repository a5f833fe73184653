"""Declared work, changes and a job's wishes, through the log into what diagnosis and remediation go by."""

from sickbay import actions, messages
from sickbay.actions import Control
from sickbay.app.asking.ledger_lines import controls_of
from sickbay.app.diagnosing import horizon
from sickbay.app.diagnosing.horizon import MEMORY_MS, Horizon
from sickbay.app.diagnosing.wishes import LONGEST_MS
from sickbay.app.running.live import Pipeline
from sickbay.log import Record
from sickbay.log.memory import MemoryLog
from sickbay.messages import Change, Edge, Event, Relation, Severity, Verdict
from sickbay.topics import CONTROL
from tests.process.kit import DEADLETTER, EVENTS, INCIDENTS, SMALL, Agent, everything, incidents, lost_card, only

NOW = 1_796_000_000_000
RACK = Edge(child="host:n1", parent="rack:r1", relation=Relation.PART_OF, from_ms=1)


def maintenance(target: str, from_ms: int, until_ms: int, at_ms: int = NOW) -> bytes:
    return actions.encode(
        Control(kind="maintenance", target=target, by="carol", at_ms=at_ms, from_ms=from_ms, until_ms=until_ms)
    )


class Site:
    """A log with a clock, one host's agent, and the stages."""

    def __init__(self) -> None:
        self.now_ms = NOW
        self.log = MemoryLog(SMALL, clock=lambda: self.now_ms)
        self.put = self.log.appender()
        self.agent = Agent("n1", self.put, key=None)
        self.pipeline = Pipeline(self.log)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now_ms += 1000
            self.agent.sample(self.now_ms)
            self.pipeline.second(self.now_ms)

    def verdicts(self) -> set[object]:
        return {told[0] for told in incidents(self.log).values()}


def test_work_that_is_declared_ended_and_damaged() -> None:
    site = Site()
    site.put.append("sickbay.topology.v1", b"edge", messages.encode(RACK))
    site.put.append(CONTROL, b"maintenance:rack:r1:a1", maintenance("rack:r1", NOW, NOW + 600_000))
    site.put.append(CONTROL, b"approval:x:carol", actions.encode(Control(kind="approval", target="x", by="c", at_ms=1)))
    site.put.append(CONTROL, b"junk", b"{]")
    site.run(3)
    site.agent.say(lost_card("n1", site.now_ms))
    site.run(3)
    assert site.verdicts() == {Verdict.MAINTENANCE}
    assert len(only(site.log, DEADLETTER)) == 1
    ended = maintenance("rack:r1", NOW, site.now_ms - 60_000, site.now_ms)
    site.put.append(CONTROL, b"maintenance:rack:r1:a1", ended)  # it was over before
    site.run(3)
    assert site.verdicts() == {Verdict.COMPONENT}
    again = Pipeline(site.log)  # a fresh process knows it too
    again.work(site.now_ms)
    assert list(again.diagnoser.horizon.maintenance) == [b"maintenance:rack:r1:a1"]
    assert only(site.log, INCIDENTS)


def test_a_jobs_wishes_become_controls_once() -> None:
    site = Site()
    for kind, facts in (
        ("job.restart_owner", {"owner": "framework" * 20}),
        ("job.no_stop_until", {"until_ms": str(NOW + 60_000)}),
        ("job.no_stop_until", {"until_ms": str(2**60)}),
        ("job.no_stop_until", {"until_ms": "soon"}),
    ):
        component = f"job:{kind[-5:]}{facts.get('until_ms', '')[-4:]}"
        told = Event(component=component, kind=kind, at_ms=NOW, host="n1", attributes=facts, severity=Severity.INFO)
        site.agent.say(told)
    site.run(2)
    found = {one.target: one for one in controls_of(everything(site.log, CONTROL), {}).values()}
    assert found["job:owner"].kind == "restart_owner"
    assert found["job:owner"].note == ("framework" * 20)[:60]
    until = {one.until_ms for one in found.values() if one.kind == "no_stop"}
    assert until == {NOW + 60_000, NOW + LONGEST_MS, 0}
    written = len(only(site.log, CONTROL))
    Pipeline(site.log).work(site.now_ms)
    assert len(only(site.log, CONTROL)) == written == 4
    assert only(site.log, EVENTS)


def record(value: bytes | None, topic: str, key: bytes = b"k", append_ms: int = NOW) -> Record:
    return Record(topic, 0, 0, append_ms, key, value)


def test_changes_and_declared_work_are_remembered_for_a_day_and_bounded(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    found = Horizon()
    change = Change(target="host:n1", what="driver", at_ms=NOW - 3_600_000, old="1", new="2")
    for _ in range(2):
        found.take(record(messages.encode(change), "sickbay.changes.v1"))
    found.take(record(messages.encode(Change(target="host:n1", what="image")), "sickbay.changes.v1"))
    assert found.take(record(maintenance("host:n1", NOW, NOW + 1), CONTROL, b"a"))
    assert not found.take(record(maintenance("host:n1", NOW, NOW + 1), CONTROL, b"a"))  # no news
    told = found.case(NOW)
    assert [(one.what, one.at_ms) for one in told.changes] == [("driver", NOW - 3_600_000), ("image", NOW)]
    assert [one.target for one in told.maintenance] == ["host:n1"]
    assert found.take(record(None, CONTROL, b"a"))  # taken back
    assert found.case(NOW).maintenance == ()
    monkeypatch.setattr(horizon, "MAX_CHANGES", 3)
    monkeypatch.setattr(horizon, "MAX_CONTROLS", 3)
    for number in range(9):
        found.take(record(messages.encode(Change(target=f"host:n{number}", what="x", at_ms=NOW)), "sickbay.changes.v1"))
        found.take(record(maintenance("host:n1", NOW, NOW + 1, NOW + number), CONTROL, b"%d" % number))
    told = found.case(NOW)
    assert (len(told.changes), [one.at_ms for one in told.maintenance]) == (3, [NOW + 6, NOW + 7, NOW + 8])
    later = found.case(NOW + MEMORY_MS + 10)
    assert (later.changes, later.maintenance) == ((), ())
