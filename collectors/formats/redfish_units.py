"""What the Redfish resources of one unit say: a coolant unit, a power unit, or a host's management controller.

Resources as they were answered, by their path. Names, units and words: DMTF schemas (redfish.dmtf.org/schemas/v1)
CoolingUnit, CoolantConnector, Pump, LeakDetector, LeakDetection, Sensor, PowerDistribution, PowerDistributionMetrics,
Circuit, ComputerSystem, Thermal, ThermalMetrics, Power, PowerSupply, EnvironmentMetrics. A null is a reading not told.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from collectors.formats.facility_findings import Finding, Key
from collectors.formats.redfish_values import (
    MAX_TEXT,
    Resource,
    Resources,
    first,
    foreign,
    greatest,
    health_of,
    least,
    measured,
    number,
    objects_in,
    plausible,
    reading,
    sensor_of,
    state_of,
    text_of,
    total,
    type_of,
    word_of,
)
from sickbay.components import Kind, Name, kind_of

_ABSENT = frozenset({"Absent", "Disabled", "StandbyOffline", "Deferring"})  # of Status.State: nobody expects it to work
_LOWER, _UPPER = ("LowerCritical", "LowerFatal"), ("UpperCritical", "UpperFatal")
UNITS = {"CoolingUnit": Kind.CDU, "PowerDistribution": Kind.PDU, "ComputerSystem": Kind.HOST}  # whole of a unit


@dataclass(slots=True)
class Judged:
    """One unit at one time. `row`: columns of the table of its kind. `whole`: its own resource was among those told."""

    row: dict[str, float] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    whole: bool = False


def judged(component: Name, resources: Resources) -> Judged:
    """The columns of a unit and what it says of its own state."""
    found = Judged(whole=any(UNITS.get(type_of(one)) is kind_of(component) for one in resources.values()))
    _JUDGES[kind_of(component)](component, resources, found)
    found.row = {
        column: value for column, value in found.row.items() if math.isfinite(value) and plausible(column, value)
    }
    return found


def _of(resources: Resources, schema: str) -> list[tuple[str, Resource]]:
    """(path, resource) of a schema, parts that are not there left out, in the order of their paths."""
    return sorted(
        (path, one) for path, one in resources.items() if type_of(one) == schema and state_of(one) not in _ABSENT
    )


def _coolant(component: Name, resources: Resources, found: Judged) -> None:
    told = _of(resources, "CoolantConnector")
    # Secondary: towards the racks. A unit that tells its primary side only is judged by what it gets there.
    connectors = [one for one in told if "/SecondaryCoolantConnectors/" in one[0]] or told
    flows = [measured(one, "FlowLitersPerMinute", resources) for _, one in connectors]
    found.row["flow_litres_per_minute"] = sum(flows) if flows else math.nan
    found.row["supply_temperature_celsius"] = greatest(
        measured(one, "SupplyTemperatureCelsius", resources) for _, one in connectors
    )
    found.row["return_temperature_celsius"] = greatest(number(one, "ReturnTemperatureCelsius") for _, one in connectors)
    pressures = [first(one, "DeltaPressurekPa", "SupplyPressurekPa") for _, one in connectors]
    found.row["pressure_kilopascals"] = least(map(abs, pressures))
    for path, one in connectors:
        found.findings += _of_connector(component, path, one, resources)
    pumps = _of(resources, "Pump")
    found.row["pump_ratio"] = greatest(number(one, "PumpSpeedPercent") for _, one in pumps) / 100
    found.findings += [
        _finding(component, "cdu.pump_failed", path, one) for path, one in pumps if health_of(one) == "Critical"
    ]
    _leaks(component, resources, found)
    found.findings += _ailing(component, "cdu.warning", [*_of(resources, "CoolingUnit"), *_of(resources, "Reservoir")])


def _of_connector(component: Name, path: str, one: Resource, resources: Resources) -> Iterator[Finding]:
    """Flow too low or coolant too warm, by the unit's own thresholds; critical without one, by its rated flow."""
    flow, rated = measured(one, "FlowLitersPerMinute", resources), number(one, "RatedFlowLitersPerMinute")
    critical = "Critical" in (health_of(one), health_of(sensor_of(one, "FlowLitersPerMinute", resources)))
    if _crossed(one, "FlowLitersPerMinute", resources, _LOWER) or (critical and (flow == 0 or flow < rated)):
        yield _finding(component, "cdu.flow_low", path, one, flow=f"{flow:g}")
    elif critical:
        yield _finding(component, "cdu.warning", path, one)
    if _crossed(one, "SupplyTemperatureCelsius", resources, _UPPER):
        supply = measured(one, "SupplyTemperatureCelsius", resources)
        yield _finding(component, "cdu.supply_hot", path, one, supply=f"{supply:g}")


def _leaks(component: Name, resources: Resources, found: Judged) -> None:
    """A detector is a resource, or an entry of a group; one that is not available says nothing."""
    detectors = _of(resources, "LeakDetector")
    states = [(path, one, word_of(one.get("DetectorState"))) for path, one in detectors]
    for path, one in _of(resources, "LeakDetection"):
        for group in objects_in(one.get("LeakDetectorGroups")):
            for place, entry in enumerate(objects_in(group.get("Detectors"))):
                if state_of(entry) in _ABSENT:
                    continue
                states.append((f"{path}#{place}", entry, word_of(entry.get("DetectorState"))))
    told = {state for _, _, state in states} & {"OK", "Warning", "Critical"}
    if told:
        found.row["leak"] = float("Critical" in told)
    wet = [(path, one) for path, one, state in states if state == "Critical"]
    damp = [(path, one) for path, one, state in states if state == "Warning"]
    found.findings += [
        _finding(component, "cdu.leak", path, one) for path, one in wet if "#" not in path or not detectors
    ]
    found.findings += [_finding(component, "cdu.warning", path, one) for path, one in damp]


def _power(component: Name, resources: Resources, found: Judged) -> None:
    circuits = _of(resources, "Circuit")
    mains = [one for path, one in circuits if "/Mains/" in path or one.get("CircuitType") == "Mains"]
    metrics = [number(one, "PowerWatts") for _, one in _of(resources, "PowerDistributionMetrics")]
    found.row["power_watts"] = greatest(metrics) if metrics else total(_watts(one) for one in mains)
    inlets = mains or [one for _, one in circuits]
    found.row["current_amperes"] = greatest(_amperes(one) for one in inlets)
    found.row["voltage_volts"] = least(_volts(one) for one in inlets)
    for path, one in circuits:
        breaker = word_of(one.get("BreakerState"))
        if breaker == "Tripped":
            found.findings.append(_finding(component, "pdu.tripped", path, one, breaker=breaker))
        elif breaker == "Off":  # somebody switched it off, or it is a spare
            found.findings.append(_finding(component, "pdu.warning", path, one, breaker=breaker))
        else:
            found.findings += _ailing(component, "pdu.warning", [(path, one)])
    found.findings += _ailing(component, "pdu.warning", _of(resources, "PowerDistribution"))


def _watts(one: Resource) -> float:
    phases = one.get("PolyPhasePowerWatts")
    lines = _phases(phases, "Neutral") or _phases(phases, "Line")
    return first(one, "PowerWatts") if not lines else sum(lines)


def _amperes(one: Resource) -> float:
    """Of all phases: the neutral carries what they differ by, and is left out."""
    phases = one.get("PolyPhaseCurrentAmps")
    lines = [reading(phases.get(f"Line{n}")) for n in (1, 2, 3)] if isinstance(phases, dict) else []
    told = [value for value in lines if not math.isnan(value)]
    return max(told) if told else number(one, "CurrentAmps")


def _volts(one: Resource) -> float:
    phases = one.get("PolyPhaseVoltage")
    lines = _phases(phases, "Neutral") or _phases(phases, "Line")
    return min(lines) if lines else number(one, "Voltage")


def _phases(told: object, last: str) -> list[float]:
    """Readings of phases against the neutral (`Line1ToNeutral`) or each other (`Line1ToLine2`)."""
    if not isinstance(told, dict):
        return []
    values = [reading(value) for key, value in told.items() if re.match(rf"Line\dTo{last}", str(key)[:40])]
    return [value for value in values if not math.isnan(value)]


def _host(component: Name, resources: Resources, found: Judged) -> None:
    states = {word_of(one.get("PowerState")) for _, one in _of(resources, "ComputerSystem")}
    if states & {"On", "Off"}:
        found.row["powered"] = float("On" in states)
    found.row["inlet_temperature_celsius"] = _inlet(resources)
    environment = [
        number(one, "PowerWatts") for path, one in _of(resources, "EnvironmentMetrics") if "/Chassis/" in path
    ]
    controls = [
        number(control, "PowerConsumedWatts")
        for _, one in _of(resources, "Power")
        for control in objects_in(one.get("PowerControl"))[:1]
    ]
    found.row["power_watts"] = greatest(environment) if environment else greatest(controls)
    supplies = [*_of(resources, "PowerSupply"), *_inside(resources, "Power", "PowerSupplies")]
    found.findings += [
        _finding(component, "host.power_event", path, one) for path, one in supplies if health_of(one) == "Critical"
    ]


def _inlet(resources: Resources) -> float:
    summaries = [one.get("TemperatureSummaryCelsius") for _, one in _of(resources, "ThermalMetrics")]
    told = [reading(one.get("Intake")) for one in summaries if isinstance(one, dict)]
    for _, one in _of(resources, "Thermal"):
        intakes = [
            sensor for sensor in objects_in(one.get("Temperatures")) if sensor.get("PhysicalContext") == "Intake"
        ]
        told += [number(sensor, "ReadingCelsius") for sensor in intakes]
    return greatest(told)


def _inside(resources: Resources, schema: str, key: str) -> list[tuple[str, Resource]]:
    found = [
        (f"{path}#{place}", one)
        for path, whole in _of(resources, schema)
        for place, one in enumerate(objects_in(whole.get(key)))
    ]
    return [(path, one) for path, one in found if state_of(one) not in _ABSENT]


def _ailing(component: Name, kind: str, parts: Iterable[tuple[str, Resource]]) -> list[Finding]:
    return [_finding(component, kind, path, one) for path, one in parts if health_of(one) in ("Warning", "Critical")]


def _finding(component: Name, kind: str, path: str, one: Resource, **facts: str) -> Finding:
    """The part is told by its path below the unit: it stays the same, a name may not."""
    called = text_of(one.get("Name")) or text_of(one.get("MemberId"))
    health = health_of(one) or word_of(one.get("DetectorState"))
    part = "/".join(path.rstrip("/").rsplit("/", 2)[-2:])[:MAX_TEXT]
    return Finding(
        Key(component, kind, part),
        {"name": called, "health": health, **facts},
        f"{called or part}: {health}".strip(": "),
    )


def _crossed(one: Resource, column: str, resources: Resources, thresholds: tuple[str, ...]) -> bool:
    """Whether a reading lies beyond one of the unit's own thresholds, told with it or by the sensor it came from."""
    sensor = sensor_of(one, column, resources)
    own = number(sensor, "Reading") if foreign(sensor) else measured(one, column, resources)
    for value, told in ((measured(one, column, resources), one.get(column)), (own, sensor)):
        limits: object = told.get("Thresholds") if isinstance(told, dict) else None
        if not isinstance(limits, dict):
            continue
        for limit in thresholds:
            edge, lower = reading(limits.get(limit)), limit.startswith("Lower")
            if value < edge if lower else value > edge:
                return True
    return False


_JUDGES: dict[Kind, Callable[[Name, Resources, Judged], None]] = {
    Kind.CDU: _coolant,
    Kind.PDU: _power,
    Kind.HOST: _host,
}
