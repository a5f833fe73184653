"""Redfish resources of coolant units, power units and hosts, as saved answers."""

import json
import math
from typing import Any

import pytest

from collectors.formats.reading import Reading, Tally
from collectors.formats.redfish import read
from collectors.formats.redfish_units import judged
from collectors.inputs.sniff import sniff
from sickbay.messages import Event
from sickbay.schema import Samples

ROOT = "/redfish/v1"
SENSOR = f"{ROOT}/Chassis/1/Sensors/Flow"
CDU = f"{ROOT}/ThermalEquipment/CDUs/1"
PDU = f"{ROOT}/PowerEquipment/RackPDUs/1"
HOT = {"Reading": 47, "Thresholds": {"UpperCritical": {"Reading": 45}}}
OK = {"State": "Enabled", "Health": "OK"}
BAD = {"State": "Enabled", "Health": "Critical"}
Told = dict[str, dict[str, Any]]


def coolant(**changed: dict[str, Any]) -> Told:
    """The resources of a coolant unit; `changed` by a short name."""
    told: Told = {
        "unit": {"@odata.id": CDU, "@odata.type": "#CoolingUnit.v1_1_2.CoolingUnit", "Id": "1", "Status": OK},
        "rack_side": {
            "@odata.id": f"{CDU}/SecondaryCoolantConnectors/1",
            "@odata.type": "#CoolantConnector.v1_0_2.CoolantConnector",
            "Name": "Secondary Side Connector 1", "Status": OK, "RatedFlowLitersPerMinute": 350,
            "FlowLitersPerMinute": {"Reading": 402.5, "DataSourceUri": f"{ROOT}/Chassis/1/Sensors/Flow"},
            "SupplyTemperatureCelsius": {"Reading": 29}, "ReturnTemperatureCelsius": {"Reading": 41.5},
            "DeltaPressurekPa": {"Reading": 137}, "SupplyPressurekPa": {"Reading": 208},
        },
        "hall_side": {
            "@odata.id": f"{CDU}/PrimaryCoolantConnectors/1", "Status": OK,
            "@odata.type": "#CoolantConnector.v1_0_2.CoolantConnector",
            "FlowLitersPerMinute": {"Reading": 500}, "SupplyTemperatureCelsius": {"Reading": 18},
        },
        "pump_1": {
            "@odata.id": f"{CDU}/Pumps/1", "@odata.type": "#Pump.v1_1_0.Pump", "Name": "Pump 1",
            "Status": OK, "PumpSpeedPercent": {"Reading": 38.5},
        },
        "pump_2": {
            "@odata.id": f"{CDU}/Pumps/2", "@odata.type": "#Pump.v1_1_0.Pump", "Name": "Pump 2",
            "Status": {"State": "StandbyOffline", "Health": "OK"}, "PumpSpeedPercent": {"Reading": 0},
        },
        "rope": {
            "@odata.id": f"{CDU}/LeakDetection/LeakDetectors/Rope", "@odata.type": "#LeakDetector.v1_1_0.LeakDetector",
            "Name": "Rope", "Status": OK, "DetectorState": "OK",
        },
        "flow_sensor": {
            "@odata.id": f"{ROOT}/Chassis/1/Sensors/Flow", "@odata.type": "#Sensor.v1_7_0.Sensor", "Status": OK,
            "Reading": 402.5, "Thresholds": {"LowerCritical": {"Reading": 300}, "LowerCaution": {"Reading": 350}},
        },
    }  # fmt: skip
    told = {key: one | changed.get(key, {}) for key, one in told.items()}
    return {str(one["@odata.id"]): one for one in told.values()}


def power(**changed: dict[str, Any]) -> Told:
    """The resources of a rack's power unit."""
    told: Told = {
        "unit": {"@odata.id": PDU, "@odata.type": "#PowerDistribution.v1_6_0.PowerDistribution", "Status": OK},
        "metrics": {
            "@odata.id": f"{PDU}/Metrics", "@odata.type": "#PowerDistributionMetrics.v1_3_2.PowerDistributionMetrics",
            "PowerWatts": {"Reading": 6438},
        },
        "mains": {
            "@odata.id": f"{PDU}/Mains/AC1", "@odata.type": "#Circuit.v1_9_0.Circuit", "CircuitType": "Mains",
            "Status": {"Health": "OK"}, "BreakerState": "Normal",
            "PolyPhaseVoltage": {
                "Line1ToLine2": {"Reading": 402.8}, "Line1ToNeutral": {"Reading": 231.8},
                "Line2ToNeutral": {"Reading": 230.6},
            },
            "PolyPhaseCurrentAmps": {
                "Line1": {"Reading": 8.02}, "Line2": {"Reading": 8.66}, "Neutral": {"Reading": 22.7},
            },
        },
        "branch": {
            "@odata.id": f"{PDU}/Branches/A", "@odata.type": "#Circuit.v1_9_0.Circuit", "CircuitType": "Branch",
            "Name": "Branch Circuit A", "Status": OK, "BreakerState": "Normal", "CurrentAmps": {"Reading": 5.19},
        },
    }  # fmt: skip
    told = {key: one | changed.get(key, {}) for key, one in told.items()}
    return {str(one["@odata.id"]): one for one in told.values()}


def kinds(component: str, resources: Told) -> list[str]:
    return [finding.key.kind for finding in judged(component, resources).findings]


def test_a_coolant_unit_that_is_well() -> None:
    found = judged("cdu:c1", coolant())
    assert found.row == {
        "flow_litres_per_minute": 402.5,
        "supply_temperature_celsius": 29.0,
        "return_temperature_celsius": 41.5,
        "pressure_kilopascals": 137.0,
        "pump_ratio": 0.385,
        "leak": 0.0,
    }
    assert (found.findings, found.whole) == ([], True)


@pytest.mark.parametrize(
    ("part", "change", "kind"),
    [
        ("rack_side", {"FlowLitersPerMinute": {"Reading": 280, "DataSourceUri": SENSOR}}, "cdu.flow_low"),
        ("rack_side", {"FlowLitersPerMinute": {"Reading": 120}, "Status": BAD}, "cdu.flow_low"),  # below its rated flow
        ("rack_side", {"Status": BAD}, "cdu.warning"),  # critical, but the flow is right: something else
        ("rack_side", {"SupplyTemperatureCelsius": HOT}, "cdu.supply_hot"),
        ("pump_1", {"Status": BAD}, "cdu.pump_failed"),
        ("rope", {"DetectorState": "Critical"}, "cdu.leak"),
        ("rope", {"DetectorState": "Warning"}, "cdu.warning"),
        ("unit", {"Status": BAD}, "cdu.warning"),
    ],
)  # fmt: skip
def test_what_a_coolant_unit_says_of_itself(part: str, change: dict[str, Any], kind: str) -> None:
    assert kinds("cdu:c1", coolant(**{part: change})) == [kind]


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("pump_2", {"Status": {"State": "Absent", "Health": "Critical"}}),
        ("rope", {"DetectorState": "Unavailable"}),
        ("rack_side", {"FlowLitersPerMinute": {"Reading": None}}),
        ("rack_side", {"FlowLitersPerMinute": {"Reading": "lots"}}),
        ("flow_sensor", {"Thresholds": {"LowerCritical": {"Reading": None}}}),
        ("flow_sensor", {"Thresholds": [300]}),
    ],
)
def test_what_is_not_told_is_no_finding(part: str, change: dict[str, Any]) -> None:
    assert kinds("cdu:c1", coolant(**{part: change})) == []


def test_no_detector_that_works_is_no_dry_floor() -> None:
    assert "leak" not in judged("cdu:c1", coolant(rope={"DetectorState": "Unavailable"})).row


def test_detectors_may_stand_in_groups() -> None:
    told = {
        f"{CDU}/LeakDetection": {
            "@odata.type": "#LeakDetection.v1_1_0.LeakDetection",
            "LeakDetectorGroups": [{"Detectors": [{"DetectorState": "OK"}, {"DetectorState": "Critical"}]}],
        }
    }
    found = judged("cdu:c1", told)
    assert (found.row, [one.key.kind for one in found.findings]) == ({"leak": 1.0}, ["cdu.leak"])


def test_a_power_unit() -> None:
    found = judged("pdu:p1", power())
    assert found.row == {"power_watts": 6438.0, "current_amperes": 8.66, "voltage_volts": 230.6}
    assert found.findings == []
    assert kinds("pdu:p1", power(branch={"BreakerState": "Tripped", "Status": BAD})) == ["pdu.tripped"]
    assert kinds("pdu:p1", power(mains={"BreakerState": "Off"})) == ["pdu.warning"]
    assert kinds("pdu:p1", power(mains={"Status": BAD})) == ["pdu.warning"]


def test_parts_that_stand_inside_their_whole_are_read_like_those_that_were_asked() -> None:
    parts = [*power(branch={"BreakerState": "Tripped", "Status": BAD}).values()]
    (unit,) = [one for one in parts if one["@odata.id"] == PDU]
    whole = unit | {"Branches": {"@odata.id": f"{PDU}/Branches", "Members": [one for one in parts if one is not unit]}}
    for told in (whole, {"component": "pdu:p1", "resources": {PDU: whole}}):
        found = [one.record for one in read([json.dumps(told).encode()], Tally(), "pdu_p1.json")]
        assert [one.kind for one in found if isinstance(one, Event)] == ["pdu.tripped"]
    supply = {"@odata.id": "/c/1/Power#/PowerSupplies/0", "@odata.type": "#Power.v1_7_0.PowerSupply", "Status": BAD}
    old = {"@odata.id": "/c/1/Power", "@odata.type": "#Power.v1_7_0.Power", "PowerSupplies": [supply]}
    found = [one.record for one in read([json.dumps(old).encode()], Tally(), "host_h1.json")]
    assert [one.kind for one in found if isinstance(one, Event)] == ["host.power_event"]


def test_a_host_in_the_old_and_the_new_manner() -> None:
    system = {"@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem", "PowerState": "On", "Status": OK}
    old: Told = {
        f"{ROOT}/Systems/1": system,
        f"{ROOT}/Chassis/1/Thermal": {
            "@odata.type": "#Thermal.v1_7_0.Thermal",
            "Temperatures": [
                {"PhysicalContext": "Intake", "ReadingCelsius": 24, "Status": OK},
                {"PhysicalContext": "CPU", "ReadingCelsius": 71, "Status": OK},
            ],
        },
        f"{ROOT}/Chassis/1/Power": {
            "@odata.type": "#Power.v1_7_0.Power",
            "PowerControl": [{"PowerConsumedWatts": 9120}],
            "PowerSupplies": [{"MemberId": "0", "Status": OK}, {"MemberId": "1", "Name": "PSU 2", "Status": BAD}],
        },
    }
    new: Told = {
        f"{ROOT}/Systems/1": system | {"PowerState": "Off"},
        f"{ROOT}/Chassis/1/ThermalSubsystem/ThermalMetrics": {
            "@odata.type": "#ThermalMetrics.v1_3_0.ThermalMetrics",
            "TemperatureSummaryCelsius": {"Intake": {"Reading": 23.5}},
        },
        f"{ROOT}/Chassis/1/EnvironmentMetrics": {
            "@odata.type": "#EnvironmentMetrics.v1_3_0.EnvironmentMetrics",
            "PowerWatts": {"Reading": 88},
        },
    }
    assert judged("host:h1", old).row == {"powered": 1.0, "inlet_temperature_celsius": 24.0, "power_watts": 9120.0}
    assert kinds("host:h1", old) == ["host.power_event"]
    assert judged("host:h1", new).row == {"powered": 0.0, "inlet_temperature_celsius": 23.5, "power_watts": 88.0}
    assert kinds("host:h1", new) == []


def taken(text: str, name: str = "") -> tuple[list[Reading], Tally]:
    tally = Tally()
    return list(read([text.encode()], tally, name)), tally


def events(readings: list[Reading]) -> list[tuple[str, str, int | None]]:
    return [(one.component, one.kind, one.at_ms) for one in (r.record for r in readings) if isinstance(one, Event)]


def test_captures_tell_when_a_state_began_and_ended() -> None:
    wet, dry = coolant(rope={"DetectorState": "Critical"}), coolant()
    lines = [
        json.dumps({"component": "cdu:c1", "at": at, "resources": told})
        for at, told in (
            ("2026-03-11T04:20:00Z", dry),
            ("2026-03-11T04:20:10Z", wet),
            (1773202820, list(wet.values())),
            (1773202830, dry),
        )
    ]
    for text in ("\n".join(lines), f"[{','.join(lines)}]"):
        readings, tally = taken(text)
        assert events(readings) == [
            ("cdu:c1", "cdu.leak", 1773202810_000),
            ("cdu:c1", "cdu.restored", 1773202830_000),
        ]
        rows = [one.record for one in readings if isinstance(one.record, Samples)]
        assert [len(one.component) for one in rows] == [4]
        assert rows[0].values["leak"].tolist() == [0, 1, 1, 0]
        assert rows[0].values["up"].tolist() == [1, 1, 1, 1]
        assert tally.unparsed == 0
    assert sniff(lines[0].encode(), "x").kind == "redfish"


@pytest.mark.parametrize(
    "path", ["night/cdu_c1.json", "cdu:c1/redfish/v1/ThermalEquipment/CDUs/1/index.json", "x.tar!/cdu-c1/pump.json"]
)
def test_the_path_tells_the_unit_of_a_resource(path: str) -> None:
    readings, tally = taken(json.dumps(list(coolant(pump_1={"Status": BAD}).values())), path)
    assert events(readings) == [("cdu:c1", "cdu.pump_failed", None)]
    assert [one.record.component for one in readings if isinstance(one.record, Samples)] == [["cdu:c1"]]
    assert tally.unparsed == 0


def test_a_unit_that_nothing_names_is_told() -> None:
    readings, tally = taken(json.dumps(list(coolant().values())), "saved.json")
    assert (readings, tally.unparsed) == ([], 7)
    named = power(unit={"Id": "pdu-r1-a"})
    assert taken(json.dumps(list(named.values())))[0][-1].record.component == ["pdu:pdu-r1-a"]  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ['{"component": "rack:r1", "resources": {}}', "[1]", '{"a": 1}'])
def test_what_fits_nothing_is_counted(text: str) -> None:
    readings, tally = taken(text)
    assert (readings, tally.unparsed) == ([], 1)


def test_numbers_that_are_none_are_left_out() -> None:
    odds: list[Any] = [True, "3 l", None, [], {"Reading": True}, 1e300]
    for odd in odds:
        row = judged("cdu:c1", coolant(rack_side={"FlowLitersPerMinute": odd})).row
        assert math.isnan(row.get("flow_litres_per_minute", math.nan))


def test_controllers_that_write_otherwise() -> None:
    odd = coolant(
        rack_side={"FlowLitersPerMinute": "402.5", "SupplyTemperatureCelsius": {"Reading": "29"}},
        pump_2={"Status": {"State": "enabled", "Health": "CRITICAL"}, "Name": "P\x1b[31m1"},
    )
    found = judged("cdu:c1", odd)
    assert (found.row["flow_litres_per_minute"], found.row["supply_temperature_celsius"]) == (402.5, 29.0)
    assert [(one.key.kind, one.facts["name"]) for one in found.findings] == [("cdu.pump_failed", "P1")]


def test_a_sensor_in_another_unit_is_converted_and_its_limits_are_its_own() -> None:
    warm = {"Reading": 86, "DataSourceUri": SENSOR}
    sensor = {"Reading": 86, "ReadingUnits": "[degF]", "Thresholds": {"UpperCritical": {"Reading": 113}}}
    found = judged("cdu:c1", coolant(rack_side={"SupplyTemperatureCelsius": warm}, flow_sensor=sensor))
    assert found.row["supply_temperature_celsius"] == pytest.approx(30)
    hot = judged(
        "cdu:c1",
        coolant(
            rack_side={"SupplyTemperatureCelsius": {**warm, "Reading": 122}}, flow_sensor=sensor | {"Reading": 122}
        ),
    )
    assert [one.key.kind for one in hot.findings] == ["cdu.supply_hot"]


def test_what_no_sensor_can_read_is_left_out() -> None:
    told = {"FlowLitersPerMinute": {"Reading": -1}, "SupplyTemperatureCelsius": {"Reading": -128}}
    found = judged("cdu:c1", coolant(rack_side=told))
    assert not {"flow_litres_per_minute", "supply_temperature_celsius"} & found.row.keys()
    assert found.findings == []


def test_a_time_beyond_all_numbers_raises_nothing() -> None:
    text = '{"component": "cdu:c1", "at": 1' + "0" * 400 + ', "resources": {}}'
    assert taken(text)[0] == []
