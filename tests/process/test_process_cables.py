"""The network as live diagnosis hears of it: windows of ports and modules, edges and identities in its horizon."""

from collections.abc import Callable, Iterator

import pytest

from diagnosis.engine import diagnose
from remediation.plan import planned
from sickbay import messages
from sickbay.app.diagnosing.horizon import Horizon
from sickbay.log import Record
from sickbay.messages import AnyMessage, Identity, Incident
from sickbay.schema import TABLES, Samples
from sickbay.topics import FEATURES, PLACEMENT, TOPOLOGY
from simulator.parts.cables import HOST, LEAF, optic, serial
from simulator.parts.cluster import Card
from simulator.scenario import Scenario, scenario
from streams.feature_record import encode_frame as encode
from streams.windows import WIDTH_MS, features, join

MODULES_S, COUNTERS_S = 60, 30  # as the agent asks


def made(seed: int = 4) -> tuple[Scenario, Card]:
    night = scenario(seed=seed, hosts=8, per_host=2, hosts_per_job=4, layout="rail", breakout=2)
    return night, night.cluster.of(night.cluster.hosts[3])[1]


def records(night: Scenario, until_s: int) -> Iterator[Record]:
    """What agents and pollers put into the log, windows as the stream makes them."""
    cluster, samples = night.cluster, list[Samples]()
    told: list[tuple[str, AnyMessage]] = [(TOPOLOGY, edge) for edge in cluster.edges()]
    told += [(TOPOLOGY, module(night, card, side)) for card in cluster.cards for side in (HOST, LEAF)]
    for at_s, second in enumerate(night.seconds(until_s)):
        assert second.cables is not None
        told += [(PLACEMENT, placement) for placement in second.placements]
        samples += [second.cables.modules(second.at_ms)] if at_s % MODULES_S == 0 else []
        if at_s % COUNTERS_S == 0:
            samples += [second.cables.leaf_ports(second.at_ms), second.cables.host_ports(second.at_ms)]
    for place, (topic, message) in enumerate(told):
        yield Record(topic, 0, place, night.start_ms, f"{place}".encode(), messages.encode(message))
    for table, frame in join(samples).items():
        for window in features(frame, TABLES[table], WIDTH_MS).partition_by("end_ms"):
            end = int(window["end_ms"][0])
            yield Record(FEATURES, 0, 0, end, b"", encode(table, end, window))


def module(night: Scenario, card: Card, side: int) -> Identity:
    host, _, port = optic(card, side).partition(":")[2].partition("/")
    return Identity(host=host, kind="optic", name=port, serial=serial(night.cluster, card, side))


def live(night: Scenario, until_s: int) -> tuple[Incident, ...]:
    horizon = Horizon()
    for record in records(night, until_s):
        horizon.take(record)
    now_ms = night.start_ms + until_s * 1000
    case = horizon.case(now_ms, frontier_ms=now_ms)
    return planned(diagnose(case), case)


def dirty(night: Scenario, card: Card) -> str:
    night.at(420).fault("link_attenuated", on=card, flap_after=None)
    return f"link:{card.port[5:]}~{card.switch_port[5:]}"


def laser(night: Scenario, card: Card) -> str:
    night.at(420).fault("optic_fades", on=card, side=LEAF)
    return optic(card, LEAF)


def storm(night: Scenario, card: Card) -> str:
    night.at(420).fault("pause_sent", on=card)
    return card.port


def breakout(night: Scenario, card: Card) -> str:
    night.at(420).fault("optic_shared", on=card)
    return f"optic:{card.leaf}/{serial(night.cluster, card, LEAF)}"


@pytest.mark.slow
@pytest.mark.parametrize("fault", [dirty, laser, storm, breakout])
def test_the_same_detectors_name_it_live(fault: Callable[[Scenario, Card], str]) -> None:
    night, card = made()
    part = fault(night, card)
    (incident,) = live(night, 720)
    assert incident.component == part


@pytest.mark.slow
def test_a_calm_network_is_silent() -> None:
    night, _ = made()
    assert live(night, 720) == ()
