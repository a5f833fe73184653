"""What a host hears of its switches: three spellings of one answer, one link a port."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats import lldp_text
from collectors.formats.reading import Tally
from collectors.inputs.sniff import sniff
from sickbay.messages import Edge, Relation


def heard(port: str = "Ethernet24", kind: str = "ifname", descr: str = "etp7a") -> dict[str, Any]:
    return {
        "via": "LLDP", "rid": "1", "age": "3 days, 02:11:10",
        "chassis": {"leaf07.dc.example": {"id": {"type": "mac", "value": "b8:ce:f6:00:00:01"}, "descr": "SONiC"}},
        "port": {"id": {"type": kind, "value": port}, "descr": descr, "ttl": "120"},
    }  # fmt: skip


def read(told: object) -> tuple[list[tuple[str, str]], int]:
    raw, tally = json.dumps(told, indent=2).encode(), Tally()
    assert sniff(raw, "x").kind == "lldp_text"
    found = [one.record for one in lldp_text.read([raw], tally)]
    edges = [one for one in found if isinstance(one, Edge) and one.relation is Relation.LINK_END]
    return [(edge.child, edge.parent) for edge in edges], tally.unparsed


LINK = [("port:?/ens1f0", "port:leaf07/Ethernet24")]


def test_one_interface_is_an_object_and_several_are_a_list() -> None:
    assert read({"lldp": {"interface": {"ens1f0": heard()}}}) == (LINK, 0)
    several = [{"ens1f0": heard()}, {"ens2f0": heard("Ethernet32")}]
    assert read({"lldp": {"interface": several}}) == ([*LINK, ("port:?/ens2f0", "port:leaf07/Ethernet32")], 0)


def test_the_stable_form_has_lists_throughout() -> None:
    port = {"id": [{"type": "ifname", "value": "Ethernet24"}], "descr": [{"value": "etp7a"}]}
    chassis = [{"id": [{"type": "mac", "value": "b8:ce:f6:00:00:01"}], "name": [{"value": "leaf07"}]}]
    one = {"name": "ens1f0", "via": "LLDP", "chassis": chassis, "port": [port]}
    assert read({"lldp": [{"interface": [one]}]}) == (LINK, 0)


def test_a_port_that_is_told_by_an_address_has_the_name_of_its_description() -> None:
    assert read({"lldp": {"interface": {"ens1f0": heard("b8:ce:f6:00:00:19", "mac", "Ethernet24")}}}) == (LINK, 0)
    assert read({"lldp": {"interface": {"ens1f0": heard("513", "local", "Ethernet24")}}}) == (LINK, 0)


def test_a_neighbour_without_a_name_is_no_link_and_is_counted() -> None:
    nameless = heard() | {"chassis": {"id": {"type": "mac", "value": "b8:ce:f6:00:00:01"}}}
    assert read({"lldp": {"interface": [{"ens1f0": nameless}, {"ens2f0": heard("", descr="")}]}}) == ([], 2)


@pytest.mark.parametrize("cut", [0, 40, 200])
def test_half_an_answer_is_counted_and_tells_nothing(cut: int) -> None:
    raw, tally = json.dumps({"lldp": {"interface": {"ens1f0": heard()}}}).encode(), Tally()
    assert not list(lldp_text.read([raw[:cut]], tally))
    assert tally.unparsed == 1


KEYS = st.sampled_from(["lldp", "interface", "chassis", "port", "id", "name", "value", "descr", "e1"])
LEAVES = st.none() | st.integers() | st.text(max_size=5)


@given(st.recursive(LEAVES, lambda one: st.lists(one, max_size=3) | st.dictionaries(KEYS, one, max_size=3)))
def test_any_json_is_read_or_counted(told: object) -> None:
    list(lldp_text.read([json.dumps({"lldp": told}).encode()], Tally()))
    list(lldp_text.read([json.dumps({"lldp": {"interface": told}}).encode()], Tally()))


def test_a_port_whose_name_begins_with_its_speed_is_a_port() -> None:
    link = [("port:?/ens1f0", "port:leaf07/400GE1/0/5")]
    assert read({"lldp": {"interface": {"ens1f0": heard("400GE1/0/5", "ifname", "")}}}) == (link, 0)
