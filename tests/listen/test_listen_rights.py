"""A token says what it is bound to, and nothing else: whatever it sends, no other host's part is spoken of."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from collectors.formats.json_lines import of_person
from collectors.host.journal_follow import of_user
from collectors.listen.memory import SeriesMemory
from sickbay import handover, messages
from sickbay.admission import Admission, Refused, own_word
from sickbay.app.listening.tokens import Grant, Row
from sickbay.handover import Handed
from sickbay.log import Record
from sickbay.log.memory import MemoryLog
from sickbay.messages import Event
from sickbay.seal import Seal, host_key, sealed
from sickbay.settings import Security
from tests.listen.listen_kit import ALL, EVENTS, NOW_MS, config, records, site, tokens
from tests.listen.test_listen_otlp import LOST, events, journal, logs, text
from tests.process.kit import KEY, lost_card

DEADLETTER = "sickbay.deadletter.v1"


def grant(*hosts: str) -> Grant:
    return Grant("t", Row(sha256=hashlib.sha256(b"t").hexdigest(), hosts=hosts, kinds=ALL), SeriesMemory())


@pytest.mark.parametrize(
    ("hosts", "yes", "no"),
    [
        (("r*",), ("host:r1", "accelerator:r1/0", "switch:r9"), ("rack:r7", "rank:j/1", "host:s1")),
        (("*",), ("host:n1", "switch:leaf1"), ("rack:r7", "job:7", "pdu:p1", "link:n1/x~?", "nonsense:x", "nonsense")),
        (("n1", "rack:*"), ("host:n1", "rack:r7"), ("host:N1", "host:n1.", "host:n10", "host:n1.evil", "pdu:p1")),
        (("n[12]",), ("host:n2",), ("host:n3", "host:n[12]")),
        (("*:*",), ("rack:r7", "pdu:p1"), ("host:n1", "accelerator:n1/rack:r7", "host:rack:r7")),
    ],
)
def test_a_pattern_of_hosts_fits_hosts_alone(hosts: tuple[str, ...], yes: tuple[str, ...], no: tuple[str, ...]) -> None:
    told = grant(*hosts)
    assert [one for one in yes if not told.allowed(one)] == []
    assert [one for one in no if told.allowed(one)] == []


def said(kind: str, component: str, host: str = "n1") -> Event:
    return replace(lost_card("n1", NOW_MS), kind=kind, component=component, host=host)


STRANGE = (
    said("accelerator.off_bus", "accelerator:n2/0000:cb:00"),
    said("accelerator.off_bus", "accelerator:?/0000:cb:00", "n2"),
    said("switch.asic_fatal", "switch:leaf1"),
    said("pdu.tripped", "pdu:p1"),
    said("link.down", "link:n2/mlx5_0/1~leaf1/e1"),
    said("scheduler.accelerators_fewer", "host:n2"),
    said("scheduler.accelerators_fewer", "host:n2", ""),
    said("rank.device_error", "accelerator:n2/0000:cb:00", ""),
    said("path.not_connected", "host:n2", ""),
)
OWN = (
    said("accelerator.off_bus", "accelerator:n1/0000:cb:00"),
    said("link.down", "link:leaf1/e1~n1/mlx5_0/1"),
    said("scheduler.accelerators_fewer", "host:n1"),
    said("rank.collective_timeout", "rank:j1/3", "n2"),  # a shared job log
)


@pytest.mark.parametrize("seal", ["sealed", "bare", "signed"])
def test_a_host_s_token_tells_of_no_other_part(tmp_path: Path, seal: str) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(KEY.hex())
    settings = config(tmp_path, key_file=str(key_file) if seal == "signed" else "")
    tokens(tmp_path, mine={"hosts": ["n1"], "kinds": ALL})
    key = host_key(KEY, "n1") if seal == "signed" else None
    told = []
    for place, event in enumerate((*STRANGE, *OWN)):
        payload = messages.encode(event)
        number = Seal(host="n1", incarnation=7, sequence=place + 1)
        told.append(Handed(EVENTS, b"n1", payload if seal == "bare" else sealed(payload, number, key)))
    log = MemoryLog()
    with site(tmp_path, log, settings=settings) as one:
        answer = one.post("/v1/records", handover.encode(told), "mine", Content_Type=handover.TYPE)
        assert handover.decode_answers(answer.body) == [""] * len(told)  # none of them stops its agent for ever
        assert one.told(EVENTS) == list(OWN)
        assert len(records(log, DEADLETTER)) == len(STRANGE)


def test_a_scheduler_s_controller_is_named_in_the_settings() -> None:
    event = said("scheduler.accelerators_fewer", "host:n2", "")
    with pytest.raises(Refused, match="controllers"):
        own_word(event, "head", True)
    own_word(event, "head", True, frozenset({"head"}))
    with pytest.raises(Refused):
        own_word(said("accelerator.off_bus", "accelerator:n2/0"), "head", True, frozenset({"head"}))
    value = sealed(messages.encode(event), Seal(host="head", incarnation=1, sequence=1), host_key(KEY, "head"))
    record = Record(EVENTS, 0, 0, 0, b"head", value)
    assert Admission(KEY, True, frozenset({"head"})).message(record).message == event
    assert Security(controllers=("head",)).controllers == ("head",)


FORGED = [
    journal(MESSAGE=LOST, _TRANSPORT="syslog", SYSLOG_IDENTIFIER="kernel", _UID="1000"),
    journal(MESSAGE=LOST, _TRANSPORT="syslog", SYSLOG_IDENTIFIER="kernel", _UID="0"),
    journal(MESSAGE=LOST, _TRANSPORT="stdout", SYSLOG_IDENTIFIER="kernel"),
    text(f"kernel: {LOST}"),
]


@pytest.mark.parametrize("body", FORGED)
def test_a_program_that_calls_itself_the_kernel_is_none(body: dict[str, Any]) -> None:
    assert [one for one in events(logs(body)) if not one.component.startswith(("rank", "job", "process"))] == []


def test_a_log_line_about_another_host_needs_the_right_to_speak_of_it() -> None:
    fewer = "error: Setting node n2 state to INVAL with reason:gres/gpu count reported lower than configured (7 < 8)"
    body = logs(journal(MESSAGE=fewer, _TRANSPORT="stdout", SYSLOG_IDENTIFIER="slurmctld", _UID="64030"))
    assert "host:n2" in [one.component for one in events(body)]
    assert events(body, lambda component: component == "host:n1") == []
    person = logs(journal(MESSAGE=fewer, _TRANSPORT="stdout", SYSLOG_IDENTIFIER="slurmctld", _UID="1000"))
    assert events(person) == []


def test_persons_are_no_daemons() -> None:
    assert [uid for uid in (0, 64030, 999, 1000, 59_999, 60_000, 65_533, 65_534, 10**6) if of_person(uid)] == [
        1000, 59_999, 65_534, 10**6,
    ]  # fmt: skip
    assert of_user(b'{"MESSAGE":"\\"_UID\\":\\"0\\"","_UID":"1000"}')
    assert not of_user(b'{"MESSAGE":"\\"_UID\\":\\"1000\\"","_UID":"0"}')
    assert not of_user(b'{"_TRANSPORT":"kernel"}')
    assert not of_user(b'{"_UID":"1002","_SYSTEMD_UNIT":"slurmctld.service"}')  # as many sites number it
    assert of_user(b'{"_UID":"1002","_SYSTEMD_UNIT":"slurmd.service"}')  # jobs run there
    assert of_user(
        b'{"_UID":"1002","_SYSTEMD_UNIT":"session-3.scope","MESSAGE":"\\"_SYSTEMD_UNIT\\":\\"slurmctld.service\\""}'
    )
