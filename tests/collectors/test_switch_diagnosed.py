"""What a switch tells, diagnosed: a lost link is one; a port that a person closed is none."""

from collectors.cluster.switch_state import Switch
from collectors.formats.switch_facts import Fact, Part
from diagnosis.engine import diagnose
from sickbay.messages import Edge, Event, Identity
from tests.diagnosis.kit import T0, case, event, placement

T = T0
HOSTS = [f"h{number}" for number in range(17, 25)]


def leaf() -> tuple[Switch, list[Edge]]:
    """A leaf with a host on each of eight ports, and its links."""
    switch = Switch("leaf1", "gnmi")
    for place, host in enumerate(HOSTS):
        key = f"Ethernet{4 * place}"
        words = {"oper": "up", "admin": "up"}
        switch.take([Fact(Part.PORT, key, word, value) for word, value in words.items()], T - 90_000, T - 90_000)
        near = {"system": f"{host}.dc", "port": "eth2"}
        switch.take([Fact(Part.NEIGHBOUR, key, word, value, "1") for word, value in near.items()], T, T - 90_000)
    told = switch.records(T - 60_000, {"leaf1": "leaf1"})
    return switch, [one for one in told if isinstance(one, Edge)]


def after(switch: Switch, *facts: Fact) -> list[Event]:
    switch.take(facts, T, T)
    told = switch.records(T + 5_000, {"leaf1": "leaf1"})
    assert not [one for one in told if isinstance(one, Identity)]
    return [one for one in told if isinstance(one, Event)]


def port(word: str, value: str) -> Fact:
    return Fact(Part.PORT, "Ethernet0", word, value)


def test_a_link_that_both_ends_lose_is_one_incident_of_that_link() -> None:
    switch, edges = leaf()
    words = [*after(switch, port("oper", "down")), event("port.down", "port:h17/eth2", 0.1)]
    (incident,) = diagnose(case(words, [placement("4471", HOSTS)], edges))
    assert incident.fault == "link_down"
    assert incident.component in ("port:h17/eth2", "port:leaf1/Ethernet0", "link:h17/eth2~leaf1/Ethernet0")


def test_a_port_that_a_person_closed_at_the_switch_is_no_fault_of_the_host_s_end() -> None:
    switch, edges = leaf()
    words = [*after(switch, port("oper", "down"), port("admin", "down")), event("port.down", "port:h17/eth2")]
    assert [one.kind for one in words] == ["port.admin_down", "port.down"]
    assert diagnose(case(words, [placement("4471", HOSTS)], edges)) == ()
