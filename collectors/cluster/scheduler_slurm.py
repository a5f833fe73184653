"""Slurm as questions to poll: `squeue` for jobs, `scontrol` for nodes and what is decided, a file for the topology."""

import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors.cluster import host_slurm, job_details, job_slurm, slurm_site
from collectors.cluster.poll import Outgoing, Polled, PollFailed, Source
from collectors.formats import slurm_queue, slurm_topology
from collectors.formats.reading import Tally
from collectors.formats.slurm_show import shown_nodes
from sickbay.components import Kind, host_of, kind_of
from sickbay.edges import log_key
from sickbay.messages import AnyMessage, Edge, Event, Placement, replace
from sickbay.programs import NoAnswer, Unasked, ask, environment
from sickbay.settings import Config, Slurm
from sickbay.topics import CHANGES, EVENTS, PLACEMENT, TOPOLOGY

FILE_EVERY_S = 30.0  # the topology is a file that people edit
MAX_TOPOLOGY = 64 << 20  # bytes
SOURCE = "slurm"  # of its edges
NO_HOST = "scheduler"  # the key of events that belong to no host

Ask = Callable[..., str]  # (program, *arguments) -> what it prints; raises PollFailed
Edges = dict[tuple[str, str, str], Edge]


def sources(config: Config) -> list[Source[Any]]:
    """The questions that the settings ask for."""
    settings = config.slurm
    return of(Commands(settings), settings)


def of(ask: Ask, settings: Slurm) -> list[Source[Any]]:
    """The questions to a cluster that `ask` reaches."""
    jobs = Source(
        "slurm_jobs",
        settings.poll_s,
        job_slurm.Jobs(),
        lambda state, now_ms: _jobs(ask, state, now_ms, settings.timeout_s),
        lambda state: [_placed(one) for one in job_slurm.standing(state)],
        PLACEMENT,
        lambda told: job_slurm.remembered(one for one in told if isinstance(one, Placement)),
        limit_s=3 * settings.timeout_s,
    )
    hosts = Source(
        "slurm_nodes",
        settings.poll_s,
        host_slurm.Hosts(),
        lambda state, now_ms: _hosts(ask, state, now_ms),
        limit_s=settings.timeout_s,
    )
    others = [hosts, *slurm_site.sources(ask, settings)]
    if not settings.topology_conf:
        return [jobs, *others]
    edges: Source[Edges] = Source(
        "slurm_topology",
        FILE_EVERY_S,
        {},
        lambda state, now_ms: _topology(_read(Path(settings.topology_conf)), state, now_ms),
        lambda state: [_edge(one) for one in state.values()],
        TOPOLOGY,
        _remembered,
    )
    return [jobs, *others, edges]


@dataclass(frozen=True, slots=True)
class Commands:
    """The only impure seam: Slurm's own commands, which the settings say how to find."""

    settings: Slurm
    env: dict[str, str] = field(default_factory=dict)

    def __call__(self, program: str, *arguments: str) -> str:
        """What a command prints. Raises PollFailed."""
        settings = self.settings
        more = {"TZ": "UTC", "LC_ALL": "C"} | ({"SLURM_CONF": settings.conf} if settings.conf else {})
        env = environment({**os.environ, **self.env}, without=slurm_queue.WITHOUT, **more)
        command = str(Path(settings.bin, program)) if settings.bin else program
        try:
            answer = ask([command, *arguments], timeout_s=settings.timeout_s, env=env)
        except Unasked as error:
            raise PollFailed(f"{error}: set [slurm] bin to the folder of Slurm's commands") from None
        except NoAnswer as error:
            raise PollFailed(f"{error}: does slurmctld run? (scontrol ping; [slurm] conf, timeout_s)") from None
        if answer.status:
            said = " ".join((answer.errors or answer.text).split())[:300]
            raise PollFailed(f"{program} failed: {said or f'exit status {answer.status}'}")
        return answer.text


def _jobs(ask: Ask, state: job_slurm.Jobs, now_ms: int, limit_s: float) -> Polled[job_slurm.Jobs]:
    mark, tally = slurm_queue.mark_of(secrets.token_hex(8)), Tally()
    try:
        answer = list(slurm_queue.jobs(ask("squeue", *slurm_queue.question(mark)), mark, tally))
    except slurm_queue.Unreadable as error:
        raise PollFailed(f"squeue: {error}") from None
    step = job_slurm.polled(state, answer, now_ms)
    detailed = job_details.asked(ask, step.jobs, now_ms, limit_s, tally)
    told = [*map(_placed, [*step.placements, *detailed.placements]), *map(_event, step.events)]
    told += [Outgoing(CHANGES, one.target, one) for one in detailed.changes]
    return Polled(detailed.jobs, told, tally.unparsed)


def _hosts(ask: Ask, state: host_slurm.Hosts, now_ms: int) -> Polled[host_slurm.Hosts]:
    tally = Tally()
    nodes = list(shown_nodes(ask("scontrol", "show", "node", "-o"), tally))
    if not nodes:
        raise PollFailed("scontrol show node: no node in its answer")
    after, events = host_slurm.polled(state, nodes, now_ms)
    return Polled(after, [_event(one) for one in events], tally.unparsed)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_TOPOLOGY + 1)
    except OSError as error:
        raise PollFailed(f"[slurm] topology_conf {path}: {error.strerror or error}") from None
    if len(content) > MAX_TOPOLOGY:
        raise PollFailed(f"[slurm] topology_conf {path}: larger than {MAX_TOPOLOGY} bytes")
    return content


def _topology(content: bytes, state: Edges, now_ms: int) -> Polled[Edges]:
    """What the file says now. An edge that is no longer in it ends, if the whole file was understood."""
    tally = Tally()
    records = (reading.record for reading in slurm_topology.read([content], tally))
    found = {_key(one): one for one in records if isinstance(one, Edge)}
    if not found:
        raise PollFailed("[slurm] topology_conf: no switch and no block in it")
    known: Edges = {} if not tally.unparsed else dict(state)
    known |= {key: state.get(key) or replace(one, seen_ms=now_ms, source=SOURCE) for key, one in found.items()}
    ended = [replace(state[key], to_ms=now_ms) for key in state.keys() - known.keys()]
    new = [known[key] for key in known.keys() - state.keys()]
    return Polled(known, [_edge(one) for one in (*ended, *new)], tally.unparsed)


def _remembered(told: Iterable[AnyMessage]) -> Edges:
    """The edges that an earlier run told and did not end."""
    newest = {_key(one): one for one in told if isinstance(one, Edge) and one.source == SOURCE}
    return {key: one for key, one in newest.items() if one.to_ms is None}


def _key(edge: Edge) -> tuple[str, str, str]:
    return edge.child, edge.parent, edge.relation.value


def _placed(placement: Placement) -> Outgoing:
    return Outgoing(PLACEMENT, placement.job, placement)


def _edge(edge: Edge) -> Outgoing:
    return Outgoing(TOPOLOGY, log_key(edge), edge)


def _event(event: Event) -> Outgoing:
    host = host_of(event.component) if kind_of(event.component) is Kind.HOST else ""
    return Outgoing(EVENTS, host or NO_HOST, event)
