"""The code tables: every row uses the product's words, cites a source, and its sample reads as itself only."""

import re

import pytest

from collectors.codes import amd, mthreads, nvidia
from collectors.codes.table import Code, rows, sources, unknown
from collectors.formats.bodies.accelerator_mthreads import Grammar as Mthreads
from collectors.formats.bodies.accelerator_nvidia import Grammar
from collectors.formats.log import modules
from collectors.formats.reading import Line
from sickbay.components import Kind, kind_of
from sickbay.messages import Action, Blame, Event, Severity, strength
from sickbay.vocabulary import event_kinds

WEAK = (None, Action.WATCH, Action.ESCALATE)
# Codes that must never take a node out by themselves: application codes, victims, test messages.
NEVER_CORDON = {
    13, 31, 43, 45, 68, 69, 11, 25, 37, 44, 60, 66, 67, *range(82, 85), 86, 88, 89, *range(96, 106), 106, 107, 108,
    137, 139, 141, 147, 148, 162, 163,
}  # fmt: skip
UNUSED = {
    *range(1, 8), 9, 10, 12, *range(15, 25), *range(26, 31), *range(33, 37), 42, 47, *range(49, 54), 55, 56, 59,
    65, 73, 81, 87, 90, 91, *range(111, 119), 138, 152, 153,
}  # fmt: skip

ROWS = [*nvidia.xids().values(), *nvidia.sxids().values(), *mthreads.codes().values()]


def _name(row: Code) -> str:
    return f"{row.kind}-{row.code}"


def _at_most(row: Code, most: Action) -> bool:
    return row.advice is None or strength(row.advice) <= strength(most)


def test_the_tables_hold_every_published_code() -> None:
    assert set(nvidia.xids()) == {*range(1, 177), 185}
    assert len(nvidia.sxids()) == 399
    assert {0x02000007, 0x07000001, 0x07000003, 0x07000004} == set(mthreads.codes())


def test_rows_use_the_vocabulary_and_cite_their_sources() -> None:
    for row in ROWS:
        assert event_kinds()[row.kind].component in (Kind.ACCELERATOR, Kind.FABRIC), _name(row)
        assert set(row.source.split("+")) <= set(sources()), _name(row)
        assert row.meaning, _name(row)
        assert row.sample, _name(row)


def test_what_the_source_is_not_sure_of_does_not_act() -> None:
    assert [_name(row) for row in ROWS if not row.verified and row.advice not in WEAK] == []


def test_advice_fits_severity_and_blame() -> None:
    mild = (Severity.INFO, Severity.WARNING)
    assert [
        _name(row) for row in ROWS if row.severity is Severity.INFO and row.advice not in (None, Action.WATCH)
    ] == []
    assert [_name(row) for row in ROWS if row.severity in mild and not _at_most(row, Action.RESTART_JOB)] == []
    assert [
        _name(row) for row in ROWS if row.blame is Blame.APPLICATION and not _at_most(row, Action.RESTART_JOB)
    ] == []
    assert [_name(row) for row in ROWS if row.when and row.advice is None] == []


def test_codes_that_must_not_take_a_node_out() -> None:
    assert [code for code in sorted(NEVER_CORDON | UNUSED) if not _at_most(nvidia.xid(code), Action.RESTART_JOB)] == []


def test_codes_that_no_part_of_a_training_node_uses_are_notices() -> None:
    for code in UNUSED:
        row = nvidia.xid(code)
        assert (row.kind, row.severity, row.advice) == ("accelerator.driver_notice", Severity.INFO, None), code


def test_switch_errors_printed_non_fatal_never_take_a_node_out() -> None:
    for row in nvidia.sxids().values():
        line = f"nvidia-nvswitch0: SXid (PCI:0000:9c:00.0): {row.code:05d}, Non-fatal, Link 07 some text"
        (event,) = _events(line)
        assert event.advice is None or strength(event.advice) <= strength(Action.RESTART_JOB), row.code
        assert event.severity in (Severity.INFO, Severity.WARNING), row.code


def test_switch_errors_printed_fatal_are_fatal_whatever_the_table_says() -> None:
    for row in nvidia.sxids().values():
        (event,) = _events(f"nvidia-nvswitch0: SXid (PCI:0000:9c:00.0): {row.code:05d}, Fatal, Link 07 some text")
        assert event.severity is Severity.FATAL, row.code


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (79, "reboot_host"), (48, "reset_device"), (95, "reset_device"), (119, "reset_device"), (63, "reset_device"),
        (92, "watch"), (94, "restart_job"), (13, "restart_job"), (154, None), (45, None),
    ],
)  # fmt: skip
def test_well_known_codes(code: int, advice: str | None) -> None:
    assert nvidia.xid(code).advice == advice


@pytest.mark.parametrize("code", [177, 184, 186, 999, 10**12])
def test_an_unknown_code_is_watched_and_acted_on_by_nobody(code: int) -> None:
    for row in (nvidia.xid(code), mthreads.code(code)):
        assert (row.kind, row.severity, row.advice) == ("accelerator.unknown_code", Severity.WARNING, Action.WATCH)
        assert row.code == code
    switch = nvidia.sxid(code)
    assert (switch.kind, switch.severity, switch.advice) == ("fabric.switch_nonfatal", Severity.WARNING, Action.WATCH)


def _events(line: str) -> list[Event]:
    return [record for record in Grammar().read(Line(line, 1, origin="kernel")) if isinstance(record, Event)]


def test_samples_read_as_their_own_codes() -> None:
    for row in (*nvidia.xids().values(), *nvidia.sxids().values()):
        *_, event = _events(row.sample)  # before 45 stands the cause that it names
        family = "SXid" if kind_of(event.component) is Kind.FABRIC else "Xid"
        assert event.code == f"{family} {row.code}"
        assert event_kinds()[event.kind].component == kind_of(event.component)


@pytest.mark.parametrize("row", list(mthreads.codes().values()), ids=_name)
def test_other_vendors_sample_reads_as_its_own_code(row: Code) -> None:
    (event,) = Mthreads().read(Line(row.sample, 1, origin="kernel"))
    assert isinstance(event, Event)
    assert (event.code, event.kind, event.advice) == (f"MTGPU {row.code:#010x}", row.kind, row.advice)


def test_no_other_grammar_takes_a_sample() -> None:
    others = {name: module for name, module in modules().items() if name != "accelerator_nvidia"}
    for name, module in others.items():
        grammar = module.GRAMMAR()
        for row in (*nvidia.xids().values(), *nvidia.sxids().values()):
            assert not list(grammar.read(Line(row.sample, 1, origin="kernel"))), (name, row.sample)
        assert not list(grammar.end()), name


def test_exceptions_name_known_codes_and_sources() -> None:
    for exception in nvidia.exceptions():
        known = nvidia.xids() if exception.family == "xid" else nvidia.sxids()
        assert set(exception.codes) <= set(known)
        assert exception.note
        assert set(exception.source.split("+")) <= set(sources())


def test_codes_that_changed_their_meaning() -> None:
    assert "page retired" in nvidia.xid(63, generation="volta").meaning
    assert "page retired" not in nvidia.xid(63, generation="hopper").meaning.split("(")[0]
    assert nvidia.xid(94, generation="volta").kind == "accelerator.unknown_code"
    assert nvidia.xid(74, generation="blackwell").severity is Severity.WARNING
    assert nvidia.xid(74, generation="hopper") == nvidia.xid(74)
    assert any("low ten bits" in note for note in nvidia.notes("xid", 149))


def test_every_changed_row_is_still_valid() -> None:
    for exception in nvidia.exceptions():
        for code in exception.codes:
            for generation in (*exception.generations, "unheard-of"):
                for driver in (0, 470, 535, 565, 575, 620):
                    row = nvidia.xid(code, generation=generation, driver=driver)
                    assert row.kind in event_kinds()


@pytest.mark.parametrize(("driver", "holds"), [(0, False), (535, True), (575, False)])
def test_an_unknown_driver_meets_no_bound(driver: int, holds: bool) -> None:
    before = next(exception for exception in nvidia.exceptions() if exception.driver_before == 575)
    assert before.holds("", driver) is holds


def test_a_row_with_a_foreign_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    head = "code,kind,severity,blame,scope,advice,when,verified,meaning,source,sample"
    table = f"{head}\n1,a.b,terrible,either,device,,,yes,m,s,x\n"
    monkeypatch.setattr("collectors.codes.table._text", lambda name: table)
    with pytest.raises(ValueError, match="terrible"):
        rows("any.csv")


def test_amd_blocks_and_lines_use_the_vocabulary() -> None:
    assert all(block.uncorrectable in event_kinds() for block in amd.blocks().values())
    assert amd.uncorrectable_kind("UMC") == "accelerator.memory_uncorrectable"
    assert amd.uncorrectable_kind("a_new_block") == "accelerator.internal_fault"
    for rule in amd.rules():
        assert rule.kind in event_kinds()
        assert [other.pattern for other in amd.rules() if other.found(rule.sample)] == [rule.pattern]


def test_samples_are_composed_and_not_of_one_machine() -> None:
    addresses = {re.search(r"PCI:([0-9a-f:.]+)\)", row.sample)[1] for row in nvidia.xids().values()}  # type: ignore[index]
    assert len(addresses) == 1


def test_unknown_is_a_row_like_any_other() -> None:
    assert unknown(3).kind in event_kinds()
