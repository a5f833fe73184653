"""What others send, read: bodies of requests in, samples and messages out. Pure; the server: `sickbay.app.listening`.

One file a kind of body, each with a `read` (see READERS). What it may be about is bound to the sender's token: a row
or message of any other host is counted and left out.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from collectors.cluster.poll import Outgoing
from sickbay.components import Name, host_of
from sickbay.schema import Samples

Allowed = Callable[[Name], bool]  # whether the sender may tell of this component


class Unfit(ValueError):
    """The request cannot be used; `status` is the HTTP status that says so, the text why and what would be right."""

    def __init__(self, text: str, status: int = 400, reason: str = "malformed") -> None:
        super().__init__(text)
        self.status, self.reason = status, reason


class Request(NamedTuple):
    """One request as far as readers see it. `body` is unpacked; header names are lower case."""

    body: bytes
    headers: Mapping[str, str]
    query: Mapping[str, str]
    now_ms: int
    sender: str = ""  # the name of its token

    @property
    def media_type(self) -> str:
        """The content type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(slots=True)
class Told:
    """What a request told: `samples` become frames, `records` go as they are.

    `left_out`: reason -> how many things in it were not taken; `note` says the first reason in words, `status` is what
    the answer then is. `written` counts the rows that were taken (remote_write answers with it).
    """

    samples: list[Samples] = field(default_factory=list)
    records: list[Outgoing] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    note: str = ""
    status: int = 0
    written: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = "application/json"

    def refuse(self, reason: str, count: int = 1, note: str = "", status: int = 0) -> None:
        """Leave something out and say why."""
        self.left_out[reason] += count
        self.note = self.note or note
        self.status = max(self.status, status)


class Reader(Protocol):
    """What reads one kind of body. `memory` is what earlier requests of this token taught; a reader changes it."""

    def __call__(self, request: Request, memory: Any, allowed: Allowed) -> Told:
        """What the request tells. Raises Unfit."""
        ...


class Entry(NamedTuple):
    """One path of the listener. `kind`: what a token must be let to send; `encodings`: how a body may be packed;
    `most`: bytes unpacked, as a message of many tiny parts takes some 20 times that in memory."""

    kind: str
    where: str  # module:function of the reader
    encodings: tuple[str, ...] = ("", "identity", "gzip")
    most: int = 4 << 20


READERS: Mapping[str, Entry] = {
    "/api/v1/write": Entry("metrics", "collectors.listen.remote_write:read", ("snappy",)),
    "/v1/metrics": Entry("metrics", "collectors.listen.otlp_metrics:read"),
    "/v1/logs": Entry("logs", "collectors.listen.otlp_logs:read"),
    "/v1/cloudevents": Entry("conditions", "collectors.listen.cloud_events:read"),
    "/v1/conditions/node": Entry("conditions", "collectors.listen.node_conditions:read"),
    "/v1/conditions/gpud": Entry("conditions", "collectors.listen.gpud:read"),
}
KINDS = ("metrics", "logs", "conditions", "changes", "maintenance", "records")  # what a token may be let to send


def owner(component: Name) -> str:
    """Whom a token must name to tell of a component: its host or switch, else the component itself."""
    return host_of(component) or component


def kept(rows: Sequence[Name], allowed: Allowed) -> dict[Name, bool]:
    """For each component whether it may be told of."""
    return {name: allowed(name) for name in dict.fromkeys(rows)}
