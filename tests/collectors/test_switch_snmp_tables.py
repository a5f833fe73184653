"""Tables of public MIBs as facts, clocks that tell a restart from another, and walks through what devices do wrong."""

import asyncio
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.cluster import snmp_walk, switch_snmp
from collectors.cluster.snmp_uptime import ROUND_MS, Clocks, restarted
from collectors.cluster.snmp_walk import Unanswered, Value, table
from collectors.formats import snmp_sensors, snmp_tables
from collectors.formats.snmp_tables import INTERFACES, Oid, Wide
from collectors.formats.switch_facts import Fact, Part
from sickbay.config import ConfigError

T = 1_773_203_400_000
ROWS: dict[str, dict[tuple[int, ...], Value]] = {
    "ifName": {(1,): b"Ethernet1", (2,): b"Ethernet2", (3,): b"twice", (4,): b"twice"},
    "ifDescr": {(5,): b"Ethernet5"},
    "ifType": {(1,): 6, (2,): 6, (5,): 6},
    "ifAdminStatus": {(1,): 1, (2,): 2, (5,): 1},
    "ifOperStatus": {(1,): 1, (2,): 2, (5,): 7},
    "ifLastChange": {(1,): 1000},
    "ifHighSpeed": {(1,): 400_000, (5,): 1_000},
    "ifHCInOctets": {(1,): 1 << 40},
    "ifInOctets": {(1,): 5, (5,): 4_294_967_000},
    "ifInErrors": {(1,): 3},
}


def facts(rows: dict[str, dict[tuple[int, ...], Value]], wide: Wide, now_ms: int = T) -> dict[tuple[str, str], object]:
    return {(one.key, one.field): one.value for one in snmp_tables.ports(rows, 60_000, now_ms, wide)}


def test_interfaces_are_known_by_name_and_a_name_that_two_bear_names_neither() -> None:
    told = facts(ROWS, Wide())
    assert {key for key, _ in told} == {"Ethernet1", "Ethernet2", "Ethernet5"}
    assert (told["Ethernet1", "oper"], told["Ethernet2", "admin"], told["Ethernet5", "oper"]) == ("up", "down", "down")
    assert told["Ethernet1", "speed_gigabits_per_second"] == 400.0
    assert told["Ethernet1", "rx_bytes_total"] == float(1 << 40)
    assert told["Ethernet1", "rx_errors_total"] == 3.0
    assert told["Ethernet1", "last_change_s"] == (T - 60_000 + 10_000) / 1000


def test_a_narrow_counter_that_goes_round_goes_on_and_is_not_told_where_it_may_have_gone_round_twice() -> None:
    wide = Wide()
    assert facts(ROWS, wide)["Ethernet5", "rx_bytes_total"] == 4_294_967_000.0
    later: dict[str, dict[tuple[int, ...], Value]] = {**ROWS, "ifInOctets": {(5,): 704}}
    assert facts(later, wide, T + 10_000)["Ethernet5", "rx_bytes_total"] == 4_294_968_000.0
    assert ("Ethernet5", "rx_bytes_total") not in facts(later, wide, T + 3_600_000), "1 Gb/s goes round in 34 s"


def test_sensors_have_scale_and_precision_and_belong_to_ports_by_alias_or_by_name() -> None:
    rows: dict[str, dict[tuple[int, ...], Value]] = {
        "ifName": {(7,): b"Ethernet1", (8,): b"Ethernet1/1"},
        "entPhySensorType": {(1,): 8, (2,): 6, (3,): 6, (4,): 8, (5,): 12, (6,): 8, (7,): 1},
        "entPhySensorScale": {(1,): 9, (2,): 8, (3,): 7, (4,): 9, (5,): 9, (6,): 99, (7,): 9},
        "entPhySensorPrecision": {(1,): 1, (2,): 3, (3,): 0, (4,): 0, (5,): 0, (6,): 0, (7,): 2},
        "entPhySensorValue": {(1,): 415, (2,): 1000, (3,): 0, (4,): 35, (5,): 1, (6,): 1, (7,): -251},
        "entPhySensorOperStatus": {(1,): 1, (2,): 1, (3,): 1, (4,): 2, (5,): 1, (6,): 1, (7,): 1},
        "entPhySensorUnitsDisplay": {(7,): b"dBm"},
        "entPhysicalDescr": {
            (1,): b"board",
            (2,): b"Rx Power Sensor lane 2",
            (3,): b"Tx power of Ethernet1/1",
            (7,): b"DOM Rx, Ethernet1",
        },
        "entPhysicalContainedIn": {(2,): 20, (20,): 21, (21,): 20},
        "entAliasMappingIdentifier": {(20, 0): b"1.3.6.1.2.1.2.2.1.1.7"},
    }  # fmt: skip
    assert list(snmp_sensors.environment(rows)) == [
        Fact(Part.SENSOR, "0", "celsius", pytest.approx(41.5)),  # type: ignore[arg-type]
        Fact(Part.MODULE, "Ethernet1", "receive", pytest.approx(0.0), "2"),  # type: ignore[arg-type]
        Fact(Part.MODULE, "Ethernet1/1", "send", -math.inf, "1"),
        Fact(Part.MODULE, "Ethernet1", "receive", pytest.approx(-2.51), "1"),  # type: ignore[arg-type]
    ]


def test_entities_that_contain_each_other_end() -> None:
    rows: dict[str, dict[tuple[int, ...], Value]] = {
        "entPhySensorType": {(1,): 8},
        "entPhySensorValue": {(1,): 41},
        "entPhysicalContainedIn": {(1,): 2, (2,): 1},
    }
    assert [one.port for one in snmp_sensors.sensors(rows)] == [""]


def test_a_power_unit_tells_its_inlet_not_the_sum_of_inlet_and_outlets() -> None:
    rows: dict[str, dict[tuple[int, ...], Value]] = {
        "entPhySensorType": {(1,): 6, (2,): 6, (3,): 6, (4,): 5, (5,): 3},
        "entPhySensorValue": {(1,): 900, (2,): 400, (3,): 500, (4,): 4, (5,): 229},
        "entPhysicalDescr": {(1,): b"Inlet 1 Active Power", (2,): b"Outlet 1", (3,): b"Outlet 2"},
    }
    told = snmp_sensors.power_unit(rows)
    assert told == {"power_watts": 900.0, "current_amperes": 4.0, "voltage_volts": 229.0}


def test_neighbours_by_the_port_s_id_or_its_index() -> None:
    rows: dict[str, dict[tuple[int, ...], Value]] = {
        "ifName": {(7,): b"Ethernet1", (8,): b"Ethernet2"},
        "lldpLocPortId": {(1,): b"Ethernet2", (7,): b"no port"},
        "lldpRemPortId": {
            (0, 1, 5): b"eth2",
            (99, 7, 6): bytes.fromhex("b8cef6001122"),
            (1, 2): b"x",
            (0, 50, 1): b"y",
        },
        "lldpRemPortIdSubtype": {(0, 1, 5): 5, (99, 7, 6): 3},
        "lldpRemSysName": {(0, 1, 5): b"gpu07"},
    }
    told = list(snmp_tables.neighbours(rows))
    assert Fact(Part.NEIGHBOUR, "Ethernet2", "system", "gpu07", "5") in told
    assert Fact(Part.NEIGHBOUR, "Ethernet1", "port", "b8:ce:f6:00:11:22", "6") in told
    assert {one.key for one in told} == {"Ethernet1", "Ethernet2"}


def clocks(*told: int | None, **octets: float) -> Clocks:
    at_ms, agent_ms, system_ms, starts = (*told, None, None, None)[:4]
    return Clocks(at_ms or 0, agent_ms, system_ms, starts, octets)


@pytest.mark.parametrize(
    ("before", "now", "which"),
    [
        (clocks(0, 500_000), clocks(30_000, 530_000), ""),
        (clocks(0, 500_000, e1=9), clocks(30_000, 10_000, e1=20), "agent"),
        (clocks(0, 500_000, e1=9), clocks(30_000, 10_000, e1=2), "system"),
        (clocks(0, 500_000, 900_000), clocks(30_000, 10_000, 930_000), "agent"),
        (clocks(0, 500_000, 900_000), clocks(30_000, 10_000, 12_000), "system"),
        (clocks(0, ROUND_MS - 10_000), clocks(30_000, 20_000), ""),
        (clocks(0, ROUND_MS - 10_000, None, 4), clocks(30_000, 900, None, 4), ""),
        (clocks(0, 500_000, 900_000, 4), clocks(30_000, 1_000, 930_000, 5), "agent"),
        (clocks(0), clocks(30_000), ""),
    ],
)
def test_which_of_its_clocks_began_anew(before: Clocks, now: Clocks, which: str) -> None:
    assert restarted(before, now) == which
    assert restarted(None, now) == ""


class Tables:
    """A device that is a sorted list of rows; `wrong` changes an answer."""

    def __init__(self, rows: dict[Oid, Value], wrong: str = "", most: int = 10_000) -> None:
        self.rows, self.wrong, self.most, self.asked = sorted(rows.items()), wrong, most, 0

    async def get(self, oids: Sequence[Oid]) -> list[tuple[Oid, Value | None]]:
        return [(oid, dict(self.rows).get(oid)) for oid in oids]

    async def bulk(self, oids: Sequence[Oid], most: int) -> list[tuple[Oid, Value | None]]:
        self.asked += 1
        if most * len(oids) > self.most:
            return []
        if self.wrong == "back":
            return [(oid[:-1] if len(oid) > 11 else (*oid, 5), 1) for oid in oids]
        if self.wrong == "same":
            return []
        found: list[tuple[Oid, Value | None]] = []
        at = list(oids)
        for _ in range(most):
            for place, oid in enumerate(at):
                after = next(((one, value) for one, value in self.rows if one > oid), None)
                at[place] = after[0] if after else oid
                found.append(after or (oid, None))
        return found


def rows_of(count: int) -> dict[Oid, Value]:
    told: dict[Oid, Value] = {(*INTERFACES["ifDescr"], row): f"e{row}".encode() for row in range(1, count + 1)}
    return told | {(*INTERFACES["ifInErrors"], row): row for row in range(1, count + 1)} | {(9, 9): 1}


def test_a_table_is_read_whole_in_bounded_answers_and_a_column_that_is_not_there_is_empty() -> None:
    columns = {name: INTERFACES[name] for name in ("ifDescr", "ifInErrors", "ifHCInOctets")}
    for most in (10_000, 7):
        device = Tables(rows_of(64), most=most)
        found = asyncio.run(table(device, columns))
        assert [len(found[name]) for name in columns] == [64, 64, 0]
        assert found["ifInErrors"][(64,)] == 64
    assert device.asked > 20


@pytest.mark.parametrize(
    ("wrong", "most", "text"), [("back", 10_000, "goes back"), ("same", 10_000, "too big"), ("", 1, "too big")]
)
def test_a_device_that_never_ends_is_left(wrong: str, most: int, text: str) -> None:
    columns = {name: INTERFACES[name] for name in ("ifDescr", "ifInErrors")}
    with pytest.raises(Unanswered, match=text):
        asyncio.run(table(Tables(rows_of(3), wrong, most), columns))


def test_more_rows_than_any_device_has_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snmp_walk, "MOST_ROWS", 100)
    found = asyncio.run(table(Tables(rows_of(300)), {"ifDescr": INTERFACES["ifDescr"]}))
    assert len(found["ifDescr"]) == 100


def test_nothing_here_can_set() -> None:
    for module in (snmp_walk, switch_snmp):
        assert not [name for name in vars(module) if "set" in name.lower()]


def test_addresses_of_devices() -> None:
    assert switch_snmp.address_of("leaf1") == ("leaf1", 161)
    assert switch_snmp.address_of("10.0.0.1:1161") == ("10.0.0.1", 1161)
    assert switch_snmp.address_of("[fd00::1]:1161") == ("fd00::1", 1161)
    assert switch_snmp.address_of("fd00::1") == ("fd00::1", 161)
    for wrong in ("h:0", "h:x", "h:70000"):
        with pytest.raises(ConfigError, match="host"):
            switch_snmp.address_of(wrong)


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from([*INTERFACES, *snmp_tables.SENSORS, *snmp_tables.ENTITIES, *snmp_tables.NEIGHBOURS]),
        st.dictionaries(
            st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple),
            st.integers(-(1 << 70), 1 << 70) | st.binary(max_size=20),
            max_size=6,
        ),
    )
)
def test_any_values_in_any_tables_raise_nothing(rows: dict[str, dict[tuple[int, ...], Value]]) -> None:
    list(snmp_tables.ports(rows, 1000, T, Wide()))
    list(snmp_sensors.environment(rows))
    list(snmp_tables.neighbours(rows))
    snmp_sensors.power_unit(rows)
