"""Dumps in a loop with a date above each are samples too, and what one look would call a fault is left to time."""

from collections.abc import Iterable
from types import ModuleType

from collectors.formats import optic_text, port_counters
from collectors.formats.reading import Reading, Tally
from sickbay.messages import Event, Identity
from sickbay.schema import Samples

DATES = ("2026-03-11T02:00:00+00:00", "2026-03-11T02:01:00Z", "2026-03-11 02:02:00")


def read(format_: ModuleType, text: str) -> tuple[list[Reading], Tally]:
    tally = Tally()
    assert format_.confidence(text.encode(), "x") >= 0.9
    return list(format_.read([text.encode()], tally)), tally


def samples(readings: Iterable[Reading]) -> list[tuple[str, str, dict[str, float]]]:
    return [
        (str(one.stamp.clock), one.record.component[0], {name: values[0] for name, values in one.record.values.items()})
        for one in readings
        if isinstance(one.record, Samples)
    ]


def module(received: float, sent: float = 0.5) -> str:
    return (
        "$ ethtool -m ens7f0np0\n\tIdentifier : 0x19 (OSFP)\n\tVendor name : INNOLAB\n\tVendor SN : SN00042\n"
        f"\tTransmit avg optical power (Channel 1) : {10 ** (sent / 10):.4f} mW / {sent:.2f} dBm\n"
        f"\tRcvr signal avg optical power (Channel 1) : {10 ** (received / 10):.4f} mW / {received:.2f} dBm\n"
        "\tLaser rx power low alarm threshold : 0.1288 mW / -8.90 dBm\n"
    )


def test_modules_over_time_are_samples() -> None:
    text = "".join(f"{date}\n{module(level)}" for date, level in zip(DATES, (-1.9, -4.1, -40.0), strict=True))
    found, tally = read(optic_text, text)
    told = samples(found)
    assert [row["rx_power_dbm"] for _, _, row in told] == [-1.9, -4.1, -40.0]
    assert [clock for clock, _, _ in told] == ["absolute", "absolute", "no_zone"]
    assert {component for _, component, _ in told} == {"optic:?/ens7f0np0"}
    assert told[0][2]["rx_power_alarm_dbm"] == -8.9
    assert tally.unparsed == 0
    assert sum(isinstance(one.record, Identity) for one in found) == 1, "who it is, once"
    assert not any(isinstance(one.record, Event) for one in found), "over time detectors judge"


def test_a_module_without_a_date_is_judged_by_its_own_alarm() -> None:
    found, _ = read(optic_text, module(-12.0))
    assert samples(found) == []
    assert [one.record.kind for one in found if isinstance(one.record, Event)] == ["optic.error"]


def test_a_switch_tells_light_over_time() -> None:
    dump = (
        "Ethernet8: SFP EEPROM detected\n        Vendor SN: INL0001\n        ChannelMonitorValues:\n"
        "                RX1Power: -1.5dBm\n                RX2Power: -2.5dBm\n                TX1Power: 0.3dBm\n"
        "                TX2Power: 0.1dBm\n        ChannelThresholdValues:\n"
        "                RxPowerLowAlarm   : -8.9dBm\n"
    )
    found, tally = read(optic_text, f"{DATES[0]}\n{dump}{DATES[1]}\n{dump}")
    assert [row["rx_power_dbm"] for _, _, row in samples(found)] == [-2.5, -2.5]
    assert tally.unparsed == 0


def statistics(downs: int, pause: int) -> str:
    return (
        f"$ ethtool -S ens7f0np0\nNIC statistics:\n     rx_bits_phy: 4000\n     rx_corrected_bits_phy: 40\n"
        f"     link_down_events_phy: {downs}\n     tx_prio3_pause: {pause}\n"
        f"     tx_prio3_pause_duration: {pause * 80}\n"
        f"     tx_prio4_pause: 1\n     tx_pause_storm_warning_events: {downs}\n"
    )


def test_statistics_over_time_are_samples() -> None:
    text = f"{DATES[0]}\n{statistics(0, 5)}{DATES[1]}\n{statistics(1, 900)}"
    found, tally = read(port_counters, text)
    rows = [row for _, _, row in samples(found)]
    assert [row["tx_pause_total"] for row in rows] == [6.0, 901.0], "priorities add up"
    assert [row["tx_pause_microseconds_total"] for row in rows] == [400.0, 72_000.0]
    assert rows[0]["received_bits_total"] == 4000.0
    assert tally.unparsed == 0
    kinds = {one.record.kind for one in found if isinstance(one.record, Event)}
    assert kinds == {"port.pause_storm"}, "the adapter's own word stays, growth is in the samples"
