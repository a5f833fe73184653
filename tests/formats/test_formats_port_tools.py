"""Ports and modules as their tools print them: what is wrong is told, what is normal is not, and any bytes are read."""

import random
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType

import pytest

from collectors.formats import link_text, optic_text, port_counters, switch_tables, sysfs_listing
from collectors.formats.reading import Reading, Tally
from sickbay.messages import Action, Edge, Event, Identity, Severity


def read(module: ModuleType, text: str) -> list[Event]:
    return [reading.record for reading in readings(module, text) if isinstance(reading.record, Event)]


def readings(module: ModuleType, text: str) -> list[Reading]:
    reader: Callable[[Iterable[bytes], Tally], Iterator[Reading]] = module.read
    return list(reader([text.encode()], Tally()))


def told(module: ModuleType, text: str) -> list[tuple[str, str]]:
    return [(event.component, event.kind) for event in read(module, text)]


def adapter(device: str, state: str, physical: str, port: int = 1) -> str:
    return (
        f"CA '{device}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.40.1000\n"
        f"\tPort {port}:\n\t\tState: {state}\n\t\tPhysical state: {physical}\n\t\tRate: 400\n"
    )


STATUS = (
    "Infiniband device 'mlx5_4' port 1 status:\n\tbase lid:\t 0x5\n\tstate:\t\t 1: DOWN\n"
    "\tphys state:\t 2: Polling\n\trate:\t\t 10 Gb/sec (4X SDR)\n\tlink_layer:\t InfiniBand\n"
)
LINK = """Operational Info
----------------
State                           : {state}
Physical state                  : {physical}
Speed                           : IB-NDR
Width                           : 4x

Troubleshooting Info
--------------------
Status Opcode                   : {opcode}
Group Opcode                    : N/A
Recommendation                  : {advice}

Physical Counters and BER Info
------------------------------
Time Since Last Clear [Min]     : 812.5
Effective Physical Errors       : {errors}
Effective Physical BER          : {after}
Raw Physical Errors Per Lane    : 19,4,22,8
Raw Physical BER                : {before}
"""
WELL = {
    "state": "Active", "physical": "LinkUp", "opcode": "0", "advice": "No issue was observed", "errors": "0",
    "after": "15E-255", "before": "3E-9",
}  # fmt: skip
MODULE = """Module Info
-----------
Temperature [C]                 : {celsius} [-10..80]
Bias Current [mA]               : 8.1,8.2,8.0,8.3 [7..11]
Rx Power Current [dBm]          : {receive} [-5.0..4.0]
Tx Power Current [dBm]          : {send} [-3.5..4.0]
Rx LOS [per lane]               : {lost}
"""


def test_a_port_without_a_link_is_named_and_its_siblings_are_well() -> None:
    text = adapter("mlx5_0", "Active", "LinkUp") + adapter("mlx5_1", "Down", "Polling")
    assert told(link_text, text) == [("port:?/mlx5_0/1", "port.up"), ("port:?/mlx5_1/1", "port.down")]
    assert link_text.confidence(text.encode(), "x") >= 0.9


def test_what_a_person_closed_and_what_nobody_manages_are_no_broken_links() -> None:
    assert told(link_text, adapter("mlx5_1", "Down", "Disabled")) == [("port:?/mlx5_1/1", "port.admin_down")]
    (waiting,) = read(link_text, adapter("mlx5_1", "Initializing", "LinkUp"))
    assert (waiting.severity, waiting.advice) == (Severity.WARNING, Action.FIX_SOFTWARE)


def test_the_second_port_of_an_adapter_may_never_have_been_used() -> None:
    text = adapter("mlx5_0", "Active", "LinkUp") + "\tPort 2:\n\t\tState: Down\n\t\tPhysical state: Polling\n"
    spare = read(link_text, text)[-1]
    assert (spare.component, spare.advice) == ("port:?/mlx5_0/2", Action.WATCH)


@pytest.mark.parametrize(
    ("text", "port"),
    [
        (STATUS, "port:?/mlx5_4/1"),
        ("hca_id:\tmlx5_4\n\tfw_ver:\t\t28.40\n\t\tport:\t1\n\t\t\tstate:\t\tPORT_DOWN (1)\n", "port:?/mlx5_4/1"),
        ("link mlx5_4/1 state DOWN physical_state POLLING netdev ens7f0np0 \n", "port:?/mlx5_4/1"),
        ("Settings for ens7f0np0:\n\tSpeed: Unknown!\n\tPort: FIBRE\n\tLink detected: no\n", "port:?/ens7f0np0"),
    ],
)  # fmt: skip
def test_other_tools_tell_the_same(text: str, port: str) -> None:
    assert told(link_text, text) == [(port, "port.down")]
    assert link_text.confidence(text.encode(), "x") >= 0.9


PAIRS = {  # a line -> what it says is one port, or one adapter
    "mlx5_0 port 1 ==> ib0 (Up)": [("port", "mlx5_0/1", "ib0", "")],
    "rocep25s0 port 2 ==> enp25s0np1 (Down)": [("port", "rocep25s0/2", "enp25s0np1", "")],
    "0000:08:00.0 mlx5_1 (MT4115 - MT1612X07121) CX455A fw 12.17.2020 port 1 (ACTIVE) ==> ens1 (Up)": [
        ("port", "mlx5_1/1", "ens1", ""), ("nic", "mlx5_1", "", "0000:08:00.0")
    ],
    "link mlx5_4/1 state ACTIVE physical_state LINK_UP netdev ens7f0np0": [("port", "mlx5_4/1", "ens7f0np0", "")],
    "link mlx5_4/1 state ACTIVE physical_state LINK_UP": [],
    "link mlx5_bond_0/1 state ACTIVE physical_state LINK_UP netdev ens7f0np0": [],  # of two ports
    "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev bond0": [],
    "mlx5_0 port 1 ==> ens7f0np0.100 (Up)": [],  # a VLAN shares its port
}  # fmt: skip


@pytest.mark.parametrize("line", PAIRS)
def test_tools_tell_which_interface_is_which_port(line: str) -> None:
    found = [one.record for one in readings(link_text, f"{line}\n") if isinstance(one.record, Identity)]
    assert [(str(one.kind), one.index, one.name, one.pci) for one in found] == PAIRS[line]
    assert link_text.confidence(f"{line}\n".encode(), "x") >= 0.9


def test_a_pair_of_names_says_nothing_of_the_link() -> None:
    assert read(link_text, "mlx5_0 port 1 ==> ib0 (Down)\n") == []  # an interface nobody uses


def test_a_healthy_link_stays_healthy_whatever_its_sections_are_called() -> None:
    assert told(link_text, LINK.format(**WELL)) == [("port:?/?", "port.up")]
    command = "# mlxlink -d /dev/mst/mt4129_pciconf0 -c\n"
    assert told(link_text, command + LINK.format(**WELL)) == [("port:?/mt4129_pciconf0", "port.up")]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"state": "Polling", "physical": "Polling", "opcode": "1024", "advice": "Cable is unplugged"}, "port.down"),
        ({"state": "Disable", "physical": "Disabled", "opcode": "1", "advice": "closed by command"}, "port.admin_down"),
        ({"after": "2E-9", "errors": "99120"}, "port.errors_grow"),
        ({"before": "5E-4"}, "port.errors_grow"),
        ({"opcode": "15", "advice": "Bad signal integrity"}, "port.errors_grow"),
        ({"after": "3E-13"}, "port.errors_counted"),
    ],
)  # fmt: skip
def test_faults_of_a_link(change: dict[str, str], kind: str) -> None:
    assert told(link_text, LINK.format(**(WELL | change)))[-1] == ("port:?/?", kind)


def test_both_spellings_of_the_json_say_the_same_as_the_text() -> None:
    lanes: list[object] = [["0", "7", "0", "0"], {"values": ["0", "7", "0", "0"]}]
    for lane in lanes:
        text = (
            '{"result": {"output": {"Operational Info": {"State": "Active", "Physical state": "LinkUp"}, '
            '"Physical Counters and BER Info": {"Effective Physical BER": "4E-8", '
            f'"Raw Physical Errors Per Lane": {str(lane).replace(chr(39), chr(34))}}}}}}}}}'
        )
        assert link_text.confidence(text.encode(), "x") >= 0.9
        assert told(link_text, text) == [("port:?/?", "port.up"), ("port:?/?", "port.errors_grow")]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, ""),
        ({"receive": "1.9,1.8,-40.0,2.0", "lost": "0,0,1,0"}, "received light low"),
        ({"receive": "1.9,1.8,-40.0,-40.0", "send": "0.8,1.1,-40.0,-40.0"}, ""),  # lanes that nobody uses
        ({"celsius": "86"}, "high temperature"),
    ],
)
def test_light_and_heat_of_a_module(change: dict[str, str], code: str) -> None:
    well = {"celsius": "48", "receive": "1.9,1.8,2.1,2.0", "send": "0.8,1.1,1.0,1.0", "lost": "0,0,0,0"}
    assert [event.code for event in read(link_text, MODULE.format(**(well | change)))] == ([code] if code else [])


PAGE = """\tIdentifier                                : 0x11 (QSFP28)
\tConnector                                 : {connector}
\tVendor name                               : ACME
\tVendor PN                                 : AC-100G-SR4
\tVendor SN                                 : AC00012345
\tModule temperature                        : 41.20 degrees C / 106.16 degrees F
\tTransmit avg optical power (Channel 1)    : 0.7633 mW / -1.17 dBm
\tTransmit avg optical power (Channel 2)    : 0.7633 mW / -1.17 dBm
\tRcvr signal avg optical power(Channel 1)  : {receive}
\tRcvr signal avg optical power(Channel 2)  : 0.6310 mW / -2.00 dBm
\tLaser bias current low alarm              : {bias}
\tLaser output power low alarm              : {bias}
\tLaser rx power low alarm   (Channel 1)    : {alarm}
\tLaser rx power low warning (Channel 1)    : {warning}
\tLaser rx power low alarm threshold        : 0.0457 mW / -13.40 dBm
"""
LIT = {
    "connector": "0x0c (MPO Parallel Optic)", "receive": "0.6100 mW / -2.15 dBm",
    "bias": "Off", "alarm": "Off", "warning": "Off",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "code", "advice"),
    [
        ({}, "", None),
        ({"receive": "0.0004 mW / -33.98 dBm", "alarm": "On", "warning": "On"}, "received light low", None),
        ({"receive": "0.0000 mW / -inf dBm"}, "received light low", None),
        ({"warning": "On"}, "light near its limit", Action.WATCH),
        ({"receive": "0.0000 mW / -inf dBm", "bias": "On", "alarm": "On"}, "laser off", Action.WATCH),
        ({"receive": "0.0000 mW / -inf dBm", "connector": "0x23 (No separable connector)"}, "", None),
    ],
)
def test_the_page_of_a_module(change: dict[str, str], code: str, advice: Action | None) -> None:
    text = "# ethtool -m ens7f0np0\n" + PAGE.format(**(LIT | change))
    found = [reading.record for reading in readings(optic_text, text)]
    events = [record for record in found if isinstance(record, Event)]
    assert [(event.component, event.code, event.advice) for event in events] == (
        [("optic:?/ens7f0np0", code, advice)] if code else []
    )
    assert any(isinstance(record, Identity) and record.serial == "AC00012345" for record in found)
    assert optic_text.confidence(text.encode(), "x") >= 0.9


EIGHT = """\tIdentifier                                : 0x19 (OSFP 8X Pluggable Transceiver)
\tVendor name                               : ACME
\tVendor PN                                 : AC-800G-2DR4
\tVendor SN                                 : AC00099999
"""


@pytest.mark.parametrize(
    ("send", "receive", "flags", "code"),
    [
        ("1111----", "1111----", "5678", ""),  # four lanes that nobody uses raise their alarms for ever
        ("1111----", "111-----", "45678", "received light low"),
        ("1-11----", "1111----", "5678", "laser off"),  # one laser out, or switched off: lit from afar
        ("--------", "--------", "12345678", "received light low"),
    ],
)
def test_lanes_in_use_are_judged_and_idle_ones_are_not(send: str, receive: str, flags: str, code: str) -> None:
    light = {"1": "1.0000 mW / 0.00 dBm", "-": "0.0001 mW / -40.00 dBm"}
    rows = [f"\tTransmit avg optical power (Channel {lane}) : {light[told]}" for lane, told in enumerate(send, 1)]
    rows += [
        f"\tRcvr signal avg optical power (Channel {lane}) : {light[told]}" for lane, told in enumerate(receive, 1)
    ]
    rows += [f"\tLaser rx power low alarm (Channel {lane}) : On" for lane in flags]
    rows += [f"\tLaser rx power low warning (Channel {lane}) : On" for lane in flags]
    found = [one for one in read(optic_text, EIGHT + "\n".join(rows) + "\n") if isinstance(one, Event)]
    assert [event.code for event in found] == ([code] if code else [])
    assert all(event.advice is Action.WATCH for event in found if event.code == "laser off")


def test_a_switch_tells_light_with_its_limits() -> None:
    text = (
        "Ethernet8: SFP EEPROM detected\n        ChannelMonitorValues:\n                RX1Power: -38.2000dBm\n"
        "                RX2Power: -0.4dBm\n                TX1Power: 0.3dBm\n                TX2Power: 0.3dBm\n"
        "        ChannelThresholdValues:\n                RxPowerLowAlarm   : -13.5dBm\n"
    )
    assert told(optic_text, text) == [("optic:?/Ethernet8", "optic.error")]


def statistics(**counters: int) -> str:
    rows = "".join(f"     {name}: {value}\n" for name, value in counters.items())
    return f"$ ethtool -S ens7f0np0\nNIC statistics:\n{rows}"


def test_corrected_bits_and_single_errors_are_normal() -> None:
    text = statistics(
        rx_corrected_bits_phy=9_812_222, rx_pcs_symbol_err_phy=3, link_down_events_phy=1, rx_prio3_pause=9
    )
    assert read(port_counters, text) == []
    assert port_counters.confidence(text.encode(), "x") >= 0.9


def test_a_lifetime_total_is_watched_and_growth_is_a_fault() -> None:
    before, after = statistics(rx_pcs_symbol_err_phy=400), statistics(rx_pcs_symbol_err_phy=90_400)
    (total,) = read(port_counters, before)
    assert (total.kind, total.advice, total.severity) == ("port.errors_counted", Action.WATCH, Severity.WARNING)
    grown = read(port_counters, before + after)[-1]
    assert (grown.component, grown.kind, grown.advice) == ("port:?/ens7f0np0", "port.errors_grow", Action.CHECK_LINK)
    assert grown.attributes == {"rx_pcs_symbol_err_phy": "90000"}


def test_listings_of_ports_without_a_name_are_not_compared() -> None:
    text = (
        "NIC statistics:\n     rx_crc_errors_phy: 5\n     a: 1\n"
        + "NIC statistics:\n     rx_crc_errors_phy: 7\n     a: 1\n"
    )
    assert read(port_counters, text) == []


def test_a_counter_at_its_maximum_is_blind_and_no_proof_of_health() -> None:
    listing = "# Port counters: Lid 9 port 17 (CapMask: 0x1600)\nPortSelect:......................17\n{}"
    rows = "SymbolErrorCounter:..............65535\nLinkDownedCounter:...............255\nPortRcvErrors:.....0\n"
    once = [(event.kind, event.code) for event in read(port_counters, listing.format(rows))]
    assert once == [
        ("port.errors_counted", "counted"), ("port.errors_counted", "counted"), ("port.counters_blind", "saturated"),
    ]  # fmt: skip
    again = [event.kind for event in read(port_counters, listing.format(rows) * 2)]
    assert again == 2 * [kind for kind, _ in once]  # that they did not grow says nothing


def test_a_reset_between_two_listings_is_no_growth() -> None:
    text = statistics(rx_pcs_symbol_err_phy=400) + statistics(rx_pcs_symbol_err_phy=20)
    assert [event.kind for event in read(port_counters, text)] == ["port.errors_counted"]


def test_pause_storms_of_an_adapter_are_its_own_hosts() -> None:
    assert told(port_counters, statistics(tx_pause_storm_error_events=2, tx_prio3_pause=9)) == [
        ("port:?/ens7f0np0", "port.pause_storm")
    ]


def test_fabric_reports_name_switches_and_adapters() -> None:
    text = (
        'Errors for "MF0;leaf07:MQM9700/U1"\n'
        "   GUID 0xb8599f0300aa0001 port ALL: [SymbolErrorCounter == 9001]\n"
        "   GUID 0xb8599f0300aa0001 port 7: [SymbolErrorCounter == 9001] [LinkDownedCounter == 12]\n"
        '       Link info:     23    7[  ] ==( 4X  53.125 Gbps Active/  LinkUp)==>    88    1[  ] "gx-n17 mlx5_2" ( )\n'
        'Errors for "gx-n17 mlx5_2"\n'
        "   GUID 0xa088c20300aa0002 port 1: [PortXmitWait == 998]\n"
        "## Summary: 4 nodes checked, 1 bad nodes found\n"
    )
    found = told(port_counters, text)
    assert found == [("port:leaf07/7", "port.errors_counted")] * 2
    assert port_counters.confidence(text.encode(), "x") >= 0.9


def test_one_bad_link_is_told_once_with_both_ends() -> None:
    row = '0x00b8000000000001, {0}, "{1}", 0x00b8000000000002, {2}, "{3}", {{FLAPPING}}, Fri Mar 20 01:13:40 2026\n'
    text = (
        "# NodeGUID, PortNum, NodeDesc\n"
        + row.format(25, "spine03", 9, "leaf38")
        + row.format(9, "leaf38", 25, "spine03")
    )
    found = [reading.record for reading in readings(port_counters, text)]
    assert [(one.component, one.peer) for one in found if isinstance(one, Event)] == [
        ("port:spine03/25", "port:leaf38/9")
    ]
    assert any(isinstance(one, Edge) for one in found)


def test_a_listing_of_files_tells_states_and_growth() -> None:
    root = "/sys/class/infiniband/mlx5_4/ports/1"
    text = f"{root}/state:1: DOWN\n{root}/phys_state:2: Polling\n{root}/counters/symbol_error:20\n"
    again = f"{root}/state:4: ACTIVE\n{root}/phys_state:5: LinkUp\n{root}/counters/symbol_error:90\n"
    kinds = [event.kind for event in read(sysfs_listing, text + again)]
    assert kinds == ["port.down", "port.errors_counted", "port.errors_grow"]


TABLE = """admin@leaf07:~$ show interfaces counters fec-stats
      IFACE    STATE     FEC_CORR    FEC_UNCORR    FEC_SYMBOL_ERR    FEC_PRE_BER    FEC_POST_BER
-----------  -------  -----------  ------------  ----------------  -------------  --------------
  Ethernet0        U       56,104             0            56,092       1.18e-12        0.00e+00
 Ethernet48        U   48,315,381           912        48,308,608       3.24e-04        2.35e-09
"""
WATCHDOG = """       QUEUE       STATUS    STORM DETECTED/RESTORED    TX OK/DROP
------------  -----------  -------------------------  ------------
Ethernet44:4      stormed                        1/0           0/0
Ethernet48:3  operational                        0/0           0/0
"""


def test_tables_of_a_switch() -> None:
    assert told(switch_tables, TABLE) == [("port:leaf07/Ethernet48", "port.errors_grow")]
    assert told(switch_tables, WATCHDOG) == [("port:?/Ethernet44", "port.pause_storm")]
    assert min(switch_tables.confidence(text.encode(), "x") for text in (TABLE, WATCHDOG)) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "source"),
    [
        (link_text, LINK.format(**WELL) + MODULE + adapter("mlx5_0", "Down", "Polling")),
        (optic_text, PAGE.format(**LIT)),
        (port_counters, statistics(rx_pcs_symbol_err_phy=400, tx_pause_storm_error_events=3)),
        (switch_tables, TABLE + WATCHDOG),
    ],
    ids=["link", "optic", "counters", "tables"],
)
def test_mutations_never_crash(module: ModuleType, source: str) -> None:
    chance = random.Random(7)
    for _ in range(1_500):
        data = bytearray(source.encode())
        for _ in range(chance.randint(1, 8)):
            place = chance.randrange(len(data) or 1)
            if data and chance.random() < 0.5:
                data[place] = chance.randrange(256)
            else:
                del data[place : place + chance.randrange(80)]
        assert 0.0 <= module.confidence(bytes(data), "x") <= 1.0
        list(module.read([bytes(data)], Tally()))
