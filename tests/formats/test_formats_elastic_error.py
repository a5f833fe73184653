"""Error files of torchrun: the exception, its time, the device it speaks of; anything else is refused quietly."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats import elastic_error
from collectors.formats.reading import Reading, Tally
from sickbay.clock import Clock
from sickbay.messages import Blame, Event


def document(text: str, **more: object) -> bytes:
    extra = {"py_callstack": "Traceback (most recent call last): …", "timestamp": "1748889602"}
    return json.dumps({"message": {"message": text, "extraInfo": extra, **more}}).encode()


def read(raw: bytes, size: int = 1 << 16) -> tuple[list[Reading], Tally]:
    tally = Tally()
    chunks = [raw[at : at + size] for at in range(0, len(raw), size)]
    return list(elastic_error.read(chunks, tally)), tally


def test_an_exception_is_the_programs_unless_the_device_failed() -> None:
    (plain,), tally = read(document("ValueError: bad shape\n at layer 3", errorCode=1))
    assert isinstance(plain.record, Event)
    assert (plain.record.kind, plain.record.blame, plain.record.attributes["exitcode"]) == (
        "rank.exited",
        Blame.APPLICATION,
        "1",
    )
    assert plain.record.message == "ValueError: bad shape at layer 3"
    assert (plain.stamp.clock, plain.stamp.ms, tally.records) == (Clock.ABSOLUTE, 1748889602000, 1)
    (ended, device), _ = read(document("RuntimeError: CUDA error: uncorrectable ECC error encountered"))
    assert isinstance(device.record, Event)
    assert isinstance(ended.record, Event)
    assert (device.record.kind, device.record.blame, ended.record.blame) == (
        "rank.device_error",
        Blame.HARDWARE,
        Blame.HARDWARE,
    )


def test_a_plain_message_of_other_writers() -> None:
    (found,), _ = read(b'{"message": "KeyError: x"}')
    assert isinstance(found.record, Event)
    assert found.stamp.clock is Clock.NONE


def test_recognised_by_content() -> None:
    assert elastic_error.confidence(document("x"), "a") > 0.9
    assert elastic_error.confidence(b'{"message": "hello", "level": "info"}', "a.log") == 0.0
    assert elastic_error.confidence(b'{"message": "hello"}', "error.json") == 0.3


KEYS = st.sampled_from(["message", "extraInfo", "timestamp", "errorCode"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@pytest.mark.slow
@given(st.recursive(LEAVES, lambda each: st.lists(each) | st.dictionaries(KEYS, each)))
def test_any_json_gives_events_or_nothing(value: object) -> None:
    for reading in read(json.dumps(value).encode())[0]:
        assert isinstance(reading.record, Event)


def test_damaged_files_are_counted() -> None:
    dice, whole = random.Random(5), document("RuntimeError: CUDA error: unknown error")
    for _ in range(5000):
        raw = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            raw[dice.randrange(len(raw))] = dice.randrange(256)
        cut = bytes(raw)[: dice.randrange(1, len(raw) + 1)]
        found, tally = read(cut)
        assert found or tally.unparsed or not cut.strip() or b"message" not in cut[:20]


def test_hostile_files_end_quickly() -> None:
    assert read(b"[" * 100_000)[0] == []
    assert read(b'{"message": "' + b"x" * (5 << 20) + b'"}')[0] == []
