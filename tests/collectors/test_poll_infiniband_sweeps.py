"""Sweeps of the fabric over time: what ends, what is down, and what a part of a sweep must not say."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.cluster.fabric_edges import GONE_MS
from collectors.cluster.fabric_sweep import Known, Sweep, trouble
from collectors.cluster.fabric_versions import remembered, standing
from sickbay.messages import Relation
from sickbay.topology import Topology, View
from tests.collectors.fabric_kit import MANAGER, MINUTE, UNANSWERED, Fabric, Watch, guid, kinds

LONG = GONE_MS // MINUTE + 1


def view(watch: Watch) -> View:
    return Topology(standing(watch.versions)).at()


def links(watch: Watch) -> set[frozenset[str]]:
    edges = standing(watch.versions)
    return {frozenset((one.child, one.parent)) for one in edges if one.relation is Relation.LINK_END}


def known(fabric: Fabric) -> Watch:
    watch = Watch()
    step = watch.sees(fabric.answer())
    assert {one.code for one in step.events} <= {"same name"}
    return watch


def test_a_sweep_tells_both_ends_of_every_link_by_the_names_that_agents_use() -> None:
    watch = known(Fabric())
    assert len(links(watch)) == 18
    assert view(watch).other_end("port:h2-3/mlx5_0/1") == "port:leaf2/3"
    assert view(watch).hosts_under("switch:leaf2") == tuple(f"h2-{n}" for n in range(1, 9))
    assert len(view(watch).hosts_under("switch:spine1")) == 16
    assert view(watch).ancestors("host:h1-1") == ("switch:leaf1", "switch:spine1")


def test_rows_are_told_once_and_samples_of_linked_ports_with_every_sweep() -> None:
    watch = Watch()
    first = watch.sees(Fabric().answer())
    second = watch.sees(Fabric().answer())
    assert (len(first.edges), len(second.edges), second.events) == (18 + 26 + 2, 0, ())
    (ports, switches) = second.samples
    assert len(ports.component) == 20  # spare ones are no rows: nobody ever used them
    assert ports.values["speed_gigabits_per_second"].tolist() == [200.0] * 20
    assert sorted(switches.component) == ["switch:leaf1", "switch:leaf2", "switch:spine1"]


def both(kind: str, port: str, adapter: str) -> list[tuple[str, str, str]]:
    """An event of a link to an adapter: its switch told it, and nobody can ask the adapter."""
    return [(kind, port, adapter), (kind, adapter, port)]


def test_a_cable_that_is_pulled_is_down_at_its_ends_and_at_no_other_port() -> None:
    fabric = Fabric()
    watch = known(fabric)
    fabric.cut.add(("leaf2", 3))
    step = watch.sees(fabric.answer())
    assert kinds(step) == both("port.down", "port:leaf2/3", "port:h2-3/mlx5_0/1")
    assert [one.host for one in step.events] == ["", "leaf2"]
    assert view(watch).other_end("port:leaf2/3") == "port:h2-3/mlx5_0/1"  # the parent stays known
    assert watch.sees(fabric.answer()).events == ()
    fabric.cut.clear()
    assert kinds(watch.sees(fabric.answer())) == both("port.up", "port:leaf2/3", "port:h2-3/mlx5_0/1")


def test_a_link_between_switches_is_down_at_both_of_its_ends() -> None:
    fabric = Fabric(spines=2)
    watch = known(fabric)
    fabric.cut.add(("leaf2", 10))
    assert sorted(kinds(watch.sees(fabric.answer()))) == [
        ("port.down", "port:leaf2/10", "port:spine2/2"),
        ("port.down", "port:spine2/2", "port:leaf2/10"),
    ]


def test_a_port_that_was_disabled_is_no_fault() -> None:
    fabric = Fabric()
    watch = known(fabric)
    fabric.closed.add(("leaf1", 1))
    assert kinds(watch.sees(fabric.answer())) == both("port.admin_down", "port:leaf1/1", "port:h1-1/mlx5_0/1")


def test_a_link_that_was_disabled_at_one_end_is_no_fault_at_the_other() -> None:
    fabric = Fabric(spines=2)
    watch = known(fabric)
    fabric.closed.add(("spine2", 2))
    assert {kind for kind, _, _ in kinds(watch.sees(fabric.answer()))} == {"port.admin_down"}
    fabric.closed.clear()
    assert {kind for kind, _, _ in kinds(watch.sees(fabric.answer()))} == {"port.up"}


def test_a_link_that_trained_slower_is_told_also_when_it_was_down_in_between() -> None:
    fabric = Fabric()
    watch = known(fabric)
    fabric.speeds["leaf1", 1] = " 2X        53.125 Gbps Active/  LinkUp"
    (event,) = watch.sees(fabric.answer()).events
    assert (event.kind, event.component) == ("port.speed_reduced", "port:leaf1/1")
    assert (event.attributes["rate"], event.attributes["before"]) == ("100", "200")
    assert watch.sees(fabric.answer()).events == ()
    fabric.cut.add(("leaf1", 2))
    watch.sees(fabric.answer())
    fabric.cut.clear()
    fabric.speeds["leaf1", 2] = " 4X      25.78125 Gbps Active/  LinkUp"
    assert sorted(one.kind for one in watch.sees(fabric.answer()).events) == [
        "port.speed_reduced",
        "port.up",
        "port.up",
    ]


# --- night 17: a part of a sweep is a notice and nothing else ---


def halves(fabric: Fabric) -> dict[str, dict[str, object]]:
    """Ways in which half of a fabric is missing from a sweep."""
    half = [name for name in fabric.switches if name != "leaf2"]
    return {
        "a node that did not answer": {"only": half, "warnings": (UNANSWERED.format("0,1,9,2"),)},
        "the tool failed": {"only": half, "failed": "the sweep ended with status 255"},
        "the manager changed": {"managers": (MANAGER, "0x00000000000000bb")},
        "no manager": {"managers": ("", "")},
    }  # fmt: skip


@pytest.mark.parametrize("how", halves(Fabric()))
def test_a_part_of_a_sweep_gives_a_notice_and_changes_no_topology(how: str) -> None:
    fabric = Fabric()
    watch = known(fabric)
    before, told = links(watch), len(watch.edges)
    fabric.cut.add(("leaf1", 2))  # even what it says of a port is not believed
    for _ in range(40):
        step = watch.sees(fabric.answer(**halves(fabric)[how]))  # type: ignore[arg-type]
        assert {one.kind for one in step.events} <= {"monitor.partial_sweep"}
        assert step.samples == ()
    assert (links(watch), len(watch.edges)) == (before, told)
    assert view(watch).other_end("port:h2-8/mlx5_0/1") == "port:leaf2/8"


def test_the_notice_has_numbers_and_is_told_once_in_ten_minutes() -> None:
    fabric = Fabric()
    watch = known(fabric)
    part = fabric.answer(only=["leaf1", "spine1"], failed="the sweep ended with status 1")
    told = [event for _ in range(12) for event in watch.sees(part).events]
    assert len(told) == 2
    assert told[0].component == "monitor:infiniband/sweep"
    assert told[0].attributes["links"] == "10"
    assert told[0].attributes["known_links"] == "18"
    assert "status 1" in told[0].message


def test_lines_that_are_cut_off_are_no_links_that_are_gone() -> None:
    fabric = Fabric(leaves=8, spines=2)
    watch = known(fabric)
    whole = fabric.answer()
    half = type(whole)(whole.ports[: len(whole.ports) // 2], (), whole.managers)
    for _ in range(LONG + 2):
        assert {one.kind for one in watch.sees(half).events} <= {"monitor.partial_sweep"}
    assert len(links(watch)) == 8 * 8 + 16


def test_a_new_manager_makes_one_sweep_a_part_and_the_next_a_whole_one() -> None:
    watch = known(Fabric())
    other = "0x00000000000000bb"
    assert [one.kind for one in watch.sees(Fabric().answer(managers=(MANAGER, other))).events] == [
        "monitor.partial_sweep"
    ]
    assert watch.sees(Fabric().answer(managers=(other, other))).events == ()
    assert watch.versions.notice == ("", 0)


def test_an_adapter_that_hangs_hides_nothing_but_its_own_link() -> None:
    fabric = Fabric(leaves=4, hosts=30)
    watch = known(fabric)
    fabric.mute.add("h1-1 mlx5_0")
    fabric.off.add("h2-2 mlx5_0")
    for _ in range(LONG + 2):
        watch.sees(fabric.answer())
    assert frozenset(("port:leaf1/1", "port:h1-1/mlx5_0/1")) in links(watch)  # mute is blind, not gone
    assert frozenset(("port:leaf2/2", "port:h2-2/mlx5_0/1")) not in links(watch)  # no power for ten minutes is


def test_a_switch_that_hangs_hides_what_hangs_on_it_and_no_other_port() -> None:
    fabric = Fabric(leaves=4, hosts=30)
    watch = known(fabric)
    fabric.mute.add("leaf3")
    fabric.cut.add(("leaf2", 2))
    step = watch.sees(fabric.answer())
    assert [kind for kind, _, _ in kinds(step)] == ["port.down", "port.down", "monitor.partial_sweep"]
    assert "1 switches do not answer" in step.events[-1].message
    for _ in range(LONG + 2):
        assert {one.kind for one in watch.sees(fabric.answer()).events} <= {"monitor.partial_sweep"}
    assert len(view(watch).hosts_under("switch:leaf3")) == 30
    assert frozenset(("port:leaf2/2", "port:h2-2/mlx5_0/1")) in links(watch)  # nothing is counted as gone


def test_several_switches_that_hang_make_nothing_believed() -> None:
    fabric = Fabric(leaves=6, spines=2)
    watch = known(fabric)
    fabric.mute |= {"leaf3", "leaf4"}
    fabric.cut.add(("leaf2", 2))
    for _ in range(LONG + 2):
        assert {one.kind for one in watch.sees(fabric.answer()).events} <= {"monitor.partial_sweep"}
    assert len(view(watch).hosts_under("switch:leaf3")) == 8


# --- what is gone is learnt, and what comes is taken ---


def test_hosts_that_are_switched_off_one_by_one_are_learnt_as_gone() -> None:
    fabric = Fabric()
    watch = known(fabric)
    for number in range(1, 9):
        fabric.off.add(f"h2-{number} mlx5_0")
        for _ in range(LONG):
            watch.sees(fabric.answer())
    assert view(watch).hosts_under("switch:leaf2") == ()
    assert len(links(watch)) == 10
    assert watch.versions.notice == ("", 0)
    assert view(watch).ancestors("switch:leaf2") == ("switch:spine1",)  # still under its spine


def test_a_leaf_that_reboots_keeps_its_hosts_and_is_told_by_its_spines() -> None:
    fabric = Fabric(leaves=4, spines=2)
    watch = known(fabric)
    fabric.off.add("leaf3")
    step = watch.sees(fabric.answer())
    assert sorted(kinds(step)) == [
        ("port.down", "port:spine1/3", "port:leaf3/9"),
        ("port.down", "port:spine2/3", "port:leaf3/10"),
        ("switch.unreachable", "switch:leaf3", ""),
    ]
    for _ in range(6):
        assert watch.sees(fabric.answer()).events == ()
    assert len(view(watch).hosts_under("switch:leaf3")) == 8
    fabric.off.clear()
    watch.sees(fabric.answer())
    assert not [edge for edge in watch.edges if edge[3]]
    fabric.off.add("leaf3")
    for _ in range(LONG + 1):
        watch.sees(fabric.answer())
    assert view(watch).hosts_under("switch:leaf3") == ()  # one that was taken away is learnt too


@pytest.mark.parametrize(
    ("cut", "off", "told"),
    [
        ({("leaf3", 9)}, set(), set()),  # one of its two cables
        ({("leaf3", 9), ("leaf3", 10)}, set(), {"switch:leaf3"}),
        (set(), {"leaf2", "leaf3"}, {"switch:leaf2", "switch:leaf3"}),
        (set(), {"spine2"}, {"switch:spine2"}),  # all four leaves say so
        (set(), {"spine1", "spine2"}, set()),  # the asker sees its own leaf only
    ],
)
def test_a_switch_is_unreachable_where_all_its_neighbours_say_so(
    cut: set[tuple[str, int]], off: set[str], told: set[str]
) -> None:
    fabric = Fabric(leaves=4, spines=2)
    watch = known(fabric)
    fabric.cut, fabric.off = cut, off
    step = watch.sees(fabric.answer())
    assert {one.component for one in step.events if one.kind == "switch.unreachable"} == told
    assert watch.sees(fabric.answer()).events == ()
    fabric.cut, fabric.off = set(), set()
    assert {one.kind for one in watch.sees(fabric.answer()).events} == {"port.up"}


def test_a_switch_with_one_neighbour_may_be_a_broken_cable() -> None:
    fabric = Fabric(leaves=4)
    watch = known(fabric)
    fabric.off = {"leaf3"}
    assert kinds(watch.sees(fabric.answer())) == [("port.down", "port:spine1/3", "port:leaf3/9")]


def test_who_is_cut_off_tells_the_cut_and_forgets_nobody() -> None:
    fabric = Fabric()
    watch = known(fabric)
    fabric.cut.add(("leaf1", 9))  # the asker's own uplink
    step = watch.sees(fabric.answer())
    assert kinds(step) == [
        ("port.down", "port:leaf1/9", "port:spine1/1"),
        ("monitor.partial_sweep", "monitor:infiniband/sweep", ""),
    ]
    for _ in range(60):
        watch.sees(fabric.answer())
    assert len(links(watch)) == 18
    for _ in range(24):
        watch.sees(fabric.answer(), 60)
    watch.sees(fabric.answer())
    assert len(links(watch)) == 8  # after a day that is the fabric


def test_a_cable_that_moved_has_a_beginning_and_the_past_stays_as_it_was() -> None:
    fabric = Fabric()
    watch = Watch()
    edges = list(watch.sees(fabric.answer()).edges)
    fabric.moved = {("leaf1", 1): ("h2-1 mlx5_0", 1), ("leaf2", 1): ("h1-1 mlx5_0", 1)}
    edges += watch.sees(fabric.answer()).edges
    topology = Topology(edges)
    assert topology.at(watch.now_ms).other_end("port:leaf1/1") == "port:h2-1/mlx5_0/1"
    assert topology.at(watch.now_ms - 1).other_end("port:leaf1/1") == "port:h1-1/mlx5_0/1"


def test_growth_is_taken_from_a_part_of_a_sweep_too() -> None:
    watch = known(Fabric())
    watch.sees(Fabric(leaves=3).answer(managers=("", "")))
    assert len(view(watch).hosts_under("switch:leaf3")) == 8


def test_a_new_run_begins_with_what_the_last_one_told() -> None:
    fabric = Fabric()
    before = known(fabric)
    fabric.off |= {"h1-1 mlx5_0"}
    fabric.cut.add(("leaf2", 2))
    watch = Watch(remembered(standing(before.versions)))
    step = watch.sees(fabric.answer(), 5)
    assert step.edges == ()
    assert kinds(step) == [
        *both("port.down", "port:leaf1/1", "port:h1-1/mlx5_0/1"),
        *both("port.down", "port:leaf2/2", "port:h2-2/mlx5_0/1"),
    ]
    for _ in range(LONG):
        watch.sees(fabric.answer())
    assert len(links(watch)) == 16


# --- names ---


def test_adapters_without_a_name_of_their_own_are_told_by_their_guid() -> None:
    fabric = Fabric()
    twins = ("h1-1 mlx5_0", "h1-2 mlx5_0")
    fabric.called = {
        **dict.fromkeys(twins, "h1-1 mlx5_0"),
        "h1-3 mlx5_0": "MT4123 ConnectX6   Mellanox Technologies",
        "h1-4 mlx5_0": "localhost mlx5_0",
        "h1-5 mlx5_0": "Mellanox Technologies Aggregation Node",
        "h1-6 mlx5_0": "h1-6",
        "spine1": "MF0;spine1:MQM9700/U1",
    }
    watch = known(fabric)
    ends = {number: view(watch).other_end(f"port:leaf1/{number}") for number in range(1, 7)}
    assert ends == {
        1: f"port:{guid(twins[0])}/1",
        2: f"port:{guid(twins[1])}/1",
        3: f"port:{guid('h1-3 mlx5_0')}/1",
        4: f"port:{guid('h1-4 mlx5_0')}/1",
        5: None,  # a part of the switch
        6: f"port:h1-6/{guid('h1-6 mlx5_0')}/1",
    }
    assert view(watch).parents("switch:leaf1") == ("switch:spine1",)


def test_names_that_come_to_be_claimed_by_several_are_told_once() -> None:
    fabric = Fabric()
    watch = known(fabric)
    fabric.called = {"h1-2 mlx5_0": "h1-1 mlx5_0"}  # installed from the other's image
    (event,) = watch.sees(fabric.answer()).events
    assert (event.kind, event.component, event.code) == ("monitor.notice", "monitor:infiniband/names", "same name")
    assert event.message.endswith("told by their GUIDs instead: port:h1-1/mlx5_0/1")
    assert watch.sees(fabric.answer()).events == ()


def test_of_two_that_share_a_name_the_one_that_a_part_shows_gets_no_new_name() -> None:
    fabric = Fabric(leaves=3, spines=2)
    fabric.called = {"h3-1 mlx5_0": "h1-1 mlx5_0"}
    watch = known(fabric)
    told = len(watch.edges)
    watch.sees(fabric.answer(only=["leaf1", "leaf2", "spine1", "spine2"], managers=("", "")))
    assert len(watch.edges) == told


def test_a_description_that_nobody_answered_is_no_new_name() -> None:
    fabric = Fabric(spines=2)
    watch = known(fabric)
    told = len(watch.edges)
    fabric.called = {"leaf2": "", "h1-1 mlx5_0": ""}
    watch.sees(fabric.answer(warnings=(UNANSWERED.format("0,1"),)))
    assert len(watch.edges) == told
    fresh = Watch()
    fresh.sees(fabric.answer(managers=("", "")))
    assert "port:leaf2" not in repr(fresh.edges)
    assert guid("leaf2") not in repr(fresh.edges)


def test_a_switch_that_told_none_of_its_ports_is_not_taken_for_a_host() -> None:
    watch = Watch()
    watch.sees(Fabric(spines=2).answer(only=["leaf1", "leaf2"], warnings=(UNANSWERED.format("0,1,9"),)))
    assert not [edge for edge in watch.edges if "spine" in repr(edge)]
    assert len(view(watch).hosts_under("switch:leaf1")) == 8
    watch.sees(Fabric(spines=2).answer())
    assert view(watch).other_end("port:leaf1/9") == "port:spine1/1"


# --- laws ---


@pytest.mark.slow
@given(st.integers(0, 10_000))
def test_whatever_lines_are_missing_nothing_ends_and_no_port_is_down(seed: int) -> None:
    rng = random.Random(seed)
    fabric = Fabric(leaves=3, hosts=3, spines=2)
    watch = known(fabric)
    whole = fabric.answer()
    linked = {end for end, port in Sweep(whole, Known()).rows.items() if port.far}
    for _ in range(3):
        kept = tuple(one for one in whole.ports if rng.random() < 0.7)
        step = watch.sees(type(whole)(kept, (), whole.managers), LONG)
        assert "port.down" not in {one.kind for one in step.events}
        gone = {(one.guid, one.number) for one in whole.ports} - {(one.guid, one.number) for one in kept}
        switches = {one.guid for one in kept}
        if any(end in gone and end[0] in switches for end in linked):
            assert [one.kind for one in step.events] in ([], ["monitor.partial_sweep"])
            assert not [edge for edge in step.edges if edge.to_ms is not None]


def test_complaints_count_the_nodes_that_they_speak_of() -> None:
    told = [UNANSWERED.format("0,1,3").replace("0x11:0", attribute) for attribute in ("0x10:0", "0x12:0", "0x15:4")]
    assert len(trouble(told)) == 1
    assert len(trouble([*told, "ibwarn: [10708] mad_rpc: _do_madrpc failed; dport (Lid 3)"])) == 2
    assert trouble(["-I- discovery done", "", "can't open node name map file, failed to map names"]) == set()
