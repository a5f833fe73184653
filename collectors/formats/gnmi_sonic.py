"""SONiC's databases over gNMI as facts: COUNTERS_DB, APPL_DB and STATE_DB, addressed by the target of the prefix.

Sources: sonic-gnmi doc/grpc_telemetry.md, sonic-swss portsorch, sonic-platform-daemons xcvrd. A path is table, key and
field; values are texts. Traps, each with a test: flap_count counts a flap twice; speed is in Mb/s; "N/A" is no number;
a disabled counter group leaves its keys out; priorities add up.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from collectors.formats.gnmi_openconfig import Leaf, Subscribed
from collectors.formats.switch_facts import Fact, Part, Slot, counter, power, real, state, text

Names = tuple[str, ...]


def _gigabits(value: object) -> float | None:
    told = real(value)
    return None if told is None or told <= 0 else told / 1000  # told in Mb/s


_SAI = "SAI_PORT_STAT_"
COUNTERS: Mapping[str, Leaf] = {
    f"{_SAI}IF_IN_OCTETS": Leaf(Part.PORT, "rx_bytes_total", counter),
    f"{_SAI}IF_OUT_OCTETS": Leaf(Part.PORT, "tx_bytes_total", counter),
    f"{_SAI}IF_IN_ERRORS": Leaf(Part.PORT, "rx_errors_total", counter),
    f"{_SAI}IF_IN_DISCARDS": Leaf(Part.PORT, "rx_discards_total", counter),
    f"{_SAI}IF_OUT_DISCARDS": Leaf(Part.PORT, "tx_discards_total", counter),
    f"{_SAI}IF_IN_FEC_NOT_CORRECTABLE_FRAMES": Leaf(Part.PORT, "uncorrected_codewords_total", counter),
    f"{_SAI}IF_IN_FEC_CORRECTED_BITS": Leaf(Part.PORT, "corrected_bits_total", counter),
    f"{_SAI}PAUSE_RX_PKTS": Leaf(Part.PORT, "rx_pause_total", counter, "mac"),
    f"{_SAI}PAUSE_TX_PKTS": Leaf(Part.PORT, "tx_pause_total", counter, "mac"),
    **{
        f"{_SAI}PFC_{priority}_{way}_PKTS": Leaf(Part.PORT, f"{way.lower()}_pause_total", counter, str(priority))
        for priority in range(8)
        for way in ("RX", "TX")
    },
    **{
        f"{_SAI}PFC_{priority}_RX_PAUSE_DURATION_US": Leaf(
            Part.PORT, "rx_pause_microseconds_total", counter, str(priority)
        )
        for priority in range(8)
    },
}
TABLES: Mapping[str, Mapping[str, Leaf]] = {
    "COUNTERS": COUNTERS,
    "PORT_TABLE": {
        "oper_status": Leaf(Part.PORT, "oper", state),
        "admin_status": Leaf(Part.PORT, "admin", state),
        "speed": Leaf(Part.PORT, "speed_gigabits_per_second", _gigabits),
        "flap_count": Leaf(Part.PORT, "carrier_changes_total", counter),
    },
    "LLDP_ENTRY_TABLE": {
        "lldp_rem_sys_name": Leaf(Part.NEIGHBOUR, "system", text),
        "lldp_rem_port_id": Leaf(Part.NEIGHBOUR, "port", text),
        "lldp_rem_port_id_subtype": Leaf(Part.NEIGHBOUR, "port_type", text),
        "lldp_rem_port_desc": Leaf(Part.NEIGHBOUR, "port_text", text),
        "lldp_rem_chassis_id": Leaf(Part.NEIGHBOUR, "chassis", text),
    },
    "TRANSCEIVER_INFO": {
        "manufacturer": Leaf(Part.MODULE, "vendor", text),
        "model": Leaf(Part.MODULE, "model", text),
        "serial": Leaf(Part.MODULE, "serial", text),
    },
    "TRANSCEIVER_DOM_SENSOR": {
        "temperature": Leaf(Part.MODULE, "celsius", real),
        "voltage": Leaf(Part.MODULE, "supply", real),
    },
    "TRANSCEIVER_DOM_THRESHOLD": {
        "rxpowerlowalarm": Leaf(Part.MODULE, "receive_low", power, "CRITICAL"),
        "temphighalarm": Leaf(Part.MODULE, "temperature_high", real, "CRITICAL"),
    },
}
_LANES = re.compile(r"(?:(rx)(\d{1,2})power|(tx)(\d{1,2})power|tx(\d{1,2})bias)")
_WHOLE = {  # table: the part that is gone with its key
    "PORT_TABLE": Part.PORT,
    "LLDP_ENTRY_TABLE": Part.NEIGHBOUR,
    "TRANSCEIVER_INFO": Part.MODULE,
}

SUBSCRIBED = (
    Subscribed("states", ("/PORT_TABLE",), sampled=False, target="APPL_DB"),
    Subscribed("neighbours", ("/LLDP_ENTRY_TABLE",), sampled=False, target="APPL_DB"),
    Subscribed("counters", ("/COUNTERS/Ethernet*",), sampled=True, target="COUNTERS_DB"),
    Subscribed("optics", ("/TRANSCEIVER_INFO",), sampled=False, target="STATE_DB"),
    Subscribed(
        "light",
        ("/TRANSCEIVER_DOM_SENSOR", "/TRANSCEIVER_DOM_THRESHOLD"),
        sampled=True,
        target="STATE_DB",
        every_s=60.0,  # its daemon reads modules about once a minute
    ),
)
LISTS: Mapping[str, str] = {}


def slot(names: Names, keys: Sequence[str]) -> Slot | None:
    """Where the value of table, key and field belongs, None where nobody reads it."""
    if len(names) != 3:
        return None
    table, key, field = names
    leaf = TABLES.get(table, {}).get(field) or (_lane(field) if table == "TRANSCEIVER_DOM_SENSOR" else None)
    return leaf and Slot(leaf.part, key, leaf.field, leaf.lane, leaf.read)


def deleted(names: Names, keys: Sequence[str]) -> Iterator[Fact]:
    """What is gone with a key of a table, or with one field of it."""
    if len(names) == 2 and (part := _WHOLE.get(names[0])):
        yield Fact(part, names[1], "", None)
    elif len(names) == 3 and (leaf := TABLES.get(names[0], {}).get(names[2]) or _lane(names[2])):
        yield Fact(leaf.part, names[1], leaf.field, None, leaf.lane)


def known(names: Names) -> bool:
    """Whether a path lies in a table that was asked for, though nobody reads this field of it."""
    return bool(names) and names[0] in TABLES


def _lane(field: str) -> Leaf | None:
    match = _LANES.fullmatch(field)
    if not match:
        return None
    if match[5]:
        return Leaf(Part.MODULE, "bias", real, match[5])
    return Leaf(Part.MODULE, "receive" if match[1] else "send", power, match[2] or match[4])
