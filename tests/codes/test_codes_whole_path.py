"""Every Xid of the table through the whole offline path: one line in a file, and what the answer asks for.

The expectations are those of the vendor's catalogue and of the policy that operators share, not of the table itself.
"""

from pathlib import Path

import pytest

from collectors.codes import nvidia
from sickbay.app.answering.offline import Options, run
from sickbay.messages import Action, strength

NOTHING = {45, 14, 106, 107, 147, 148}  # closed channels, test messages, notices of a link
RESTART_AT_MOST = {
    8, 11, 13, 25, 31, 32, 37, 39, 40, 41, 43, 44, 60, 66, 67, *range(68, 73), 75, 76, 77, *range(82, 87), 88, 89,
    *range(96, 106), 108, *range(126, 136), 137, 139, 141, 142,
}  # fmt: skip
RESET = {46, 48, 62, 95, 109, 110, 119, 120, 140, 143, 158, 171, 172}  # the card is of no use until then
RESET_LINK = {74, 136, 149, 150}
PENDING = {63, 156, 160}  # a repair that waits for a reset: the job may go on
REPAIR_FAILED = {64, 161}  # 157 only where it repeats
WATCH = {92, 144, 145, 146, 157, 159, 163, 164, 165, 166, 170, 176, 185, *range(122, 126), 57, 58, 61}
VENDOR = {155, 167, 169, 173, 175}  # grave, and the action not published
UNUSED = {
    *range(1, 8), 9, 10, 12, *range(15, 25), *range(26, 31), *range(33, 37), 42, 47, *range(49, 54), 55, 56, 59, 65,
    73, 81, 87, 90, 91, *range(111, 119), 138, 152, 153,
}  # fmt: skip
UNKNOWN = (177, 184, 251, 999, 1_000_000)
FORMS = {
    "with process": "pid=4711, name=pt_main_thread, ",
    "without process": "",
    "unknown": "pid='<unknown>', name=<unknown>, ",
}


def asked(folder: Path, *lines: str) -> set[Action]:
    """The actions that the answer to a kernel log of these lines asks for."""
    log = folder / "kern.log"
    log.write_text("".join(f"Mar 11 04:17:{22 + at} gx-1 kernel: {line}\n" for at, line in enumerate(lines)))
    return {incident.action for incident in run([log], Options()).incidents}


def line(code: int, process: str = "", text: str = "some words") -> str:
    return f"NVRM: Xid (PCI:0000:3b:00): {code}, {process}{text}"


def strongest(actions: set[Action]) -> Action:
    return max(actions, key=strength, default=Action.IGNORE)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_programs_error_never_asks_for_more_than_another_start(tmp_path: Path, form: str) -> None:
    for code in sorted(RESTART_AT_MOST):
        assert asked(tmp_path, line(code, FORMS[form])) <= {Action.RESTART_JOB, Action.WATCH}, code


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_what_makes_a_card_useless_asks_for_a_reset(tmp_path: Path, form: str) -> None:
    for code in sorted(RESET | RESET_LINK | REPAIR_FAILED):
        assert strength(strongest(asked(tmp_path, line(code, FORMS[form])))) >= strength(Action.RESET_DEVICE), code


@pytest.mark.parametrize("form", FORMS)
def test_a_card_that_is_gone_cannot_be_reset(tmp_path: Path, form: str) -> None:
    assert asked(tmp_path, line(79, FORMS[form], "GPU has fallen off the bus.")) == {Action.REBOOT_HOST}


def test_a_pending_repair_waits_for_an_idle_card(tmp_path: Path) -> None:
    for code in sorted(PENDING):
        assert asked(tmp_path, line(code)) <= {Action.RESET_DEVICE, Action.WATCH}, code
        assert nvidia.xid(code).when == "when_idle"


def test_a_contained_error_ends_one_program_unless_the_driver_wants_a_reset(tmp_path: Path) -> None:
    flags = "Contained: SM (0x2). RST: No, D-RST: {}"
    assert asked(tmp_path, line(94, text=flags.format("No"))) == {Action.RESTART_JOB}
    assert asked(tmp_path, line(94, text=flags.format("Yes"))) == {Action.RESET_DEVICE}


def test_what_only_degrades_is_watched(tmp_path: Path) -> None:
    for code in sorted(WATCH):
        assert asked(tmp_path, line(code)) == {Action.WATCH}, code


def test_what_the_vendor_must_judge_takes_nothing_out_of_service(tmp_path: Path) -> None:
    for code in sorted(VENDOR):
        assert asked(tmp_path, line(code)) == {Action.ESCALATE}, code


@pytest.mark.slow
def test_closed_channels_and_messages_of_tests_are_nothing_by_themselves(tmp_path: Path) -> None:
    for code in sorted(NOTHING | UNUSED):
        assert asked(tmp_path, line(code, FORMS["with process"])) == set(), code


def test_an_unknown_code_is_watched_and_no_more(tmp_path: Path) -> None:
    for code in UNKNOWN:
        assert asked(tmp_path, line(code)) == {Action.WATCH}, code


def test_a_supply_that_is_not_connected_takes_the_host_out(tmp_path: Path) -> None:
    assert asked(tmp_path, line(54)) == {Action.DRAIN_HOST}


@pytest.mark.parametrize(
    ("number", "words", "action"),
    [
        ("0x1", "GPU Reset Required", Action.RESET_DEVICE), ("0x2", "Node Reboot Required", Action.REBOOT_HOST),
        ("0x2", "OS Reboot", Action.REBOOT_HOST), ("0x3", "Drain P2P", Action.RESET_DEVICE),
        ("0x4", "Drain and Reset", Action.RESET_DEVICE), ("0x5", "Recover IMEX Domain", Action.FIX_SOFTWARE),
    ],
)  # fmt: skip
def test_the_drivers_verdict_is_followed(tmp_path: Path, number: str, words: str, action: Action) -> None:
    verdict = f"GPU recovery action changed from 0x0 (None) to {number} ({words})"
    assert asked(tmp_path, line(154, text=verdict)) == {action}
    assert action in asked(tmp_path, line(31, FORMS["with process"]), line(154, text=verdict))


def test_a_verdict_that_is_cut_off_is_watched(tmp_path: Path) -> None:
    assert asked(tmp_path, line(154, text="GPU recovery action changed from 0x0 (None) to")) == {Action.WATCH}


def test_a_reset_cannot_reach_a_card_that_is_gone_whatever_the_driver_says(tmp_path: Path) -> None:
    verdict = line(154, text="GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")
    assert asked(tmp_path, line(79), verdict) == {Action.REBOOT_HOST}


def test_every_code_of_the_table_is_asked_about_here() -> None:
    single = {38, 54, 78, 79, 80, 93, 94, 121, 151, 154, 162, 168, 174}
    groups = (NOTHING, RESTART_AT_MOST, RESET, RESET_LINK, PENDING, REPAIR_FAILED, WATCH, VENDOR, UNUSED, single)
    assert sorted(nvidia.xids()) == sorted(code for group in groups for code in group)


@pytest.mark.parametrize("code", [38, 78, 80, 93, 121, 151, 162, 168, 174])
def test_codes_of_set_up_and_wear_take_nothing_out_of_service(tmp_path: Path, code: int) -> None:
    assert strength(strongest(asked(tmp_path, line(code)))) <= strength(Action.RESTART_JOB)
