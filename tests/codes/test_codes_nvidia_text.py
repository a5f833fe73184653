"""What the text behind a code says outranks the table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.codes import nvidia
from collectors.codes import nvidia_links as links
from collectors.codes.nvidia_text import RECOVERY, told
from sickbay.messages import Action, Severity


def _told(code: int, text: str) -> tuple[str, Severity, Action | None, dict[str, str]]:
    row, attributes = told(nvidia.xid(code), text)
    return row.kind, row.severity, row.advice, attributes


@pytest.mark.parametrize(
    ("code", "flags", "advice", "when"),
    [
        (94, "RST: No, D-RST: No", Action.RESTART_JOB, "now"),
        (94, "RST: No, D-RST: Yes", Action.RESET_DEVICE, "at_checkpoint"),
        (94, "RST: Yes, D-RST: No", Action.RESET_DEVICE, "now"),
        (94, "", Action.RESTART_JOB, "now"),
        (95, "RST: Yes, D-RST: No", Action.RESET_DEVICE, "now"),
        (95, "RST: No, D-RST: No", Action.RESET_DEVICE, "now"),
    ],
)
def test_reset_flags_of_memory_errors(code: int, flags: str, advice: Action, when: str) -> None:
    row, attributes = told(nvidia.xid(code), f"Contained: FB DED (0x1, 0x0). physAddr: 0x8a00 {flags}")
    assert (row.advice, row.when) == (advice, when)
    assert attributes["location"] == "FB DED"


@pytest.mark.parametrize(
    ("text", "asks", "advice", "severity"),
    [
        ("from 0x0 (None) to 0x1 (GPU Reset Required)", "reset", Action.RESET_DEVICE, Severity.FATAL),
        ("from 0x1 (GPU Reset Required) to 0x2 (Node Reboot Required)", "reboot", Action.REBOOT_HOST, Severity.FATAL),
        ("from 0x0 (None) to 0x3 (Drain P2P)", "drain_peer_traffic", Action.RESET_DEVICE, Severity.ERROR),
        ("from 0x0 (None) to 0x4 (Drain and Reset)", "drain_and_reset", Action.RESET_DEVICE, Severity.ERROR),
        ("from 0x1 (GPU Reset Required) to 0x0 (None)", "none", Action.IGNORE, Severity.INFO),
        ("from (None) to (GPU Reset Required)", "reset", Action.RESET_DEVICE, Severity.FATAL),
        ("from 0x0 to 0x2", "reboot", Action.REBOOT_HOST, Severity.FATAL),
    ],
)
def test_recovery_action(text: str, asks: str, advice: Action, severity: Severity) -> None:
    kind, said, advised, attributes = _told(154, f"GPU recovery action changed {text}")
    assert (kind, said, advised, attributes["asks"]) == ("accelerator.recovery_action", severity, advice, asks)


def test_a_recovery_action_that_nobody_knows_advises_nothing() -> None:
    _, severity, advice, attributes = _told(154, "GPU recovery action changed from 0x0 (None) to 0x9 (Polish)")
    assert (severity, advice, attributes["to"]) == (Severity.WARNING, None, "Polish")
    assert "asks" not in attributes


def test_recovery_numbers_are_those_of_the_driver() -> None:
    assert [word for word, *_ in RECOVERY.values()][:3] == ["none", "reset", "reboot"]


# Link errors: word, containment, injected flag, words in brackets.
@pytest.mark.parametrize(
    ("code", "text", "kind", "advice"),
    [
        (149, "NETIR_LINK_DOWN Fatal XC0 i0 Link 09 (0x00400011 0x0)", "accelerator.link_fatal", Action.CHECK_LINK),
        (149, "NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x015001c6 0x0)", "accelerator.link_nonfatal", Action.WATCH),
        (149, "NETIR_LINK_DOWN Fatal XC0 i0 Link 09 (0x00100011 0x0)", "accelerator.link_fatal", Action.RESET_DEVICE),
        (149, "NETIR_LINK_DOWN Fatal XC0 i1 Link 09 (0x00400011 0x0)", "accelerator.test_message", None),
        (149, "NETIR_BER_EVENT Nonfatal XC0 i0 Link 09 (0x00000012 0x0)", "accelerator.link_nonfatal", Action.WATCH),
        (145, "RLW_REMAP Nonfatal XC1 i0 Link -1 (0x00000082 0x4)", "accelerator.link_peer_error", None),
        (145, "RLW_REMAP Nonfatal XC0 i0 Link 11 (...)", "accelerator.link_nonfatal", Action.WATCH),
        (145, "RLW_REMAP Fatal XC0 i0 Link 11 (0x00000002 0x40)", "accelerator.link_fatal", Action.RESET_DEVICE),
        (144, "SAW_MVB Nonfatal XC0 i0 Link 08 (0x00000021 0x20)", "accelerator.link_corrected", None),
        (144, "SAW_MVB Fatal XC0 i0 Link 08 (0x00000021 0x20)", "accelerator.link_fatal", Action.RESET_DEVICE),
        (146, "TLW_RX_PIPE0 Nonfatal XC0 i0 Link 08 (0x00000003 0x1", "accelerator.link_corrected", None),
        (147, "TREX Fatal XC0 i0 Link 02 (0x1 0x1)", "accelerator.link_fatal", Action.ESCALATE),
        (148, "NVLPW_CTRL Nonfatal XC0 i0 Link 02 (0x1 0x1)", "accelerator.link_nonfatal", None),
    ],
)
def test_link_errors(code: int, text: str, kind: str, advice: Action | None) -> None:
    found, _, advised, _ = _told(code, text)
    assert (found, advised) == (kind, advice)


def test_link_words_are_decoded_in_both_layouts() -> None:
    _, _, _, attributes = _told(149, "NETIR_LINK_EVT Fatal XC0 i0 Link 03 (0x002001c6 0x00000000)")
    assert (attributes["subcode_before_r575"], attributes["subcode_from_r575"]) == ("0xe", "0x46")
    assert (attributes["down_reason"], attributes["down_reading"], attributes["link"]) == ("0x02", "signal", "03")


@pytest.mark.parametrize(
    ("registers", "readings", "kind"),
    [
        ("0x800001, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", {"harmless"}, "accelerator.link_corrected"),
        ("0x0, 0x0, 0x0, 0x0, 0x100000, 0x0, 0x0", {"threshold_only"}, "accelerator.link_corrected"),
        ("0x200000, 0x0, 0x0, 0x10000, 0x0, 0x0, 0x0", {"marginal_signal", "secondary"}, "accelerator.link_fatal"),
        ("0x0, 0xffffffff, 0x0, 0x0, 0x0, 0xff, 0xff", set(), "accelerator.link_fatal"),
        ("0x80000000, 0x0", {"support"}, "accelerator.link_fatal"),
    ],
)
def test_registers_of_the_older_links(registers: str, readings: set[str], kind: str) -> None:
    found, _, _, attributes = _told(74, f"NVLink: fatal error detected on link 5({registers})")
    assert (found, set(attributes.get("reading", "").split(",")) - {""}) == (kind, readings)


def test_link_training_failure_names_the_far_end() -> None:
    kind, _, _, attributes = _told(74, "NVLink: failed to train link 3 to remote PCI:0000:5d:00")
    assert (kind, attributes["link"], attributes["remote_pci"]) == ("accelerator.link_fatal", "3", "0000:5d:00")


@pytest.mark.parametrize("address", ["0x7f2a_1c4c7000", "0x7f2a1c4c7000"])
def test_fault_address_keeps_its_low_bits(address: str) -> None:
    *_, attributes = _told(31, f"MMU Fault: ENGINE GRAPHICS GPC2 faulted @ {address}. Fault is of type FAULT_PDE")
    assert (attributes["address_low20"], attributes["fault"]) == ("0xc7000", "FAULT_PDE")


def test_a_firmware_hang_tells_how_long_it_had_hung() -> None:
    text = (
        "Timeout after 45s of waiting for RPC response from GPU3 GSP! Expected function 76 (GSP_RM_CONTROL) sequence 8"
    )
    assert _told(119, text)[3] == {"waited_s": "45", "function": "GSP_RM_CONTROL"}


@given(st.integers(0, 2**32 - 1), st.integers(0, 31), st.integers(0, 31))
def test_bit_fields_agree_with_the_plain_way(word: int, one: int, other: int) -> None:
    low, high = sorted((one, other))
    plain = int("".join(format(word, "032b")[::-1][low : high + 1])[::-1], 2)
    assert links.bits(word, low, high) == plain


@given(st.lists(st.integers(0, 2**32 - 1), max_size=9))
def test_every_set_bit_has_a_reading(registers: list[int]) -> None:
    readable = [word for number, word in enumerate(registers, 1) if number in (1, 3, 4, 5)]
    assert bool(links.register_readings(registers)) == any(readable)


@given(st.sampled_from(sorted(nvidia.xids())), st.text(max_size=300))
def test_any_text_is_read_without_an_error(code: int, text: str) -> None:
    row, attributes = told(nvidia.xid(code), text)
    assert row.code == code
    assert all(isinstance(value, str) for value in attributes.values())
