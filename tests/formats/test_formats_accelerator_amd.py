"""Lines of AMD's driver: counts of errors, page faults of several cards at once, resets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.bodies import Sample
from collectors.formats.bodies import accelerator_amd as amd
from collectors.formats.reading import Line, Record
from sickbay.clock import Clock, Stamp
from sickbay.messages import Action, Blame, Event, Severity

CARD = "amdgpu 0000:d5:00.0: amdgpu: "


def read(lines: list[Line]) -> list[tuple[Record, Line]]:
    """All records with the lines they are of."""
    grammar = amd.Grammar()
    found: list[tuple[Record, Line]] = []
    for line in lines:
        found.extend(told if isinstance(told, tuple) else (told, line) for told in grammar.read(line))
    return [*found, *grammar.end()]


def events(text: str, origin: str = "kernel") -> list[Event]:
    """The events of the lines of `text`."""
    lines = [Line(body, number, origin=origin) for number, body in enumerate(text.split("\n"), 1)]
    return [record for record, _ in read(lines) if isinstance(record, Event)]


@pytest.mark.parametrize("sample", amd.SAMPLES, ids=lambda sample: sample.text[:60])
def test_sample(sample: Sample) -> None:
    found = events(sample.text)
    assert len(found) == len(sample.records)
    for event, expected in zip(found, sample.records, strict=True):
        fields = {"type": "event"} | {field: getattr(event, field) for field in event.__struct_fields__}
        assert {key: fields[key] for key in expected} == expected


@pytest.mark.parametrize("sample", amd.SAMPLES, ids=lambda sample: sample.text[:60])
def test_every_line_of_a_sample_survives_the_prefilter(sample: Sample) -> None:
    assert all(any(literal in line for literal in amd.LITERALS) for line in sample.text.split("\n"))


@pytest.mark.parametrize(
    ("text", "kind", "advice"),
    [
        (
            "1 new uncorrectable hardware errors detected in umc block",
            "accelerator.memory_uncorrectable",
            Action.RESET_DEVICE,
        ),
        ("12 correctable hardware errors detected in total in umc block", "accelerator.memory_corrected", None),
        ("2 deferred hardware errors detected in umc block", "accelerator.memory_contained", None),
        (
            "1 uncorrectable hardware errors detected in total in xgmi_wafl block",
            "accelerator.link_fatal",
            Action.RESET_DEVICE,
        ),
        ("1 uncorrectable hardware errors detected in sdma block", "accelerator.internal_fault", Action.RESET_DEVICE),
    ],
)
def test_correctable_is_not_uncorrectable(text: str, kind: str, advice: Action | None) -> None:
    (event,) = events(f"{CARD}{{3}} socket: 0, die: 1, {text}")
    assert (event.kind, event.advice) == (kind, advice)


def test_a_page_fault_is_the_programs_whatever_the_order_of_its_lines() -> None:
    block = [
        "[gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:3 pasid:32772)",
        " for process python3 pid 6204 thread python3 pid 6204)",
        "  in page starting at address 0x00007e30cc0fe000 from IH client 0x1b (UTCL2)",
        "  cookie node_id 1 fault from die AID0.XCD0",
        "VM_L2_PROTECTION_FAULT_STATUS:0x00501030",
    ]
    for lines in (block, block[1:], block[2:], block[:1], list(reversed(block[1:]))):
        (event,) = events("\n".join(CARD + line for line in lines))
        assert (event.kind, event.blame, event.severity) == (
            "accelerator.page_fault",
            Blame.APPLICATION,
            Severity.WARNING,
        )
        assert event.advice is Action.RESTART_JOB


def test_the_event_is_of_the_line_that_began_it() -> None:
    head = Line(f"{CARD}[gfxhub0] page fault (src_id:0 ring:24)", 5, origin="kernel")
    process = Line(f"{CARD} for process python3 pid 6204 thread python3 pid 6204)", 6, origin="kernel")
    ((record, line),) = read([head, process])
    assert isinstance(record, Event)
    assert (record.process, line.number) == ("python3[6204]", 5)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_interleaved_cards_give_one_event_each(order: list[int]) -> None:
    parts = (
        "[gfxhub0] page fault (src_id:0 ring:24)", " for process p{} pid 1{} thread p{} pid 1{})",
        "  in page starting at address 0x{}000", "VM_L2_PROTECTION_FAULT_STATUS:0x1{}",
    )  # fmt: skip
    said = dict.fromkeys(range(4), 0)
    lines = []
    for card in order:
        if said[card] < len(parts):
            lines.append(f"amdgpu 0000:0{card}:00.0: amdgpu: {parts[said[card]].replace('{}', str(card))}")
            said[card] += 1
    found = events("\n".join(lines))
    assert sorted(event.component for event in found) == sorted(f"accelerator:?/0000:0{card}:00" for card in set(order))
    for event in found:
        card = int(event.component[-4])
        assert event.process in ("", f"p{card}[1{card}]")


def test_a_line_that_comes_again_is_of_another_fault() -> None:
    assert len(events(f"{CARD}VM_L2_PROTECTION_FAULT_STATUS:0x1\n{CARD}VM_L2_PROTECTION_FAULT_STATUS:0x1")) == 2


def test_a_fault_much_later_is_another_one() -> None:
    lines = [
        Line(f"{CARD}VM_L2_PROTECTION_FAULT_STATUS:0x1", 1, Stamp(Clock.SINCE_BOOT, 1000), 1.0, origin="kernel"),
        Line(f"{CARD}  cookie node_id 1 fault from die A", 2, Stamp(Clock.SINCE_BOOT, 1100), 1.1, origin="kernel"),
        Line(f"{CARD}  in page starting at address 0x1000", 3, Stamp(Clock.SINCE_BOOT, 60000), 60.0, origin="kernel"),
    ]
    assert [line.number for _, line in read(lines)] == [1, 3]


def test_only_the_kernel_speaks_for_the_driver_but_the_runtime_for_itself() -> None:
    assert events(f"{CARD}GPU reset begin!", origin="python3") == []
    (event,) = events("HW Exception by GPU node-3 (Agent handle: 0x55) reason :GPU Hang", origin="python3")
    assert event.component == "accelerator:?/node-3"


@pytest.mark.parametrize(
    "line",
    [
        "amdgpu 0000:d5:00.0: amdgpu: SMU is initialized successfully!",
        "amdgpu 0000:d5:00.0: amdgpu: 0 correctable hardware errors detected in total in umc block",
        "during a ring of page faults (in a book)",
        "amdgpu 0000:d5:00.0: amdgpu: GPU reset end with ret = 0",
    ],
)
def test_ordinary_lines_give_nothing(line: str) -> None:
    assert events(line) == []


@given(st.lists(st.text(max_size=60) | st.sampled_from([sample.text[:70] for sample in amd.SAMPLES]), max_size=20))
def test_any_text_is_read_without_an_error(bodies: list[str]) -> None:
    assert len(events("\n".join(bodies))) <= len("\n".join(bodies).split("\n"))


def test_open_faults_stay_bounded_and_none_is_lost() -> None:
    heads = [
        Line(f"amdgpu {number:04x}:d5:00.0: amdgpu: [gfxhub0] page fault (x)", number, origin="kernel")
        for number in range(3 * amd.MAX_CARDS)
    ]
    assert sorted(line.number for _, line in read(heads)) == list(range(3 * amd.MAX_CARDS))
