"""MetaX's table: the published codes, in the product's words, and none that resets a device."""

from collectors.codes import metax
from collectors.codes.table import sources
from sickbay.components import Kind
from sickbay.messages import Action, Blame
from sickbay.vocabulary import event_kinds

MILD = (None, Action.WATCH, Action.ESCALATE, Action.CHECK_LINK, Action.RESTART_JOB)


def test_the_table_holds_what_is_published() -> None:
    assert set(metax.codes()) == {*range(0x1101, 0x110B), 0x2101, 0x2102}


def test_rows_use_the_vocabulary_and_none_asks_for_a_reset() -> None:
    for number, row in metax.codes().items():
        assert event_kinds()[row.kind].component == Kind.ACCELERATOR, hex(number)
        assert row.source in sources()
        assert row.meaning
        assert row.advice in MILD
        assert (row.advice is Action.RESTART_JOB) == (row.blame is not Blame.HARDWARE and row.scope == "process")


def test_any_number_is_answered() -> None:
    assert metax.code(0x7777).kind == "accelerator.unknown_code"
