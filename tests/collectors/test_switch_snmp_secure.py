"""SNMP by a user of version 3 against Debian's own agent: authenticated, encrypted, and what does not work said."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.cluster.poll import Polled, PollFailed, Source, sources
from sickbay.config import ConfigError
from sickbay.messages import Event
from sickbay.settings import Config
from sickbay.source_settings import Snmp
from tests.services import snmp

pytestmark = pytest.mark.service

ROWS = {
    "1.3.6.1.2.1.99.1.1.1.1.7": ("integer", "8"),
    "1.3.6.1.2.1.99.1.1.1.2.7": ("integer", "9"),
    "1.3.6.1.2.1.99.1.1.1.3.7": ("integer", "1"),
    "1.3.6.1.2.1.99.1.1.1.4.7": ("integer", "415"),
    "1.3.6.1.2.1.99.1.1.1.5.7": ("integer", "1"),
    "1.3.6.1.2.1.47.1.1.1.1.2.7": ("string", "board temperature"),
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[snmp.Agent]:
    with snmp.running(tmp_path_factory.mktemp("snmp"), ROWS) as served:
        yield served


def settings(folder: Path, *targets: str, **more: Any) -> Snmp:
    (folder / "auth").write_text(snmp.AUTH_KEY + "\n")
    (folder / "privacy").write_text(snmp.PRIVACY_KEY + "\n")
    told: dict[str, Any] = {
        "targets": targets, "user": snmp.USER, "auth_key_file": str(folder / "auth"),
        "privacy_key_file": str(folder / "privacy"), "timeout_s": 4.0,
    }  # fmt: skip
    return Snmp(**(told | more))


def asking(found: Snmp) -> Source[Any]:
    (source,) = sources(["snmp"], Config(snmp=found))
    return source


def rows(polled: Polled[Any]) -> dict[str, float]:
    told = [one for one in polled.samples if "temperature_celsius" in one.values]
    return {name: float(one.values["temperature_celsius"][at]) for one in told for at, name in enumerate(one.component)}


def test_two_devices_are_read_side_by_side_round_after_round(agent: snmp.Agent, tmp_path: Path) -> None:
    source = asking(settings(tmp_path, f"leaf9={agent.address}", f"leaf8={agent.address}"))
    now_ms = round(time.time() * 1000)
    for at_ms in (now_ms, now_ms + 61_000):
        polled = source.poll(source.state, at_ms)
        assert rows(polled) == {"switch:leaf9": 41.5, "switch:leaf8": 41.5}


def test_an_agent_that_began_anew_is_heard_in_the_next_round(agent: snmp.Agent, tmp_path: Path) -> None:
    source = asking(settings(tmp_path, f"leaf9={agent.address}"))
    source.poll(source.state, round(time.time() * 1000))
    agent.restart()
    polled = source.poll(source.state, round(time.time() * 1000))
    assert [one.message.code for one in polled.told if isinstance(one.message, Event)] == ["agent restarted"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"user": "stranger"}, "(?i)unknown ?user ?name|unknown USM user"),
        ({"auth_key_file": "privacy"}, "(?i)digest|authentic"),
        ({"privacy_key_file": "auth"}, "(?i)leaf9: "),
        ({"auth_protocol": "sha"}, "(?i)digest|authentic"),
    ],
)
def test_a_user_that_is_not_let_in_is_a_failure_that_says_so(
    agent: snmp.Agent, tmp_path: Path, more: dict[str, str], why: str
) -> None:
    wrong = {key: str(tmp_path / value) if key.endswith("_file") else value for key, value in more.items()}
    source = asking(settings(tmp_path, f"leaf9={agent.address}", **wrong))
    with pytest.raises(PollFailed, match=why):
        source.poll(source.state, round(time.time() * 1000))


def test_settings_of_a_user_that_cannot_work_are_told(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("secret\n")
    for more, text in (
        ({"auth_key_file": ""}, "auth_key_file: name a file"),
        ({"privacy_key_file": ""}, "privacy_key_file: name a file"),
        ({"auth_key_file": str(tmp_path / "none")}, "No such file"),
        ({"privacy_key_file": str(tmp_path / "short")}, "at least 8"),
        ({"community_file": "x"}, "take one of the two out"),
    ):
        with pytest.raises(ConfigError, match=text):
            asking(settings(tmp_path, "a=h", **more))
