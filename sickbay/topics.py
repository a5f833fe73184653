"""Every topic of the log, declared once: what its key means, what it holds, how long it is kept, how it is synced.

Engines, docs and processors read this table. A breaking change of a topic's meaning or partition count is a new `vN`.
"""

from dataclasses import dataclass
from typing import Literal

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
KIB = 1024
MIB = 1024 * KIB

TELEMETRY = "sickbay.telemetry.v1"
BACKFILL = "sickbay.backfill.v1"
EVENTS = "sickbay.events.v1"
STEPS = "sickbay.steps.v1"
SCHEMAS = "sickbay.schemas.v1"
TOPOLOGY = "sickbay.topology.v1"
PLACEMENT = "sickbay.placement.v1"
CHANGES = "sickbay.changes.v1"
CONTROL = "sickbay.control.v1"
FEATURES = "sickbay.features.v1"
EVIDENCE = "sickbay.evidence.v1"
INCIDENTS = "sickbay.incidents.v1"
ACTIONS = "sickbay.actions.v1"
OUTCOMES = "sickbay.outcomes.v1"
STATE = "sickbay.state.v1"
DEADLETTER = "sickbay.deadletter.v1"

Sync = Literal["full", "normal"]  # full: an append is on disk before it is acknowledged; normal: before the next sync


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. `holds`: "frame" (see `wire`) or tags of `messages`. `driving`: its partitions are ticked tasks."""

    name: str
    key: str
    holds: tuple[str, ...]
    partitions: int
    keep_ms: int | None = None  # None: never removed by age
    compacted: bool = False  # only the newest record of a key is kept, once older than `lag_ms`
    lag_ms: int = 0
    max_bytes: int = MIB  # of one value
    sync: Sync = "full"
    driving: bool = False


# Relays pack up to 32 hosts of some 30 kB a message, hence 4 MiB for frames. Sizes, ages and counts: design, section 5.
_ALL = (
    Topic(TELEMETRY, "host or switch; a relay's pod", ("frame",), 16, keep_ms=DAY_MS,
          max_bytes=4 * MIB, sync="normal", driving=True),
    Topic(BACKFILL, "host", ("frame",), 4, keep_ms=DAY_MS, max_bytes=4 * MIB, sync="normal"),
    Topic(EVENTS, "host or switch", ("event",), 16, keep_ms=7 * DAY_MS, max_bytes=64 * KIB, driving=True),
    Topic(STEPS, "host", ("frame", "step", "progress"), 16, keep_ms=DAY_MS,
          max_bytes=4 * MIB, sync="normal", driving=True),
    Topic(SCHEMAS, "schema id", ("layout",), 1, compacted=True, max_bytes=256 * KIB),
    Topic(TOPOLOGY, "edge or device", ("edge", "identity"), 1, compacted=True, lag_ms=48 * HOUR_MS),
    Topic(PLACEMENT, "job", ("placement",), 1, compacted=True, lag_ms=48 * HOUR_MS, max_bytes=4 * MIB),
    Topic(CHANGES, "target", ("change",), 1, compacted=True, lag_ms=48 * HOUR_MS),
    Topic(CONTROL, "kind:target:id", ("control",), 1, compacted=True, lag_ms=48 * HOUR_MS),
    Topic(FEATURES, "job; fabric plane for ports", ("frame",), 16, keep_ms=6 * HOUR_MS,
          max_bytes=4 * MIB, sync="normal", driving=True),
    Topic(EVIDENCE, "the cluster", ("evidence",), 1, keep_ms=7 * DAY_MS, driving=True),
    Topic(INCIDENTS, "incident id", ("incident",), 1, compacted=True, lag_ms=7 * DAY_MS),
    Topic(ACTIONS, "action id", ("action",), 1, compacted=True, lag_ms=7 * DAY_MS),
    Topic(OUTCOMES, "outcome id", ("outcome",), 1, compacted=True, lag_ms=7 * DAY_MS),
    Topic(STATE, "processor and task", ("state",), 16, compacted=True, max_bytes=4 * MIB),
    Topic(DEADLETTER, "source topic", ("deadletter",), 1, keep_ms=7 * DAY_MS, max_bytes=128 * KIB),
)  # fmt: skip

TOPICS: dict[str, Topic] = {topic.name: topic for topic in _ALL}

TOMBSTONE_MS = DAY_MS  # how long a compacted topic keeps the mark of a removed key, so that readers can see it


def murmur2(key: bytes) -> int:
    """The 32-bit hash that Kafka's default partitioner uses (signed, seed 0x9747b28c): all producers must agree."""
    size = len(key)
    digest = 0x9747B28C ^ size
    whole = size - size % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        digest = (digest * _M & _MASK) ^ word
    if size % 4:
        digest = (digest ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    digest = (digest ^ digest >> 13) * _M & _MASK
    digest ^= digest >> 15
    return digest - (1 << 32) if digest >> 31 else digest


_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """The partition that records of `key` go to, in 0 .. partitions - 1."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
