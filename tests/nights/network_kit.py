"""Nights of the network as folders: how they are made, judged, and read."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from sickbay.answer import IncidentRow
from sickbay.app.answering.offline import Options, Result, run
from simulator.output.files import write
from simulator.parts.cluster import Card
from simulator.scenario import Scenario, scenario

CONTAIN = ("drain_host", "exclude_for_job", "dependency_hold", "isolate_device", "isolate_port", "cost_out_link")
REPAIR = ("reset_device", "reset_board", "reboot_host", "power_cycle", "replace_part")

Judge = Callable[..., Result]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Writes a night's folder with the network's files, and diagnoses it."""

    def judged(night: Scenario, until_s: int, drop: Iterable[str] = ()) -> Result:
        folder = write(night, tmp_path / "night", until_s=until_s, cables=True)
        for pattern in drop:
            for path in folder.glob(pattern):
                path.unlink()
        return run([folder], Options())

    return judged


def rails(seed: int, hosts: int = 8, per_job: int = 4, per_host: int = 2, breakout: int = 1) -> Scenario:
    """A leaf per card of a host: `per_host` leaves, each with a port for every host."""
    return scenario(
        seed=seed, hosts=hosts, per_host=per_host, hosts_per_job=per_job, layout="rail", timeout_s=300,
        breakout=breakout,
    )  # fmt: skip


def fabric(seed: int, hosts: int = 8) -> Scenario:
    """An InfiniBand fabric of four leaves, one job."""
    return scenario(seed=seed, hosts=hosts, per_host=2, hosts_per_job=hosts, fabric="infiniband", timeout_s=300)


def drawn(night: Scenario, salt: int = 0) -> tuple[Card, np.random.Generator]:
    """A card by the seed, and the source of what else is drawn."""
    rng = np.random.default_rng([night.seed, 0x17, salt])
    return night.cluster.cards[int(rng.integers(len(night.cluster.cards)))], rng


def acts(result: Result) -> set[tuple[str, str]]:
    """All (verb, target) that any plan advises."""
    return {(step.do, step.target) for row in result.answer.incidents for step in row.plan}


def touched(result: Result, *verbs: str) -> set[str]:
    """What some plan does by one of these verbs is done to."""
    return {target for do, target in acts(result) if do in verbs}


def by_component(result: Result) -> dict[str, IncidentRow]:
    """Incidents by what they name: one each."""
    found = {row.component: row for row in result.answer.incidents}
    assert len(found) == len(result.answer.incidents)
    return found
