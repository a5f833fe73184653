"""All nights run through the live folds; those that are right today stay right; the docs' table says which.

To pin one that became right: run `python -m benchmarks nights --write`, and add it here.
"""

import tomllib
from pathlib import Path

import pytest

from benchmarks import nights
from sickbay.messages import Action, Incident, PlanStep, Severity, Verdict
from simulator.scenario_file import read
from simulator.truth.plan import Ban, Right, Told, Truth, Wanted, marks

PINNED = tomllib.loads((Path(__file__).parent / "pinned.toml").read_text(encoding="utf-8"))
DIAGNOSED, RIGHT = set(PINNED["diagnosed"]), set(PINNED["right"])
HARMFUL = set(PINNED["harmful"])


@pytest.mark.slow
@pytest.mark.parametrize("path", nights.files(), ids=lambda path: path.stem)
def test_a_night_runs_and_what_was_right_stays_right(path: Path) -> None:
    ran = nights.run(path)
    number = ran.night.night
    assert number in HARMFUL or not ran.marks.harm, ran.marks.harm
    assert number not in DIAGNOSED or ran.marks.diagnosed, nights.row(ran)
    assert number not in RIGHT or ran.marks.right, nights.row(ran)


def test_the_docs_say_which_are_right() -> None:
    text = nights.DOCS.read_text(encoding="utf-8")
    said = {
        head: {int(word) for word in rest.split(".")[0].split(",")}
        for line in text.splitlines()
        for head, found, rest in [line.partition(": ")]
        if found and head in ("Diagnosed rightly", "With the right plan")
    }
    assert said == {"Diagnosed rightly": DIAGNOSED, "With the right plan": RIGHT}
    assert RIGHT <= DIAGNOSED
    assert not HARMFUL & DIAGNOSED


def test_the_docs_list_every_night_by_its_title() -> None:
    text = nights.DOCS.read_text(encoding="utf-8")
    told = [read(path) for path in nights.files()]
    assert [one.title for one in told if f"| {one.night} · {one.title} |" not in text] == []


def test_what_the_simulator_lacks_is_counted() -> None:
    wants = {one.night: len(one.wants) for one in map(read, nights.files()) if one.wants}
    assert (len(wants), sum(wants.values())) == (PINNED["nights_that_want"], PINNED["wants"])


def incident(component: str, *steps: tuple[str, str, str], verdict: str = "component") -> Incident:
    plan = tuple(PlanStep(do=do, target=target, phase="know", when=when) for do, target, when in steps)
    return Incident(
        id=f"{verdict}-{component}", component=component, fault="host_down", verdict=Verdict(verdict),
        severity=Severity.ERROR, action=Action.WATCH, probability=0.9, plan=plan,
    )  # fmt: skip


TRUTH = Truth(
    rights=(
        Right(
            frozenset({"component"}), frozenset({"host:a"}), frozenset({"host_down"}),
            (Wanted("drain_host", "host:a"), Wanted("run_test")), by_s=100,
        ),
    ),
    bans=(Ban("stop_job", when="now"), Ban("reset_device")), hosts=frozenset("abc"), most=1,
)  # fmt: skip
GOOD = (("drain_host", "host:a", "now"), ("run_test", "host:a", "when_idle"))


def test_a_right_answer_has_all_marks() -> None:
    found = marks(TRUTH, [Told(incident("host:a", *GOOD), 90.0)])
    assert found.right
    assert (found.verdict, found.component, found.fault, found.in_time, found.plan) == (True,) * 5


def test_what_is_wrong_with_an_answer() -> None:
    late = marks(TRUTH, [Told(incident("host:a", *GOOD), 101.0)])
    assert late.in_time is False
    assert not late.diagnosed
    silent = marks(TRUTH, [])
    assert silent.verdict is False
    assert silent.missing == ("drain_host", "run_test")
    other = marks(TRUTH, [Told(incident("host:b", ("drain_host", "host:b", "now")), 90.0)])
    assert other.component is False
    assert other.harm == ("innocent: drain_host of host:b",)
    order = marks(TRUTH, [Told(incident("host:a", *reversed(GOOD)), 90.0)])
    assert order.plan is False
    assert order.missing == ("run_test (too early)",)
    assert order.diagnosed
    banned = marks(TRUTH, [Told(incident("host:a", *GOOD, ("stop_job", "job:1", "now")), 90.0)])
    assert banned.harm == ("forbidden: stop_job of job:1",)
    assert not marks(TRUTH, [Told(incident("host:a", *GOOD, ("stop_job", "job:1", "at_checkpoint")), 90.0)]).harm


def test_harm_counts_even_where_it_was_taken_back() -> None:
    bad = incident("host:a", ("drain_host", "host:c", "now"))
    found = marks(TRUTH, [Told(bad, 80.0), Told(incident("host:a", *GOOD), 90.0)])
    assert found.harm == ("innocent: drain_host of host:c",)


def test_a_night_of_nothing_wants_no_claim() -> None:
    nothing = Truth(hosts=frozenset("abc"))
    assert marks(nothing, []).right
    assert not marks(nothing, [Told(incident("host:a"), 10.0)]).right
    assert marks(nothing, [Told(incident("job:1", verdict="job"), 10.0)]).right
