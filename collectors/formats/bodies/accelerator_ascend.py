"""Ascend NPUs: fault codes in the device's and driver's logs, and the host driver's lost channels to a device.

The same code is printed in three spellings; which device it speaks of often stands only in the file's name.
"""

import re
from collections.abc import Iterable, Iterator

from collectors.codes import ascend
from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from collectors.formats.speaking import told
from sickbay.components import UNKNOWN, Kind, Name, name

LITERALS = ("event_id", "vent id=", "[ascend]", "system exception code")
MAX_TEXT = 1000  # characters of a line that are looked at

# Who speaks: `[EVENT] KERNEL(880,sklogd):...` of CANN, `[ascend] [module] [function 12] ...` of the host's driver.
_CANN = re.compile(r"\[(?:ERROR|EVENT|WARNING|INFO)\] [A-Z]{2,10}\(")
_DRIVER = re.compile(
    r"(?:\[ERROR\] ?)?\[ascend\] ?\[(?P<module>\w{1,30})\] \[(?P<function>\w{1,80}) \d{1,6}\] (?P<text>.*)"
)
_CODE = re.compile(r"\b[Ee]vent[_ ]id(?: ?[:=] {0,4})\[?0x(?P<code>[0-9a-fA-F]{8})\b")
_DEVICE = re.compile(r"\b(?:dev|device)_?id[ :=(]{1,3}(?P<index>\d{1,3})\b")
# Functions of the host's driver that lose a device (MindCluster's rules for host kernel logs) -> what was lost.
_CHANNELS = (
    (re.compile(r"devdrv_dma_chan_sync_wait"), "host DMA timed out"),
    (re.compile(r"devdrv_(?:sync_msg_send|sync_non_trans_\w{1,40})"), "message channel failed"),
    (re.compile(r"devdrv_s2s_msg_\w{1,40}"), "server-to-server channel failed"),
    (re.compile(r"devdrv_(?:p2p_\w{1,40}|enable_p2p)"), "peer access failed"),
)
# history.log of a device's black box: codes with a numbering of their own, of which one is published.
_BLACK_BOX = re.compile(
    r"\[[\d.:-]{10,40}\] system exception code \[0x(?P<code>[0-9a-fA-F]{8})\]: ModuleName \[(?P<module>[^\]]{0,40})\], "
    r"ExceptionReason \[(?P<reason>[^\]]{0,80})\]"
)
_HEARTBEAT_LOST = 0x68020002  # the driver no longer hears the device


class Grammar:
    """One event a line."""

    def read(self, line: Line) -> Iterator[Record]:
        """A fault code, or a channel to a device that failed."""
        text = line.body.lstrip()[:MAX_TEXT]
        if black_box := _BLACK_BOX.match(text):
            yield _exception(black_box)
            return
        driver = _DRIVER.match(text) if line.origin in ("", "kernel") else None
        if driver is None and not _CANN.match(text):
            return
        if found := _CODE.search(text):
            yield _code(int(found["code"], 16), _component(text))
        elif driver is not None:
            for function, code in _CHANNELS:
                if function.match(driver["function"]):
                    facts = {"attributes": {"function": driver["function"], "module": driver["module"]}}
                    yield told("accelerator.driver_notice", _component(driver["text"]), code=code, **facts)
                    return

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()


def _component(text: str) -> Name:
    found = _DEVICE.search(text)
    return name(Kind.ACCELERATOR, UNKNOWN, found["index"] if found else UNKNOWN)


def _exception(match: re.Match[str]) -> Record:
    """A line of a device's black box: it asks for a look, what it means is the vendor's to say but for one code."""
    lost = int(match["code"], 16) == _HEARTBEAT_LOST
    facts = {"attributes": {"module": match["module"], "reason": match["reason"]}}
    kind = "accelerator.unresponsive" if lost else "accelerator.unknown_code"
    return told(kind, _component(""), code=f"exception {match['code'].upper()}", **facts)


def _code(number: int, component: Name) -> Record:
    row = ascend.code(number)
    return told(
        row.kind,
        component,
        code=f"{number:08X}",
        severity=row.severity,
        blame=row.blame,
        scope=row.scope,
        advice=row.advice,
        attributes={"when": row.when} if row.when else {},
    )


GRAMMAR = Grammar

SAMPLES = (
    Sample(
        "[EVENT] KERNEL(911,sklogd):2031-02-03-04:05:07.000.111 [klogd.c:253][86411.002310] event_id=0x80e18402, "
        "device_id=3",
        ({"type": "event", "component": "accelerator:?/3", "kind": "accelerator.memory_repair_failed",
          "code": "80E18402", "advice": "drain_host", "severity": "fatal"},),
    ),
    Sample(
        "[ERROR] DRV(4120,python3):2031-02-03-04:05:07.000.111 [event.c:41] event_id:  [0x81078603]",
        ({"type": "event", "component": "accelerator:?/?", "kind": "accelerator.link_nonfatal", "severity": "info",
          "advice": None},),
    ),
    Sample(
        "[ERROR] DRV(4120,python3):2031-02-03-04:05:07.000.111 [event.c:41] Event id=0x8F180220, not published",
        ({"type": "event", "kind": "accelerator.fault_reported", "code": "8F180220", "advice": "escalate"},),
    ),
    Sample(
        "[ascend] [devmng] [devdrv_sync_msg_send 812] Wait message reply timed out. (dev_id=5; ret=-110)",
        ({"type": "event", "component": "accelerator:?/5", "kind": "accelerator.driver_notice",
          "code": "message channel failed"},),
    ),
    Sample(
        "[2031-02-03-04:05:09.142007] system exception code [0x68020002]: ModuleName [DRIVER], "
        "ExceptionReason [DEVICE HBL EXCEPTION], TimeStamp [20310203040508-100200300]",
        ({"type": "event", "component": "accelerator:?/?", "kind": "accelerator.unresponsive",
          "code": "exception 68020002"},),
    ),
    Sample("[ascend] [devmng] [devdrv_manager_open 101] Device opened. (dev_id=5)", ()),
)  # fmt: skip
