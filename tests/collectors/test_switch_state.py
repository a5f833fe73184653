"""One switch's words as rows, events, changes and links: each rule of its ports, modules and cables."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.cluster.streamed import Streamed
from collectors.cluster.switch_ports import SETTLE_MS
from collectors.cluster.switch_records import names_of, outgoing, remember
from collectors.cluster.switch_state import MOST_PARTS, ROW_MS, Switch, device_time
from collectors.formats.switch_facts import Fact, Part, counter, is_logical, power, real, since_1970_s, speed, state
from sickbay.messages import Change, Edge, Event, Identity, Relation, decode, encode
from sickbay.schema import Samples

T = 1_773_203_400_000
OWN = {"leaf1": "leaf1", "spine1": "spine1"}


def port(field: str, value: object, key: str = "Ethernet4", lane: str = "") -> Fact:
    return Fact(Part.PORT, key, field, value, lane)  # type: ignore[arg-type]


def module(field: str, value: object, lane: str = "", key: str = "Ethernet4") -> Fact:
    return Fact(Part.MODULE, key, field, value, lane)  # type: ignore[arg-type]


def heard(lane: str = "1", key: str = "Ethernet4", **words: str) -> list[Fact]:
    return [Fact(Part.NEIGHBOUR, key, field, value, lane) for field, value in words.items()]


def leaf(*facts: Fact) -> Switch:
    """A switch that told these at T, with nothing left to tell."""
    switch = Switch("leaf1", "gnmi")
    switch.reached(True, T)
    switch.take([port("oper", "up"), port("admin", "up"), *facts], T, T)
    list(switch.samples(T))
    switch.records(T, OWN)
    return switch


def kinds(switch: Switch, now_ms: int) -> list[str]:
    found = switch.records(now_ms, OWN)
    return [one.kind if isinstance(one, Event) else getattr(one, "what", type(one).__name__) for one in found]


def row(switch: Switch, table: str, now_ms: int = T + 1) -> dict[str, float]:
    found = [one for one in switch.samples(now_ms) if one.table == table]
    return {} if not found else {name: float(values[0]) for name, values in found[0].values.items()}


def test_a_port_that_goes_down_is_told_after_it_settled_with_the_time_of_the_change() -> None:
    switch = leaf()
    switch.take([port("oper", "down")], T + 5_000, T + 5_100)
    assert kinds(switch, T + 5_200) == []
    (event,) = switch.records(T + 5_100 + SETTLE_MS, OWN)
    assert isinstance(event, Event)
    assert (event.kind, event.component, event.at_ms) == ("port.down", "port:leaf1/Ethernet4", T + 5_000)
    assert row(switch, "port") == {"up": 0.0}


def test_who_told_all_at_once_is_not_waited_for() -> None:
    switch = leaf()
    switch.take([port("oper", "down"), *heard(system="gpu07", port="eth2")], T + 30_000, T + 30_000)
    told = switch.records(T + 30_000, OWN, whole=True)
    assert [type(one) for one in told] == [Event, Edge]


def test_a_port_that_a_person_closed_is_no_lost_link_in_whichever_order_it_is_told() -> None:
    for facts in ([port("oper", "down"), port("admin", "down")], [port("admin", "down"), port("oper", "down")]):
        switch = leaf()
        for place, fact in enumerate(facts):
            switch.take([fact], T + 10 + place, T + 10 + place)
        assert kinds(switch, T + 60_000) == ["port closed", "port.admin_down"]
        assert row(switch, "port") == {}, "it tells no state"


def test_a_closed_port_that_is_opened_comes_up_with_the_change_before() -> None:
    switch = leaf()
    switch.take([port("admin", "down"), port("oper", "down")], T + 1, T + 1)
    switch.records(T + 2, OWN)
    switch.take([port("admin", "up")], T + 10, T + 10)
    switch.take([port("oper", "up")], T + 20, T + 20)
    assert kinds(switch, T + 30) == ["port opened", "port.up"]


def test_a_port_that_is_down_at_the_first_look_was_perhaps_never_used() -> None:
    switch = Switch("leaf1", "gnmi")
    switch.take([port("admin", "up"), port("oper", "down")], T, T)
    assert kinds(switch, T + 60_000) == []
    assert list(switch.standing()) == [], "no part of the switch that could be lost"
    assert row(switch, "port")["up"] == 0.0
    switch.take([port("oper", "up")], T + 70_000, T + 70_000)
    assert kinds(switch, T + 80_000) == ["Edge", "port.up"]


def test_a_short_flap_is_both_a_down_and_an_up() -> None:
    switch = leaf()
    switch.take([port("oper", "down")], T + 100, T + 100)
    switch.take([port("oper", "up")], T + 300, T + 300)
    assert kinds(switch, T + 100 + SETTLE_MS) == ["port.down", "port.up"]


def test_a_change_while_nobody_listened_is_dated_by_the_port_s_own_last_change() -> None:
    switch = leaf()
    switch.take([port("oper", "down"), port("last_change_s", T / 1000 + 60)], T + 90_000, T + 90_000)
    (event,) = switch.records(T + 95_000, OWN)
    assert isinstance(event, Event)
    assert event.at_ms == T + 60_000


def test_a_port_closed_between_two_looks_is_dated_by_its_own_last_change_too() -> None:
    switch = leaf(port("last_change_s", T / 1000 - 500))
    switch.take(
        [port("admin", "down"), port("oper", "down"), port("last_change_s", T / 1000 + 4)], T + 30_000, T + 30_000
    )
    assert [one.at_ms for one in switch.records(T + 30_001, OWN) if isinstance(one, Event | Change)] == [T + 4_000] * 2


def test_a_person_who_closes_a_port_that_was_lost_before_does_not_excuse_the_loss() -> None:
    switch = leaf(port("last_change_s", T / 1000 - 500))
    switch.take([port("oper", "down"), port("last_change_s", T / 1000 + 4)], T + 5_000, T + 5_000)
    assert kinds(switch, T + 8_000) == ["port.down"]
    switch.take([port("admin", "down")], T + 90_000, T + 90_000)
    assert [one.at_ms for one in switch.records(T + 90_001, OWN) if isinstance(one, Event)] == [T + 90_000]


def test_an_old_last_change_dates_nothing() -> None:
    switch = leaf(port("last_change_s", T / 1000 - 50))
    switch.take([port("oper", "down")], T + 5_000, T + 5_000)
    assert [one.at_ms for one in switch.records(T + 8_000, OWN) if isinstance(one, Event)] == [T + 5_000]


def test_logical_interfaces_tell_neither_rows_nor_events() -> None:
    switch = leaf(
        port("oper", "up", "Vlan10"), port("oper", "up", "Weird0"), port("type", "ianaift:l3ipvlan", "Weird0")
    )
    switch.take([port("oper", "down", "Vlan10"), port("oper", "down", "Weird0")], T + 1, T + 1)
    assert kinds(switch, T + 60_000) == []
    assert row(switch, "port") == {}
    assert all(map(is_logical, ("Port-Channel5", "PortChannel0004", "Loopback0", "mgmt0", "Vlan7", "lo", "ae12")))
    assert not any(map(is_logical, ("Ethernet12/1", "Eth1/1", "100GE1/0/12", "swp31s0", "HundredGigE1/0/3", "Local1")))


def test_priorities_add_up_and_of_two_names_of_one_thing_the_larger_counts() -> None:
    switch = leaf()
    facts = [port("rx_pause_total", 5.0, lane="3"), port("rx_pause_total", 7.0, lane="4")]
    facts += [port("carrier_changes_total", 4.0, lane="old"), port("carrier_changes_total", 6.0, lane="new")]
    switch.take([*facts, port("rx_pause_total", None, lane="4")], T + 1, T + 1)
    assert row(switch, "port") == {"rx_pause_total": 5.0, "carrier_changes_total": 6.0, "up": 1.0}


def test_a_counter_that_is_taken_away_is_missing_and_not_zero() -> None:
    switch = leaf()
    switch.take([port("rx_bytes_total", 9.0), port("rx_bytes_total", None)], T + 1, T + 1)
    assert "rx_bytes_total" not in row(switch, "port")


def test_only_a_whole_answer_takes_a_part_away() -> None:
    switch = leaf(port("oper", "up", "Ethernet8"), module("serial", "A1"), module("serial", "B2", key="Ethernet8"))
    for part in (Part.PORT, Part.MODULE):
        switch.begun(part)
    switch.take([port("oper", "up"), module("serial", "A1")], T + 1, T + 1)
    assert set(switch.ports) == {"Ethernet4", "Ethernet8"}, "half an answer"
    for part in (Part.PORT, Part.MODULE):
        switch.told_all(part, T + 2)
    assert set(switch.ports) == {"Ethernet4"}
    assert kinds(switch, T + 3) == ["optic.unplugged"]


def test_a_module_comes_and_goes() -> None:
    switch = leaf(module("present", "yes"), module("serial", "A1"))
    switch.take([module("present", "no")], T + 1, T + 1)
    assert kinds(switch, T + 2) == ["optic.unplugged"]
    switch.take([module("present", "yes"), module("serial", "C3")], T + 5, T + 5)
    (event,) = switch.records(T + 6, OWN)
    assert isinstance(event, Event)
    assert (event.kind, event.component) == ("optic.plugged", "optic:leaf1/Ethernet4")
    list(switch.samples(T + 7))
    (who,) = switch.records(T + 8, OWN)
    assert isinstance(who, Identity)
    assert (who.host, who.name, who.serial) == ("leaf1", "Ethernet4", "C3")


def test_light_is_the_worst_lane_in_use_and_no_light_of_a_closed_port() -> None:
    lanes = [module("receive", -2.5, "0"), module("receive", -9.0, "1"), module("receive", -math.inf, "2")]
    lanes += [module("send", 1.0, "0"), module("send", 0.5, "1"), module("send", -40.0, "2"), module("celsius", 41.0)]
    lanes += [module("receive_low", -6.0, "openconfig-alarm-types:CRITICAL"), module("receive_low", -4.0, "WARNING")]
    switch = leaf()
    switch.take(lanes, T + 1, T + 1)
    expected = {
        "rx_power_dbm": -9.0, "tx_power_dbm": 0.5, "temperature_celsius": 41.0, "rx_power_alarm_dbm": -6.0,
    }  # fmt: skip
    assert row(switch, "optic") == expected
    switch.take([port("admin", "down"), *lanes], T + 2, T + 2)
    assert row(switch, "optic") == {"temperature_celsius": 41.0, "rx_power_alarm_dbm": -6.0}


def test_errors_that_a_port_tells_are_those_of_its_own_module() -> None:
    switch = leaf(module("receive", -1.0, "0"), module("send", 0.1, "0"))
    ratio = port("errors_before_correction_ratio", 2e-6)
    switch.take([ratio, module("receive", -1.2, "0")], T, T)
    told = row(switch, "optic")
    assert (told["errors_before_correction_ratio"], told["rx_power_dbm"]) == (2e-6, -1.2)
    switch.take([port("errors_before_correction_ratio", 2.0)], T + 2, T + 2)  # no ratio
    assert [one for one in switch.samples(T + 3) if one.table == "optic"] == []
    switch.take([ratio, port("admin", "down")], T + 4, T + 4)
    assert [one for one in switch.samples(T + 5) if one.table == "optic"] == []


def test_a_module_is_told_under_every_port_that_it_serves() -> None:
    switch = leaf(port("oper", "up", "Ethernet5"))
    switch.take([port("module", "xcvr-1"), port("module", "xcvr-1", "Ethernet5")], T + 1, T + 1)
    switch.take([module("receive", -2.0, "1", "xcvr-1"), module("send", 1.0, "1", "xcvr-1")], T + 1, T + 1)
    (samples,) = [one for one in switch.samples(T + 2) if one.table == "optic"]
    assert samples.component == ["optic:leaf1/Ethernet4", "optic:leaf1/Ethernet5"]


def test_a_component_named_after_its_port_is_that_port_s_module() -> None:
    switch = leaf(port("oper", "up", "Ethernet12/1"))
    own = "Ethernet12/1-transceiver"
    switch.take([module("receive", -2.0, "1", own), module("send", 1.0, "1", own)], T, T)
    (samples,) = [one for one in switch.samples(T + 2) if one.table == "optic"]
    assert samples.component == ["optic:leaf1/Ethernet12/1"]


def test_a_cable_has_the_names_of_both_ends_sources_and_stands_when_it_falls_silent() -> None:
    switch = leaf()
    switch.take(heard(system="gpu07.dc.example", port="eth2", port_type="INTERFACE_NAME"), T + 1, T + 1)
    (edge,) = switch.records(T + 2_000, OWN)
    assert isinstance(edge, Edge)
    assert (edge.child, edge.parent, edge.relation) == ("port:gpu07/eth2", "port:leaf1/Ethernet4", Relation.LINK_END)
    switch.take([Fact(Part.NEIGHBOUR, "Ethernet4", "", None, "1")], T + 5_000, T + 5)
    assert switch.records(T + 6_000, OWN) == []
    assert edge in list(switch.standing())


def test_another_cable_ends_the_one_before() -> None:
    switch = leaf()
    switch.take(heard(system="gpu07", port="eth2"), T + 1, T + 1)
    switch.records(T + 2_000, OWN)
    switch.take(heard(system="gpu08", port="eth2"), T + 9_000, T + 9)
    old, new = switch.records(T + 20_000, OWN)
    assert isinstance(old, Edge)
    assert isinstance(new, Edge)
    assert (old.child, old.to_ms) == ("port:gpu07/eth2", T + 20_000)
    assert (new.child, new.from_ms) == ("port:gpu08/eth2", T + 20_000)


def test_two_switches_tell_one_link_once() -> None:
    leaf1, spine1 = leaf(), Switch("spine1", "gnmi")
    leaf1.take(heard(system="spine1.dc", port="Ethernet9"), T + 1, T + 1)
    spine1.take([port("oper", "up", "Ethernet9")], T, T)
    spine1.take(heard(key="Ethernet9", system="leaf1", port="Ethernet4"), T + 1, T + 1)
    (one,) = leaf1.records(T + 2_000, OWN)
    (_, other) = spine1.records(T + 2_000, OWN)
    assert one == other


def test_a_switch_that_tells_its_own_name_late_is_joined_then() -> None:
    switch = leaf()
    switch.take(heard(system="rack9-tor", port="Ethernet9"), T + 1, T + 1)
    switch.records(T + 2_000, OWN)
    old, new = switch.records(T + 3_000, OWN | {"rack9-tor": "spine1"})
    assert isinstance(old, Edge)
    assert isinstance(new, Edge)
    assert (old.child, old.to_ms) == ("port:rack9-tor/Ethernet9", T + 3_000)
    assert {new.child, new.parent} == {"port:leaf1/Ethernet4", "port:spine1/Ethernet9"}


@pytest.mark.parametrize(
    ("words", "end"),
    [
        ({"system": "gpu07", "port": "b8:ce:f6:00:11:22", "port_text": "eth2"}, "port:gpu07/eth2"),
        (
            {"system": "gpu07", "port": "B8:CE:F6:00:11:22", "port_text": "no name at all"},
            "port:gpu07/b8:ce:f6:00:11:22",
        ),
        ({"system": "gpu07", "port": "7", "port_type": "7", "port_text": "Ethernet1/7"}, "port:gpu07/Ethernet1/7"),
        ({"system": "spine1.dc", "port": "Ethernet1/1"}, "port:spine1/Ethernet1/1"),
        ({"system": "198.51.100.9", "port": "eth2"}, "port:198.51.100.9/eth2"),
        ({"system": "localhost", "port": "eth2"}, None),
        ({"system": "", "port": "eth2"}, None),
        ({"system": "a b", "port": "eth2"}, None),
        ({"system": "gpu07", "port": "/../x y"}, None),
    ],
)
def test_names_of_the_other_end(words: dict[str, str], end: str | None) -> None:
    switch = leaf()
    switch.take(heard(**words), T + 1, T + 1)
    assert switch.neighbours.other_end("Ethernet4", OWN) == end


def test_of_a_host_and_its_adapter_on_one_port_the_host_counts() -> None:
    switch = leaf()
    switch.take(heard("9", port="b8:ce:f6:00:11:22"), T + 1, T + 1)
    switch.take(heard("1", system="gpu07", port="eth2"), T + 1, T + 1)
    switch.take(heard("9", port="b8:ce:f6:00:11:23"), T + 1, T + 1)
    assert switch.neighbours.other_end("Ethernet4", OWN) == "port:gpu07/eth2"


def test_a_start_that_moves_ahead_is_a_restart_and_its_jitter_is_none() -> None:
    boot = T / 1000 - 86_400
    switch = leaf(Fact(Part.CHASSIS, "", "boot_s", boot))
    switch.take([Fact(Part.CHASSIS, "", "boot_s", boot + 3)], T + 1, T + 1)
    assert kinds(switch, T + 2) == []
    switch.take([Fact(Part.CHASSIS, "", "boot_s", T / 1000 + 100)], T + 200_000, T + 200_000)
    (event,) = switch.records(T + 200_001, OWN)
    assert isinstance(event, Event)
    assert (event.kind, event.component, event.at_ms) == ("switch.restarted", "switch:leaf1", T + 100_000)


def test_software_and_configuration_are_changes() -> None:
    switch = leaf(Fact(Part.CHASSIS, "", "software", "4.30"), Fact(Part.CHASSIS, "", "config_s", T / 1000 - 50))
    switch.take(
        [Fact(Part.CHASSIS, "", "software", "4.31"), Fact(Part.CHASSIS, "", "config_s", T / 1000 + 5)], T + 9, T + 9
    )
    changes = [one for one in switch.records(T + 10, OWN) if isinstance(one, Change)]
    assert [(one.target, one.what, one.old, one.new, one.at_ms) for one in changes] == [
        ("switch:leaf1", "software", "4.30", "4.31", T + 9),
        ("switch:leaf1", "configuration", "", "", T + 5_000),
    ]


def test_a_switch_that_is_silent_is_told_once_and_its_row_says_so() -> None:
    switch = leaf(Fact(Part.SENSOR, "board", "celsius", 41.0), Fact(Part.SENSOR, "psu1", "watts", 300.0))
    switch.take([Fact(Part.SENSOR, "psu2", "watts", 280.0)], T + 1, T + 1)
    assert row(switch, "switch") == {"up": 1.0, "temperature_celsius": 41.0, "power_watts": 580.0}
    switch.reached(False, T + 2, "UNAVAILABLE")
    switch.reached(False, T + 3, "UNAVAILABLE")
    assert kinds(switch, T + 4) == ["monitor.blind"]
    assert row(switch, "switch", T + 4 + ROW_MS) == {"up": 0.0}


def test_what_is_beyond_the_bounds_is_counted() -> None:
    switch = Switch("leaf1", "gnmi")
    switch.take((port("oper", "up", f"Ethernet{number}") for number in range(MOST_PARTS + 5)), T, T)
    assert len(switch.ports) == MOST_PARTS
    assert switch.omitted >= 5


def test_numbers_and_words_of_devices() -> None:
    assert [counter(value) for value in ("18446744073709551615", 7, -1, 1 << 64, "7.5", True, "0x7", None)] == [
        float((1 << 64) - 1), 7.0, None, None, None, None, None, None,
    ]  # fmt: skip
    assert [real(value) for value in ("-2.50", "N/A", math.nan, math.inf, "1e3", "1" * 400)] == [
        -2.5, None, None, None, 1000.0, None,
    ]  # fmt: skip
    assert [power(value) for value in ("-inf", "-40.00", "N/A", 1e9)] == [-math.inf, -40.0, None, None]
    assert [state(value) for value in ("UP", "x:LOWER_LAYER_DOWN", "NOT_PRESENT", "DORMANT", "?", 3)] == [
        "up", "down", "down", "", None, None,
    ]  # fmt: skip
    assert [speed(value) for value in ("openconfig-if-ethernet:SPEED_400GB", "SPEED_2500MB", "x")] == [400.0, 2.5, None]
    assert [since_1970_s(value) for value in (1_773_203_400_000_000_000, "1773203400", 12, "x")] == [
        1_773_203_400.0, 1_773_203_400.0, None, None,
    ]  # fmt: skip


def test_a_device_s_clock_dates_an_event_only_where_it_is_near_ours() -> None:
    assert device_time(T - 1_000, T) == T - 1_000
    assert device_time(T - 3_600_000, T) == T
    assert device_time(T + 3_600_000, T) == T
    assert device_time(T + 1_000, T) == T


def test_what_the_log_did_not_take_is_told_again_and_the_oldest_is_dropped_beyond_the_bound() -> None:
    kept, switch = Streamed(), leaf()
    edges = [outgoing(edge, "leaf1") for edge in switch.standing()]
    first = kept.polled(0, edges, ())
    again = kept.polled(0, edges, ())  # the log failed: the same state is polled
    assert len(again.told) == 2 * len(first.told)
    assert kept.polled(again.state, (), ()).told == ()
    flood = kept.polled(5, edges * 30_000, (Samples("switch", [], np.array([], np.int64), {}),) * 3_000)
    assert (len(flood.told), len(flood.samples), flood.unparsed) == (20_000, 2_000, 11_000)


def test_links_of_an_earlier_run_are_ended_by_a_later_one() -> None:
    first = leaf()
    first.take(heard(system="gpu07", port="eth2"), T + 1, T + 1)
    told = first.records(T + 2_000, OWN)
    later = leaf()
    remember([later], told)
    later.take(heard(system="gpu08", port="eth2"), T + 9_000, T + 9)
    assert [(one.child, one.to_ms) for one in later.records(T + 20_000, OWN) if isinstance(one, Edge)] == [
        ("port:gpu07/eth2", T + 20_000), ("port:gpu08/eth2", None),
    ]  # fmt: skip


def test_switches_are_known_by_the_settings_names_and_by_what_they_call_themselves() -> None:
    one, other, third = Switch("leaf1", "gnmi"), Switch("leaf2", "gnmi"), Switch("leaf3", "gnmi")
    one.system, other.system, third.system = "rack7-tor-a.dc", "same", "same"
    told = names_of([one, other, third])
    assert told["rack7-tor-a"] == told["rack7-tor-a.dc"] == "leaf1"
    assert "same" not in told
    assert told["leaf3"] == "leaf3"


_WORDS = st.sampled_from(
    ["oper", "admin", "module", "last_change_s", "type", "rx_bytes_total", "up", "present", "serial", "receive", "send",
     "bias", "celsius", "receive_low", "system", "port", "port_type", "boot_s", "software", "config_s", "watts", ""]
)  # fmt: skip
_NUMBERS = (
    "last_change_s", "rx_bytes_total", "up", "receive", "send", "bias", "celsius", "receive_low", "boot_s", "config_s",
    "watts",
)  # fmt: skip


@st.composite
def _facts(draw: st.DrawFn) -> Fact:
    word = draw(_WORDS)
    reals = st.floats(-1e12, 1e12) | st.just(-math.inf) if word in ("receive", "send") else st.floats(-1e12, 1e12)
    texts = st.sampled_from(["up", "down", "", "yes", "no", "Ethernet0", "gpu07", "a/b", "\x00x\u202e", "9" * 300])
    value: float | str | None = draw(st.none() | reals) if word in _NUMBERS else draw(st.none() | texts)
    key = draw(st.sampled_from(["Ethernet0", "Vlan1", "x" * 100, "", "a b/\n"]))
    return Fact(draw(st.sampled_from(Part)), key, word, value, draw(st.sampled_from(["", "1", "99", "CRITICAL", "x"])))


@pytest.mark.slow
@given(st.lists(st.lists(_facts(), max_size=8), max_size=12))
def test_whatever_a_switch_tells_is_a_record_that_can_be_sent_and_a_closed_port_tells_no_state(
    told: list[list[Fact]],
) -> None:
    switch = Switch("leaf1", "gnmi")
    for step, facts in enumerate(told):
        now_ms = T + step * 700
        switch.take(facts, now_ms, now_ms)
        closed = {port.component for port in switch.ports.values() if port.admin == "down"}
        for samples in switch.samples(now_ms):
            for place, component in enumerate(samples.component):
                assert component not in closed or "up" not in samples.values or math.isnan(samples.values["up"][place])
        for record in switch.records(now_ms, OWN):
            assert decode(encode(record)) == record
