"""Frames filled in place are what agents send, byte by byte."""

import pytest

from collectors.identity import Names
from sickbay.app.demonstrating.agents import Agents
from sickbay.app.demonstrating.demo import small_site
from sickbay.log.memory import MemoryLog
from sickbay.topics import TELEMETRY
from simulator.output.wire_frames import Senders
from simulator.scenario import Scenario, scenario
from tests.process.kit import everything


def _agents(made: Scenario, until_s: int) -> list[tuple[str, bytes]]:
    """What agents append, by host."""
    now = [made.start_ms]
    log = MemoryLog(small_site(), clock=lambda: now[0], seed=1)
    agents = Agents(log, Names(made.cluster.identities()), made.cluster.hosts)
    for second in made.seconds(until_s):
        now[0] = second.at_ms + 1000
        agents.tell_samples(second.samples, now[0])
    agents._appender.flush()
    found = [one for one in everything(log, TELEMETRY) if not one.is_tick and one.value]
    return [(one.key.decode(), one.value) for one in found if one.value]


def _frames(made: Scenario, until_s: int) -> list[tuple[str, bytes]]:
    senders = Senders(made.cluster, range(len(made.cluster.hosts)))
    found = []
    for second in made.seconds(until_s):
        found += [(host, bytes(frame)) for host, frame in senders.take(second.samples, second.at_ms + 1000)]
    return found


def _by_host(frames: list[tuple[str, bytes]]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for host, frame in frames:
        found.setdefault(host, []).append(frame)
    return found


def _night(what: str) -> Scenario:
    made = scenario(seed=9, hosts=6, per_host=2, spare_hosts=1)
    if what:
        made.add(what, 7, None, {})
    return made


@pytest.mark.parametrize("what", ["", "accelerator_off_bus", "exporter_gap", "power_lost"])
def test_frames_are_what_agents_send(what: str) -> None:
    agents, frames = _by_host(_agents(_night(what), 24)), _by_host(_frames(_night(what), 24))
    assert agents.keys() == frames.keys() == set(_night(what).cluster.hosts)
    assert agents == frames
    assert len({len(frame) for told in frames.values() for frame in told[1:]}) > (1 if what else 0)
