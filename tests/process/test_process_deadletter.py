"""Dead letters for people: listed, read by scripts, put back once the cause is mended."""

import json
from pathlib import Path

import pytest

from sickbay.cli import main
from sickbay.log import Record
from sickbay.log.sqlite import SqliteLog
from streams.dead_letters import KEPT_BYTES, DeadLetter, DeadLetters, decode, encode
from tests.process.kit import DEADLETTER, EVENTS, only

NOW = 1_796_000_000_000


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sickbay.toml").write_text('[log]\npath = "log"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _put(site: Path, *values: bytes) -> None:
    log, letters = SqliteLog(site / "log"), DeadLetters()
    appender = log.appender()
    for offset, value in enumerate(values):
        letter = letters.letter(Record(EVENTS, 3, offset, NOW, b"n1", value), "not JSON\x1b[31m")
        assert letter
        appender.append(letter.topic, letter.key, letter.value)
    appender.close()
    log.close()


def test_letters_are_listed_for_people_and_scripts(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _put(site, b"rubbish", b"\xff\xfe")
    assert main(["deadletter", "list"]) == 0
    text = capsys.readouterr().out
    assert f"{EVENTS}[3] 0  n1  7 bytes: not JSON" in text
    assert "\x1b" not in text
    assert main(["deadletter", "list", "--json", "--topic", EVENTS, "--limit", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["number"] for one in told["letters"]] == [1]
    assert told["letters"][0]["letter"]["value"] == "//4="
    assert main(["deadletter", "list", "--topic", "other"]) == 0
    assert "no dead letters" in capsys.readouterr().out


def test_a_letter_of_no_possible_time_hides_no_other(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _put(site, b"rubbish")
    log = SqliteLog(site / "log")
    for at_ms in (2**62, -(2**62)):
        letter = DeadLetter(topic=EVENTS, partition=0, offset=1, append_ms=at_ms, reason="torn", value=b"x", size=1)
        log.appender().append(DEADLETTER, b"k", encode(letter)).result()
    log.close()
    assert main(["deadletter", "list"]) == 0
    text = capsys.readouterr().out
    assert text.count("torn") == 2
    assert "rubbish" not in text
    assert "7 bytes: not JSON" in text


def test_a_letter_goes_back_where_it_came_from(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _put(site, b"rubbish", b"x" * (KEPT_BYTES + 1))
    assert main(["deadletter", "replay", "0"]) == 0
    log = SqliteLog(site / "log")
    (record,) = only(log, EVENTS)
    assert (record.partition, record.key, record.value) == (3, b"n1", b"rubbish")
    log.close()
    assert main(["deadletter", "replay", "1", "7"]) == 1
    said = capsys.readouterr().err
    assert "only 65536 of its 65537 bytes" in said
    assert "no such letter" in said
    assert main(["deadletter", "replay"]) == 2
    assert main(["deadletter", "replay", "0", "0"]) == 0  # each once
    log = SqliteLog(site / "log")
    assert [one.value for one in only(log, EVENTS)] == [b"rubbish"] * 2
    log.close()


@pytest.mark.parametrize("words", [["--limit", "0"], ["--limit", "-3"], ["--limit", "x"], ["x"], ["--topic"]])
def test_a_wrong_request_is_told(site: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    _put(site, b"rubbish")
    assert main(["deadletter", "list", *words]) == 2
    assert capsys.readouterr().err


def test_records_of_the_topic_that_are_no_letters_are_passed_over(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = SqliteLog(site / "log")
    appender = log.appender()
    for value in (b"", b"{", b"\xff" * 100, b"[]", b'{"topic": 1}', None):
        appender.append(DEADLETTER, b"k", value)
    appender.close()
    log.close()
    _put(site, b"one", b"two", b"three")
    assert main(["deadletter", "list", "--limit", "2"]) == 0
    assert capsys.readouterr().out.count("not JSON") == 2
    assert main(["deadletter", "list", "6", "2", "999"]) == 0
    assert capsys.readouterr().out.count("not JSON") == 1
    assert main(["deadletter", "replay", "2"]) == 1
    assert "no such letter" in capsys.readouterr().err


def test_a_letter_fits_its_topic_whatever_it_holds() -> None:
    letter = DeadLetters().letter(Record(EVENTS, 0, 1, NOW, b"\xff" * 1000, b"\x00" * 10**6), "\ud800" * 1000)
    assert letter
    assert len(letter.value or b"") < 128 * 1024
    assert decode(letter.value or b"").size == 10**6
