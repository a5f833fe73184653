"""The figures of the accuracy benchmark: known answers, and naive twins."""

from math import comb, exp, factorial, isclose
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.accuracy.answers import Answer, of_baseline, of_sickbay, progressing
from benchmarks.accuracy.cases import Case
from benchmarks.accuracy.intervals import at_most, bootstrap, rate, share, upper
from benchmarks.accuracy.outcomes import Alarm, Result, Step, Truth, Word, machine_of
from benchmarks.accuracy.scores import f1, machine_counts, score

HOSTS = ("h1", "h2", "h3", "h4")
CARD = "accelerator:h1/0000:18:00"
WITHIN = (10, 30, 90, 600)


def truth(**fields: Any) -> Truth:
    given: dict[str, Any] = {
        "verdicts": ("component",), "components": (CARD, "host:h1"), "touched": (CARD, "host:h1", "job:1"),
        "faults": ("accelerator_off_bus",), "machines": ("h1",), "onset_s": 200.0, "seen_s": 205.0,
        "family": "explicit",
    }  # fmt: skip
    return Truth(**given | fields)


def word(at_s: float = 210.0, **fields: Any) -> Word:
    given: dict[str, Any] = {
        "id": "a", "verdict": "component", "component": CARD, "fault": "accelerator_off_bus", "action": "reboot_host",
        "state": "open", "probability": 0.97,
    }  # fmt: skip
    return Word(at_s=at_s, **given | fields)


def result(*words: Word, what: Truth | None = None, sort: Any = "fault", **fields: Any) -> Result:
    case = Case(seed=1, sort=sort, hosts=4, effect="x", at_s=200)
    given: dict[str, Any] = {"steps_s": tuple(float(s) for s in range(5, 480, 5))}
    return Result(
        key=case.key, case=case, truth=truth() if what is None else what, hosts=HOSTS, words=words, **given | fields
    )


def nothing(*words: Word, sort: Any = "decoy") -> Answer:
    return of_sickbay(result(*words, what=Truth(), sort=sort))


def test_a_right_machine_is_a_hit_and_in_time() -> None:
    one = of_sickbay(result(word()))
    assert machine_counts([one]) == (1, 0, 0)
    assert (one.part, one.kind, one.class_) == (True, True, True)
    assert [one.after(limit) for limit in WITHIN] == [True, True, True, True]
    assert not one.after(9)
    assert one.after(5, seen=True)


def test_a_wrong_machine_is_one_too_many_and_one_missed() -> None:
    one = of_sickbay(result(word(component="host:h2")))
    assert machine_counts([one]) == (0, 1, 1)
    assert one.part is False
    assert f1([one]) == 0.0


def test_a_group_is_charged_for_each_wrong_member() -> None:
    one = of_baseline(result(), [Alarm(at_s=201.0, host=host) for host in HOSTS])
    assert machine_counts([one]) == (1, 3, 0)
    assert f1([one]) == pytest.approx(2 / 5)


def test_silence_is_a_miss_and_an_abstention_is_told_apart() -> None:
    silent, unsure = of_sickbay(result()), of_sickbay(result(word(verdict="unknown", component="job:1")))
    assert machine_counts([silent, unsure]) == (0, 0, 2)
    assert (silent.silent, silent.abstained) == (True, False)
    assert (unsure.silent, unsure.abstained) == (False, True)


def test_the_first_right_word_dates_the_answer_and_the_last_decides_it() -> None:
    changed = of_sickbay(result(word(210), word(250, component="host:h2")))
    assert changed.machine_s == 210
    assert changed.part is False
    assert machine_counts([changed]) == (1, 1, 0)


def test_a_merged_incident_is_not_charged() -> None:
    gone = [word(208, id="b", component="host:h2"), word(212, id="b", component="host:h2", state="merged")]
    assert machine_counts([of_sickbay(result(word(), *gone))]) == (1, 0, 0)


def test_a_shared_part_names_no_machine() -> None:
    what = truth(verdicts=("shared",), components=("switch:l1",), touched=("switch:l1", "host:h1"), machines=())
    right = of_sickbay(result(word(verdict="shared", component="switch:l1"), what=what))
    wrong = of_sickbay(result(word(component="host:h1"), what=what))
    assert machine_counts([right]) == (0, 0, 0)
    assert machine_counts([wrong]) == (0, 1, 0)
    assert right.part
    assert not wrong.part
    assert right.after(10)


def test_the_other_end_of_a_link_is_told_apart() -> None:
    parts = ("optic:l1/E1", "optic:h1/eth0", "port:l1/E1", "port:h1/eth0")
    what = truth(components=("optic:l1/E1",), touched=parts, machines=(), faults=())
    one = of_sickbay(result(word(component="optic:h1/eth0"), what=what))
    assert one.wrong_end
    assert one.part is False
    assert not of_sickbay(result(word(component="optic:l1/E1"), what=what)).wrong_end
    assert not of_sickbay(result(word(component="host:h3"), what=what)).wrong_end


def test_on_a_decoy_watching_is_told_and_taking_is_harm() -> None:
    watched, taken = nothing(word(action="watch")), nothing(word(action="drain_host"))
    assert (watched.told, watched.touched) == (True, frozenset())
    assert taken.touched == {CARD}
    assert machine_counts([watched, taken]) == (0, 1, 0)
    assert score([watched, taken], WITHIN)["decoy_holds"] == 1


def test_a_fault_without_a_right_verdict_counts_as_a_decoy() -> None:
    assert of_sickbay(result(what=Truth(name="glitch"))).decoy


def test_a_stop_of_a_job_that_moves_is_false_unless_the_part_is_right() -> None:
    stop = (Step(do="stop_job", target="job:1"),)
    assert nothing(word(steps=stop)).stops == {"job:1"}
    assert of_sickbay(result(word(steps=stop))).stops == frozenset()
    assert of_sickbay(result(word(steps=stop, component="host:h2"))).stops == {"job:1"}
    stood = result(word(steps=stop, component="host:h2"), steps_s=tuple(float(s) for s in range(5, 200, 5)))
    assert of_sickbay(stood).stops == frozenset()


def test_holds_and_exclusions_of_the_innocent_are_counted() -> None:
    steps = (Step(do="drain_host", target="host:h2"), Step(do="exclude_for_job", target="host:h3"),
             Step(do="drain_host", target="host:h1"), Step(do="page_owner", target="owner:site"))  # fmt: skip
    one = of_sickbay(result(word(steps=steps)))
    assert one.holds == {"h2"}
    assert one.exclusions == {"h3"}


def test_what_hangs_on_a_shared_part_at_fault_may_be_held() -> None:
    what = truth(verdicts=("shared",), components=("switch:l1",), touched=("switch:l1",), machines=())
    held = (Step(do="dependency_hold", target="host:h2"),)
    assert of_sickbay(result(word(verdict="shared", component="switch:l1", steps=held), what=what)).holds == frozenset()
    assert of_sickbay(result(word(verdict="shared", component="switch:l2", steps=held), what=what)).holds == {"h2"}


def test_forbidden_verbs_and_the_exonerated() -> None:
    what = truth(forbidden=("reset_device",), exonerated=("host:h2",))
    planned = of_sickbay(result(word(planned=("drain_host", "reset_device")), what=what))
    taken = of_sickbay(result(word(steps=(Step(do="drain_host", target="host:h2"),)), what=what))
    assert planned.forbidden == {"reset_device"}
    assert taken.forbidden == {"drain_host of host:h2"}


def test_a_job_progresses_where_a_step_ends_soon_after() -> None:
    one = result(steps_s=tuple(float(s) for s in range(5, 305, 5)))
    assert progressing(one, 250)
    assert not progressing(one, 301)
    assert progressing(result(), 478)  # the window ends before the next step could


@pytest.mark.parametrize(
    ("component", "machine"),
    [(CARD, "h1"), ("host:h9", ""), ("link:h2/eth0~leaf/E1", "h2"), ("link:leaf/E1~spine/E2", ""),
     ("switch:h1", "h1"), ("owner:site", ""), ("", ""), ("job:1", "")],
)  # fmt: skip
def test_the_machine_of_a_component(component: str, machine: str) -> None:
    assert machine_of(component, HOSTS) == machine


def test_figures_carry_how_many_they_are_of() -> None:
    found = score([of_sickbay(result(word())), of_sickbay(result())], WITHIN)
    assert found["machine_recall"][0] == 0.5
    assert found["machine_recall"][3] == 2
    assert found["recall_within"]["10"][0] == 0.5
    assert found["onset_to_machine_s"] == {"p50": 10.0, "p95": 10.0, "n": 1}
    assert found["classes"]["x"] == {"n": 2, "component_right": 1, "machine_right": 1, "within_90_s": 1}
    assert found["families"]["explicit"]["n"] == 2
    assert score([], WITHIN)["machine_f1"] is None


def test_wilson_known_answers() -> None:
    assert share(0, 0) is None
    assert [round(one, 4) for one in share(8, 10) or ()] == [0.8, 0.4902, 0.9433]
    assert [round(one, 4) for one in share(0, 10) or ()] == [0.0, 0.0, 0.2775]


@given(st.integers(0, 60), st.integers(1, 60))
def test_a_share_lies_in_its_interval(right: int, more: int) -> None:
    told = share(right, right + more)
    assert told is not None
    value, low, high = told
    assert 0 <= low <= value <= high <= 1
    score_at = (value - low) / (low * (1 - low) / (right + more)) ** 0.5 if right else 1.96  # what Wilson's is
    assert isclose(score_at, 1.96, abs_tol=0.001)


@given(st.integers(0, 20), st.floats(0.01, 30))
def test_the_tail_of_rare_events_against_a_naive_sum(count: int, mean: float) -> None:
    naive = sum(exp(-mean) * mean**k / factorial(k) for k in range(count + 1))
    assert isclose(at_most(count, mean), naive, rel_tol=1e-6, abs_tol=1e-12)


def test_the_upper_bound_of_nothing_is_the_rule_of_three() -> None:
    assert upper(0) == pytest.approx(2.9957, abs=1e-3)
    assert upper(1) == pytest.approx(4.7439, abs=1e-3)
    assert rate(0, 30_000)[1] == pytest.approx(0.1, abs=1e-3)
    assert rate(0, 150_000)[1] == pytest.approx(0.02, abs=1e-3)
    assert rate(0, 0)[1] == float("inf")


def test_the_bootstrap_of_a_mean_is_near_its_binomial() -> None:
    cases = [1.0] * 30 + [0.0] * 10
    value, low, high = bootstrap(lambda drawn: sum(drawn) / len(drawn), cases) or (0, 0, 0)
    tail = [sum(comb(40, k) * 0.75**k * 0.25 ** (40 - k) for k in range(most + 1)) for most in range(41)]
    least, most = next(k for k in range(41) if tail[k] >= 0.025), next(k for k in range(41) if tail[k] >= 0.975)
    assert value == 0.75
    assert low == pytest.approx(least / 40, abs=0.03)
    assert high == pytest.approx(most / 40, abs=0.03)
    assert bootstrap(lambda drawn: None, cases) is None
