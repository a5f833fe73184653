"""Jobs that do not come together: stores that cannot be reached, rendezvous that time out, ports that are taken.

Nothing had run yet, so no device is accused: a rank that did not start, a network or a setting. Texts: PyTorch's c10d
sockets and stores, torchrun's rendezvous, gloo.
"""

import re
from collections.abc import Iterable

from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event, rank_name
from collectors.formats.rank_prefix import origin
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, path
from sickbay.messages import Blame

_CONNECT = re.compile(
    r"client socket has (?P<why>timed out after [\w.]{1,20} while trying to connect to"
    r"|failed to connect to any network address of) \((?P<peer>[^\s,()]{1,253}), (?P<port>\d{1,6})\)"
)
_RANK = re.compile(r"(?:\[|\bon rank: )(\d{1,7})(?:\] is setting up|,)")
_TASK = re.compile(r"^/job:jax_worker/replica:\d{1,6}/task:(\d{1,7})$")
_TEXTS = (  # text -> what it is, whose fault it is
    ("c10d key-value store by key", "rendezvous timed out", Blame.EITHER),
    ("in store based barrier on rank", "store barrier timed out", Blame.EITHER),
    ("RendezvousTimeoutError", "rendezvous timed out", Blame.EITHER),
    ("RendezvousConnectionError", "rendezvous failed", Blame.EITHER),
    ("RendezvousClosedError", "rendezvous closed", Blame.EITHER),
    ("server socket has failed to listen on any", "port in use", Blame.APPLICATION),
    ("connectFullMesh failed with", "full mesh of connections failed", Blame.EITHER),
)

LITERALS = ("client socket has ", "/job:jax_worker/", *(text for text, _, _ in _TEXTS))


class Rendezvous:
    """Body grammar of a job's set-up. Keeps nothing between lines."""

    def read(self, line: Line) -> Iterable[Record]:
        """At most one event: the path to the store, or the rank that could not join."""
        body = line.body[:LINE_LIMIT]
        if not any(literal in body for literal in LITERALS):
            return ()
        start = origin(body)
        if match := _CONNECT.search(body):
            facts = {"peer_address": match["peer"], "port": match["port"]}
            code = "connect timed out" if match["why"].startswith("timed") else "connect failed"
            ends = path(start.host or UNKNOWN, match["peer"])
            return (event("path.not_connected", ends, facts, code=code, host=start.host),)
        if task := _TASK.match(start.rest):
            return (event("rank.collective_error", rank_name(int(task[1])), code="task unhealthy", host=start.host),)
        told = next(((code, blame) for text, code, blame in _TEXTS if text in body), None)
        if not told:
            return ()
        own = _RANK.search(body)
        rank = start.rank if start.rank >= 0 or not own else int(own[1])
        return (event("rank.collective_error", rank_name(rank), code=told[0], blame=told[1], host=start.host),)

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()


GRAMMAR = Rendezvous

SAMPLES = (
    Sample(
        "[E331 20:50:12.688969421 socket.cpp:1011] [c10d] The client socket has timed out after 900000ms while trying "
        "to connect to (192.0.2.14, 29500).",
        ({"type": "event", "component": "path:192.0.2.14~?", "kind": "path.not_connected"},),
    ),
    Sample(
        "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of "
        "(gx-r01-n01, 29500). The IPv4 network addresses of (gx-r01-n01, 29500) cannot be retrieved",
        ({"type": "event", "component": "path:gx-r01-n01~?", "code": "connect failed"},),
    ),
    Sample(
        "torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId "
        "from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout",
        ({"type": "event", "component": "rank:?/3", "kind": "rank.collective_error", "code": "rendezvous timed out"},),
    ),
    Sample(
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 1, for key: "
        "store_based_barrier_key:1 (world_size=16, worker_count=9, timeout=0:30:00)",
        ({"type": "event", "component": "rank:?/1", "code": "store barrier timed out"},),
    ),
    Sample(
        "/job:jax_worker/replica:0/task:5",
        ({"type": "event", "component": "rank:?/5", "kind": "rank.collective_error"},),
    ),
    Sample(
        "torch.distributed.elastic.rendezvous.api.errors.RendezvousTimeoutError",
        ({"type": "event", "component": "rank:?/?", "kind": "rank.collective_error"},),
    ),
    Sample(
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
        "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        ({"type": "event", "kind": "rank.collective_error", "blame": "application", "code": "port in use"},),
    ),
)
