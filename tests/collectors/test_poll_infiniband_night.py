"""Night 17: half the fabric is missing from a sweep. As polled records and as a folder: a notice, no incident, and
every parent still known. And what is truly broken in the same hour is still found."""

from pathlib import Path

import pytest

from collectors.cluster.fabric_versions import remembered, standing
from diagnosis.engine import diagnose
from sickbay.app.answering.offline import Options, run
from sickbay.messages import Edge, Event, replace
from sickbay.topology import Topology
from tests.collectors.fabric_kit import MANAGER, UNANSWERED, Fabric, Watch, guid
from tests.diagnosis.kit import case, event

OTHER = "0x00000000000000bb"


def big() -> Fabric:
    return Fabric(leaves=16, hosts=16, spines=4)


def polled(fabric: Fabric) -> tuple[list[Edge], list[Event], Watch]:
    """Two good sweeps, three while the manager fails over and half the fabric is not reached, one good again."""
    watch, edges, events = Watch(), list[Edge](), list[Event]()
    whole = fabric.answer()
    half = [one for one in fabric.switches if one.startswith("spine") or int(one[4:]) <= 8]
    gone = tuple(UNANSWERED.format(f"0,1,{number}") for number in range(8))
    parts = [
        fabric.answer(only=half, managers=(MANAGER, "")),
        fabric.answer(only=half, warnings=gone, managers=("", OTHER)),
        fabric.answer(only=half, warnings=gone, managers=(OTHER, OTHER)),
    ]
    for answer in (whole, whole, *parts, fabric.answer(managers=(OTHER, OTHER))):
        step = watch.sees(answer)
        edges += step.edges
        events += step.events
    return edges, events, watch


@pytest.mark.slow
def test_half_a_sweep_is_a_notice_and_keeps_every_parent() -> None:
    edges, events, watch = polled(big())
    assert {one.kind for one in events} == {"monitor.partial_sweep"}
    assert not [edge for edge in edges if edge.to_ms is not None]
    assert diagnose(case(events, [], edges)) == ()
    for at_ms in range(watch.now_ms - 5 * 60_000, watch.now_ms + 1, 60_000):
        view = Topology(edges).at(at_ms)
        assert len(view.hosts_under("switch:spine1")) == 256
        assert view.other_end("port:h16-9/mlx5_0/1") == "port:leaf16/9"
        assert view.ancestors("host:h12-1")[0] == "switch:leaf12"
    assert len(standing(watch.versions)) == len(edges)


@pytest.mark.slow
def test_a_poller_that_starts_anew_in_the_middle_of_it_forgets_nothing() -> None:
    fabric = big()
    edges = list(Watch().sees(fabric.answer()).edges)
    half = [one for one in fabric.switches if one.startswith("spine") or int(one[4:]) <= 8]
    watch = Watch(remembered(edges))
    for minute in range(30):
        managers = (MANAGER, "") if minute == 0 else (OTHER, OTHER)
        gone = tuple(UNANSWERED.format(f"0,1,{number}") for number in range(8))
        step = watch.sees(fabric.answer(only=half, warnings=gone, managers=managers))
        assert {one.kind for one in step.events} <= {"monitor.partial_sweep"}
        assert step.edges == ()
    assert len(Topology([*edges, *standing(watch.versions)]).at().hosts_under("switch:spine1")) == 256


@pytest.mark.slow
def test_a_cable_that_was_pulled_meanwhile_is_found_by_the_next_good_sweep() -> None:
    fabric = big()
    _, _, watch = polled(fabric)
    fabric.cut.add(("leaf12", 3))
    step = watch.sees(fabric.answer(managers=(OTHER, OTHER)))
    ends = {"port:leaf12/3", "port:h12-3/mlx5_0/1"}
    assert {(one.kind, one.component) for one in step.events} == {("port.down", end) for end in ends}
    (incident,) = diagnose(case(step.events, [], standing(watch.versions)))
    assert incident.component in ends
    assert incident.action == "check_link"


@pytest.mark.slow
def test_a_host_that_was_shut_down_in_order_is_no_fault_of_its_leaf() -> None:
    fabric = big()
    _, _, watch = polled(fabric)
    fabric.off.add("h12-3 mlx5_0")
    step = watch.sees(fabric.answer(managers=(OTHER, OTHER)))
    at_ms = watch.now_ms - 20_000
    ordered = replace(event("host.shutdown_orderly", "host:h12-3"), at_ms=at_ms)
    (incident,) = diagnose(case([ordered, *step.events], [], standing(watch.versions)))
    assert (incident.verdict, incident.action) == ("maintenance", "ignore")


@pytest.mark.slow
def test_a_leaf_that_is_gone_is_one_incident_of_that_leaf() -> None:
    fabric = big()
    _, _, watch = polled(fabric)
    fabric.off.add("leaf12")
    step = watch.sees(fabric.answer(managers=(OTHER, OTHER)))
    (incident,) = diagnose(case(step.events, [], standing(watch.versions)))
    assert (incident.component, incident.verdict) == ("switch:leaf12", "shared")


def listed(fabric: Fabric, switches: list[str]) -> str:
    """`ibnetdiscover -p` of these switches."""
    rows = []
    for (switch, port), (far, far_port) in fabric.links.items():
        if switch in switches:
            kind = "SW" if far in fabric.switches else "CA"
            ends = f"( '{switch}' - '{far}' )"
            rows.append(f"SW    12 {port:>2} {guid(switch)} 4x NDR - {kind}    13 {far_port:>2} {guid(far)} {ends}\n")
    return "".join(rows)


def test_a_folder_with_a_whole_and_a_half_discovery_gives_no_incident_and_all_parents(tmp_path: Path) -> None:
    fabric = big()
    (tmp_path / "ibnetdiscover-0300.txt").write_text(listed(fabric, fabric.switches))
    half = [one for one in fabric.switches if one.startswith("leaf") and int(one[4:]) <= 8]
    (tmp_path / "ibnetdiscover-0301.txt").write_text(listed(fabric, half))
    result = run([tmp_path], Options())
    assert result.answer.incidents == ()
    view = result.case.topology.at()
    assert view.other_end("port:h16-9/mlx5_0/1") == "port:leaf16/9"
    assert len(view.hosts_under("switch:spine2")) == 256
