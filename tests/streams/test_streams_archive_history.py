"""History: what people and notebooks ask of an archive."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from sickbay import actions, messages
from sickbay.actions import ActionState
from sickbay.history import History, NoArchive
from sickbay.history import told as told_messages
from sickbay.log.memory import MemoryLog
from sickbay.messages import Action, Event, Incident, Severity, Verdict
from sickbay.seal import Seal, sealed
from streams.archive import Archive
from streams.archive_table import ArchiveTable
from tests.streams.archive_kit import SMALL, START

DAY_MS = 86_400_000


class Told:
    """A log whose clock the test moves, and its archive."""

    def __init__(self, path: Path) -> None:
        self.now, self.path = START, path
        self.log = MemoryLog(SMALL, clock=lambda: self.now)
        self.appender = self.log.appender()

    def event(self, code: str, at_ms: int | None = None, sequence: int | None = None) -> None:
        payload = messages.encode(Event(component="host:n1", kind="kernel.panic", code=code, at_ms=at_ms))
        if sequence is not None:
            payload = sealed(payload, Seal(host="n1", incarnation=1, sequence=sequence))
        self.appender.append("sickbay.events.v1", b"n1", payload)

    def incident(self, id: str, state: str) -> None:
        one = Incident(id=id, verdict=Verdict.COMPONENT, component="host:n1", fault="host_down", state=state,
                       severity=Severity.ERROR, probability=0.9, action=Action.DRAIN_HOST)  # fmt: skip
        self.appender.append("sickbay.incidents.v1", id.encode(), messages.encode(one))

    def action(self, state: ActionState) -> None:
        one = actions.Action(id="a", incident="i1", do="drain_host", target="host:n1", state=state, at_ms=self.now)
        self.appender.append("sickbay.actions.v1", b"a", actions.encode(one))

    def history(self) -> History:
        topics = ("sickbay.events.v1", "sickbay.incidents.v1", "sickbay.actions.v1", "sickbay.features.v1")
        Archive(self.log, self.path, topics=topics).drain()
        return History(self.path)


def codes(frame: pl.LazyFrame) -> list[str]:
    return sorted(frame.collect()["code"].to_list())


def test_a_range_of_time_is_asked_by_when_it_happened(tmp_path: Path) -> None:
    told = Told(tmp_path)
    for day in range(4):
        told.now = START + day * DAY_MS
        told.event(f"day {day}", told.now)
    told.event("late", START + 5)  # told days after it happened
    told.event("undated")
    history = told.history()
    begin = datetime.fromtimestamp(START / 1000, UTC)
    assert codes(history.events(begin, START + DAY_MS)) == ["day 0", "late"]
    assert codes(history.events(START + DAY_MS, START + 2 * DAY_MS)) == ["day 1"]
    assert codes(history.events(since=START + 3 * DAY_MS)) == ["day 3", "undated"]
    assert len(codes(history.events())) == 6


@pytest.mark.slow
def test_only_the_days_that_may_hold_the_answer_are_read(tmp_path: Path) -> None:
    told = Told(tmp_path)
    for day in range(4):
        told.now = START + day * DAY_MS
        told.event(f"day {day}", told.now)
        plan = told.history().scan("events", since=told.now).explain()
    assert plan.count(".parquet") == 1


def test_an_event_that_was_sent_twice_counts_once(tmp_path: Path) -> None:
    told = Told(tmp_path)
    for code, sequence in (("a", 1), ("b", 2), ("a", 1), ("plain", None), ("plain", None)):
        told.event(code, START, sequence)
    history = told.history()
    assert codes(history.events()) == ["a", "b", "plain", "plain"]
    assert len(codes(history.scan("events"))) == 5
    assert history.events().collect_schema().names() == history.scan("events").collect_schema().names()


def test_incidents_and_actions_are_told_in_their_newest_state_or_as_they_stood_then(tmp_path: Path) -> None:
    told = Told(tmp_path)
    for state, act in (("open", ActionState.INTENDED), ("closed", ActionState.VERIFIED)):
        told.incident("i1", state)
        told.action(act)
        told.now += 60_000
    told.incident("i2", "open")
    history = told.history()
    newest = history.incidents().sort("id").collect()
    assert newest.select("id", "state").rows() == [("i1", "closed"), ("i2", "open")]
    assert history.incidents(until=START + 60_000).collect()["state"].to_list() == ["open"]
    assert history.incident("i1").state == "closed"
    assert history.actions().collect()["state"].to_list() == ["verified"]
    ledger = told_messages(history.scan("actions").sort("offset"), actions.Action)
    assert [(one.append_ms - START, one.message.state) for one in ledger] == [(0, "intended"), (60_000, "verified")]
    with pytest.raises(NoArchive, match="no incident 'i9'"):
        history.incident("i9")


def test_where_nothing_was_written_yet_the_tables_are_empty(tmp_path: Path) -> None:
    history = Told(tmp_path).history()
    assert history.incidents().collect().height == 0
    assert history.features("accelerator").collect().height == 0
    assert history.gaps().collect().height == 0


def test_no_archive_and_no_table_are_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoArchive, match=r"no archive here: name the folder of \[archive\] path"):
        History(tmp_path / "nowhere")
    ArchiveTable(tmp_path, "events", pl.Schema({"day": pl.Date()}))
    with pytest.raises(NoArchive, match="no table 'steps'; there are events"):
        History(tmp_path).steps()


@pytest.mark.slow
def test_history_needs_the_kernel_only_and_the_table_library_is_loaded_when_used() -> None:
    code = (
        "import sys, sickbay.history\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not names & {'streams', 'diagnosis', 'remediation', 'collectors', 'dashboards', 'deltalake'}, names\n"
        "import sickbay.app.archiving.archiver\n"
        "assert 'deltalake' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
