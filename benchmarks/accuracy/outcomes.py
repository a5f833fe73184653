"""What is kept of a window: its truth, what each system said of it and when, and what that cost. Plain data, so that it
can be written down, read again and scored without running anything."""

from collections.abc import Container

import msgspec

from benchmarks.accuracy.cases import Case
from sickbay.components import Kind, host_of


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """The right answer. Without `verdicts`: nothing must be done. Times are seconds of the window."""

    name: str = ""
    family: str = ""
    verdicts: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    exonerated: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()  # hosts that may be named; none: no machine is at fault
    onset_s: float = 0.0
    seen_s: float = 0.0


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a plan that would be carried out at once where nobody is asked: sure enough, and now."""

    do: str
    target: str


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """One state of one incident, and when others could read it."""

    at_s: float
    id: str
    verdict: str
    component: str
    fault: str
    action: str
    state: str
    probability: float
    steps: tuple[Step, ...] = ()  # that are due now
    planned: tuple[str, ...] = ()  # verbs of all steps


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """A baseline's word: this machine, from then on."""

    at_s: float
    host: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One finished window. `alarms`: by baseline, by number of its setting."""

    key: str
    case: Case
    truth: Truth
    hosts: tuple[str, ...]
    steps_s: tuple[float, ...]  # when the job finished its steps
    words: tuple[Word, ...]
    alarms: dict[str, dict[str, tuple[Alarm, ...]]] = {}
    cpu_s: dict[str, float] = {}
    events: int = 0
    unparsed: int = 0
    complaints: tuple[str, ...] = ()
    skipped: str = ""  # why the window came to nothing: an effect that cannot be made

    @property
    def node_days(self) -> float:
        """Exposure."""
        return len(self.hosts) * self.case.until_s / 86_400


_KINDS = frozenset(kind.value for kind in Kind)


def machine_of(component: str, hosts: Container[str]) -> str:
    """The host that a component is a part of, of a link the end that is a host. Empty: it is none of `hosts`."""
    kind = component.partition(":")[0]
    if kind not in _KINDS:  # an owner
        return ""
    if kind == Kind.LINK:
        ends = component.partition(":")[2].split("~")
        return next((host for end in ends if (host := end.partition("/")[0]) in hosts), "")
    host = host_of(component) or ""
    return host if host in hosts else ""
