"""Replay: an archived night says again what it said, to the byte, and says what would be otherwise."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sickbay.app.replaying import replay_span
from sickbay.app.replaying.replay_compare import against_run
from sickbay.app.replaying.replay_span import NothingThere, span, window_notes
from sickbay.cli import main
from sickbay.clock import rfc3339
from sickbay.history import History
from sickbay.settings import Windows
from sickbay.topics import EVIDENCE
from simulator.scenario import scenario
from tests.process.replay_kit import Night, incidents_in, incidents_of, night, replayed

pytestmark = pytest.mark.slow

SECONDS = 170


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    made = scenario(seed=4, hosts=6, timeout_s=60)
    made.at(40).fault("accelerator_off_bus")
    made.at(70).fault("host_out_of_memory")
    one = night(tmp_path_factory.mktemp("night"), made, SECONDS)
    yield one
    one.log.close()


def test_a_replay_of_the_whole_night_says_the_same_to_the_byte(lived: Night) -> None:
    outcome, run, at = replayed(lived, 0, lived.end_ms - 5_000)
    assert outcome.equal
    assert outcome.same == len(incidents_in(lived)) >= 2
    until = {key: values[: len(incidents_of(run).get(key, []))] for key, values in incidents_in(lived).items()}
    assert incidents_of(run) == until
    claims = lived.said(EVIDENCE)
    mine = {(key.encode(), one.value) for key, said in run.story.evidence.items() for one in said}
    assert mine <= set(claims)
    assert len(mine) >= 5
    assert not at.cut_ms
    assert run.fold.damaged == run.unreadable == 0


def test_a_replay_from_the_middle_begins_with_what_stood_then(lived: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_span, "WARM_MS", 90_000)  # all of the night that counts, as half an hour would be
    monkeypatch.setattr(replay_span, "HORIZON_MS", 85_000)
    since_ms = lived.begin_ms + 120_000
    outcome, _, at = replayed(lived, since_ms, lived.end_ms - 5_000)
    assert lived.begin_ms < at.begin_ms < at.cut_ms <= since_ms
    assert "memory is warm" in at.notes[0]
    assert outcome.equal


def command(capsys: pytest.CaptureFixture[str], one: Night, *more: str) -> tuple[int, dict[str, Any]]:
    begin, end = rfc3339(one.begin_ms), rfc3339(one.end_ms - 5_000)
    status = main(["replay", str(one.folder), "--from", str(begin), "--to", str(end), "--json", *more])
    return status, json.loads(capsys.readouterr().out)


def test_the_command_says_same_with_0_and_differs_with_1(
    lived: Night, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, told = command(capsys, lived)
    assert (status, told["same"], told["settings"], told["unreadable"]) == (0, True, None, 0)
    assert told["archive"]["incidents"]["same"] >= 2
    Path("never.toml").write_text("[remediation]\nfaults = []\n")
    status, told = command(capsys, lived, "--settings", "never.toml")
    assert (status, told["same"], told["archive"]["same"]) == (1, False, True)
    assert told["settings"]["incidents"]["different"] == []
    (hold,) = [one for one in told["settings"]["holds"] if "is no class" in one["after"]["why"]]
    assert hold["before"]["why"] == "would be done now"
    Path("slow.toml").write_text('[windows]\nlateness_s = 60\n[report]\nlang = "zh"\n')
    status, told = command(capsys, lived, "--settings", "slow.toml")
    assert status == 1
    assert told["settings"]["incidents"]["different"]


def test_the_command_tells_people_what_differs(
    lived: Night, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copy = tmp_path / "archive"
    shutil.copytree(lived.folder, copy)
    events = pl.read_delta(str(copy / "events"))
    lost = events.filter(pl.col("kind").str.contains("off_bus"))
    assert lost.height
    shutil.rmtree(copy / "events")
    events.filter(~pl.col("kind").str.contains("off_bus")).write_delta(str(copy / "events"))
    status = main(
        ["replay", str(copy), "--from", str(rfc3339(lived.begin_ms)), "--to", str(rfc3339(lived.end_ms - 5_000))]
    )
    out = capsys.readouterr().out
    assert status == 1
    assert "the archive and its replay differ" in out
    assert "drain_host" in out
    assert "nothing was done" in out or "none asked for" in out


def test_nothing_is_written_and_nothing_acts(lived: Night, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted((one, one.stat().st_mtime_ns) for one in lived.folder.rglob("*"))
    ends = {task: lived.log.reader().bounds(task) for task in _tasks(lived)}
    command(capsys, lived)
    assert sorted((one, one.stat().st_mtime_ns) for one in lived.folder.rglob("*")) == before
    assert {task: lived.log.reader().bounds(task) for task in _tasks(lived)} == ends


def _tasks(one: Night) -> list[Any]:
    from sickbay.log import tasks_of

    return tasks_of(one.log.topics, one.log.topics)


def test_a_replay_that_is_stopped_tells_how_far_it_came(
    lived: Night, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) > 100:
            raise KeyboardInterrupt

    monkeypatch.setattr("sickbay.commands.replay.time.sleep", sleep)
    status, told = command(capsys, lived, "--speed", "1000000")
    assert status == 130
    assert told["notes"][-1].startswith("stopped by hand")
    assert told["same"]
    assert rfc3339(lived.begin_ms) < told["to"] < (rfc3339(lived.end_ms - 5_000) or "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"), "the archive holds 2026-"),
        (("2020-01-02T00:00:00Z", "2020-01-01T00:00:00Z"), "--to must be after --from"),
        (("yesterday", "2020-01-01T00:00:00Z"), "no time: 'yesterday'"),
        (("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z", "--speed", "-1"), "--speed must be"),
        (("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z", "--settings", "none.toml"), "none.toml: No such file"),
    ],
)
def test_what_cannot_be_asked_for_ends_with_2(
    lived: Night, arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    begin, end, *more = arguments
    assert main(["replay", str(lived.folder), "--from", begin, "--to", end, *more]) == 2
    assert says in capsys.readouterr().err


def test_no_archive_and_one_of_another_version_are_told(
    lived: Night, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    span_of = ["--from", str(rfc3339(lived.begin_ms)), "--to", str(rfc3339(lived.end_ms))]
    assert main(["replay", str(tmp_path / "none"), *span_of]) == 2
    assert "no archive here" in capsys.readouterr().err
    copy = tmp_path / "archive"
    shutil.copytree(lived.folder, copy)
    events = pl.read_delta(str(copy / "events"))
    shutil.rmtree(copy / "events")
    events.drop("record").write_delta(str(copy / "events"))
    assert main(["replay", str(copy), *span_of]) == 2
    assert "another version of Sickbay wrote it: no column" in capsys.readouterr().err


def test_records_that_cannot_be_read_are_counted(
    lived: Night, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "archive"
    shutil.copytree(lived.folder, copy)
    events = pl.read_delta(str(copy / "events"))
    shutil.rmtree(copy / "events")
    strange = pl.when(pl.int_range(pl.len()) == 0).then(pl.lit('{"type":"omen"}')).otherwise("record")
    events.with_columns(strange.alias("record")).write_delta(str(copy / "events"))
    lived = Night(copy, lived.begin_ms, lived.end_ms, lived.log)
    assert command(capsys, lived)[1]["unreadable"] == 1


def test_what_minutes_and_gaps_cannot_tell_is_said(lived: Night, tmp_path: Path) -> None:
    copy = tmp_path / "archive"
    shutil.copytree(lived.folder, copy)
    from datetime import UTC, datetime

    history = History(copy)
    made = datetime.fromtimestamp((lived.begin_ms + 60_000) / 1000, UTC)
    history.minutes_until = lambda table: made if table == "accelerator" else None  # type: ignore[method-assign]
    at = span(history, lived.begin_ms, lived.end_ms)
    assert at.blind
    assert any("telemetry of accelerator is kept as one-minute rows up to" in one for one in at.notes)
    assert not any("telemetry of port" in one for one in at.notes)
    for name in [one for one in history.tables if one.startswith("telemetry_")]:
        shutil.rmtree(copy / name)
    at = span(History(copy), lived.begin_ms, lived.end_ms)
    assert any("no telemetry at full rate in that range" in one for one in at.notes)
    gap = pl.read_delta(str(copy / "gaps")).schema
    events = pl.read_delta(str(copy / "events")).sort("append_ms")
    row = events.row(events.height // 2, named=True)
    told = {name: row.get(name) for name in gap} | {"table": "events", "topic": "sickbay.events.v1"}
    told |= {"from_offset": row["offset"], "to_offset": row["offset"] + 1}
    pl.DataFrame([told], schema=gap).write_delta(str(copy / "gaps"), mode="append")
    notes = span(History(copy), lived.begin_ms, lived.end_ms).notes
    assert any(one.startswith("gap: 1 records of sickbay.events.v1") for one in notes)


def test_an_archive_with_nothing_to_replay_is_refused(lived: Night, tmp_path: Path) -> None:
    shutil.copytree(lived.folder / "edges", tmp_path / "edges")
    with pytest.raises(NothingThere, match="no telemetry, events or steps"):
        span(History(tmp_path), lived.begin_ms, lived.end_ms)


def test_two_runs_alike_do_not_differ(lived: Night) -> None:
    _, one, at = replayed(lived, 0, lived.begin_ms + 60_000)
    _, other, _ = replayed(lived, 0, lived.begin_ms + 60_000)
    assert against_run(one, other, at.since_ms, at.until_ms).equal
    assert one.holds.found == other.holds.found


def test_settings_of_other_windows_than_the_archive_has_are_told(lived: Night) -> None:
    at = span(lived.history, lived.begin_ms, lived.end_ms)
    assert window_notes(lived.history, at, Windows()) == []
    (wide,) = window_notes(lived.history, at, Windows(width_s=5))
    assert wide == "the archive's windows are of 10 s, these settings ask for 5 s"
    (late,) = window_notes(lived.history, at, Windows(lateness_s=3))
    assert late == "the archive's windows were closed 10 s after their end, these settings wait 3 s"


def test_an_archive_that_begins_later_goes_on_from_what_stood(lived: Night, tmp_path: Path) -> None:
    copy, first = tmp_path / "archive", lived.begin_ms + 120_000
    shutil.copytree(lived.folder, copy)
    for name in History(copy).tables:
        if name in ("events", "steps", "progress") or (name.startswith("telemetry_") and not name.endswith("_1m")):
            rows = pl.read_delta(str(copy / name))
            shutil.rmtree(copy / name)
            rows.filter(pl.col("append_ms") >= first).write_delta(str(copy / name))
    outcome, run, at = replayed(Night(copy, lived.begin_ms, lived.end_ms, lived.log), 0, lived.end_ms - 5_000)
    assert at.cut_ms == at.begin_ms >= first - 1_000
    assert "memory is not warm" in at.notes[1]
    assert all(one.before is not None for one in outcome.incidents)
    assert {one.id for one in run.fold.judge.incidents} == {key.decode() for key in incidents_in(lived)}


def test_a_detector_that_fails_is_told(
    lived: Night, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(case: object) -> list[object]:
        raise RuntimeError("no such luck")

    monkeypatch.setattr("sickbay.app.diagnosing.judge.detectors", lambda: {"lucky": broken})
    status, told = command(capsys, lived)
    assert status == 1
    assert any("detector lucky fails" in one and "no such luck" in one for one in told["notes"])
