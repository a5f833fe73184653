"""One port under one name: joins by what hosts tell, and never a wrong one."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from collectors.agent.naming import Cards, identity_key
from collectors.cluster.inventory import Answer, polled, remembered
from collectors.identity import Names
from collectors.port_names import PortNames
from sickbay.edges import key_of
from sickbay.messages import Edge, Event, Identity, Relation, replace

PORT = Identity(
    host="h17", kind="port", index="mlx5_0/1", name="enp25s0np0", pci="0000:19:00.0", uuid="0xa088c20300ab1000/1"
)
NIC = Identity(
    host="h17", kind="nic", index="mlx5_0", name="enp25s0np0", pci="0000:19:00.0", uuid="a088:c203:00ab:1000"
)
PAIRS = {  # what sources call it -> its one name
    "port:h17/mlx5_0/1": "port:h17/mlx5_0/1",
    "port:h17/mlx5_0": "port:h17/mlx5_0/1",
    "port:h17/enp25s0np0": "port:h17/mlx5_0/1",
    "port:h17/0000:19:00.0": "port:h17/mlx5_0/1",
    "port:h17/0xa088c20300ab1000/1": "port:h17/mlx5_0/1",
    "optic:h17/enp25s0np0": "optic:h17/mlx5_0/1",
    "optic:h17/0000:19:00.0": "optic:h17/mlx5_0/1",
    "nic:h17/mlx5_0": "nic:h17/0000:19:00.0",
    "nic:h17/enp25s0np0": "nic:h17/0000:19:00.0",
    "port:0xa088c20300ab1000/1": "port:h17/mlx5_0/1",  # a sweep that was told no name
    "port:0xa088c20300ab1000/2": "port:0xa088c20300ab1000/2",
    "port:h18/enp25s0np0": "port:h18/enp25s0np0",  # another host's
    "port:leaf1/Ethernet4": "port:leaf1/Ethernet4",
    "pcie:h17/0000:19:00.0": "pcie:h17/0000:19:00.0",
    "host:h17": "host:h17",
    "link:?": "link:?",
    "nonsense": "nonsense",
}


@pytest.mark.parametrize("told", PAIRS)
def test_each_source_s_name_becomes_the_one_name(told: str) -> None:
    assert PortNames([PORT, NIC]).canonical(told) == PAIRS[told]
    assert PortNames([NIC, PORT]).canonical(PAIRS[told]) == PAIRS[told]
    assert Names([PORT, NIC]).canonical(told, "h17") == PAIRS[told]


def test_a_reader_that_knows_no_host_is_joined_too() -> None:
    assert Names([PORT]).canonical("port:?/enp25s0np0", "h17") == "port:h17/mlx5_0/1"


def test_an_interface_stands_for_a_port_without_an_rdma_device() -> None:
    names = PortNames([Identity(host="h", kind="nic", pci="0000:31:00.0", name="eno1")])
    assert names.canonical("optic:h/0000:31:00.0") == "optic:h/eno1"
    assert names.canonical("nic:h/eno1") == "nic:h/0000:31:00.0"


def told(index: str = "", interface: str = "", pci: str = "") -> Identity:
    return Identity(host="h", kind="port", index=index, name=interface, pci=pci)


APART = {
    "two interfaces of one address": [told(interface="eth2", pci="a"), told(interface="eth3", pci="a")],
    "a bond's device over two interfaces": [told("mlx5_bond_0/1", "eth2"), told("mlx5_bond_0/1", "eth3")],
    "devices called anew at a boot": [told("mlx5_0/1", "ens1", "a"), told("mlx5_0/1", "ens2", "b")],
    "an interface that two ports claim": [told("mlx5_0/1", "eth2"), told("mlx5_1/1", "eth2")],
}


@pytest.mark.parametrize("rows", APART.values(), ids=list(APART))
def test_what_is_ambiguous_keeps_its_own_names(rows: list[Identity]) -> None:
    names = PortNames(rows)
    for row in rows:
        for token in filter(None, (row.index, row.name, row.pci)):
            assert names.canonical(f"port:h/{token}") == f"port:h/{token}"


def test_ports_of_one_device_are_not_called_by_it() -> None:
    names = PortNames([told("mlx4_0/1", "eth2"), told("mlx4_0/2", "eth3")])
    assert names.canonical("port:h/mlx4_0") == "port:h/mlx4_0"
    assert names.canonical("port:h/eth3") == "port:h/mlx4_0/2"


def test_a_device_that_is_called_anew_at_its_address_has_its_new_names_only() -> None:
    cards = Cards([told("mlx5_0/1", "eth2", "0000:19:00.0")])
    cards.learn([told("rocep25s0/1", "enp25s0np0", "0000:19:00.0")])
    assert cards.names.canonical("port:h/enp25s0np0", "h") == "port:h/rocep25s0/1"
    assert cards.names.canonical("port:h/eth2", "h") == "port:h/eth2"
    assert identity_key(told("mlx4_0/2")) != identity_key(told("mlx4_0/1"))


def test_what_is_taken_back_joins_nothing() -> None:
    names = PortNames()
    names.learn(PORT, b"k")
    assert names.settle()
    names.forget(PORT, b"k")
    assert names.settle()
    assert names.canonical("port:h17/enp25s0np0") == "port:h17/enp25s0np0"
    names.learn(PORT, b"k")
    names.learn(PORT, b"k")
    assert names.settle()
    assert not names.settle()


def test_a_guid_that_two_hosts_claim_is_neither_s() -> None:
    names = PortNames([PORT, replace(PORT, host="h18")])
    assert names.canonical(f"port:{PORT.uuid}") == f"port:{PORT.uuid}"
    assert names.canonical(f"port:h18/{PORT.uuid}") == "port:h18/mlx5_0/1"


def test_lists_that_call_a_port_otherwise_than_the_fabric_contradict_nobody() -> None:
    told = Edge(child="port:h17/mlx5_0/1", parent="port:leaf1/Ethernet4", relation=Relation.LINK_END, source="sweep")
    listed = replace(told, child="port:h17/enp25s0np0", source="inventory:x")
    answers = {"inventory:x": Answer({key_of(listed): listed})}
    for known, contradicted in (((told, PORT), False), ((told,), True)):
        found = polled(remembered(known, frozenset(answers)), answers, 1_000).told
        assert any(getattr(one.message, "kind", "") == "monitor.sources_disagree" for one in found) == contradicted


def test_edges_events_and_modules_are_told_under_the_one_name() -> None:
    names = PortNames([PORT])
    edge = Edge(child="port:h17/enp25s0np0", parent="port:leaf1/Ethernet4", relation=Relation.LINK_END, source="lldp")
    assert names.edge(edge).child == "port:h17/mlx5_0/1"
    event = Event(component="port:leaf1/Ethernet4", kind="port.down", peer="port:h17/enp25s0np0")
    assert names.event(event).peer == "port:h17/mlx5_0/1"
    module = Identity(host="h17", kind="optic", name="enp25s0np0", serial="MT1")
    assert names.module(module).name == "mlx5_0/1"
    other = Event(component="port:leaf1/Ethernet4", kind="port.down")
    assert names.event(other) is other


NUMBERS = st.integers(0, 3)
ROWS = st.lists(
    st.builds(
        lambda rdma, net, pci, host: Identity(
            host=f"h{host}",
            kind="port",
            index=f"mlx5_{rdma}/1" if rdma is not None else "",
            name=f"eth{net}" if net is not None else "",
            pci=f"0000:{pci:02x}:00.0" if pci is not None else "",
        ),
        *[st.none() | NUMBERS] * 3,
        st.integers(0, 1),
    ),
    max_size=12,
)
TOKENS = [f"port:h0/{form}" for n in range(4) for form in (f"mlx5_{n}/1", f"eth{n}", f"0000:{n:02x}:00.0")]


@pytest.mark.slow
@hypothesis_settings(max_examples=200, deadline=None)
@given(rows=ROWS, other=st.randoms(use_true_random=False))
def test_no_join_makes_two_of_one_sort_one_or_depends_on_the_order(rows: list[Identity], other) -> None:  # type: ignore[no-untyped-def]
    names, mixed = PortNames(rows), list(rows)
    other.shuffle(mixed)
    again = PortNames(mixed)
    for sort in range(3):
        found = [names.canonical(token) for token in TOKENS[sort::3]]
        assert len(set(found)) == 4
    for token in TOKENS:
        assert names.canonical(token) == again.canonical(token)
        assert names.canonical(names.canonical(token)) == names.canonical(token)
        assert names.canonical(token).startswith("port:h0/")


@hypothesis_settings(max_examples=200, deadline=None)
@given(
    old=st.permutations(range(4)),
    new=st.permutations(range(4)),
    lost=st.sets(NUMBERS, max_size=2),
    gone=st.sets(NUMBERS, max_size=2),
)
def test_after_a_boot_that_called_devices_otherwise_no_port_has_another_s_name(
    old: list[int], new: list[int], lost: set[int], gone: set[int]
) -> None:
    """`lost`: cards that are not there any more; `gone`: cards that the earlier boot did not have."""
    before = [told(f"mlx5_{old[n]}/1", f"ens{n}", f"0000:{n:02x}:00.0") for n in range(4) if n not in gone]
    here = [told(f"mlx5_{new[n]}/1", f"ens{n}", f"0000:{n:02x}:00.0") for n in range(4) if n not in lost]
    cards = Cards(before)
    cards.learn(here)
    found = [
        {cards.names.canonical(f"port:h/{token}", "h") for token in (one.index, one.name, one.pci)} for one in here
    ]
    assert found == [{f"port:h/{one.index}"} for one in here]
    kept = PortNames()  # what the log keeps of it
    for one in (*before, *Cards(before).learn(here)):
        kept.learn(one, identity_key(one))
    assert [kept.canonical(f"port:h/{one.name}") for one in here] == [f"port:h/{one.index}" for one in here]


def test_what_is_told_again_is_no_news() -> None:
    rows = [told("mlx5_0/1", "ens1", "a"), replace(told("mlx5_1/1", "ens2", "b"), uuid="0x1/1"), told("mlx4_0/2")]
    cards = Cards()
    assert cards.learn(rows) == rows
    assert cards.learn(rows) == []
