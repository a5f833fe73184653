"""The demo: right on every seed, honest where it is not, and the same twice."""

import json
from pathlib import Path

import pytest

from sickbay.app.demonstrating.demo import Outcome, night, run
from sickbay.app.demonstrating.demo_report import answer_of, as_json, write
from sickbay.cli import main


def _told(outcome: Outcome) -> str:
    """What went wrong, for the failure message."""
    wrong = [f"{one.expectation.name}: {one.why}" for one in outcome.scores if not one.right]
    return "; ".join([*wrong, *(f"unfounded: {i.component} {i.fault} {i.action}" for i in outcome.extra)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 7])
def test_a_few_seeds_are_right(seed: int) -> None:
    outcome = run(seed)
    assert outcome.right, _told(outcome)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_twenty_more_seeds_are_right(seed: int) -> None:
    outcome = run(seed)
    assert outcome.right, _told(outcome)


@pytest.mark.parametrize("seed", range(40))
def test_each_night_has_three_different_faults_and_a_decoy_each_on_its_own_job(seed: int) -> None:
    expected = night(seed).expectations()
    assert sum(one.decoy for one in expected) == 1
    assert len({one.name for one in expected}) == 4
    for one in expected:
        for other in expected:
            assert one is other or not one.touched & other.touched


@pytest.fixture(scope="module")
def short() -> Outcome:
    """A night that ends before all can be known: 100 s."""
    return run(6, until_s=100)


@pytest.mark.slow
def test_a_night_cut_short_is_not_called_right(short: Outcome) -> None:
    assert not short.right
    assert any(one.why == "no incident names it" for one in short.scores)


@pytest.mark.slow
def test_the_same_seed_finds_the_same_incidents_whatever_the_log_interleaves(short: Outcome) -> None:
    again = run(6, until_s=100)
    assert again.incidents == short.incidents
    assert again.found_s == short.found_s


@pytest.mark.slow
def test_the_json_tells_the_truth_beside_the_verdict(short: Outcome) -> None:
    told = json.loads(as_json(short))
    assert told["schema"] == "sickbay.demo/1"
    assert (told["seed"], told["accelerators"], told["simulated_s"], told["right"]) == (6, 64, 100, False)
    assert len(told["faults"]) == 3
    assert len(told["decoys"]) == 1
    assert all(fault["why"] for fault in told["faults"] if not fault["right"])


def test_the_report_shows_what_was_found(short: Outcome, tmp_path: Path) -> None:
    path = tmp_path / "demo.html"
    write(path, short, "en")
    page = path.read_text(encoding="utf-8")
    assert short.incidents
    assert "simulated cluster, seed 6" in page
    for incident in answer_of(short, "en").incidents:
        assert incident.component in page


def test_the_command_prints_as_it_goes_and_exits_by_the_truth(
    short: Outcome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(seed: int, **options: object) -> Outcome:
        say = options["say"]
        assert callable(say)
        for at_s, incident in enumerate(short.incidents):
            say(at_s, incident)
        return short

    monkeypatch.setattr("sickbay.app.demonstrating.demo.run", told)
    assert main(["demo", "--seed", "2"]) == 1
    out = capsys.readouterr().out
    assert "NO: no incident names it" in out
    assert "\x1b[" not in out
    assert main(["demo", "--seed", "2", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["right"] is False


def test_bad_usage_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seed", "-1"]) == 2
    assert main(["demo", "--seeds", "1"]) == 2
    assert main(["demo", "--report", "/nowhere/at/all.html"]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_report_without_its_libraries_is_refused_before_the_demo_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sickbay.commands.demo.find_spec", lambda name: None if name == "altair" else object())
    assert main(["demo", "--report", str(tmp_path / "x.html")]) == 2
    assert "altair" in capsys.readouterr().err
