"""What remediation has done beside, as it takes its time: tests of nodes, and evidence being saved."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from remediation.bundle import Saving, bundle
from remediation.decision import Context, Decision
from remediation.ledger import COLLECT, TEST, Ledger
from remediation.release_test import ReleaseTest, Result
from remediation.stages.order import SURE
from sickbay.actions import Action, ActionState, Outcome
from sickbay.components import Kind
from sickbay.settings import Remediation

SOON, SELDOM_S = 10, 3600.0  # so many tests in quick succession, then up to an hour between two
COLLECT_S = 30.0  # evidence holds up a stalled job no longer than that (nights, rule 2)


@dataclass(slots=True)
class Errands:
    """Begun by `begin`, asked for by `ended`, forgotten once their line is written.

    A test that is not passed is run again, as the part may have been repaired. So that it is not tested until it
    passes by luck, the more tests there were, the more passes in a row are wanted.
    """

    settings: Remediation
    folder: Path | None  # for evidence
    monotonic: Callable[[], float]
    _tests: dict[str, ReleaseTest] = field(default_factory=dict)
    _savings: dict[str, tuple[Saving, float]] = field(default_factory=dict)
    _passes: dict[str, int] = field(default_factory=dict)  # in a row
    _again_s: dict[str, float] = field(default_factory=dict)  # no test before that
    _begun_s: dict[str, float] = field(default_factory=dict)

    def begin(self, decision: Decision, context: Context) -> None:
        """Starts a test or a saving, unless it runs already or has to wait."""
        key, now_s = decision.action.id, self.monotonic()
        if decision.do == TEST and key not in self._tests and now_s >= self._again_s.get(key, now_s):
            node = decision.host.removeprefix(f"{Kind.HOST}:")
            self._tests[key] = ReleaseTest(
                self.settings.test_command, node, self.settings.test_timeout_s, self.monotonic
            )
            self._begun_s[key] = now_s
        elif decision.do == COLLECT and key not in self._savings and self.folder is not None:
            self._savings[key] = Saving(self.folder, decision.action, bundle(decision, context)), now_s

    def ended(self, ledger: Ledger, now_ms: int) -> Iterator[tuple[Action, Outcome | None]]:
        """The lines of what is over now, and what a test proved. Ends tests that nobody wants any more."""
        for key, run in list(self._tests.items()):
            line = ledger.lines.get(key)
            if line is None or line.state is not ActionState.INTENDED:
                run.stop()
                del self._tests[key]
            elif (result := run.poll()) is not None:
                del self._tests[key]
                yield self._tested(line, result, now_ms)
        for key, (saving, begun_s) in list(self._savings.items()):
            line = ledger.lines.get(key)
            if line is None or line.state is not ActionState.INTENDED:
                del self._savings[key]
            elif saving.error is not None or self.monotonic() - begun_s > COLLECT_S:
                yield _saved(line, saving, now_ms), None

    def close(self) -> None:
        """Kill what runs."""
        for run in self._tests.values():
            run.stop()
        self._tests.clear()
        self._savings.clear()

    def _tested(self, line: Action, result: Result, now_ms: int) -> tuple[Action, Outcome | None]:
        passes = self._passes[line.id] = self._passes.get(line.id, 0) + 1 if result.passed else 0
        wanted = passes_wanted(self.settings.test_sensitivity, line.tries + 1)
        said = replace(line, read_back=result.says, at_ms=now_ms)
        outcome = self._outcome(line, result, now_ms)
        if result.passed and passes >= wanted:
            return replace(said, state=ActionState.VERIFIED, why=f"the test: {result.says}"), outcome
        self._wait(line)
        if result.passed:
            return replace(
                said, why=f"passed {passes} of {wanted} times in a row after {line.tries} that did not"
            ), outcome
        return replace(said, tries=line.tries + 1, why=f"not passed so far: {result.says}"), outcome

    def _wait(self, line: Action) -> None:
        """At most half of the time a node is tested; after some tests ever more seldom."""
        now_s = self.monotonic()
        gap_s = max(self.settings.test_again_s, now_s - self._begun_s.get(line.id, now_s))
        self._again_s[line.id] = now_s + min(gap_s * 2.0 ** max(0, line.tries - SOON), max(gap_s, SELDOM_S))

    def _outcome(self, line: Action, result: Result, now_ms: int) -> Outcome | None:
        """What it proves: a failure confirms the fault, a first pass refutes it, a later one tells of a repair."""
        if line.tries and result.passed is not False:
            return None
        return Outcome(
            id=line.id, incident=line.incident, target=line.target, result=self._proves(result.passed),
            test=" ".join(self.settings.test_command)[:400], sensitivity=self.settings.test_sensitivity,
            detail=result.says, at_ms=now_ms,
        )  # fmt: skip

    def _proves(self, passed: bool | None) -> str:
        if passed is None or (passed and self.settings.test_sensitivity < SURE):
            return "inconclusive"
        return "refuted" if passed else "confirmed"


def passes_wanted(sensitivity: float, tests: int) -> int:
    """Passes in a row, so that all tests of a bad part together let it through with at most 1 - 0.9 = 10 %.

    A bad part passes k times in a row with (1 - s)^k, and had that many chances: tests * (1 - s)^k <= 0.1.
    """
    wanted = 1
    while sensitivity >= SURE and tests * (1.0 - sensitivity) ** wanted > 1.0 - SURE + 1e-9:
        wanted += 1
    return wanted


def _saved(line: Action, saving: Saving, now_ms: int) -> Action:
    if saving.error == "":
        return replace(line, state=ActionState.VERIFIED, read_back=str(saving.path), at_ms=now_ms)
    why = saving.error or f"not saved within {COLLECT_S:.0f} s: the rest goes on without it"
    return replace(line, state=ActionState.FAILED, why=why, at_ms=now_ms)
