"""Counters of switches: units, both forms, what stands at its maximum, and what did not answer. Never a reset."""

from pathlib import Path

import numpy as np
import pytest

from collectors.cluster import fabric_infiniband as entry
from collectors.cluster.fabric_counters import COUNTERS, Switch, asked, parsed
from collectors.cluster.fabric_tools import ALLOWED, Said, Tools, checked, manager
from collectors.cluster.poll import PollFailed, Source
from sickbay.messages import Event
from sickbay.schema import Samples
from sickbay.source_settings import Fabric
from tests.collectors.fabric_kit import MANAGER, MINUTE, T
from tests.collectors.fabric_kit import Fabric as Made

NAMES = {1: "port:leaf1/1", 2: "port:leaf1/2", 3: "port:leaf1/3"}
SWITCH = Switch("0x0000000000200000", NAMES)
DATA = {"PortXmitData": 1000, "PortRcvData": 2000, "PortXmitPkts": 1, "PortRcvPkts": 2}
ERRORS = {"SymbolErrorCounter": 3, "LinkErrorRecoveryCounter": 0, "LinkDownedCounter": 2, "PortRcvErrors": 5}


def block(port: int, values: dict[str, int], *, wide: bool = False, mask: int = 0x1300) -> str:
    what = "extended counters" if wide else "counters"
    more = " CapMask2: 0x0000000" if wide else ""
    head = f"# Port {what}: Lid 2 port {port} (CapMask: 0x{mask:02X}{more})\n"
    rows = {"PortSelect": port, **values}
    return head + "".join(f"{name}:{'.' * (33 - len(name))}{value}\n" for name, value in rows.items())


class Switches:
    """Answers as `perfquery` does: port after port, to its end at the first that is mute."""

    def __init__(self, *, wide: bool = True, mute: tuple[int, ...] = (), old: dict[str, int] | None = None) -> None:
        self.wide, self.mute, self.asked = wide, mute, list[tuple[str, ...]]()
        self.old = {**DATA, **ERRORS, "PortXmitDiscards": 0, "PortXmitWait": 7} if old is None else old
        self.extended = {**DATA, "PortXmitData": 2**33, **({"SymbolErrorCounter": 2**20} if wide else {})}

    def __call__(self, tool: str, *arguments: str) -> Said:
        checked(tool, arguments)
        self.asked.append(arguments)
        extended, text = "--extended" in arguments, ""
        for port in map(int, arguments[-1].split(",")):
            if port in self.mute:
                return Said(255, text, "perfquery: iberror: failed: perfquery")
            text += block(port, self.extended if extended else self.old, wide=extended)
        return Said(0, text, "")


def test_data_counts_fours_of_octets_and_errors_count_themselves() -> None:
    read = parsed(block(1, {**DATA, **ERRORS, "PortXmitDiscards": 4, "PortXmitWait": 9}, mask=0x1100))
    assert read.values[1] == {
        "tx_bytes_total": 4000, "rx_bytes_total": 8000, "rx_errors_total": 5, "tx_discards_total": 4,
        "symbol_errors_total": 3, "link_recoveries_total": 0, "link_downed_total": 2, "transmit_wait_total": 9,
    }  # fmt: skip
    assert read.stuck == frozenset()


@pytest.mark.parametrize("name", COUNTERS)
def test_an_old_counter_at_its_maximum_is_missing_and_a_wide_one_is_not(name: str) -> None:
    column, factor, bits = COUNTERS[name]
    top = (1 << bits) - 1
    old = parsed(block(1, {name: top}, mask=0x1100))
    assert old.values == {1: {}}
    assert old.stuck == {(1, column)}
    assert parsed(block(1, {name: top - 1}, mask=0x1100)).values[1][column] == (top - 1) * factor
    wide = parsed(block(1, {name: top}, wide=True))
    assert (wide.values[1][column], wide.stuck) == (top * factor, frozenset())
    assert parsed(block(1, {name: 2**64 - 1}, wide=True)).stuck == {(1, column)}


def test_data_of_a_switch_that_counts_in_64_bits_is_never_taken_from_the_old_form() -> None:
    assert "tx_bytes_total" not in parsed(block(1, {**DATA, **ERRORS})).values[1]
    switches = Switches(wide=False, old={"PortXmitData": 5, "PortRcvErrors": 6})
    switches.extended = {}
    assert asked(switches, SWITCH).values[1] == {"rx_errors_total": 6}


def test_what_a_switch_does_not_keep_is_missing() -> None:
    assert parsed(block(1, {**DATA, "PortXmitWait": 0}, wide=True, mask=0x100)).values == {}
    assert "transmit_wait_total" not in parsed(block(1, {**ERRORS, "PortXmitWait": 0}, mask=0x300)).values[1]
    assert parsed("PortXmitData:....5\n# nonsense\nPortXmitData:....5\nPortXmitData: N/A\n").values == {}


def test_a_switch_with_wide_errors_is_asked_once_and_an_old_one_in_both_forms() -> None:
    new, old = Switches(), Switches(wide=False)
    read = asked(new, SWITCH)
    assert (len(new.asked), read.values[3]["symbol_errors_total"]) == (1, 2**20)
    read = asked(old, SWITCH)
    assert len(old.asked) == 2
    assert (read.values[2]["tx_bytes_total"], read.values[2]["symbol_errors_total"]) == (2**35, 3)


def test_a_saturated_counter_is_no_loss_where_the_wide_form_tells_it() -> None:
    switches = Switches(wide=False, old={"PortXmitData": 2**32 - 1, "LinkDownedCounter": 255})
    read = asked(switches, SWITCH)
    assert read.stuck == {(port, "link_downed_total") for port in NAMES}
    assert read.values[1]["tx_bytes_total"] == 2**35


def test_ports_behind_one_that_does_not_answer_are_still_read() -> None:
    read = asked(Switches(mute=(2,)), SWITCH)
    assert sorted(read.values) == [1, 3]
    with pytest.raises(PollFailed, match="iberror"):
        asked(Switches(mute=(1, 2, 3)), SWITCH)


def test_no_option_that_clears_or_sets_can_be_given() -> None:
    bad = [
        ("perfquery", "-R", "0x20"), ("perfquery", "-r", "0x20"), ("perfquery", "--Reset_only"),
        ("perfquery", "--reset_after_read"), ("perfquery", "--extended", "--Guid", "0x20", "1", "0xffff"),
        ("perfquery", "--Guid", "0x20", "1", "2", "3"), ("perfquery", "-xR"), ("ibqueryerrors", "-k"),
        ("ibqueryerrors", "--clear-counts"), ("ibportstate", "0x20", "1", "disable"), ("iblinkinfo", "--line", "; id"),
        ("perfquery", "--Guid", "0x20; reboot"), ("ibdiagnet", "--pc"),
    ]  # fmt: skip
    for command in bad:
        with pytest.raises(ValueError, match=r"only what reads|no GUID"):
            checked(command[0], command[1:])
    letters = {option.lower() for options in ALLOWED.values() for option in options}
    assert not [option for option in letters if "reset" in option or "clear" in option or option in ("-r", "-k")]


@pytest.mark.slow
def test_tools_are_asked_through_the_adapter_of_the_settings(tmp_path: Path) -> None:
    folder = tmp_path
    tool = folder / "sminfo"
    tool.write_text(
        '#!/bin/sh\necho "$@: sminfo: sm lid 1 sm guid 0xAB, activity count 1 priority 0 state 3 SMINFO_MASTER"\n'
    )
    tool.chmod(0o755)
    ask = Tools(Fabric(bin=str(folder), device="mlx5_0", port=2))
    assert ask("sminfo").text.startswith("--Ca mlx5_0 --Port 2:")
    assert manager(ask) == "0xab"
    with pytest.raises(PollFailed, match=r"\[fabric\] bin"):
        ask("perfquery", "--Guid", "0x20", "1")
    with pytest.raises(PollFailed, match="no name of an adapter"):
        Tools(Fabric(bin=str(folder), device="--reset_after_read"))("sminfo")
    tool.write_text("#!/bin/sh\nsleep 60\n")
    with pytest.raises(PollFailed, match="timeout_s"):
        Tools(Fabric(bin=str(folder), timeout_s=1))("sminfo")
    tool.write_text("#!/bin/sh\necho 'sminfo: iberror: failed: query' >&2\nexit 255\n")
    assert manager(ask) == ""


class Tooled:
    """A made-up fabric behind its tools."""

    def __init__(self, made: Made) -> None:
        self.made, self.counters, self.status = made, Switches(wide=False), 0

    def __call__(self, tool: str, *arguments: str) -> Said:
        if tool == "sminfo":
            return Said(
                0, f"sminfo: sm lid 1 sm guid {MANAGER}, activity count 9 priority 0 state 3 SMINFO_MASTER\n", ""
            )
        if tool == "iblinkinfo":
            return Said(self.status, self.made.listing(), "")
        return self.counters(tool, *arguments)


def rows(samples: list[Samples]) -> dict[str, dict[str, float]]:
    return {
        name: {column: float(values[row]) for column, values in one.values.items()}
        for one in samples
        for row, name in enumerate(one.component)
    }


def polled(source: Source[object], now_ms: int) -> tuple[list[Event], list[Samples]]:
    found = source.poll(source.state, now_ms)
    source.state = found.state
    return [one.message for one in found.told if isinstance(one.message, Event)], list(found.samples)


def test_ports_that_are_up_are_counted_and_what_is_stuck_is_said_once() -> None:
    tooled = Tooled(Made())
    sweep, counters = entry.of(tooled, Fabric())
    assert polled(counters, T) == ([], [])  # nothing is known yet
    polled(sweep, T)
    _, samples = polled(counters, T + 1000)
    told = rows(samples)
    assert len(told) == 20
    assert told["port:leaf1/9"]["symbol_errors_total"] == 3
    tooled.counters.old["LinkDownedCounter"] = 255
    events, samples = polled(counters, T + 2000)
    assert {(one.kind, one.attributes["counter"]) for one in events} == {("port.counters_blind", "link_downed_total")}
    assert len(events) == 20
    assert "link_downed_total" not in samples[0].values
    assert polled(counters, T + 3000)[0] == []


def test_ports_that_are_mute_are_missing_and_that_is_said() -> None:
    tooled = Tooled(Made())
    sweep, counters = entry.of(tooled, Fabric())
    polled(sweep, T)
    tooled.counters.mute = (3,)
    events, samples = polled(counters, T + 1000)
    assert {"port:leaf1/3", "port:leaf2/3"}.isdisjoint(rows(samples))
    assert [(one.kind, one.component) for one in events] == [("monitor.partial_sweep", "monitor:infiniband/counters")]
    assert events[0].attributes["ports"] == "2"
    assert polled(counters, T + 2000)[0] == []
    tooled.counters.mute = tuple(range(40))
    with pytest.raises(PollFailed, match="no switch told its counters"):
        polled(counters, T + 3000)
    assert not any(np.isnan(one.at_ms).any() for one in samples)


def test_a_sweep_that_prints_nothing_is_no_answer_and_ends_nothing() -> None:
    tooled = Tooled(Made())
    sweep, _ = entry.of(tooled, Fabric())
    polled(sweep, T)
    before = sweep.state
    tooled.made.off = {"leaf1", "leaf2", "spine1"}
    with pytest.raises(PollFailed, match="no switch answered"):
        polled(sweep, T + MINUTE)
    assert sweep.state is before


def test_lines_that_are_not_understood_make_a_part_only_where_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    tooled = Tooled(Made(leaves=8, hosts=12))
    sweep, _ = entry.of(tooled, Fabric())
    whole = tooled.made.listing()
    monkeypatch.setattr(tooled.made, "listing", lambda: whole + "what is this?\n")
    assert polled(sweep, T)[0] == []
    monkeypatch.setattr(tooled.made, "listing", lambda: whole + "what is this?\n" * 20)
    assert [one.kind for one in polled(sweep, T + MINUTE)[0]] == ["monitor.partial_sweep"]
