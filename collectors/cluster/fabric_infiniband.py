"""The catalogue's entry `infiniband`: sweeps of the fabric, counters of its switches, and its manager's REST."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from collectors import rows
from collectors.cluster import fabric_counters, fabric_manager
from collectors.cluster.asking import Asker, Target, some_of
from collectors.cluster.fabric_counters import Read, Switch
from collectors.cluster.fabric_sweep import Answer
from collectors.cluster.fabric_tools import QUICK_S, Ask, Tools, manager
from collectors.cluster.fabric_versions import NOTICE_MS, Versions, remembered, standing, swept
from collectors.cluster.poll import Outgoing, Polled, PollFailed, Source
from collectors.formats.ibnetdiscover import End
from collectors.formats.link_listing import ports
from collectors.formats.reading import Tally
from sickbay.components import Name, host_of
from sickbay.config import ConfigError
from sickbay.edges import log_key
from sickbay.messages import Edge, Event
from sickbay.settings import Config
from sickbay.source_settings import Fabric
from sickbay.topics import EVENTS, TOPOLOGY

NO_HOST = "infiniband"  # the key of events that belong to no host
ODD_SHARE = 0.01  # [house] of the lines may be odd: a port that is missing for it is found by its neighbour's line


@dataclass(slots=True)
class Found:
    """The switches that the last sweep found: what the counters are asked of. Sweeps write, counters read."""

    _switches: tuple[Switch, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, found: tuple[Switch, ...]) -> None:
        """These from now on."""
        with self._lock:
            self._switches = found

    def get(self) -> tuple[Switch, ...]:
        """The latest."""
        with self._lock:
            return self._switches


@dataclass(frozen=True, slots=True)
class Counted:
    """What was said of the counters: those that stand at their maximum, and when ports were said to be mute."""

    stuck: frozenset[tuple[Name, str]] = frozenset()
    mute_ms: int | None = None


def sources(config: Config) -> list[Source[Any]]:
    """The questions that the settings ask for. Raises ConfigError."""
    settings = config.fabric
    if not (settings.device or settings.manager_url):
        raise ConfigError(
            "[fabric] device: name the adapter to ask through, such as mlx5_0; or set [fabric] manager_url"
        )
    found: list[Source[Any]] = of(Tools(settings), settings) if settings.device else []
    return [*found, *(fabric_manager.sources(settings) if settings.manager_url else [])]


def of(ask: Ask, settings: Fabric) -> list[Source[Any]]:
    """The questions to a fabric that `ask` reaches."""
    found = Found()
    limit_s = settings.timeout_s
    sweeps: Source[Versions] = Source(
        "infiniband_sweep",
        settings.sweep_s,
        Versions(),
        lambda state, now_ms: _sweep(ask, found, state, now_ms),
        lambda state: [_edge(one) for one in standing(state)],
        TOPOLOGY,
        remembered,
        limit_s=limit_s + 2 * QUICK_S,
    )
    asker = Asker(lambda target: fabric_counters.asked(ask, _switch(target)), limit_s)
    counters: Source[Counted] = Source(
        "infiniband_counters",
        settings.counters_s,
        Counted(),
        lambda state, now_ms: _counters(asker, found.get(), state, now_ms),
        limit_s=limit_s + 5,
    )
    return [sweeps, counters]


def _sweep(ask: Ask, found: Found, state: Versions, now_ms: int) -> Polled[Versions]:
    tally = Tally()
    answer = _answer(ask, tally)
    step = swept(state, answer, now_ms)
    names = step.versions.known.names
    told = ((one, names.get(End(one.guid, one.number))) for one in answer.ports)
    found.put(fabric_counters.switches((one, name) for one, name in told if name))
    return Polled(step.versions, [*map(_edge, step.edges), *map(_event, step.events)], tally.unparsed, step.samples)


def _answer(ask: Ask, tally: Tally) -> Answer:
    """One sweep between two looks at who manages the subnet."""
    before = manager(ask)
    said = ask("iblinkinfo", "--line", "--switches-only")
    told = tuple(ports([said.text.encode("utf-8", "replace")], tally))
    warnings = tuple(said.errors.splitlines())
    if not told:
        raise PollFailed(f"iblinkinfo: no switch answered: {' '.join(said.errors.split())[:300] or 'nothing was said'}")
    failed = f"the sweep ended with status {said.status}" if said.status else ""
    if tally.unparsed > ODD_SHARE * len(told):
        failed = failed or f"{tally.unparsed} lines of the sweep were not understood"
    return Answer(told, warnings, (before, manager(ask)), failed)


def _target(switch: Switch) -> Target:
    return Target(switch.guid, ",".join(map(str, sorted(switch.ports))))


def _switch(target: Target) -> Switch:
    return Switch(target.name, {int(port): "" for port in target.address.split(",")})


def _counters(asker: Asker[Read], switches: Sequence[Switch], state: Counted, now_ms: int) -> Polled[Counted]:
    """What the switches count. One that does not answer is missing from the samples, and that is said."""
    if not switches:
        return Polled(state)
    answers = asker.round([_target(one) for one in switches])
    if not answers.told:
        raise PollFailed(f"no switch told its counters: {some_of(answers.failed)}")
    cells: dict[Name, dict[str, float]] = {}
    stuck: set[tuple[Name, str]] = set()
    for switch in switches:
        if (read := answers.told.get(switch.guid)) is not None:
            cells |= {own: read.values[port] for port, own in switch.ports.items() if port in read.values}
            stuck |= {(switch.ports[port], column) for port, column in read.stuck if port in switch.ports}
    mute = {own for one in switches for own in one.ports.values() if own not in cells}
    events = [fabric_counters.blind(own, column, now_ms) for own, column in sorted(stuck - state.stuck)]
    due = bool(mute) and (state.mute_ms is None or not 0 <= now_ms - state.mute_ms < NOTICE_MS)
    events += [fabric_counters.mute(len(mute), len(mute) + len(cells), answers.failed, now_ms)] if due else []
    kept = frozenset(stuck | {one for one in state.stuck if one[0] in mute})
    after = Counted(kept, None if not mute else now_ms if due else state.mute_ms)
    return Polled(after, [_event(one) for one in events], 0, rows.samples("port", cells, now_ms))


def _edge(edge: Edge) -> Outgoing:
    return Outgoing(TOPOLOGY, log_key(edge), edge)


def _event(event: Event) -> Outgoing:
    return Outgoing(EVENTS, host_of(event.component) or NO_HOST, event)
