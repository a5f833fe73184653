"""Odd inputs through the whole reading: blank beginnings, late words, cuts, storms, and formats that fail."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.reading import Reading
from collectors.inputs import gather as gathering
from collectors.inputs.bound import collected, thin
from collectors.inputs.gather import Folder, Gathered, gather
from collectors.inputs.inputs import Input, walk
from collectors.inputs.sniff import Sniffed
from sickbay.clock import Clock, Stamp
from sickbay.messages import Event, Identity, Severity, Step

OFF_BUS = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LINE = f"2025-03-11T04:17:22+00:00 h17 kernel: {OFF_BUS}\n".encode()


def read(*chunks: bytes, path: str = "strange") -> Gathered:
    return gather(Input(path, open=lambda: iter(chunks)))


@pytest.mark.parametrize(
    "nothing", [b"", b"\n" * 1000, b"\0" * 4096, b" \t\r\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\xef\xbb\xbf\n"]
)
def test_nothing_is_empty_and_no_more(nothing: bytes) -> None:
    found = read(nothing)
    assert (found.kind, found.understood) == ("empty", True)


@pytest.mark.parametrize("blank", [b"\0" * (3 << 20), b"\n" * (3 << 20), b"\0" * 100 + b"\n \n"])
def test_what_follows_a_blank_beginning_is_read_and_its_line_is_right(blank: bytes) -> None:
    pieces = [blank[at : at + (1 << 20)] for at in range(0, len(blank), 1 << 20)]
    for chunks in ([*pieces, LINE], [blank + LINE]):
        found = read(*chunks)
        assert found.kind == "log"
        assert [one.line for one in found.readings] == [blank.count(b"\n") + 1]


def test_a_blank_beginning_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "MAX_BLANK", 1 << 20)
    found = read(*[bytes(1 << 16)] * 40, LINE)
    assert "nothing" in found.problem
    assert not found.readable


@pytest.mark.slow
def test_text_whose_beginning_says_nothing_is_read_all_the_same() -> None:
    found = read(b"== a banner of our own ==\n" * 10_000, LINE)
    assert (found.kind, len(found.readings)) == ("log", 1)
    silent = read(b"== a banner of our own ==\n" * 10_000)
    assert (silent.kind, silent.understood) == ("unknown", False)
    assert silent.tally.notes


@pytest.mark.parametrize(
    ("start", "word"), [(b"PK\x03\x04", "zip"), (b"LPKSHHRH", "journalctl"), (b"\x00\x01\x02\x03", "no text")]
)
def test_what_is_no_text_is_told_with_what_to_do(start: bytes, word: str) -> None:
    found = read(start + bytes(range(256)) * 40)
    assert found.kind == "unknown"
    assert word in found.tally.notes[0]


@pytest.mark.slow
def test_of_a_small_damaged_file_the_good_part_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(LINE) + b"junk")
    packed = gzip.compress(LINE * 5_000)
    (tmp_path / "b.gz").write_bytes(packed[:-10])
    for source in walk([tmp_path]):
        found = gather(source)
        assert (found.kind, bool(found.readings), bool(found.problem)) == ("log", True, True)
        assert found.readable
        assert not found.understood


def test_a_records_count_is_of_records() -> None:
    assert read(LINE * 3).tally.records == 3


def test_a_format_that_fails_does_not_silence_what_it_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(chunks: Any, tally: Any, name: str = "") -> Iterator[Reading]:
        yield Reading(Identity(host="h1"))
        raise KeyError("no such thing")

    monkeypatch.setattr(gathering, "sniff", lambda head, name: Sniffed("odd", 1.0, broken))
    found = read(b"anything")
    assert len(found.readings) == 1
    assert "KeyError" in found.problem


def event(what: str, severity: Severity) -> Reading:
    record = Event(component=f"accelerator:?/{what}", kind="accelerator.engine_hang", severity=severity)
    return Reading(record, stamp=Stamp(Clock.ABSOLUTE, 0))


def test_of_a_storm_of_steps_the_latest_are_kept_and_of_identities_the_first() -> None:
    folder = Folder(records=10)
    for number in range(5):
        folder.add(Reading(Identity(host="h", index=str(number))))
    for number in range(100):
        folder.add(Reading(Step(step=number), line=number))
    folder.add(Reading(Identity(host="h", index="9")))
    kept = [one.record for one in folder.close()]
    assert [one.index for one in kept if isinstance(one, Identity)] == ["0", "1", "2", "3", "4"]
    assert [one.step for one in kept if isinstance(one, Step)] == [95, 96, 97, 98, 99]
    assert folder.omitted == 96


severities = st.lists(st.lists(st.sampled_from(list(Severity)), max_size=8), max_size=6)


@given(severities, st.integers(0, 20))
def test_law_thinning_keeps_the_worst_counts_the_rest_and_starves_nobody(rows: list[list[Severity]], room: int) -> None:
    inputs = [
        Gathered(str(n), readings=[event(str(m), one) for m, one in enumerate(row)]) for n, row in enumerate(rows)
    ]
    before = [len(one.readings) for one in inputs]
    thin(inputs, events=room)
    kept = [[one.record.severity for one in found.readings if isinstance(one.record, Event)] for found in inputs]
    assert sum(map(len, kept)) <= room or room >= sum(before)
    assert [len(row) + one.omitted for row, one in zip(kept, inputs, strict=True)] == before
    order = list(Severity)
    for rank, severity in enumerate(order):
        lost = sum(row.count(severity) for row in rows) - sum(row.count(severity) for row in kept)
        milder = sum(one in order[:rank] for row in kept for one in row)
        assert not lost or milder <= len(rows)  # rounding may leave an input's share unused


def test_ten_thousand_inputs_hold_no_more_than_is_allowed_together() -> None:
    peak = 0

    def many() -> Iterator[Gathered]:
        nonlocal peak
        given_out: list[Gathered] = []
        for number in range(400):
            one = Gathered(str(number), readings=[event(str(n), Severity.ERROR) for n in range(50)])
            given_out.append(one)
            yield one
            peak = max(peak, sum(len(other.readings) for other in given_out))

    found = collected(many(), events=500)
    assert len(found) == 400
    assert sum(len(one.readings) for one in found) <= 500
    assert peak <= 1_600
    assert sum(one.omitted for one in found) == 400 * 50 - sum(len(one.readings) for one in found)
