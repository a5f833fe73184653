"""Fronts that no known writer makes: margins of pastes, other tools, blotted-out hosts, dates in other languages."""

import json

import pytest

from collectors.formats import log
from collectors.formats.envelope_margins import common_margin
from collectors.formats.envelopes import peel
from collectors.formats.reading import Tally
from sickbay.clock import Clock
from sickbay.messages import Event

BODIES = (
    "nvme nvme3: Disabling device after reset failure: -19",
    "Kernel panic - not syncing: Fatal machine check",
    "pcieport 0000:64:01.0: pciehp: Slot(12): Link Down",
    "EDAC MC0: 1 UE memory read error on DIMM_B1 (channel:0 slot:0 page:0x11 offset:0x0 grain:32)",
    "watchdog: BUG: soft lockup - CPU#33 stuck for 24s! [pt_data_pin:48190]",
)
FRONTS = (
    "    {}",
    "\t{}",
    "> {}",
    "    [ 5904.477123] {}",
    ">[ 5904.477123] {}",
    "> > [ 5904.477123] {}",
    "│ [ 5904.477123] {}",
    "    kernel:[ 6941.316073] {}",
    " kernel:{}",
    "  123\t[ 5904.477123] {}",
    "dmesg.txt-77-[ 5904.477123] {}",
    "77-[ 5904.477123] {}",
    "worker-1  | [ 5904.477123] {}",
    "agent-7xk2p main [ 5904.477123] {}",
    "node1 login: [ 5904.477123] {}",
    "[04:17:22] [ 5904.477123] {}",
    "May  6 14:07:09  kernel: {}",
    "May  6 14:07:09 <redacted> kernel: [ 5904.477123] {}",
    "May  6 14:07:09 *** kernel: {}",
    "kvě 25 19:29:48 h7 kernel: {}",
    "févr. 25 19:29:48 h7 kernel: {}",
    "11月 15 19:29:48 h7 kernel: {}",
    "мая 25 19:29:48 h7 kernel: {}",
    "04 Aug, 14:03:26 h7 kernel: {}",
    "Mon Dec 31 10:49:44 2018 kern.err kernel: [40136.118986] {}",
    "2016-07-31 16:26:53 +0000 UTC kern.info kernel: {}",
    "h7: kern:     err: [2025-03-11T04:17:22.477123Z]: {}",
    '\t"MESSAGE" : "{}",',
)


def kinds(text: str) -> list[tuple[str, str]]:
    found = log.read([text.encode()], Tally())
    return [(one.record.kind, one.record.component) for one in found if isinstance(one.record, Event)]


@pytest.mark.parametrize("front", FRONTS)
def test_a_front_of_any_tool_does_not_hide_what_the_kernel_says(front: str) -> None:
    bare = kinds("\n".join(BODIES) + "\n")
    assert len(bare) == len(BODIES)
    assert kinds("\n".join(front.format(body) for body in BODIES) + "\n") == bare


@pytest.mark.parametrize(
    "line",
    [
        "    python3[12]: [ 5904.477123] nvme nvme3: Disabling device after reset failure: -19",
        'May  6 14:07:09 h7 app[12]: "kernel: nvme nvme3: Disabling device after reset failure: -19"',
        "kvě 25 19:29:48 h7 app[12]: nvme nvme3: Disabling device after reset failure: -19",
        "May  6 14:07:09 app[12]: kernel: nvme nvme3: Disabling device after reset failure: -19",
        "the user asked what this means: [ 5904.477123] nvme nvme3: Disabling device after reset failure: -19",
        "prompt what is [ 5904.477123] nvme nvme3: Disabling device after reset failure: -19",
        '{"note": "[ 5904.477123] nvme nvme3: Disabling device after reset failure: -19"}',
    ],
)
def test_a_program_behind_a_front_is_still_a_program(line: str) -> None:
    assert peel(line).origin != "kernel"


def test_hosts_behind_a_date_of_no_known_form_are_told_and_the_date_is_not() -> None:
    line = peel("kvě 25 19:29:48 h7 kernel: text")
    assert (line.host, line.origin, line.body, line.stamp.clock) == ("h7", "kernel", "text", Clock.NONE)
    assert peel("May  6 14:07:09 <redacted> kernel: text").host == ""


def test_only_a_margin_that_all_lines_share_is_a_margin() -> None:
    assert common_margin(["    a", "", "      b"]) == "    "
    assert common_margin(["    a", "b"]) == ""
    assert common_margin(["> a", "> b"]) == "> "
    assert common_margin([]) == ""


@pytest.mark.parametrize("margin", ["> ", "- ", "* ", "1-", "[04:17:22] ", "a | "])
def test_margins_without_end_are_text(margin: str) -> None:
    assert len(peel(margin * 20_000 + "x").body) > 10_000


def test_a_damaged_pretty_record_is_text() -> None:
    assert peel('  "MESSAGE" : "a\\qb",').body == '  "MESSAGE" : "a\\qb",'
    assert peel(f'  "MESSAGE" : {json.dumps("a")}').body == "a"
