"""The fabric manager: switch errors read as the kernel's own, link errors told over lines, faults of its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.bodies import Sample, fabric_manager
from collectors.formats.reading import Line
from sickbay.messages import Action, Event, Severity

HEAD = "[ERROR] [tid 202] Fabric Manager detected GPU NVL Fatal error on :"
GUID = "0x7A1B2C3D4E5F6071"


def read(text: str, origin: str = "") -> list[Event]:
    """The events of the lines of `text`, read by one grammar."""
    grammar, found = fabric_manager.Grammar(), []
    for number, body in enumerate(text.split("\n"), 1):
        found += [*grammar.read(Line(body, number, origin=origin))]
    told = [record[0] if isinstance(record, tuple) else record for record in (*found, *grammar.end())]
    return [record for record in told if isinstance(record, Event)]


@pytest.mark.parametrize("sample", fabric_manager.SAMPLES, ids=lambda sample: sample.text[:60])
def test_sample(sample: Sample) -> None:
    (event,), (expected,) = read(sample.text), sample.records
    assert {key: getattr(event, key) for key in expected if key != "type"} == {
        key: value for key, value in expected.items() if key != "type"
    }


@pytest.mark.parametrize(
    ("reason", "kind", "advice"),
    [
        ("0x0A", "accelerator.link_fatal", Action.CHECK_LINK),  # signal integrity
        ("0x01", "accelerator.link_fatal", Action.RESET_DEVICE),
        ("0x25", "accelerator.link_nonfatal", Action.WATCH),  # the far end
        ("0x11", "accelerator.link_nonfatal", Action.WATCH),  # software took it down
        ("none", "accelerator.link_fatal", Action.RESET_DEVICE),
    ],
)
def test_why_a_link_went_down_decides_who_acts(reason: str, kind: str, advice: Action) -> None:
    (event,) = read(f"{HEAD}\ngpuGuid : {GUID}\nportNum : 4\nportDownReasonCode : {reason}\nerrorStatus : 0x0")
    assert (event.component, event.kind, event.advice) == (f"accelerator:?/{GUID}", kind, advice)
    assert event.attributes["portNum"] == "4"


def test_a_link_error_that_is_cut_off_is_told_with_what_was_read() -> None:
    (first, second) = read(f"{HEAD}\ngpuGuid : {GUID}\n{HEAD}")
    assert (first.component, second.component) == (f"accelerator:?/{GUID}", "accelerator:?/?")


def test_facts_without_a_headline_are_nothing() -> None:
    assert read(f"gpuGuid : {GUID}\nportNum : 4\nerrorStatus : 0x0") == []


@pytest.mark.parametrize(
    "line",
    [
        "Successfully configured all the available NVSwitches to route GPU NVLink traffic.",
        "[INFO] [tid 1803] Received an inband message:  Message header details: magic Id:adbc status:0",
        "Connected to 1 node.",
    ],
)
def test_good_news_is_nothing(line: str) -> None:
    assert read(line, "nv-fabricmanager") == []


@pytest.mark.parametrize("origin", ["python3", "kubelet", "sshd"])
def test_other_programs_are_not_believed(origin: str) -> None:
    assert all(read(sample.text, origin) == [] for sample in fabric_manager.SAMPLES)


def test_a_non_fatal_switch_error_takes_nothing_out_of_service() -> None:
    (event,) = read("detected NVSwitch non-fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 port 3")
    assert (event.severity, event.advice, event.component) == (Severity.WARNING, Action.WATCH, "fabric:?/0000:86:00")


PIECES = (HEAD, "gpuGuid : ", GUID, "portNum : 4", "\n", "detected NVSwitch ", "fatal error ", "20034", "pci bus id ")


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=20), max_size=30).map("".join))
def test_any_text_gives_no_error_and_no_invented_card(text: str) -> None:
    for event in read(text):
        place = event.component.partition("/")[2]
        assert place in ("?", "fabric-manager", "") or place.lower().lstrip("0:") in text.lower()


def test_state_stays_bounded() -> None:
    text = HEAD + "".join(f"\n{chr(97 + at % 26)}{chr(97 + at // 26)}c : {at}" for at in range(600))
    (event,) = read(text)
    assert len(event.attributes) <= fabric_manager.MAX_FACTS
