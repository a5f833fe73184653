"""Who may say what: forged, unsigned and foreign records never reach a verdict, and never vanish."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay import wire
from sickbay.admission import Admission, Refused, admission, secret
from sickbay.app.running.live import FrameReader
from sickbay.config import ConfigError
from sickbay.frames import matrix_of
from sickbay.layouts import Schemas, decoded
from sickbay.log import Record, Task
from sickbay.log.memory import MemoryLog
from sickbay.messages import Event, Identity, encode, replace
from sickbay.schema import Samples
from sickbay.seal import Seal, host_key, sealed
from sickbay.sequences import MAX_HOLES, REMEMBERED, Sequences
from sickbay.settings import Security
from streams.window_task import Decoded
from tests.process.kit import EVENTS, KEY, SMALL, TELEMETRY, Agent, lost_card

NOW = 1_796_000_000_000


def _record(value: bytes, key: bytes = b"n1", topic: str = EVENTS) -> Record:
    return Record(topic, 0, 0, NOW, key, value)


def _sealed(event: Event, host: str = "n1", key: bytes | None = None) -> bytes:
    return sealed(encode(event), Seal(host=host, incarnation=1, sequence=1), key or host_key(KEY, host))


STRICT, OPEN = Admission(KEY, require_signed=True), Admission()


def test_a_host_that_signs_with_its_own_secret_is_heard() -> None:
    told = STRICT.message(_record(_sealed(lost_card("n1", NOW))))
    assert isinstance(told.message, Event)
    assert told.seal is not None
    assert told.seal.host == "n1"


@pytest.mark.parametrize(
    ("value", "key", "why"),
    [
        (_sealed(lost_card("n1", NOW), key=host_key(KEY, "n2")), b"n1", "signature"),
        (_sealed(lost_card("n1", NOW), key=KEY), b"n1", "signature"),  # not even with the cluster's
        (_sealed(lost_card("n1", NOW)).replace(b"fell off", b"sits on"), b"n1", "signature"),
        (encode(lost_card("n1", NOW)), b"n1", "unsigned"),
        (sealed(encode(lost_card("n1", NOW)), Seal(host="n1", incarnation=1, sequence=1)), b"n1", "unsigned"),
        (_sealed(lost_card("n2", NOW)), b"n1", "n1 speaks for n2"),
        (_sealed(lost_card("n2", NOW, host="")), b"n1", "n1 speaks for n2"),
        (_sealed(lost_card("n1", NOW), host="n2"), b"n1", "key"),
        (_sealed(lost_card("n1", NOW))[:-3], b"n1", "unsigned"),
        (b'{"type":"event","seal":{}}', b"n1", "seal"),
    ],
)
def test_whoever_is_not_what_it_says_is_refused(value: bytes, key: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        STRICT.message(_record(value, key))


def test_without_a_key_seals_are_taken_off_and_senders_still_compared_with_the_key() -> None:
    assert OPEN.message(_record(encode(lost_card("n1", NOW)))).seal is None
    assert OPEN.message(_record(_sealed(lost_card("n1", NOW)))).seal is not None
    with pytest.raises(Refused, match="under the key"):
        OPEN.message(_record(_sealed(lost_card("n1", NOW), host="n2")))


def test_a_shared_jobs_log_may_tell_of_other_hosts_processes_but_under_a_signature_not_of_their_devices() -> None:
    killed = Event(component="process:n3/task_2", kind="process.killed", at_ms=NOW, code="Terminated")
    assert STRICT.message(_record(_sealed(killed, key=host_key(KEY, "n1")))).message == killed
    assert OPEN.message(_record(_sealed(lost_card("n2", NOW)))).message == lost_card("n2", NOW)
    for framed in (lost_card("n2", NOW), lost_card("n2", NOW, host="n1")):
        with pytest.raises(Refused, match="n1 speaks for n2"):
            STRICT.message(_record(_sealed(framed, key=host_key(KEY, "n1"))))


def test_a_wrong_signature_is_refused_even_where_none_is_required() -> None:
    with pytest.raises(ValueError, match="signature"):
        Admission(KEY).message(_record(_sealed(lost_card("n1", NOW), key=KEY)))


def test_a_host_names_its_own_devices_only() -> None:
    identity = Identity(host="n2", index="0", pci="0000:00:00")
    value = sealed(encode(identity), Seal(host="n1", incarnation=1, sequence=1), host_key(KEY, "n1"))
    with pytest.raises(Refused, match="n1 speaks for n2"):
        STRICT.message(_record(value, b"n2 accelerator 0", "sickbay.topology.v1"))


def test_frames_are_checked_like_events() -> None:
    log = MemoryLog(SMALL, clock=lambda: NOW)
    signed, bare = Agent("n1", log.appender()).sample(NOW), Agent("n1", log.appender(), key=None).sample(NOW)
    schemas = Schemas()
    for record in log.reader().read(Task("sickbay.schemas.v1", 0), 0):
        schemas.learn(decoded(record.value or b""))
    assert STRICT.frame(_record(signed, b"n1", TELEMETRY), schemas).verified
    assert not OPEN.frame(_record(signed, b"n1", TELEMETRY), schemas).verified
    for strict, value, key, why in (
        (STRICT, bare, b"n1", "unsigned"),
        (STRICT, signed, b"n2", "key"),
        (Admission(bytes(32)), signed, b"n1", "signature"),
        (Admission(None, require_signed=True), signed, b"n1", "cannot be checked"),
    ):
        with pytest.raises(ValueError, match=why):
            strict.frame(_record(value, key, TELEMETRY), schemas)


@pytest.mark.parametrize("tables", [1, 2, 3, 4, 5])
def test_a_signature_is_seen_and_checked_whatever_the_number_of_tables(tables: int) -> None:
    batches = [
        matrix_of(Samples(table, [part], np.array([NOW]), {"up": np.array([1.0])}))
        for table, part in (
            ("host", "host:n1"), ("port", "port:n1/a"), ("switch", "switch:n1"), ("pdu", "pdu:n1"), ("cdu", "cdu:n1"),
        )
    ][:tables]  # fmt: skip
    schemas = Schemas()
    for one in batches:
        schemas.learn(decoded(one.layout.encoded()))

    def frame(key: bytes | None) -> bytes:
        return wire.encode("n1", batches, sequence=1, incarnation=1, sent_ms=NOW, key=key)

    signed, forged, bare = frame(host_key(KEY, "n1")), frame(host_key(KEY, "n2")), frame(None)
    assert STRICT.frame(_record(signed, topic=TELEMETRY), schemas).verified
    for strict in (STRICT, Admission(KEY)):
        with pytest.raises(ValueError, match="signature"):
            strict.frame(_record(forged, topic=TELEMETRY), schemas)
    assert not Admission(KEY).frame(_record(bare, topic=TELEMETRY), schemas).verified
    with pytest.raises(Refused, match="unsigned"):
        STRICT.frame(_record(bare, topic=TELEMETRY), schemas)


def test_units_of_power_and_cooling_are_spoken_for_by_their_own_names() -> None:
    leak = Event(component="cdu:c1", kind="cdu.leak", at_ms=NOW)
    assert STRICT.message(_record(_sealed(leak, host="c1"), b"c1")).message == leak
    with pytest.raises(Refused, match="n1 speaks for c1"):
        STRICT.message(_record(_sealed(leak)))
    assert STRICT.message(_record(_sealed(replace(leak, component="cdu:?")))).seal is not None


def test_a_frame_with_rows_of_another_host_is_refused() -> None:
    log = MemoryLog(SMALL, clock=lambda: NOW)
    agent, read = Agent("n1", log.appender()), FrameReader(log)
    whole = read(_record(agent.sample(NOW), b"n1", TELEMETRY))
    assert isinstance(whole, Decoded)
    assert whole.host == "n1"
    with pytest.raises(Refused, match="n1 speaks for accelerator:n2"):
        read(_record(agent.sample(NOW, "n2"), b"n1", TELEMETRY))


def test_the_key_is_read_from_its_file_or_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for text, right in ((KEY.hex() + "\n", True), ("xyz", False), ("00", False), ("", False), ("é" * 40, False)):
        path.write_text(text, encoding="utf-8")
        if right:
            assert secret(str(path)) == KEY
        else:
            with pytest.raises(ConfigError, match="hex digits"):
                secret(str(path))
    with pytest.raises(ConfigError, match="No such file"):
        admission(Security(key_file=str(tmp_path / "none")))
    assert admission(Security()).key is None


def test_sequences_tell_what_was_there_and_what_is_missing() -> None:
    found = Sequences()
    told = [(1, True, 0), (2, True, 0), (2, False, 0), (5, True, 2), (4, True, 0), (4, False, 0), (1, False, 0)]
    for number, fresh, missed in told:
        assert found.place("t", "h", 7, number)[:2] == (fresh, missed), number
    assert found.place("t", "h", 8, 1) == (True, 0, False)  # another incarnation
    assert found.place("u", "h", 7, 2) == (True, 0, False)  # another topic
    for number in range(10, 10 + 5 * REMEMBERED):
        found.place("t", "h", 9, number)
    assert found.place("t", "h", 9, 10) == (True, 0, False)  # too old to be known: twice is better than lost
    assert found._senders["t", "h", 9].seen.bit_length() <= REMEMBERED


def test_unknown_fields_in_a_seal_are_refused() -> None:
    payload = msgspec.json.encode({"type": "event", "seal": {"host": "n1", "incarnation": 1, "sequence": 1, "x": 1}})
    with pytest.raises(ValueError, match="seal"):
        OPEN.message(_record(payload))


def test_what_was_missing_and_comes_later_is_found() -> None:
    found, counted = Sequences(), [0, 0]
    for number in (1, 2, 10, 11, 5, 3, 4, 9, 7, 7, 12, 6, 8):  # live before a backlog, and a repeat
        place = found.place("t", "h", 7, number)
        counted = [counted[0] + place.missed, counted[1] + place.found]
    assert counted == [7, 7]
    assert found._senders["t", "h", 7].holes == []


@given(st.permutations(list(range(30))), st.sets(st.integers(0, 29)))
def test_missed_less_found_is_what_never_came(order: list[int], lost: set[int]) -> None:
    came = [0, *(number + 1 for number in order if number not in lost)]
    found, missed = Sequences(), 0
    for number in came:
        place = found.place("t", "h", 7, number)
        assert place.fresh
        missed += place.missed - place.found
    assert missed == len(set(range(max(came))) - set(came))


def test_holes_of_a_sender_are_bounded() -> None:
    found = Sequences()
    for number in range(0, 100 * MAX_HOLES, 2):
        found.place("t", "h", 7, number)
    assert len(found._senders["t", "h", 7].holes) == MAX_HOLES
