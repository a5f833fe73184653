"""Ascend's table: every level is one of the vendor's, and what is not published does not act."""

import pytest

from collectors.codes import ascend
from collectors.codes.table import sources
from sickbay.components import Kind
from sickbay.messages import Action, Blame, Severity, strength
from sickbay.vocabulary import event_kinds

CODES = ascend.codes()
WEAK = (None, Action.WATCH, Action.ESCALATE)


def test_the_table_holds_what_is_published() -> None:
    assert len(CODES) == 801
    assert sum(row.verified for row in CODES.values()) == 187
    assert all(number < 2**32 for number in CODES)


def test_rows_use_the_vocabulary_and_cite_their_source() -> None:
    for number, row in CODES.items():
        assert event_kinds()[row.kind].component == Kind.ACCELERATOR, hex(number)
        assert set(row.source.split("+")) <= set(sources())
        assert row.meaning


def test_what_has_no_published_meaning_does_not_act() -> None:
    assert all(row.advice in WEAK and row.severity is not Severity.FATAL for row in CODES.values() if not row.verified)


def test_the_stronger_the_level_the_stronger_the_advice() -> None:
    known = [(severity, advice) for severity, advice, _ in ascend.LEVELS.values()]
    strengths = [strength(advice) if advice else -1 for _, advice in known]
    assert strengths == sorted(strengths)


def test_a_code_of_a_program_asks_for_no_device() -> None:
    for number, row in CODES.items():
        if row.blame is Blame.APPLICATION:
            assert row.advice in (*WEAK, Action.RESTART_JOB), hex(number)


@pytest.mark.parametrize(
    ("code", "kind", "severity", "advice", "when"),
    [
        (0x80E18402, "accelerator.memory_repair_failed", "fatal", "drain_host", "now"),
        (0x80E01801, "accelerator.memory_uncorrectable", "error", "restart_job", "now"),
        (0x80E01809, "accelerator.memory_contained", "info", None, ""),
        (0x40F84E00, "accelerator.firmware_hang", "fatal", "reset_device", "now"),
        (0x8C0E4E00, "accelerator.firmware_hang", "error", "reset_device", "when_idle"),
        (0x81078603, "accelerator.link_nonfatal", "info", None, ""),
        (0x80C98002, "accelerator.program_error", "error", "restart_job", "now"),
        (0x8C2FA009, "accelerator.reset_done", "info", None, ""),
        (0x8F180220, "accelerator.fault_reported", "warning", "escalate", ""),
        (0x81A38605, "accelerator.code_reported", "info", None, ""),
        (0xFFFFFFFF, "accelerator.unknown_code", "warning", "watch", ""),
        (-1, "accelerator.unknown_code", "warning", "watch", ""),
    ],
)
def test_known_answers(code: int, kind: str, severity: str, advice: str | None, when: str) -> None:
    row = ascend.code(code)
    assert (row.kind, row.severity, row.advice, row.when) == (kind, severity, advice, when)
