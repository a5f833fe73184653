"""Polling: what is asked from one place for the whole cluster, told to the log when it changes, and again now and then.

A source is a pure fold around one impure question. A question that fails is a reading: it is counted and said, what was
known stands, and nothing ends because of it; so is an answer over which the source itself stumbles. What could not be
appended is told by the next poll: at least once.
"""

import re
import secrets
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from collectors.cluster.poll_frames import Framer
from sickbay import actions, selfmetrics
from sickbay.actions import Control
from sickbay.components import Kind, kind_of
from sickbay.config import ConfigError
from sickbay.log import Appender, LogError, TooLarge, UnknownTopic
from sickbay.messages import AnyMessage, Event, Severity, encode
from sickbay.schema import Samples
from sickbay.seal import Seal, host_key, sealed
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config
from sickbay.topics import EVENTS, STEPS

CATALOGUE: Mapping[str, str] = {
    "slurm": "collectors.cluster.scheduler_slurm:sources",
    "kubernetes": "collectors.cluster.scheduler_kubernetes:sources",
    "gnmi": "collectors.cluster.switch_gnmi:sources",
    "snmp": "collectors.cluster.switch_snmp:sources",
    "syslog": "collectors.cluster.switch_syslog:sources",
    "inventory": "collectors.cluster.inventory:sources",
    "facility": "collectors.cluster.facility_redfish:sources",
    "infiniband": "collectors.cluster.fabric_infiniband:sources",
}

WANTED: Mapping[str, Callable[[Config], bool]] = {  # entry: whether the settings give it something to ask
    "slurm": lambda config: config.remediation.scheduler == "slurm",
    "kubernetes": lambda config: bool(
        config.kubernetes.kubeconfig or config.kubernetes.namespaces or config.kubernetes.in_pod
    ),
    "infiniband": lambda config: bool(config.fabric.manager_url or config.fabric.device),
    "gnmi": lambda config: bool(config.gnmi.targets),
    "snmp": lambda config: bool(config.snmp.targets),
    "syslog": lambda config: bool(config.syslog.listen),
    "inventory": lambda config: bool(config.inventory.files or config.inventory.netbox_url),
    "facility": lambda config: bool(config.facility.redfish),
}

EXTRAS: Mapping[str, tuple[str, tuple[str, ...]]] = {  # entry: the extra that it needs, and the modules of that
    "kubernetes": ("kubernetes", ("kubernetes", "urllib3")),
    "gnmi": ("switches", ("grpc", "pygnmi")),
    "snmp": ("switches", ("pysnmp",)),
}

AGAIN_MS = 600_000  # everything that stands is told again: a reader that starts waits no longer for it
FLUSH_S = 10.0  # for the log to take what was told: else it is told again with the next poll

_NUMBERS = re.compile(r"[\d.]+")  # times and counts in a reason

S = TypeVar("S")


class PollFailed(Exception):
    """The question got no answer, or none that can be believed; the text says what to do."""


class Outgoing(NamedTuple):
    """One record for the log."""

    topic: str
    key: str
    message: AnyMessage | Control


class Polled(NamedTuple, Generic[S]):
    """One poll: the state after it, what has changed, and how many things in the answer were not understood.

    `samples` go out as frames, one a sender: the host or switch of the component, else its own name. What is sampled is
    sent once, not again by the next poll. `problem`: what of the source could not be read; the rest counts.
    """

    state: S
    told: Sequence[Outgoing] = ()
    unparsed: int = 0
    samples: Sequence[Samples] = ()
    problem: str = ""


@dataclass(slots=True)
class Source(Generic[S]):
    """One question, asked in a thread of its own. `poll` raises PollFailed and changes nothing; it answers within
    `limit_s`, as who asks many devices asks them side by side (`asking`); what streams is followed by a thread of the
    source, and `poll` takes what has come. `standing` is what a new reader would miss.

    `remembered` gives the state after what an earlier run told to the topic `remembers`: what ended meanwhile is
    missing from the first answers, and must still be told.
    """

    name: str
    every_s: float
    state: S
    poll: Callable[[S, int], Polled[S]]
    standing: Callable[[S], Sequence[Outgoing]] = lambda state: ()
    remembers: str = ""
    remembered: Callable[[Iterable[Any]], S] | None = None
    limit_s: float = 30.0
    close: Callable[[], None] = lambda: None


class Make(Protocol):
    """What an entry of the catalogue is."""

    def __call__(self, config: Config) -> list[Source[Any]]:
        """The questions of one kind of source. Raises ConfigError."""
        ...


def sources(names: Sequence[str], config: Config) -> list[Source[Any]]:
    """Questions of the named entries of the catalogue. Raises ConfigError, and KeyError for one that is not in it."""
    found: list[Source[Any]] = []
    for name in names:
        module, _, attribute = CATALOGUE[name].partition(":")
        extra, modules = EXTRAS.get(name, ("", ()))
        if absent := [one for one in modules if find_spec(one) is None]:
            raise ConfigError(f"{name} needs {', '.join(absent)}: pip install 'sickbay[{extra}]'")
        found += cast(Make, getattr(import_module(module), attribute))(config)
    return found


def wanted(config: Config) -> list[str]:
    """Entries of the catalogue that the settings give something to ask."""
    return [name for name in CATALOGUE if WANTED[name](config)]


@dataclass(slots=True)
class _Turn:
    """When a source is due, and how it fares."""

    source: Source[Any]
    due_ms: int = 0
    again_ms: int = 0
    failing: str = ""


@dataclass(slots=True)
class Signer:
    """Signs events with the secret of the host that they are kept under, where the cluster's key is known."""

    key: bytes | None = None
    incarnation: int = field(default_factory=lambda: secrets.randbits(48))
    _sequences: dict[tuple[str, str], int] = field(default_factory=dict)

    def payload(self, told: Outgoing) -> bytes:
        """The record as it goes to the log."""
        payload = _encoded(told.message)
        if self.key is None or told.topic not in (EVENTS, STEPS):
            return payload
        sequence = self._sequences.get((told.topic, told.key), 0)
        self._sequences[told.topic, told.key] = sequence + 1
        seal = Seal(host=told.key, incarnation=self.incarnation, sequence=sequence)
        return sealed(payload, seal, host_key(self.key, told.key))


class Poller:
    """A stage that asks its sources in turn, one a step, so that a step takes no longer than one question."""

    def __init__(
        self,
        sources: Sequence[Source[Any]],
        appender: Appender,
        metrics: SelfMetrics,
        say: Callable[[str], None],
        key: bytes | None = None,
    ) -> None:
        self._turns = [_Turn(source) for source in sources]
        self._appender, self._metrics, self._say = appender, metrics, say
        self._signer, self._framer = Signer(key), Framer(key)

    @property
    def waiting(self) -> str:
        """Sources whose last question failed, and why: what makes the stage not ready."""
        return "; ".join(f"{turn.source.name}: {turn.failing}" for turn in self._turns if turn.failing)

    def step(self, now_ms: int) -> bool:
        """Ask the source that has waited longest, where one is due; False: none was."""
        for turn in self._turns:  # the clock was set back
            turn.due_ms = min(turn.due_ms, now_ms + round(turn.source.every_s * 1000))
            turn.again_ms = min(turn.again_ms, now_ms + AGAIN_MS)
        turn = min(self._turns, key=lambda one: one.due_ms)
        if turn.due_ms > now_ms:
            return False
        turn.due_ms = now_ms + round(turn.source.every_s * 1000)
        self._ask(turn, now_ms)
        return True

    def close(self) -> None:
        """Hand over what is left."""
        for turn in self._turns:
            turn.source.close()
        self._appender.close()

    def _ask(self, turn: _Turn, now_ms: int) -> None:
        source, began = turn.source, time.monotonic()
        try:
            polled = source.poll(source.state, now_ms)
            again = now_ms >= turn.again_ms
            self._append(_each_once([*polled.told, *(source.standing(polled.state) if again else ())]))
            self._send(polled.samples, now_ms)
        except UnknownTopic:
            raise
        except Exception as error:  # an answer that nobody thought of must not end what the other sources are asked
            self._failed(turn, error)
            return
        finally:
            self._metrics.observe(selfmetrics.PROBE_DURATION, time.monotonic() - began, source=source.name)
        source.state = polled.state
        turn.again_ms = now_ms + AGAIN_MS if again else turn.again_ms
        if polled.unparsed:
            self._metrics.count(selfmetrics.FORMATS_SKIPPED, polled.unparsed, format=source.name, reason="unparsed")
        for text in dict.fromkeys(_warnings(polled.told)):
            self._say(f"{source.name}: {text}")
        if polled.problem:
            self._failed(turn, PollFailed(polled.problem))
            return
        if turn.failing:
            self._say(f"{source.name}: answers again")
        turn.failing = ""

    def _append(self, records: Sequence[Outgoing]) -> None:
        for told in records:
            try:
                self._appender.append(told.topic, told.key.encode(), self._signer.payload(told))
            except TooLarge as error:  # the next poll could not send it either
                self._metrics.count(selfmetrics.LOG_ERRORS, kind=type(error).__name__)
                self._say(f"{told.key[:80]}: {error}")
            else:
                self._metrics.count(selfmetrics.LOG_APPENDED, topic=told.topic)
        self._appender.flush(FLUSH_S)

    def _send(self, samples: Sequence[Samples], now_ms: int) -> None:
        for topic, key, payload in self._framer.framed(samples, now_ms):
            self._appender.append(topic, key, payload)
            self._metrics.count(selfmetrics.LOG_APPENDED, topic=topic)
        if self._framer.dropped:
            self._metrics.count(selfmetrics.FORMATS_SKIPPED, self._framer.dropped, format="frames", reason="unfit")
            self._framer.dropped = 0

    def _failed(self, turn: _Turn, error: Exception) -> None:
        if isinstance(error, LogError):
            self._metrics.count(selfmetrics.LOG_ERRORS, kind=type(error).__name__)
        else:
            self._metrics.count(selfmetrics.PROBE_FAILED, source=turn.source.name)
        said = str(error) if isinstance(error, PollFailed | LogError) else _unforeseen(error)
        if not turn.failing or _NUMBERS.sub("", said) != _NUMBERS.sub("", turn.failing):  # another reason is news
            self._say(f"{turn.source.name}: {said}")
        turn.failing = said


def _unforeseen(error: Exception) -> str:
    """A fault of a source itself: what and where, so that it can be reported."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" at {Path(one.filename).name}:{one.lineno}" for one in last)
    return f"{type(error).__name__}: {error}"[:300] + f"{place}: nothing of this answer was taken; please report it"


def _warnings(told: Iterable[Outgoing]) -> Iterator[str]:
    """What is wrong with the site as such: no part of it is at fault, so no incident will tell it."""
    for one in told:
        event = one.message
        if (
            isinstance(event, Event)
            and event.severity is not Severity.INFO
            and kind_of(event.component) is Kind.CLUSTER
        ):
            yield event.message


def _encoded(message: AnyMessage | Control) -> bytes:
    return actions.encode(message) if isinstance(message, Control) else encode(message)


def _each_once(records: Sequence[Outgoing]) -> list[Outgoing]:
    """Records in order; of those that stand as they were just told, the first only."""
    found: list[Outgoing] = []
    seen: set[bytes] = set()
    for told in records:
        payload = _encoded(told.message)
        if payload not in seen:
            found.append(told)
        seen.add(payload)
    return found
