"""Notifications of gNMI as facts: both data models, all encodings, deletions, and what must not be believed."""

import json
import struct
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygnmi.spec.v080 import gnmi_pb2

from collectors.cluster.gnmi_access import path_of
from collectors.cluster.gnmi_updates import MOST_JSON, OPENCONFIG, SONIC, Reader
from collectors.formats.switch_facts import Fact, Part

IF = "/interfaces/interface[name=Ethernet12/1]"
OPTIC = "/components/component[name=Ethernet12/1-xcvr]/transceiver"
LANE = f"{OPTIC}/physical-channels/channel[index=0]/state"
NEAR = "/lldp/interfaces/interface[name=Ethernet4]/neighbors/neighbor[id=1]/state"
HEAT = "/components/component[name=board]/state/temperature/instant"
ETHERNET = f"{IF}/ethernet/state"
VALUE = gnmi_pb2.TypedValue


def told(tree: dict[str, gnmi_pb2.TypedValue], prefix: str = "", delete: Iterable[str] = ()) -> gnmi_pb2.Notification:
    return gnmi_pb2.Notification(
        prefix=path_of(prefix),
        update=[gnmi_pb2.Update(path=path_of(path), val=value) for path, value in tree.items()],
        delete=[path_of(path) for path in delete],
    )


def text(value: str) -> gnmi_pb2.TypedValue:
    return gnmi_pb2.TypedValue(string_val=value)


def ietf(value: object) -> gnmi_pb2.TypedValue:
    return gnmi_pb2.TypedValue(json_ietf_val=json.dumps(value).encode())


def one(path: str, value: gnmi_pb2.TypedValue) -> Fact | None:
    found = list(Reader(OPENCONFIG).facts(told({path: value})))
    return found[0] if found else None


@pytest.mark.parametrize(
    ("path", "value", "field", "expected"),
    [
        (f"{IF}/state/oper-status", text("LOWER_LAYER_DOWN"), "oper", "down"),
        (f"{IF}/state/admin-status", ietf("UP"), "admin", "up"),
        (f"{IF}/state/last-change", VALUE(uint_val=1_773_203_400_000_000_000), "last_change_s", 1_773_203_400.0),
        (f"{IF}/state/counters/in-octets", ietf("9007199254740992"), "rx_bytes_total", 9_007_199_254_740_992.0),
        (f"{IF}/state/counters/out-octets", VALUE(uint_val=12), "tx_bytes_total", 12.0),
        (f"{IF}/state/counters/interface-transitions", gnmi_pb2.TypedValue(int_val=4), "carrier_changes_total", 4.0),
        (f"{ETHERNET}/port-speed", text("openconfig-if-ethernet:SPEED_400GB"), "speed_gigabits_per_second", 400.0),
        (f"{ETHERNET}/counters/fec-uncorrectable-blocks", ietf("3"), "uncorrected_codewords_total", 3.0),
        (f"{OPTIC}/state/present", text("NOT_PRESENT"), "present", "no"),
        (f"{LANE}/input-power/instant", ietf("-2.51"), "receive", -2.51),
        (f"{LANE}/input-power/instant", text("-inf"), "receive", float("-inf")),
        (
            f"{OPTIC}/physical-channels/channel[index=1]/state/laser-bias-current/instant",
            gnmi_pb2.TypedValue(decimal_val=gnmi_pb2.Decimal64(digits=6750, precision=3)), "bias", 6.75,
        ),
        (
            HEAT,
            gnmi_pb2.TypedValue(bytes_val=struct.pack(">f", 41.5)), "celsius", 41.5,
        ),
        (HEAT, VALUE(double_val=41.5), "celsius", 41.5),
        ("/system/state/boot-time", ietf("1706167316567450112"), "boot_s", 1_706_167_316.567_450_112),
        (f"{NEAR}/system-name", text("gpu07"), "system", "gpu07"),
    ],
)  # fmt: skip
def test_openconfig_leaves(path: str, value: gnmi_pb2.TypedValue, field: str, expected: object) -> None:
    found = one(path, value)
    assert found is not None
    assert (found.field, found.value) == (field, pytest.approx(expected) if isinstance(expected, float) else expected)


def test_a_tree_in_json_is_all_of_its_leaves_with_or_without_modules_and_keys() -> None:
    tree = {
        "openconfig-interfaces:interface": [
            {
                "name": "Ethernet4",
                "state": {"oper-status": "UP", "counters": {"in-octets": "7", "in-unknown-protos": "0"}},
                "openconfig-if-ethernet:ethernet": {"state": {"port-speed": "openconfig-if-ethernet:SPEED_100GB"}},
            },
            {"state": {"name": "Ethernet8", "oper-status": "DOWN"}},
            {"state": {"oper-status": "DOWN"}},
            "no row",
        ]
    }
    reader = Reader(OPENCONFIG)
    found = {(fact.key, fact.field): fact.value for fact in reader.facts(told({"/interfaces": ietf(tree)}))}
    assert found == {
        ("Ethernet4", "oper"): "up",
        ("Ethernet4", "rx_bytes_total"): 7.0,
        ("Ethernet4", "speed_gigabits_per_second"): 100.0,
        ("Ethernet8", "oper"): "down",
    }
    assert (reader.unknown, reader.bad) == (0, 0)


def test_prefix_and_path_make_one_path() -> None:
    notification = told({"state/counters/in-errors": ietf("5")}, prefix="/interfaces/interface[name=Ethernet4]")
    assert list(Reader(OPENCONFIG).facts(notification)) == [Fact(Part.PORT, "Ethernet4", "rx_errors_total", 5.0)]


def test_deletions_are_told_as_what_is_away_never_as_zero() -> None:
    gone = [
        "/interfaces/interface[name=Ethernet4]",
        f"{IF}/state/counters/in-octets",
        f"{OPTIC}/state",
        "/interfaces/interface",
    ]
    gone += ["/lldp/interfaces/interface[name=Ethernet4]/neighbors/neighbor[id=3]"]
    assert list(Reader(OPENCONFIG).facts(told({}, delete=gone))) == [
        Fact(Part.PORT, "Ethernet4", "", None),
        Fact(Part.PORT, "Ethernet12/1", "rx_bytes_total", None),
        Fact(Part.MODULE, "Ethernet12/1-xcvr", "", None),
        Fact(Part.NEIGHBOUR, "Ethernet4", "", None, "3"),
    ]


def test_what_nobody_asked_for_is_counted_and_so_is_what_cannot_be_read() -> None:
    reader = Reader(OPENCONFIG)
    deep: object = "x"
    for _ in range(40):
        deep = {"a": deep}
    notification = told(
        {
            "/network-instances/network-instance[name=default]/state/name": text("x"),
            f"{IF}/state/oper-status": gnmi_pb2.TypedValue(proto_bytes=b"\x00"),
            f"{IF}/state/admin-status": gnmi_pb2.TypedValue(json_val=b"{"),
            f"{IF}/state/counters/in-octets": gnmi_pb2.TypedValue(json_val=b"9" * 5000),
            f"{IF}/state/counters": ietf(deep),
            f"{IF}/state/type": gnmi_pb2.TypedValue(json_val=b" " * (MOST_JSON + 1)),
            f"/interfaces/interface[name={'E' * 5000}]/state/oper-status": text("UP"),
            f"{IF}/state/counters/out-octets": ietf("-7"),
            f"{IF}/state/counters/in-errors": ietf("NaN"),
            f"{IF}/state/counters/in-discards": gnmi_pb2.TypedValue(),
        }
    )
    assert list(reader.facts(notification)) == []
    assert (reader.unknown, reader.bad) == (1, 7)


def test_sonic_s_databases() -> None:
    reader = Reader(SONIC)
    trees = {
        "/COUNTERS/Ethernet*": ietf(
            {
                "Ethernet0": {
                    "SAI_PORT_STAT_IF_IN_OCTETS": "18446744073709551615",
                    "SAI_PORT_STAT_PFC_3_RX_PKTS": "11",
                    "SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES": "2",
                    "SAI_PORT_STAT_ETHER_STATS_JABBERS": "0",
                }
            }
        ),
        "/PORT_TABLE": ietf(
            {"Ethernet0": {"oper_status": "up", "admin_status": "up", "speed": "400000", "flap_count": "6"}}
        ),
        "/TRANSCEIVER_DOM_SENSOR/Ethernet0": ietf(
            {"rx1power": "-1.2", "tx1power": "N/A", "tx1bias": "6.75", "temperature": "41"}
        ),
        "/LLDP_ENTRY_TABLE/Ethernet0/lldp_rem_sys_name": text("gpu07"),
        "/TRANSCEIVER_INFO/Ethernet0/serial": text("AB12"),
    }
    found = {(fact.part, fact.key, fact.field, fact.lane): fact.value for fact in reader.facts(told(trees))}
    assert found == {
        (Part.PORT, "Ethernet0", "rx_bytes_total", ""): float((1 << 64) - 1),
        (Part.PORT, "Ethernet0", "rx_pause_total", "3"): 11.0,
        (Part.PORT, "Ethernet0", "uncorrected_codewords_total", ""): 2.0,
        (Part.PORT, "Ethernet0", "oper", ""): "up",
        (Part.PORT, "Ethernet0", "admin", ""): "up",
        (Part.PORT, "Ethernet0", "speed_gigabits_per_second", ""): 400.0,
        (Part.PORT, "Ethernet0", "carrier_changes_total", ""): 6.0,
        (Part.MODULE, "Ethernet0", "receive", "1"): -1.2,
        (Part.MODULE, "Ethernet0", "bias", "1"): 6.75,
        (Part.MODULE, "Ethernet0", "celsius", ""): 41.0,
        (Part.NEIGHBOUR, "Ethernet0", "system", ""): "gpu07",
        (Part.MODULE, "Ethernet0", "serial", ""): "AB12",
    }
    gone = ["/TRANSCEIVER_INFO/Ethernet0", "/COUNTERS/Ethernet0/SAI_PORT_STAT_PFC_3_RX_PKTS"]
    assert list(reader.facts(told({}, delete=gone))) == [
        Fact(Part.MODULE, "Ethernet0", "", None),
        Fact(Part.PORT, "Ethernet0", "rx_pause_total", None, "3"),
    ]


@given(st.binary(max_size=300), st.sampled_from((OPENCONFIG, SONIC)))
def test_any_bytes_as_a_notification_raise_nothing(data: bytes, model: object) -> None:
    try:
        notification = gnmi_pb2.Notification.FromString(data)
    except Exception:
        notification = told({f"{IF}/state/counters": gnmi_pb2.TypedValue(json_ietf_val=data)})
    list(Reader(model).facts(notification))  # type: ignore[arg-type]
