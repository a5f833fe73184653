"""Kubernetes' names as data: resources of accelerators, taints, who makes pods and how they tell a pod's place."""

from functools import cache

import msgspec
from msgspec import Struct

from collectors.codes.table import toml


class Maker(Struct, frozen=True, forbid_unknown_fields=True):
    """Who makes pods, and how their labels tell job, place, role and attempt."""

    name: str
    job: tuple[str, ...]
    index: tuple[tuple[str, ...], ...] = ()
    role: str = ""
    attempt: str = ""
    first: tuple[str, ...] = ()
    no_rank: tuple[str, ...] = ()
    where: dict[str, str] = {}


class Words(Struct, frozen=True, forbid_unknown_fields=True):
    """Names of variables."""

    node_rank: tuple[str, ...]
    processes: tuple[str, ...]
    world: tuple[str, ...]
    revision: tuple[str, ...]
    meeting: tuple[str, ...]


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """kubernetes.toml."""

    accelerators: frozenset[str]
    parts: tuple[str, ...]
    usual_taints: frozenset[str]
    domains: tuple[str, ...]
    switches: tuple[str, ...]
    rejections: tuple[str, ...]
    disruptions: dict[str, str]
    environment: Words
    events: dict[str, str]
    makers: tuple[Maker, ...]


@cache
def table() -> Table:
    """The table."""
    return msgspec.convert(toml("kubernetes.toml"), Table)
