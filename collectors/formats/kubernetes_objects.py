"""Objects of the Kubernetes API as far as they are read here: nodes, pods, events, and the lists and watches of them.

Decoding checks every type; what else an object holds is skipped. Source: Kubernetes API reference v1.
"""

from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct, field

T = TypeVar("T")


class Object(Struct, frozen=True, rename="camel"):
    """Base: keys as the API spells them, unknown ones are skipped."""


class Owned(Object, frozen=True):
    """An entry of metadata.managedFields: who set which fields."""

    manager: str = ""
    time: datetime | None = None
    fields_v1: Raw = field(default=Raw(b"{}"), name="fieldsV1")


class Meta(Object, frozen=True):
    """metadata."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    managed_fields: list[Owned] | None = None


class Versioned(Object, frozen=True):
    """Any object: where a watch goes on after it."""

    metadata: Meta = Meta()


class Condition(Object, frozen=True):
    """A condition of a node or pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class Taint(Object, frozen=True):
    """A taint of a node."""

    key: str = ""
    effect: str = ""
    value: str = ""
    time_added: datetime | None = None


class NodeSpec(Object, frozen=True):
    """A node's spec."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeInfo(Object, frozen=True):
    """A node's software."""

    kernel_version: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""
    os_image: str = ""


class NodeStatus(Object, frozen=True):
    """A node's status."""

    conditions: list[Condition] | None = None
    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None
    node_info: NodeInfo = NodeInfo()


class Node(Object, frozen=True):
    """A node."""

    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Variable(Object, frozen=True):
    """A word of a container's environment; one that is looked up elsewhere has no value here."""

    name: str = ""
    value: str = ""


class Resources(Object, frozen=True):
    """What a container asks for."""

    limits: dict[str, str] | None = None
    requests: dict[str, str] | None = None


class Container(Object, frozen=True):
    """A container of a pod's spec."""

    name: str = ""
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[Variable] | None = None
    resources: Resources = Resources()


class PodSpec(Object, frozen=True):
    """A pod's spec."""

    node_name: str = ""
    containers: list[Container] | None = None


class Running(Object, frozen=True):
    """A container that runs."""

    started_at: datetime | None = None


class Terminated(Object, frozen=True):
    """A container that ended."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None


class State(Object, frozen=True):
    """What became of a container."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Object, frozen=True):
    """A container of a pod's status."""

    name: str = ""
    image: str = ""
    image_id: str = field(default="", name="imageID")
    restart_count: int = 0
    state: State = State()
    last_state: State = State()


class PodStatus(Object, frozen=True):
    """A pod's status."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class Pod(Object, frozen=True):
    """A pod."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Involved(Object, frozen=True):
    """What an Event object speaks of."""

    kind: str = ""
    namespace: str = ""
    name: str = ""


class Source(Object, frozen=True):
    """Who made an Event object."""

    component: str = ""
    host: str = ""


class Series(Object, frozen=True):
    """How often an Event object was seen, in the newer form."""

    count: int = 0
    last_observed_time: datetime | None = None


class EventObject(Object, frozen=True):
    """An Event object (core/v1)."""

    metadata: Meta = Meta()
    involved_object: Involved = Involved()
    reason: str = ""
    message: str = ""
    type: str = ""
    source: Source = Source()
    count: int | None = None
    series: Series | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    reporting_component: str = ""
    reporting_instance: str = ""


class ListMeta(Object, frozen=True):
    """metadata of a list."""

    resource_version: str = ""
    more: str = field(default="", name="continue")


class Page(Object, frozen=True):
    """A page of a list, its items unread."""

    metadata: ListMeta = ListMeta()
    items: list[Raw] | None = None


class Watched(Object, frozen=True):
    """A line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, its object unread."""

    type: str
    object: Raw


class Status(Object, frozen=True):
    """What the server says where it refuses."""

    code: int = 0
    reason: str = ""
    message: str = ""


def decoded(raw: bytes | Raw, kind: type[T]) -> T:
    """An object of that kind. Raises ValueError for anything else."""
    try:
        return msgspec.json.decode(raw, type=kind, strict=True)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def at_ms(time: datetime | None) -> int | None:
    """A time as UTC milliseconds; one without a zone is UTC."""
    if time is None:
        return None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def quantity(text: str) -> int:
    """A whole number of devices; 0 for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
