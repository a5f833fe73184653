"""Tables of public MIBs as facts of a switch: what to ask for, and what the answers mean.

Sources: IF-MIB (RFC 2863), EtherLike-MIB (RFC 3635), ENTITY-MIB (RFC 6933), ENTITY-SENSOR-MIB (RFC 3433), LLDP-MIB
(IEEE 802.1AB). Rows are keyed by name, never by index: a restart may number them anew. A 32-bit counter of octets is
used only where no 64-bit one is told, and only as long as it cannot have gone round unseen.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from collectors.formats.switch_facts import Fact, Part, Value, counter, text

Oid = tuple[int, ...]
Index = tuple[int, ...]
Rows = Mapping[str, Mapping[Index, int | bytes]]  # column -> row -> value

WRAP = 1 << 32


def _oid(dotted: str) -> Oid:
    return tuple(map(int, dotted.split(".")))


SCALARS: Mapping[str, Oid] = {
    "sysDescr": _oid("1.3.6.1.2.1.1.1.0"),
    "sysUpTime": _oid("1.3.6.1.2.1.1.3.0"),
    "sysName": _oid("1.3.6.1.2.1.1.5.0"),
    "hrSystemUptime": _oid("1.3.6.1.2.1.25.1.1.0"),
    "snmpEngineBoots": _oid("1.3.6.1.6.3.10.2.1.2.0"),
    "snmpEngineTime": _oid("1.3.6.1.6.3.10.2.1.3.0"),
}
_IF, _IFX, _LLDP = "1.3.6.1.2.1.2.2.1", "1.3.6.1.2.1.31.1.1.1", "1.0.8802.1.1.2.1"
INTERFACES: Mapping[str, Oid] = {
    "ifDescr": _oid(f"{_IF}.2"),
    "ifType": _oid(f"{_IF}.3"),
    "ifAdminStatus": _oid(f"{_IF}.7"),
    "ifOperStatus": _oid(f"{_IF}.8"),
    "ifLastChange": _oid(f"{_IF}.9"),
    "ifInOctets": _oid(f"{_IF}.10"),
    "ifInDiscards": _oid(f"{_IF}.13"),
    "ifInErrors": _oid(f"{_IF}.14"),
    "ifOutOctets": _oid(f"{_IF}.16"),
    "ifOutDiscards": _oid(f"{_IF}.19"),
    "ifName": _oid(f"{_IFX}.1"),
    "ifHCInOctets": _oid(f"{_IFX}.6"),
    "ifHCOutOctets": _oid(f"{_IFX}.10"),
    "ifHighSpeed": _oid(f"{_IFX}.15"),
}
ETHERNET: Mapping[str, Oid] = {
    "dot3StatsSymbolErrors": _oid("1.3.6.1.2.1.10.7.2.1.18"),
    "dot3InPauseFrames": _oid("1.3.6.1.2.1.10.7.10.1.3"),
    "dot3OutPauseFrames": _oid("1.3.6.1.2.1.10.7.10.1.4"),
}
SENSORS: Mapping[str, Oid] = {
    "entPhySensorType": _oid("1.3.6.1.2.1.99.1.1.1.1"),
    "entPhySensorScale": _oid("1.3.6.1.2.1.99.1.1.1.2"),
    "entPhySensorPrecision": _oid("1.3.6.1.2.1.99.1.1.1.3"),
    "entPhySensorValue": _oid("1.3.6.1.2.1.99.1.1.1.4"),
    "entPhySensorOperStatus": _oid("1.3.6.1.2.1.99.1.1.1.5"),
    "entPhySensorUnitsDisplay": _oid("1.3.6.1.2.1.99.1.1.1.6"),
}
ENTITIES: Mapping[str, Oid] = {
    "entPhysicalDescr": _oid("1.3.6.1.2.1.47.1.1.1.1.2"),
    "entPhysicalContainedIn": _oid("1.3.6.1.2.1.47.1.1.1.1.4"),
    "entPhysicalName": _oid("1.3.6.1.2.1.47.1.1.1.1.7"),
    "entAliasMappingIdentifier": _oid("1.3.6.1.2.1.47.1.3.2.1.2"),
}
NEIGHBOURS: Mapping[str, Oid] = {
    "lldpLocPortIdSubtype": _oid(f"{_LLDP}.3.7.1.2"),
    "lldpLocPortId": _oid(f"{_LLDP}.3.7.1.3"),
    "lldpRemChassisId": _oid(f"{_LLDP}.4.1.1.5"),
    "lldpRemPortIdSubtype": _oid(f"{_LLDP}.4.1.1.6"),
    "lldpRemPortId": _oid(f"{_LLDP}.4.1.1.7"),
    "lldpRemPortDesc": _oid(f"{_LLDP}.4.1.1.8"),
    "lldpRemSysName": _oid(f"{_LLDP}.4.1.1.9"),
}
_COLUMNS = {
    "ifInErrors": "rx_errors_total",
    "ifInDiscards": "rx_discards_total",
    "ifOutDiscards": "tx_discards_total",
    "dot3StatsSymbolErrors": "symbol_errors_total",
    "dot3InPauseFrames": "rx_pause_total",
    "dot3OutPauseFrames": "tx_pause_total",
}
_OCTETS = (("ifHCInOctets", "ifInOctets", "rx_bytes_total"), ("ifHCOutOctets", "ifOutOctets", "tx_bytes_total"))
_STATES = {1: "up", 2: "down", 6: "down", 7: "down"}  # notPresent and lowerLayerDown are down; the rest is between
_MAC = 3  # LLDP port id subtype macAddress


@dataclass(slots=True)
class Wide:
    """32-bit counters made wide: what went round is added. `_last`: (row, column) -> value, time, sum of turns."""

    _last: dict[tuple[str, str], tuple[float, int, float]] = field(default_factory=dict)

    def octets(self, port: str, column: str, value: float, gigabits: float, now_ms: int) -> float | None:
        """The counter in 64 bits; None where at the port's speed it may have gone round more than once since."""
        last, at_ms, turns = self._last.get((port, column), (value, now_ms, 0.0))
        sure = 0 < gigabits * 1e9 / 8 * (now_ms - at_ms) / 1000 < WRAP or now_ms == at_ms
        turns += WRAP if value < last else 0
        self._last[port, column] = (value, now_ms, turns)
        return value + turns if sure else None

    def clear(self) -> None:
        """After a restart all count from zero."""
        self._last.clear()


def names(rows: Rows) -> dict[int, str]:
    """ifIndex -> the name of the port: ifName, else ifDescr; names that two ports bear name neither."""
    told = {index[0]: name for index, value in rows.get("ifDescr", {}).items() if (name := written(value))}
    told |= {index[0]: name for index, value in rows.get("ifName", {}).items() if (name := written(value))}
    count: dict[str, int] = {}
    for name in told.values():
        count[name] = count.get(name, 0) + 1
    return {index: name for index, name in told.items() if count[name] == 1}


def ports(rows: Rows, uptime_ms: int, now_ms: int, wide: Wide) -> Iterator[Fact]:
    """States and counters of all ports. `uptime_ms`: what the times in the tables count against."""
    for index, port in names(rows).items():
        cell = {column: values[(index,)] for column, values in rows.items() if (index,) in values}
        yield from _port(port, cell, uptime_ms, now_ms, wide)


def _port(port: str, cell: Mapping[str, int | bytes], uptime_ms: int, now_ms: int, wide: Wide) -> Iterator[Fact]:
    told: dict[str, Value] = {"type": _word(cell.get("ifType"))}
    told["admin"] = _STATES.get(int(number(cell.get("ifAdminStatus")) or 0))
    told["oper"] = _STATES.get(int(number(cell.get("ifOperStatus")) or 0))
    gigabits = (number(cell.get("ifHighSpeed")) or 0.0) / 1000  # told in Mb/s
    told["speed_gigabits_per_second"] = gigabits or None
    told |= {column: number(cell.get(name)) for name, column in _COLUMNS.items()}
    for large, small, column in _OCTETS:
        value = number(cell.get(large))
        if value is None and (narrow := number(cell.get(small))) is not None:
            value = wide.octets(port, column, narrow, gigabits, now_ms)
        told[column] = value
    if (changed := number(cell.get("ifLastChange"))) is not None and changed * 10 <= uptime_ms:
        told["last_change_s"] = (now_ms - uptime_ms + changed * 10) / 1000  # behind the states that it is of
    yield from (Fact(Part.PORT, port, name, value) for name, value in told.items() if value is not None)


def neighbours(rows: Rows) -> Iterator[Fact]:
    """What is heard on which port. The local number is the port's id where that names one, else its ifIndex."""
    known = names(rows)
    local = {index[0]: written(value) for index, value in rows.get("lldpLocPortId", {}).items()}
    fields = {"chassis": "lldpRemChassisId", "port_text": "lldpRemPortDesc", "system": "lldpRemSysName"}
    for index, value in rows.get("lldpRemPortId", {}).items():
        if len(index) != 3:
            continue
        port = local[index[1]] if local.get(index[1]) in known.values() else known.get(index[1], "")
        subtype = int(number(rows.get("lldpRemPortIdSubtype", {}).get(index)) or 0)
        told: dict[str, Value] = {
            "port": _address(value) if subtype == _MAC else written(value),
            "port_type": f"{subtype}",
        }
        told.update({name: written(rows.get(column, {}).get(index)) for name, column in fields.items()})
        lane = f"{index[2]}"
        yield from (Fact(Part.NEIGHBOUR, port, name, one, lane) for name, one in told.items() if one and port)


def number(value: int | bytes | None) -> float | None:
    """A counter or gauge, None for what is none."""
    return counter(value) if isinstance(value, int) else None


def _word(value: int | bytes | None) -> str | None:
    return None if value is None or isinstance(value, bytes) else str(value)


def written(value: int | bytes | None) -> str | None:
    """A text, None for what is none, or empty."""
    return text(value.decode("utf-8", "replace").replace("\x00", "")) if isinstance(value, bytes) else None


def _address(value: int | bytes) -> str | None:
    return value.hex(":") if isinstance(value, bytes) and len(value) == 6 else written(value)
