"""`sickbay report`: one incident's story out of a log, for people, scripts and browsers; hostile text stays text."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sickbay import messages
from sickbay.admission import Admission
from sickbay.app.asking.report import answer_of, as_json, page
from sickbay.app.asking.story import NoSuchIncident, Story, story
from sickbay.cli import main
from sickbay.log import Reader
from sickbay.log.memory import MemoryLog
from sickbay.log.sqlite import SqliteLog
from sickbay.messages import Incident, replace
from sickbay.seal import Seal, host_key, sealed
from tests.dashboards.story_kit import CARD, ID, T0, Clock, action, event, evidence, incident, night
from tests.dashboards.test_dashboards_report import HOSTILE, Page, inert


@pytest.fixture
def reader() -> Reader:
    clock = Clock()
    log = MemoryLog(clock=lambda: clock.now_ms)
    night().write(log, clock)
    return log.reader()


def test_a_story_holds_what_belongs_to_it_and_nothing_else(reader: Reader) -> None:
    told = story(reader, ID)
    assert [one.message.state for one in told.incidents] == ["open", "open", "closed"]
    assert [one.message.do for one in told.actions] == ["drain_host"] * 3 + ["requeue", "run_test", "release"]
    assert [one.message.result for one in told.outcomes] == ["refuted"]
    assert [one.message.message for one in told.events] == ["the device has fallen off the bus", "lost 3 lines"]
    assert told.evidence == {ID: T0 + 1200}
    assert [one.message.attempt for one in told.placements] == [0, 0, 1]
    assert told.cost().card_seconds == 520
    assert [row.what for row in told.rows()][-1] == "closed"


def test_an_id_may_be_cut(reader: Reader) -> None:
    assert story(reader, ID[:4]).incident.id == ID
    assert story(reader, "ffff0").incident.component == "host:n9"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("ffff", "2 incidents begin with 'ffff': ffff0000, ffff1111"),
        ("4f1", "needs 4 characters"),
        ("", "needs 4 characters"),
        ("nothing", "no incident 'nothing' among 3 in the log: see `sickbay incidents list`"),
        ("x" * 500, "no incident 'xxx"),
    ],
)
def test_what_is_not_there_or_not_one_is_told(reader: Reader, wanted: str, said: str) -> None:
    with pytest.raises(NoSuchIncident) as caught:
        story(reader, wanted)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 300


def test_what_was_done_for_a_merged_incident_is_part_of_the_story() -> None:
    clock = Clock()
    log = MemoryLog(clock=lambda: clock.now_ms)
    told = night()
    told.told += [
        (T0 + 400_000, incident(id="e9", state="merged", merged_into=ID)),
        (T0 + 400_000, replace(action("drain_host", action_state(), T0 + 400_000), id="a9", incident="e9")),
    ]
    told.write(log, clock)
    assert story(log.reader(), ID).actions[-1].message.incident == "e9"


def action_state() -> Any:
    from sickbay.actions import ActionState

    return ActionState.SHOWN


def test_damaged_records_are_left_out(reader: Reader) -> None:
    clock = Clock()
    log = MemoryLog(clock=lambda: clock.now_ms)
    for topic in ("incidents", "actions", "outcomes", "placement", "evidence", "events"):
        for value in (b"", b"\xff", b"{", b"[" * 50_000, b'{"type":"nobody"}', None):
            log.appender().append(f"sickbay.{topic}.v1", b"n2", value).result()
    night().write(log, clock)
    assert as_json(story(log.reader(), ID), "en") == as_json(story(reader, ID), "en")


def test_sealed_records_of_agents_are_read_and_those_of_another_host_are_not(reader: Reader) -> None:
    key, clock = b"k" * 32, Clock()
    log = MemoryLog(clock=lambda: clock.now_ms)
    night().write(log, clock)
    clock.now_ms = T0 + 302_000
    for host, text in (("n2", "sealed and ours"), ("n1", "an intruder's")):
        seal = Seal(host=host, incarnation=1, sequence=1)
        record = sealed(messages.encode(event(message=text, at_ms=T0 + 900)), seal, host_key(key, host))
        clock.now_ms = T0 + 60_000
        log.appender().append("sickbay.events.v1", b"n2", record).result()
    for admitted in (None, Admission(key)):
        said = [one.message.message for one in story(log.reader(), ID, admitted).events]
        assert "sealed and ours" in said
        assert "an intruder's" not in said
    assert [one.message.message for one in story(log.reader(), ID, Admission(key, True)).events] == ["sealed and ours"]


def test_scripts_get_the_whole_story(reader: Reader) -> None:
    told = json.loads(as_json(story(reader, ID), "en"))
    assert told["schema"] == "sickbay.report/1"
    assert told["state"] == "closed"
    assert told["incident"]["component"] == CARD
    assert told["timeline"][0] == {"at": "2027-01-15T08:00:00.000Z", "what": "onset", "detail": CARD}
    assert [one["do"] for one in told["actions"]] == ["drain_host", "requeue", "run_test", "release"]
    assert told["actions"][0]["state"] == "verified"
    assert told["outcomes"][0]["result"] == "refuted"
    assert told["cost"] == {
        "jobs": ["41"],
        "ranks": 4,
        "cards": 4,
        "card_seconds": 520.0,
        "open_jobs": [],
        "hosts": 4,
        "host_seconds": 520.0,
    }


def test_the_page_says_all_that_people_ask(reader: Reader) -> None:
    text = Page(page(story(reader, ID), "en")).text
    for said in (
        "The story of an incident", "has fallen off the bus", "97 %", "drain host", "done and read back", "act",
        "run test", "by anna", "job:41 attempt 1 on n1, n3, n4, n5", "520", "refuted", "closed", "08:00:02.290",
        "What speaks against it", "no new work", "lost 3 lines",
    ):  # fmt: skip
        assert said in text, said


def test_the_page_speaks_chinese(reader: Reader) -> None:
    text = Page(page(story(reader, ID), "zh")).text
    for said in ("故障始末", "何时发生了什么", "已执行并回读确认", "作业运行", "恢复使用", "卡秒数"):
        assert said in text, said


def test_nothing_done_is_said() -> None:
    told = Story(incidents=[_told(incident())])
    assert "the ledger has no line" in Page(page(told, "en")).text


def _told(one: Incident) -> Any:
    from sickbay.log.reading import Logged

    return Logged(T0, one)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_and_does_nothing(text: str) -> None:
    told = hostile(text)
    seen = inert(page(told, "en"))
    assert seen.text.count("host:") >= 3
    if "surrogate" not in text:  # half characters cannot come out of a log: JSON has none
        json.loads(as_json(told, "en"))


def hostile(text: str) -> Story:
    """A story whose every text is that one."""
    from sickbay.actions import ActionState, Outcome
    from sickbay.log.reading import Logged
    from sickbay.messages import Affected
    from tests.dashboards.story_kit import placement

    one = incident(
        component=f"host:{text}", summary=text, fault="host_down", affected=Affected(jobs=("41", text)),
        evidence=(evidence(component=f"host:{text}", says=text, facts={"message": text}, detector=text),),
    )  # fmt: skip
    done = action("drain_host", ActionState.VERIFIED, T0, target=f"host:{text}", why=text, read_back=text, by=text)
    odd = replace(done, id="b", do=text, state=ActionState.SHOWN)
    end = Outcome(id="o", incident=ID, target=f"host:{text}", result=text, detail=text, test=text)
    return Story(
        [Logged(T0, one), Logged(T0 + 1, replace(one, state="merged", merged_into=text))],
        [Logged(T0, done), Logged(T0, odd)], [Logged(T0, end)],
        [Logged(T0, event(component=f"host:{text}", code=text, message=text[:400]))], {},
        [Logged(T0, replace(placement(0, T0, T0 + 1, text, (text,)), job=text))],
    )  # fmt: skip


# ---- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Path]:
    clock = Clock()
    log = SqliteLog(tmp_path / "log", clock=lambda: clock.now_ms)
    night().write(log, clock)
    path = tmp_path / "sickbay.toml"
    path.write_text('[log]\nengine = "sqlite"\npath = "log"\n')
    yield path  # a log that another process has open can be reported from
    log.close()


def test_the_command_prints_the_story(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", ID[:6], "--config", str(settings)]) == 0
    out = capsys.readouterr().out
    assert f"COMPONENT  {CARD}" in out
    assert "What happened when  (state: closed)" in out
    assert "+2.3 s  drain host  host:n2 verified: n2 DRAIN" in out
    assert "accelerator seconds from the onset to running again: 520" in out
    assert "inputs understood" not in out


def test_the_command_writes_json_and_a_page(settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "story.html"
    assert main(["report", ID, "--config", str(settings), "--json", "--lang", "zh", "--html", str(target)]) == 0
    assert json.loads(capsys.readouterr().out)["incident"]["id"] == ID
    assert '<html lang="zh">' in target.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "no incident 'nothing'"),
        (["ffff"], "2 incidents begin with"),
        ([ID, "--html", "nowhere/x.html"], "there is no folder"),
        ([ID, "--config", "nowhere.toml"], "nowhere.toml"),
        ([], "report"),
    ],
)
def test_bad_usage_is_told(settings: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = [] if "--config" in arguments else ["--config", str(settings)]
    assert main(["report", *arguments, *config]) == 2
    assert said in capsys.readouterr().err


def test_reading_makes_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sickbay.toml"
    path.write_text('[log]\npath = "elsewhere"\n')
    assert main(["report", ID, "--config", str(path)]) == 2
    assert "there is no log at" in capsys.readouterr().err
    assert not (tmp_path / "elsewhere").exists()
    path.write_text('[log]\nengine = "memory"\n')
    assert main(["report", ID, "--config", str(path)]) == 2


def test_the_answer_keeps_the_contract_of_diagnose(reader: Reader) -> None:
    told = answer_of(story(reader, ID), "en")
    assert told.schema == "sickbay.diagnosis/1"
    assert told.incidents[0].id == ID
