"""What a system answered to a window, set against the truth: machines named, parts, kinds, classes, times, and harm."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from benchmarks.accuracy.outcomes import Alarm, Result, Truth, Word, machine_of
from sickbay.messages import Action, strength
from simulator.truth.expectation import TAKING

HARMLESS = frozenset(one.value for one in Action if strength(one) < strength(Action.CHECK_LINK))
STOPS = frozenset({"stop_job", "relaunch_in_allocation", "requeue", "hold_job"})
HOLDS = TAKING - {"exclude_for_job"} | {"dependency_hold"}
MOVES_S = 60.0  # a job that finishes a step within so long after a moment was progressing then
LINKED = ("link:", "optic:", "port:")


class Answer(NamedTuple):
    """One window and one system. Times are seconds of the window, None: never."""

    real: bool  # something was wrong that has a right answer
    decoy: bool
    family: str
    effect: str
    machines: frozenset[str]  # that may be named; empty: none is at fault
    named: frozenset[str]  # machines that were named, rightly or not
    machine_s: float | None  # when a right machine was named first
    part: bool | None  # the right part of a right kind of verdict; None: not asked for
    wrong_end: bool  # another part of the same link
    kind: bool | None  # the right kind of verdict
    class_: bool | None  # the right class
    right_s: float | None  # when the right part was named first
    abstained: bool  # nothing but `unknown`
    silent: bool
    touched: frozenset[str]  # on a decoy or nothing: what would be taken out of service
    told: bool  # on a decoy or nothing: anything at all
    stops: frozenset[str]
    holds: frozenset[str]
    exclusions: frozenset[str]
    forbidden: frozenset[str]
    onset_s: float
    seen_s: float
    node_days: float
    impact_s: float | None  # when the job felt it first: a step that took long, or none that came

    def after(self, seconds: float, *, seen: bool = False) -> bool:
        """Whether the right thing (the machine, where one is at fault) was named within so long."""
        when = self.machine_s if self.machines else self.right_s
        return when is not None and when - (self.seen_s if seen else self.onset_s) <= seconds


def of_sickbay(result: Result) -> Answer:
    """The pipeline's own answer."""
    truth, case = result.truth, result.case
    real = bool(truth.verdicts)
    gone = {word.id for word in result.words if word.state == "merged"}
    words = [word for word in result.words if word.id not in gone]
    last = {word.id: word for word in words}
    about = _about(truth, list(last.values()))
    right = [word for word in words if _right(truth, word)] if real else []
    named = _named(result, words, everything=real)
    on_machine = [
        word.at_s
        for word in words
        if word.verdict == "component" and machine_of(word.component, result.hosts) in truth.machines
    ]
    harm = _harm(result)
    return Answer(
        real=real, decoy=case.sort == "decoy" or (case.sort == "fault" and not real), family=truth.family,
        effect=case.effect, machines=frozenset(truth.machines), named=named,
        machine_s=min(on_machine, default=None), part=any(_right(truth, one) for one in about) if real else None,
        wrong_end=real and not right and any(_same_link(truth, one) for one in about),
        kind=any(one.verdict in truth.verdicts for one in about) if real else None,
        class_=any(_right(truth, one) and one.fault in truth.faults for one in about)
        if real and truth.faults
        else None,
        right_s=min((one.at_s for one in right), default=None),
        abstained=bool(last) and all(one.verdict == "unknown" for one in last.values()), silent=not last,
        touched=frozenset(_touched(words)) if not real else frozenset(), told=bool(last) and not real,
        node_days=result.node_days, onset_s=truth.onset_s, seen_s=truth.seen_s, impact_s=impact_s(result), **harm,
    )  # fmt: skip


def of_baseline(result: Result, alarms: Sequence[Alarm]) -> Answer:
    """A baseline's answer: it names machines and nothing else, and a machine that it names is taken out."""
    truth, case = result.truth, result.case
    real = bool(truth.verdicts)
    named = frozenset(one.host for one in alarms)
    first = min((one.at_s for one in alarms if one.host in truth.machines), default=None)
    wrong = frozenset(f"host:{one}" for one in named - set(truth.machines))
    return Answer(
        real=real, decoy=case.sort == "decoy" or (case.sort == "fault" and not real), family=truth.family,
        effect=case.effect, machines=frozenset(truth.machines), named=named, machine_s=first, part=None,
        wrong_end=False, kind=None, class_=None, right_s=first, abstained=False, silent=not named,
        touched=wrong if not real else frozenset(), told=bool(named) and not real, stops=frozenset(), holds=wrong,
        exclusions=frozenset(), forbidden=frozenset(), onset_s=truth.onset_s, seen_s=truth.seen_s,
        node_days=result.node_days, impact_s=impact_s(result),
    )  # fmt: skip


def _right(truth: Truth, word: Word) -> bool:
    return word.verdict in truth.verdicts and word.component in truth.components


def _about(truth: Truth, words: Sequence[Word]) -> list[Word]:
    """The last words on what the effect happened to; where there are none, all of them."""
    ours = {*truth.touched, *truth.components}
    return [one for one in words if one.component in ours] or list(words)


def _same_link(truth: Truth, word: Word) -> bool:
    """It names a part of the link that is at fault, or its other end, and not the part that is."""
    linked = any(one.startswith(LINKED) for one in truth.components)
    return linked and word.component.startswith(LINKED) and word.component in truth.touched


def _named(result: Result, words: Iterable[Word], *, everything: bool) -> frozenset[str]:
    """Machines that a verdict names; where nothing is wrong only those for which something would be done."""
    told = (word for word in words if word.verdict == "component" and (everything or word.action not in HARMLESS))
    return frozenset(host for word in told if (host := machine_of(word.component, result.hosts)))


def _touched(words: Iterable[Word]) -> Iterator[str]:
    for word in words:
        if word.action not in HARMLESS:
            yield word.component
        yield from (step.target for step in word.steps if step.do in TAKING)


def progressing(result: Result, at_s: float) -> bool:
    """Whether the job was making steps at a moment: one was finished within a minute after it, or, where the window
    ends before that, as short before it."""
    left = result.case.until_s - at_s
    if any(at_s < one <= at_s + MOVES_S for one in result.steps_s):
        return True
    usual = 4 * result.case.step_s
    return left < usual and any(at_s - usual <= one <= at_s for one in result.steps_s)


def impact_s(result: Result) -> float | None:
    """When the job felt something first: the end of the last step before one that took twice as long, or never came."""
    times = [one for one in result.steps_s if one >= result.truth.onset_s - 3 * result.case.step_s]
    usual = result.case.step_s
    for before, after in pairwise([*times, float(result.case.until_s)]):
        if after - before > 2 * usual and after > result.truth.onset_s:
            return before + usual
    return None


def _harm(result: Result) -> dict[str, frozenset[str]]:
    """What would be done at once to the innocent: jobs that progress stopped, hosts of the job held or excluded."""
    truth = result.truth
    allowed = set(truth.machines)
    stops, holds, exclusions, forbidden = set[str](), set[str](), set[str](), set[str]()
    for word in result.words:
        ours = word.component in {*truth.touched, *truth.components}
        forbidden |= {do for do in word.planned if do in truth.forbidden and ours}
        right = _right(truth, word)
        for step in word.steps:
            host = machine_of(step.target, result.hosts)
            if step.do in STOPS and not right and progressing(result, word.at_s):
                stops.add(step.target)
            # What hangs on a shared part that is at fault may be held, blamelessly.
            held = step.do in HOLDS and host and host not in allowed and not (right and word.verdict == "shared")
            if held and progressing(result, word.at_s):
                holds.add(host)
            if step.do == "exclude_for_job" and host and host not in allowed:
                exclusions.add(host)
            if step.do in TAKING and step.target in truth.exonerated:
                forbidden.add(f"{step.do} of {step.target}")
    return {
        "stops": frozenset(stops), "holds": frozenset(holds), "exclusions": frozenset(exclusions),
        "forbidden": frozenset(forbidden),
    }  # fmt: skip


Read = Callable[[Result], Answer]
