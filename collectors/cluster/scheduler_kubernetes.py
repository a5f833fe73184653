"""Kubernetes as three questions to poll, each fed by watches: nodes, pods of jobs, and Event objects."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from collectors.cluster import host_kubernetes, job_kubernetes, kubernetes_api
from collectors.cluster.kubernetes_watch import Ask, Feed, Follower
from collectors.cluster.poll import Outgoing, Polled, PollFailed, Source
from collectors.formats import kubernetes_objects as objects
from collectors.formats.kubernetes_events import Spoken, spoken
from collectors.formats.kubernetes_nodes import NodeWord, node_word
from collectors.formats.kubernetes_pods import Member, member
from sickbay.components import Kind, host_of, kind_of
from sickbay.edges import log_key
from sickbay.messages import Change, Edge, Event, Placement
from sickbay.settings import Config
from sickbay.topics import CHANGES, EVENTS, PLACEMENT, TOPOLOGY

EVERY_S = 1.0
NO_HOST = "scheduler"  # the key of events that belong to no host
NODES_IN = "default"  # where Event objects of nodes are kept

T = TypeVar("T")


def sources(config: Config) -> list[Source[Any]]:
    """The questions. Raises ConfigError."""
    kubernetes_api.checked(config)
    settings = config.kubernetes
    api = kubernetes_api.Api(settings.kubeconfig, settings.context, settings.timeout_s)
    return of(api, settings.namespaces, settings.timeout_s, api.close)


def of(
    ask: Ask, namespaces: Sequence[str], timeout_s: float, close: Callable[[], None] = lambda: None
) -> list[Source[Any]]:
    """The questions to a cluster that `ask` reaches; the watches begin with the first one."""
    events_in = dict.fromkeys([*namespaces, NODES_IN]) if namespaces else ()
    nodes = Watches(ask, ["/api/v1/nodes"], _node, timeout_s)
    pods = Watches(ask, _paths("pods", namespaces), _pod, timeout_s)
    events = Watches(ask, _paths("events", events_in), _event, timeout_s)

    def ended(watches: Watches[Any]) -> Callable[[], None]:
        def end() -> None:
            watches.stop()
            close()

        return end

    return [
        Source(
            "kubernetes_nodes", EVERY_S, host_kubernetes.Hosts(),
            lambda state, now_ms: _nodes(nodes, state, now_ms),
            lambda state: [_edge(one) for one in state.edges.values()],
            TOPOLOGY,
            lambda told: host_kubernetes.remembered(one for one in told if isinstance(one, Edge)),
            limit_s=timeout_s + 5, close=ended(nodes),
        ),
        Source(
            "kubernetes_pods", EVERY_S, job_kubernetes.Jobs(),
            lambda state, now_ms: _pods(pods, state, now_ms),
            lambda state: [_placed(one) for one in job_kubernetes.standing(state)],
            PLACEMENT,
            lambda told: job_kubernetes.remembered(one for one in told if isinstance(one, Placement)),
            limit_s=timeout_s + 5, close=ended(pods),
        ),
        Source(
            "kubernetes_events", EVERY_S, host_kubernetes.Said(),
            lambda state, now_ms: _events(events, state, now_ms),
            limit_s=timeout_s + 5, close=ended(events),
        ),
    ]  # fmt: skip


def _paths(resource: str, namespaces: Iterable[str]) -> list[str]:
    return [f"/api/v1/namespaces/{one}/{resource}" for one in namespaces] or [f"/api/v1/{resource}"]


@dataclass(slots=True)
class Watches(Generic[T]):
    """Watches of one kind of object, one a namespace, into one feed. They begin with the first question."""

    ask: Ask
    paths: Sequence[str]
    short: Callable[[bytes], T]
    first_s: float
    feed: Feed[T] = field(default_factory=Feed)
    followers: list[Follower[T]] = field(default_factory=list)

    def after(self, sequence: int) -> list[Any]:
        """What changed after that. Raises PollFailed where nothing did, and a watch does not work."""
        if not self.followers:
            self.followers = [Follower(self.ask, path, self.short, self.feed) for path in self.paths]
            for one in self.followers:
                one.start()
            self.feed.wait(self.first_s, lambda: bool(self.problem))
        found = self.feed.after(sequence)
        if not found and self.problem:
            raise PollFailed(self.problem)
        return found

    def stop(self) -> None:
        """End them."""
        for one in self.followers:
            one.stop()

    @property
    def problem(self) -> str:
        """What one of the watches cannot do: what the others see must not hide it."""
        return "; ".join(dict.fromkeys(one.problem for one in self.followers if one.problem))


def _node(raw: bytes) -> NodeWord:
    return node_word(objects.decoded(raw, objects.Node))


def _pod(raw: bytes) -> Member:
    return member(objects.decoded(raw, objects.Pod))


def _event(raw: bytes) -> Spoken | None:
    return spoken(objects.decoded(raw, objects.EventObject))


def _nodes(watches: Watches[NodeWord], state: host_kubernetes.Hosts, now_ms: int) -> Polled[host_kubernetes.Hosts]:
    step = host_kubernetes.polled(state, watches.after(state.sequence), now_ms)
    told = [*map(_edge, step.edges), *map(_told, step.events), *map(_changed, step.changes)]
    return Polled(step.hosts, told, watches.feed.count_unparsed(), problem=watches.problem)


def _pods(watches: Watches[Member], state: job_kubernetes.Jobs, now_ms: int) -> Polled[job_kubernetes.Jobs]:
    step = job_kubernetes.polled(state, watches.after(state.sequence), now_ms)
    told = [*map(_placed, step.placements), *map(_told, step.events), *map(_changed, step.changes)]
    return Polled(step.jobs, told, watches.feed.count_unparsed(), problem=watches.problem)


def _events(watches: Watches[Spoken | None], state: host_kubernetes.Said, now_ms: int) -> Polled[host_kubernetes.Said]:
    after, events = host_kubernetes.said(state, watches.after(state.sequence), now_ms)
    return Polled(after, [*map(_told, events)], watches.feed.count_unparsed(), problem=watches.problem)


def _told(event: Event) -> Outgoing:
    host = host_of(event.component) if kind_of(event.component) is not Kind.JOB else ""
    return Outgoing(EVENTS, host or NO_HOST, event)


def _placed(placement: Placement) -> Outgoing:
    return Outgoing(PLACEMENT, placement.job, placement)


def _edge(edge: Edge) -> Outgoing:
    return Outgoing(TOPOLOGY, log_key(edge), edge)


def _changed(change: Change) -> Outgoing:
    return Outgoing(CHANGES, change.target, change)
