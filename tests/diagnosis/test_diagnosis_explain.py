"""Sentences: whole in both languages, and never a template made of somebody else's text."""

from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnosis.engine import diagnose
from diagnosis.explain import LANGUAGES, say, sentences
from sickbay.messages import Verdict
from sickbay.vocabulary import faults
from tests.diagnosis.kit import card, case, event


def fields(text: str) -> set[str]:
    return {field for _, field, _, _ in Formatter().parse(text) if field is not None}


@pytest.mark.parametrize("key", sorted(sentences()))
def test_each_sentence_is_there_in_each_language_with_the_same_facts(key: str) -> None:
    row = sentences()[key]
    assert set(row) == set(LANGUAGES)
    assert fields(row["en"]) == fields(row["zh"])


@pytest.mark.parametrize("fault", sorted(faults()))
def test_each_fault_is_told_and_its_test_has_words(fault: str) -> None:
    row = faults()[fault]
    assert fields(row.en) == fields(row.zh) == {"component"}
    assert not row.test or f"test_{row.test}" in sentences()


def test_each_verdict_has_a_summary() -> None:
    assert all(f"summary_{verdict}" in sentences() for verdict in Verdict)


@given(st.text(max_size=100))
def test_hostile_facts_fill_and_never_format(text: str) -> None:
    line = say("explicit", {"where": text + "{0.__class__}", "code": "{where}", "repeated": ""})
    assert "{where}" in line
    assert "{0.__class__}" in line


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_summary_names_what_and_how_sure(lang: str) -> None:
    (incident,) = diagnose(case([event("accelerator.off_bus", card("h17", 3), code="XID 79")]), lang)
    assert card("h17", 3) in incident.summary
    assert "95" in incident.summary
    assert "\n" not in incident.summary
