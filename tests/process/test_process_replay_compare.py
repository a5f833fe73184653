"""What counts as the same: records to the byte, in order, as far as the range goes."""

from types import SimpleNamespace
from typing import Any

import pytest

from sickbay import messages
from sickbay.app.replaying.replay import Said, Story
from sickbay.app.replaying.replay_compare import Outcome, against_archive, against_run, holding
from sickbay.app.replaying.replay_holds import Hold
from sickbay.app.replaying.replay_report import Told, as_json, lines
from sickbay.app.replaying.replay_span import Span
from sickbay.messages import Incident, PlanStep
from tests.remediation.kit import found

BEGIN, END = 1_000_000, 2_000_000


def incident(id_: str = "i1", **fields: Any) -> Incident:
    made: Incident = messages.replace(found(id_, BEGIN), **fields)
    return made


def said(at_ms: int, one: Incident) -> Said:
    return Said(at_ms, messages.encode(one))


def run(story: Story, *holds: Hold) -> Any:
    return SimpleNamespace(story=story, holds=SimpleNamespace(found={(one.target, one.incident): one for one in holds}))


def live(*mine: Said, id_: str = "i1") -> Story:
    return Story({id_: list(mine)}, {})


ONE, TWO, THREE = (incident(probability=p) for p in (0.91, 0.92, 0.93))


@pytest.mark.parametrize(
    ("archive", "replay", "same"),
    [
        ([said(1_500_900, ONE)], [said(1_500_000, ONE)], True),
        ([said(1_500_900, ONE)], [said(1_500_000, TWO)], False),
        ([said(1_500_900, ONE), said(1_600_900, TWO)], [said(1_500_000, ONE)], False),
        ([said(1_500_900, ONE)], [said(1_500_000, ONE), said(1_600_000, TWO)], False),
        ([said(1_500_900, ONE)], [], False),
        ([], [said(1_500_000, ONE)], False),
        # A look of the range may be told behind it, and what a look behind it told is none of ours.
        ([said(1_500_900, ONE), said(END + 900, TWO)], [said(1_500_000, ONE), said(END, TWO)], True),
        ([said(1_500_900, ONE), said(END + 900, TWO)], [said(1_500_000, ONE)], True),
        ([said(END + 900, ONE)], [], None),
        ([said(BEGIN - 900, ONE)], [said(BEGIN - 1_000, ONE)], None),  # both before the range
    ],
)
def test_incidents_are_compared_by_all_that_was_said(
    archive: list[Said], replay: list[Said], same: bool | None
) -> None:
    stories = [Story({"i1": one} if one else {}, {}) for one in (archive, replay)]
    outcome = against_archive(stories[0], run(stories[1]), BEGIN, END)
    assert outcome.equal == (same is not False)
    assert outcome.same == (same is True)


def test_claims_that_were_explicit_evidence_are_no_difference() -> None:
    def story(*values: tuple[str, bytes]) -> Story:
        made = Story()
        for id_, value in values:
            made.evidence.setdefault(id_, []).append(Said(1_500_000, value))
        return made

    both, mine = story(("a", b"short"), ("a", b"long"), ("b", b"short")), story(("a", b"long"))
    mine.explicit.add("b")
    assert against_archive(both, run(mine), BEGIN, END).equal
    mine.explicit.clear()
    assert against_archive(both, run(mine), BEGIN, END).evidence.gone == ("b",)
    assert against_archive(story(), run(mine), BEGIN, END).evidence.new == ("a",)
    assert against_archive(story(("a", b"other")), run(mine), BEGIN, END).evidence.different == ("a",)


def told(outcome: Outcome, changed: Outcome | None = None, *holds: Hold) -> Told:
    return Told(Span(BEGIN, BEGIN, BEGIN, END, ("a note",)), outcome, changed, holds, 0, 0)


def test_people_and_scripts_are_told_what_differs() -> None:
    drain = PlanStep(do="drain_host", target="host:n1", phase="contain")
    before = incident(plan=(drain,), probability=0.99)
    after = incident(plan=(), probability=0.5)
    held = Hold("host:n1", "i1", 1_500_000, "held", "accelerator_off_bus")
    story = live(said(1_500_000, before))
    story.incidents["i2"] = [said(1_600_000, incident("i2"))]
    outcome = against_run(run(story, held), run(live(said(1_500_000, after))), BEGIN, END)
    assert not outcome.equal
    assert [(one.id, one.after is None) for one in outcome.incidents] == [("i1", False), ("i2", True)]
    assert set(outcome.incidents[0].fields) == {"probability", "plan"}
    assert holding(before) == ["drain_host host:n1"]
    assert holding(after) == []
    text = "\n".join(lines(told(outcome, outcome)))
    for expected in (
        "probability: 0.990 -> 0.500", "plan without: drain_host host:n1", "would not: drain_host host:n1",
        "- i2 only in these settings", "hold host:n1: held (accelerator_off_bus) -> not asked for", "note: a note",
        "none asked for",
    ):  # fmt: skip
        assert expected in text, expected
    answer = as_json(told(outcome, None, held))
    assert answer["archive"]["incidents"]["different"][0]["before"]["holds"] == ["drain_host host:n1"]
    assert answer["holds"][0]["state"] == "held"
    assert (answer["same"], answer["settings"]) == (False, None)


def test_what_cannot_be_read_is_still_told() -> None:
    odd = Story({"i1": [Said(1_500_000, b"{]")]}, {})
    outcome = against_run(run(odd), run(Story()), BEGIN, END)
    assert "? i1: cannot be read" in "\n".join(lines(told(outcome)))
