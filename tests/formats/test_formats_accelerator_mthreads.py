"""Lines of Moore Threads' driver: recovered lockups are the program's, codes are data, a number is no address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.bodies import Sample
from collectors.formats.bodies import accelerator_mthreads as mthreads
from collectors.formats.reading import Line
from sickbay.messages import Action, Blame, Event, Severity


def events(text: str, origin: str = "kernel") -> list[Event]:
    """The events of the lines of `text`."""
    grammar = mthreads.Grammar()
    lines = [Line(body, number, origin=origin) for number, body in enumerate(text.split("\n"), 1)]
    return [record for line in lines for record in grammar.read(line) if isinstance(record, Event)]


@pytest.mark.parametrize("sample", mthreads.SAMPLES, ids=lambda sample: sample.text[:50])
def test_sample(sample: Sample) -> None:
    found = events(sample.text)
    assert len(found) == len(sample.records)
    for event, expected in zip(found, sample.records, strict=True):
        fields = {"type": "event"} | {field: getattr(event, field) for field in event.__struct_fields__}
        assert {key: fields[key] for key in expected} == expected


def test_a_lockup_that_was_recovered_is_the_programs() -> None:
    (event,) = events("MTGPU:  312:   Recovery 7: Core = 0, PID = 9120, frame = 0, Guilty Lockup")
    assert (event.process, event.blame, event.severity) == ("[9120]", Blame.APPLICATION, Severity.WARNING)
    assert event.advice is Action.RESTART_JOB


def test_the_drivers_own_number_is_no_address() -> None:
    (event,) = events("MTGPU:  312:   Recovery 7: Core = 0, PID = 9120, frame = 0")
    assert event.component == "accelerator:?/MTGPU_312"


def test_a_code_is_looked_up_and_names_its_link() -> None:
    (event,) = events("MTGPU 0000:5e:00.0: XID 0x07000004, MTLink downgraded, link 5")
    assert (event.kind, event.advice, event.attributes) == ("accelerator.link_nonfatal", Action.WATCH, {"link": "5"})


@pytest.mark.parametrize(
    ("line", "origin"),
    [
        ("MTGPU:  312:     PDE for index 201 = 0x0000000adba10000 and is not valid", "kernel"),
        ("MTGPU:  312:               CRTimer = 0x01802EC5F12C, OSTimer = 1234.99, CyclesElapsed = 177", "kernel"),
        ("MTGPU: driver loaded", "kernel"),
        ("MTGPU 0000:5e:00.0: XID 0x07000001, MTLink Down, link 2", "python3"),
        ("found MTGPU 0000:5e:00.0: XID 0x07000001", ""),
    ],
)
def test_other_lines_give_nothing(line: str, origin: str) -> None:
    assert events(line, origin) == []


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert len(events("MTGPU: " + text)) <= len(text.split("\n"))
