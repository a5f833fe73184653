"""`sickbay maintenance` and `sickbay change post`: what they write, what they show, what they refuse."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sickbay import actions, messages
from sickbay.actions import Control
from sickbay.app.asking import declaring
from sickbay.app.asking.declaring import Declared, Unfit, declared_work, ended, moment, parts, tell_work, work
from sickbay.app.asking.ledger_lines import CONTROL, controls_of
from sickbay.cli import main
from sickbay.edges import log_key
from sickbay.log import Task
from sickbay.log.memory import MemoryLog
from sickbay.log.reading import records
from sickbay.log.sqlite import SqliteLog
from sickbay.messages import Change, Edge, Relation
from sickbay.topics import CHANGES, TOPOLOGY

NOW = 1_790_000_000_000
HOUR = 3_600_000


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteLog]:
    monkeypatch.chdir(tmp_path)
    made = SqliteLog(tmp_path / "sickbay-log")
    yield made
    made.close()


def controls(log: SqliteLog) -> list[Control]:
    return list(controls_of(records(log.reader(), CONTROL), {}).values())


def told(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    assert main([*arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_work_is_declared_listed_and_ended(log: SqliteLog, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.time_ns() // 1_000_000
    added = told(
        capsys, "maintenance", "add", "n[1-2]", "rack:r7", "--until", "2h", "--by", "carol", "--note", "new riser"
    )  # fmt: skip
    (own,) = {row["id"] for row in added["maintenance"]}
    said = controls(log)
    assert [one.target for one in said] == ["host:n1", "host:n2", "rack:r7"]
    assert {(one.kind, one.by, one.note) for one in said} == {("maintenance", "carol", "new riser")}
    assert all(one.from_ms is not None and began <= one.from_ms <= one.at_ms for one in said)
    assert all((one.until_ms or 0) - (one.from_ms or 0) == 2 * HOUR for one in said)
    assert main(["maintenance", "list"]) == 0
    shown = capsys.readouterr().out
    assert shown.count(own) == 3
    assert shown.count("holds") == 3
    assert len(told(capsys, "maintenance", "end", "n2", "--by", "dan")["maintenance"]) == 1
    assert [row["control"]["target"] for row in told(capsys, "maintenance", "list")["maintenance"]] == [
        "host:n1", "rack:r7",
    ]  # fmt: skip
    assert len(told(capsys, "maintenance", "end", own)["maintenance"]) == 2
    assert all(not one.holds(time.time_ns() // 1_000_000) for one in controls(log))
    assert "ended by dan" in controls(log)[1].note
    assert main(["maintenance", "list"]) == 0
    assert capsys.readouterr().out == "no declared work\n"
    assert len(told(capsys, "maintenance", "list", "--all")["maintenance"]) == 3
    assert main(["maintenance", "end", own]) == 2
    assert "maintenance list" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["add", "n1"], "until when"),
        (["add", "--until", "2h"], "which parts"),
        (["end"], "which parts"),
        (["list", "n1"], "no parts"),
        (["add", "n1", "--until", "soon"], "no time: 'soon'"),
        (["add", "n1", "--until", "2020-01-01T00:00:00Z"], "set --until later"),
        (["add", "n1", "--until", "40d"], "30 days"),
        (["add", "n1", "--from", "2020-01-01", "--until", "2020-01-05"], "set --until later"),
        (["add", "shelf:7", "--until", "2h"], "no part"),
        (["add", "host:", "--until", "2h"], "no part"),
        (["add", "host:?", "--until", "2h"], "no part"),
        (["add", "host:a b", "--until", "2h"], "no part"),
        (["add", "n[1-", "--until", "2h"], "no host"),
        (["add", "n[1-999999]", "--until", "2h"], "no host"),
        (["add", "", "--until", "2h"], "no host"),
        (["end", "n7"], "maintenance list"),
    ],
)
def test_what_cannot_be_declared_is_refused_and_nothing_is_written(
    log: SqliteLog, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["maintenance", *arguments]) == 2
    assert says in capsys.readouterr().err
    assert controls(log) == []


def topology(log: SqliteLog, *edges: tuple[str, str]) -> None:
    appender = log.appender()
    for child, parent in edges:
        edge = Edge(child=child, parent=parent, relation=Relation.ATTACHED_TO, source="inventory:x")
        appender.append(TOPOLOGY, log_key(edge).encode(), messages.encode(edge))
    appender.flush()
    appender.close()


def test_a_part_that_the_topology_does_not_name_is_pointed_out(
    log: SqliteLog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["change", "post", "switch:leaf9", "config"]) == 0
    out, said = capsys.readouterr()
    assert said == "", "who knows no switch cannot judge"
    assert "  " not in out
    topology(log, ("host:n1", "switch:leaf-8"), ("port:n2/e0", "port:leaf-7/e1"))
    assert main(["change", "post", "switch:leaf-9", "config"]) == 0
    out, said = capsys.readouterr()
    assert out.startswith("told: ")
    assert "did you mean switch:leaf-8?" in said
    for known in ("switch:leaf-8", "switch:leaf-7", "n2", "rack:r1"):
        assert main(["change", "post", known, "config"]) == 0
        assert capsys.readouterr().err == "", known
    assert main(["maintenance", "add", "n[1-3]", "--until", "2h"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "host:n3" in line


def test_a_change_is_posted(log: SqliteLog, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["change", "post", "n1", "driver", "--old", "550.54", "--new", "570.86", "--who", "dan", "--note", "T-1"]
    assert main([*line, "--at", "2026-03-11T04:00:00Z"]) == 0
    assert "driver of host:n1 550.54 to 570.86" in capsys.readouterr().out
    said = told(capsys, "change", "post", "switch:leaf-2", "config")
    assert (said["type"], said["target"], said["what"]) == ("change", "switch:leaf-2", "config")
    found = [messages.decode(one.value or b"") for one in records(log.reader(), Task(CHANGES, 0))]
    assert found[0] == Change(
        target="host:n1", what="driver", at_ms=1_773_201_600_000, who="dan", old="550.54", new="570.86", message="T-1"
    )
    for wrong in (["n[1-2]", "driver"], ["?:x", "driver"], ["n1", " "], ["n1", "driver", "--at", "then"]):
        assert main(["change", "post", *wrong]) == 2


def test_a_log_that_nobody_else_reads_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sickbay.toml").write_text('[log]\nengine = "memory"\n')
    config = ["--config", str(tmp_path / "sickbay.toml")]
    assert main(["maintenance", "add", "n1", "--until", "1h", *config]) == 2
    assert main(["change", "post", "n1", "driver", *config]) == 2
    assert "no other process could read it" in capsys.readouterr().err


def test_times_are_the_clusters_where_no_zone_is_told() -> None:
    from zoneinfo import ZoneInfo

    east = ZoneInfo("Asia/Shanghai")
    assert moment("now", NOW, east) == NOW
    assert moment("90s", NOW, east) == NOW + 90_000
    assert moment("2026-03-11T12:00:00", NOW, east) == moment("2026-03-11T04:00:00Z", NOW, east)
    for wrong in ("", "-2h", "2w", "1e9h", "9999999d", "12:00"):
        with pytest.raises(Unfit):
            moment(wrong, NOW, east)


def test_parts_are_named_once_and_are_not_too_many() -> None:
    assert parts(["n1", "host:n1", "n[1-2]"]) == ["host:n1", "host:n2"]
    with pytest.raises(Unfit, match="rack or a switch"):
        parts([f"n[{first}-{first + 999}]" for first in range(0, 4_000, 1_000)])


def test_work_to_come_that_is_ended_never_holds() -> None:
    log = MemoryLog(clock=lambda: NOW)
    to_come = work(["host:n1"], NOW + HOUR, NOW + 2 * HOUR, "carol", "", NOW)
    tell_work(log, to_come)
    (known,) = declared_work(log)
    assert known == to_come[0]
    assert not known.control.holds(NOW)
    assert known.control.holds(NOW + HOUR)
    tell_work(log, ended([known], [known.id], "dan", NOW + 1))
    ((_, over),) = declared_work(log)
    assert not any(over.holds(NOW + hours * HOUR) for hours in range(4))


def test_what_people_write_cannot_act_on_the_terminal() -> None:
    one = Declared("a1", work(["host:n1"], NOW, NOW + HOUR, "\x1b[31mcarol", "\x07\n" * 9, NOW)[0].control)
    line = declaring.line_of(one, NOW)
    assert line.isprintable()
    assert actions.decode(actions.encode(one.control)) == one.control
