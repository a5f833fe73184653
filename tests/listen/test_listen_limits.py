"""An agent and a listener of other settings or another version: nothing waits for ever, nothing is lost unseen."""

from pathlib import Path

import pytest

from sickbay import handover, messages
from sickbay.commands.doctor import _way
from sickbay.handover import Handed
from sickbay.log import TooLarge
from sickbay.log.https_appender import HttpsAppender
from sickbay.seal import Seal, sealed
from sickbay.topics import TOPICS
from tests.listen.listen_kit import EVENTS, NOW_MS, config, site
from tests.listen.test_listen_records import DEADLETTER, way
from tests.process.kit import lost_card


def said(sequence: int, size: int = 500) -> bytes:
    payload = messages.encode(messages.replace(lost_card("n1", NOW_MS), message="x" * size))
    return sealed(payload, Seal(host="n1", incarnation=7, sequence=sequence))


@pytest.mark.slow
def test_a_listener_that_takes_less_at_once_gets_less(tmp_path: Path) -> None:
    with site(tmp_path, settings=config(tmp_path, max_bytes=8 << 10)) as one:
        appender = HttpsAppender(way(one, tmp_path), TOPICS)
        outcomes = [appender.append(EVENTS, b"n1", said(number)) for number in range(1, 41)]
        appender.flush()
        assert all(outcome.result() for outcome in outcomes)
        assert len(one.told(EVENTS)) == 40
        appender.close()


def test_one_record_that_is_larger_is_hopeless(tmp_path: Path) -> None:
    with site(tmp_path, settings=config(tmp_path, max_bytes=8 << 10)) as one:
        appender = HttpsAppender(way(one, tmp_path), TOPICS)
        large = appender.append(EVENTS, b"n1", b"{" + b" " * 20_000 + b"}")
        small = appender.append(EVENTS, b"n1", said(1))
        with pytest.raises(TooLarge, match="max_bytes"):
            appender.flush()
        with pytest.raises(TooLarge):
            large.result()
        assert small.result()
        appender.close()


def test_a_topic_of_a_newer_agent_is_a_dead_letter(tmp_path: Path) -> None:
    with site(tmp_path) as one:
        body = handover.encode([Handed("sickbay.newer.v1", b"n1", b"{}"), Handed(EVENTS, b"n1", said(1))])
        answer = one.post("/v1/records", body, Content_Type=handover.TYPE)
        assert handover.decode_answers(answer.body) == ["", ""]
        assert len(one.told(EVENTS)) == 1
        assert b"no topic" in (one.records(DEADLETTER)[0].value or b"")


def test_doctor_tries_an_agent_s_way(tmp_path: Path) -> None:
    with site(tmp_path) as one:
        told = way(one, tmp_path)
        file = tmp_path / "agent.toml"
        lines = [f'{key} = "{getattr(told, key)}"' for key in ("engine", "url", "ca_file", "token_file")]
        file.write_text("\n".join(["[log]", *lines]))
        (check,) = _way(file)
        assert check.ok
        assert told.url in check.says
        (tmp_path / "token").write_text("of_nobody")
        (check,) = _way(file)
        assert check.ok is False
        assert "401" in check.says
        assert one.records(EVENTS) == []
