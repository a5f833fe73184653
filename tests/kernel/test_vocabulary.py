"""Faults and event kinds: each row is whole and refers only to what exists."""

import re

import pytest

from sickbay.components import Kind
from sickbay.messages import Action
from sickbay.vocabulary import EventKind, Fault, event_kinds, faults, row_of


@pytest.mark.parametrize("fault", faults().values(), ids=lambda fault: fault.name)
def test_a_fault_is_whole(fault: Fault) -> None:
    assert faults()[fault.name] is fault
    assert re.fullmatch(r"[a-z][a-z0-9_]*", fault.name)
    assert fault.prior >= 0
    assert "{component}" in fault.en
    assert "{component}" in fault.zh
    assert fault.en.rstrip().endswith(".")
    assert re.search(r"[\u4e00-\u9fff]", fault.zh)
    assert not re.search(r"\{(?!component\})", fault.en + fault.zh)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", fault.test) or (fault.action is Action.IGNORE and not fault.test)


@pytest.mark.parametrize("kind", event_kinds().values(), ids=lambda kind: kind.name)
def test_an_event_kind_is_whole(kind: EventKind) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z][a-z0-9_]*", kind.name)
    assert kind.fault == "" or kind.fault in faults()


def test_an_event_is_explicit_evidence_against_its_own_part_or_against_the_job() -> None:
    elsewhere = {
        (kind.component, faults()[kind.fault].component)
        for kind in event_kinds().values()
        if kind.fault and faults()[kind.fault].component not in (kind.component, Kind.JOB)
    }
    assert elsewhere == {(Kind.FILESYSTEM, Kind.DISK)}  # a local file system speaks for the disk under it


def test_no_workload_fault_asks_for_a_repair_of_machines() -> None:
    machine = {Action.DRAIN_HOST, Action.REBOOT_HOST, Action.RESET_DEVICE, Action.REPLACE_PART}
    assert not [fault.name for fault in faults().values() if fault.role == "workload" and fault.action in machine]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"action": "reboot"}, r"faults\.toml: \[link_down\] action: there is no 'reboot'; there are .*reboot_host"),
        ({"component": "gpu"}, r"\[link_down\] component: there is no 'gpu'; there are .*host"),
        ({"role": "main"}, r"\[link_down\] role: there is no 'main'; there are primary, symptom, workload"),
        ({"prior": "often"}, r"faults\.toml: \[link_down\]: .*prior"),
        ({"actoin": "ignore"}, r"faults\.toml: \[link_down\]: .*actoin"),
    ],
)
def test_an_error_names_the_row_the_field_and_the_words(changed: dict[str, object], says: str) -> None:
    row = {"component": "port", "role": "primary", "action": "ignore", "test": "", "prior": 0.1, "en": "x", "zh": "x"}
    assert row_of(Fault, "faults.toml", "link_down", row).name == "link_down"
    with pytest.raises(ValueError, match=says):
        row_of(Fault, "faults.toml", "link_down", row | changed)


def test_an_error_of_an_event_kind_does_too() -> None:
    row = {"component": "port", "severity": "bad", "blame": "hardware", "fault": ""}
    with pytest.raises(ValueError, match=r"kinds\.toml: \[port\.down\] severity: there is no 'bad'; there are .*fatal"):
        row_of(EventKind, "kinds.toml", "port.down", row)
