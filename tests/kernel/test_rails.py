"""Rails from links alone, and the cables that are probably in the wrong hole."""

from hypothesis import given
from hypothesis import strategies as st

from sickbay.components import Name
from sickbay.messages import Edge, Relation
from sickbay.rails import host_links, rails
from sickbay.topology import Topology


def fabric(hosts: int, devices: int = 8, pods: int = 1) -> list[tuple[Name, Name]]:
    return [
        (f"port:p{pod}h{host}/mlx5_{device}/1", f"switch:p{pod}leaf{device}")
        for pod in range(pods)
        for host in range(hosts)
        for device in range(devices)
    ]


def test_the_same_device_of_all_hosts_is_a_rail() -> None:
    found = rails(fabric(4, devices=12, pods=2))
    assert found.rail["port:p0h0/mlx5_0/1"] == found.rail["port:p1h3/mlx5_0/1"] == 0
    assert found.rail["port:p0h2/mlx5_10/1"] == 10  # after 9, not after 1
    assert found.odd == {}


def test_two_swapped_cables_are_odd_and_keep_their_own_rail() -> None:
    links = dict(fabric(5))
    links["port:p0h1/mlx5_2/1"], links["port:p0h1/mlx5_3/1"] = "switch:p0leaf3", "switch:p0leaf2"
    found = rails(links.items())
    assert found.odd == {"port:p0h1/mlx5_2/1": 3, "port:p0h1/mlx5_3/1": 2}
    assert found.rail["port:p0h1/mlx5_2/1"] == 2


def test_a_leaf_of_a_rack_makes_no_rails() -> None:
    rack = [(f"port:h{host}/mlx5_{device}/1", f"switch:tor{host // 4}") for host in range(16) for device in range(8)]
    assert rails(rack) == rails([]) == ({}, {})


def test_one_device_a_host_or_two_hosts_make_none() -> None:
    assert rails(fabric(8, devices=1)).rail == {}
    assert rails(fabric(2)).rail == {}


@given(st.integers(4, 8), st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=1), st.randoms())
def test_order_changes_nothing_and_one_wrong_cable_is_found(
    hosts: int, wrong: set[tuple[int, int]], random: object
) -> None:
    links = dict(fabric(hosts, devices=4))
    for host, device in wrong:
        links[f"port:p0h{host}/mlx5_{device}/1"] = f"switch:p0leaf{(device + 1) % 4}"
    shuffled = list(links.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    found = rails(shuffled)
    assert found == rails(links.items())
    assert set(found.odd) == {f"port:p0h{host}/mlx5_{device}/1" for host, device in wrong}


def test_links_come_from_either_side_of_an_edge() -> None:
    told = [
        Edge(child=f"port:h{host}/n{device}", parent=f"port:leaf{device}/{host}", relation=Relation.LINK_END)
        if host % 2
        else Edge(child=f"port:leaf{device}/{host}", parent=f"port:h{host}/n{device}", relation=Relation.LINK_END)
        for host in range(4)
        for device in range(2)
    ]
    told += [Edge(child=f"port:leaf{d}/x", parent=f"switch:leaf{d}", relation=Relation.PART_OF) for d in range(2)]
    told += [Edge(child="port:leaf0/u", parent="port:spine/1", relation=Relation.LINK_END)]
    told += [Edge(child="port:spine/1", parent="switch:spine", relation=Relation.PART_OF)]
    links = host_links(Topology(told))
    assert sorted(links) == sorted((f"port:h{host}/n{d}", f"switch:leaf{d}") for host in range(4) for d in range(2))
    assert rails(links).rail["port:h3/n1"] == 1
