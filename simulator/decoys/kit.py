"""What decoys share: their truth, and whose rows are whose."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sickbay.actions import Control
from sickbay.components import Kind, Name
from simulator.faults.kit import host_name, job_name
from simulator.truth.expectation import TAKING, Expectation
from simulator.world import World


def nothing(
    world: World, hosts: Iterable[str], what: str, title: str, at: int, *, also: Iterable[Name] = (),
    family: str = "work", ends: int | None = None, severity: float = 1.0, away: Iterable[str] = (),
) -> Expectation:  # fmt: skip
    """No verdict that takes anything out of service. `hosts` with all of theirs, and `also`: innocent, each of them.
    Their jobs are touched only: a word on what a job does to itself is no blame of hardware. `away`: hosts that people
    took: a job may be started without those (night 29)."""
    taken = frozenset(host_name(host) for host in away)
    touched = {part for host in hosts for part in of_host(world, host)} | set(also)
    spared = frozenset(part for part in touched if not part.startswith(f"{Kind.JOB}:"))
    return Expectation(
        name=what, title=title, at_ms=world.ms(at), touched=frozenset(touched), exonerated=spared - taken,
        components=taken, forbidden=TAKING - {"exclude_for_job"} if taken else TAKING,
        family=family, ends_ms=None if ends is None else world.ms(ends), severity=severity,
    )  # fmt: skip


def of_host(world: World, host: str) -> set[Name]:
    """The host with its cards and ports at both ends, and the job on it."""
    run = world.run_on(host)
    found = {host_name(host)} | ({job_name(run)} if run else set())
    for card in world.cluster.of(host):
        found |= {card.component, card.port, card.switch_port}
    return found


def around(world: World, host: str) -> tuple[str, ...]:
    """All hosts of the job on a host; else the host alone."""
    run = world.run_on(host)
    return run.job.hosts if run else (host,)


def rows_of(world: World, hosts: Sequence[str]) -> NDArray[np.int64]:
    """Rows of all cards of these hosts, in their order: of a job's hosts, in the order of its ranks."""
    slices = [world.cluster.rows(host) for host in hosts]
    return np.concatenate([np.arange(one.start, one.stop) for one in slices]).astype(np.int64)


def idle_hosts(world: World, count: int) -> tuple[str, ...]:
    """The last hosts that no job uses, at most so many."""
    idle = [host for host in world.cluster.hosts if world.run_on(host) is None]
    return tuple(idle[-count:]) if count else ()


def declare(world: World, targets: Iterable[Name], begin: int, end: int, note: str) -> None:
    """A person declares work on parts for a time of the night."""
    world.declared += [
        Control(
            kind="maintenance", target=target, by="carol", at_ms=world.ms(begin), from_ms=world.ms(begin),
            until_ms=world.ms(end), note=note,
        )
        for target in targets
    ]  # fmt: skip
