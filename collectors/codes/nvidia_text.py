"""What the text after an Xid's number adds to its row: details, and the words that outrank the table.

Each rule here is the driver's own word in the line (Fatal, RST, recovery action ...), read by a linear pattern.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from collectors.codes import nvidia_links as links
from collectors.codes.table import Code
from sickbay.messages import Action, Blame, Severity, strength

Attributes = dict[str, str]


class Told(NamedTuple):
    """A row as the line's text leaves it, and the details."""

    row: Code
    attributes: Attributes


_UNIT = re.compile(r"\(GPC (\d{1,3}), TPC (\d{1,3}), SM (\d{1,3})\): ([^:]{1,80})")
_FAULT = re.compile(r"faulted @ 0x([0-9a-fA-F_]{1,24})")
_FAULT_TYPE = re.compile(r"of type (\w{1,40})(?: (ACCESS_TYPE_\w{1,40}))?")
_ENGINE = re.compile(r"ENGINE (\w{1,40})")
_FLAGS = re.compile(r"\bRST: (Yes|No), D-RST: (Yes|No)")
_CONTAINED = re.compile(r"\b(?:Unc|C)ontained: ([^(.]{1,40})")
_RPC = re.compile(r"Timeout after (\d{1,6})s.{0,80}?Expected function (\d{1,6}) \((\w{1,60})\)")
_LINK = re.compile(r"\blink (-?\d{1,4})(?: ?\(([^()]{0,200})\))?", re.IGNORECASE)
_REMOTE = re.compile(r"\bremote PCI:([0-9a-fA-F:.]{7,20})")
_LINK5 = re.compile(
    r"(?:(?P<unit>[A-Z][A-Z0-9_]{1,40})(?:/(?P<other>[A-Z][A-Z0-9_]{1,40}))?) (?P<word>Fatal|Non-?fatal)"
    r" (?P<contain>XC\d) (?P<injected>i\d)(?: Link (?P<link>-?\d{1,4}))?(?: \((?P<words>[^()]{0,200})\)?)?"
)
_RECOVERY = re.compile(
    r"recovery action changed from (?:0x(?P<old>[0-9a-fA-F]{1,8}))? ?(?:\((?P<was>[^()]{0,60})\))?"
    r" to (?:0x(?P<new>[0-9a-fA-F]{1,8}))? ?(?:\((?P<now>[^()]{0,60})\))?"
)

# The driver's recovery actions (gpu.c): number -> word, what it asks for, and when.
RECOVERY: dict[int, tuple[str, Action, str, Severity]] = {
    0: ("none", Action.IGNORE, "", Severity.INFO),
    1: ("reset", Action.RESET_DEVICE, "now", Severity.FATAL),
    2: ("reboot", Action.REBOOT_HOST, "now", Severity.FATAL),
    3: ("drain_peer_traffic", Action.RESET_DEVICE, "at_checkpoint", Severity.ERROR),
    4: ("drain_and_reset", Action.RESET_DEVICE, "at_checkpoint", Severity.ERROR),
    5: ("recover_memory_domain", Action.FIX_SOFTWARE, "now", Severity.ERROR),
}
_RECOVERY_WORDS = {
    "none": 0, "gpu reset required": 1, "node reboot required": 2, "drain p2p": 3, "drain and reset": 4,
    "recover imex domain": 5,
}  # fmt: skip


def told(row: Code, text: str) -> Told:
    """The row and the details once the text is read."""
    rule = _RULES.get(row.code)
    return rule(row, text) if rule else Told(row, {})


def without_text(row: Code) -> Code:
    """The row of a code that is only told of: where the text decides how grave it is, nothing strong is advised."""
    if row.code not in _GRAVITY_IN_TEXT:
        return row
    return replace(
        row,
        kind="accelerator.link_nonfatal",
        severity=Severity.WARNING,
        blame=Blame.EITHER,
        advice=Action.WATCH,
        when="",
    )


def worded(row: Code, word: str) -> Code:
    """An SXid's row by the word in the line: it differs between switch generations and port settings."""
    kind = row.kind if row.kind in ("fabric.thermal", "fabric.recovered") else ""
    if word == "fatal" and row.severity is not Severity.FATAL:
        advice = max(row.advice or Action.IGNORE, Action.RESET_DEVICE, key=strength)
        return replace(
            row, kind=kind or "fabric.switch_fatal", severity=Severity.FATAL, scope="domain", advice=advice, when="now"
        )
    if word.startswith("non") and row.severity in (Severity.FATAL, Severity.ERROR):
        return replace(
            row, kind=kind or "fabric.switch_nonfatal", severity=Severity.WARNING, advice=Action.WATCH, when=""
        )
    return row


def _exception(row: Code, text: str) -> Told:
    found = _UNIT.search(text)
    if not found:
        return Told(row, {})
    gpc, tpc, sm, reason = found.groups()
    return Told(row, {"gpc": gpc, "tpc": tpc, "sm": sm, "reason": reason.strip()})


def _page_fault(row: Code, text: str) -> Told:
    attributes: Attributes = {}
    if found := _ENGINE.search(text):
        attributes["engine"] = found[1]
    if found := _FAULT.search(text):
        address = int(found[1].replace("_", "") or "0", 16)
        # Runs of one binary are placed elsewhere each time, the page within its mapping stays: same low 20 bits.
        attributes |= {"address": f"{address:#x}", "address_low20": f"{address & 0xFFFFF:#x}"}
    if found := _FAULT_TYPE.search(text):
        attributes |= {"fault": found[1]} | ({"access": found[2]} if found[2] else {})
    return Told(row, attributes)


def _contained(row: Code, text: str) -> Told:
    attributes: Attributes = {}
    if found := _CONTAINED.search(text):
        attributes["location"] = found[1].strip()
    if not (flags := _FLAGS.search(text)):
        return Told(row, attributes)
    attributes |= {"rst": flags[1].lower(), "d_rst": flags[2].lower()}
    if flags[1] == "Yes":
        row = replace(row, advice=Action.RESET_DEVICE, when="now")
    elif flags[2] == "Yes" and row.advice is not Action.RESET_DEVICE:
        row = replace(row, advice=Action.RESET_DEVICE, when="at_checkpoint")
    return Told(row, attributes)


def _rpc(row: Code, text: str) -> Told:
    found = _RPC.search(text)
    if not found:
        return Told(row, {})
    return Told(row, {"waited_s": found[1], "function": found[3]})  # it prints that long after the hang began


def _old_link(row: Code, text: str) -> Told:
    attributes: Attributes = {}
    if found := _LINK.search(text):
        attributes["link"] = found[1]
        registers = links.words(found[2] or "")
        readings = links.register_readings(registers) if row.code == 74 else frozenset()
        attributes |= {"registers": " ".join(f"{word:#x}" for word in registers)} if registers else {}
        attributes |= {"reading": ",".join(sorted(readings))} if readings else {}
        if readings and readings <= links.CONTINUE:
            row = replace(row, kind="accelerator.link_corrected", severity=Severity.INFO, advice=None, when="")
    if found := _REMOTE.search(text):
        attributes["remote_pci"] = found[1]
    return Told(row, attributes)


def _link_number(row: Code, text: str) -> Told:
    found = _LINK.search(text)
    return Told(row, {"link": found[1]} if found else {})


def _link5(row: Code, text: str) -> Told:
    found = _LINK5.search(text)
    if not found:
        return _link_number(row, text)
    words = links.words(found["words"] or "")
    attributes = {
        "unit": found["unit"],
        "word": found["word"].lower().replace("-", ""),
        "containment": found["contain"],
    }
    attributes |= {"link": found["link"]} if found["link"] else {}
    attributes |= _first_word(words, found["unit"])
    if len(words) > 1:
        attributes["status"] = f"{words[1]:#x}"
        if reading := links.status_reading(row.code, found["unit"], words[1]):
            attributes["reading"] = reading
    if found["injected"] != "i0":
        return Told(_nothing(row, "accelerator.test_message"), attributes | {"injected": "yes"})
    fatal = attributes["word"] == "fatal"
    return Told(_fatal_link(row, attributes) if fatal else _nonfatal_link(row, attributes), attributes)


def _first_word(words: list[int], unit: str) -> Attributes:
    """Sub-code (both layouts: the line does not tell the driver) and the reason of a link that went down."""
    if not words:
        return {}
    layout, first = links.layout(), words[0]
    attributes = {
        "interrupt": f"{first:#x}",
        "subcode_before_r575": f"{links.bits(first, *layout.subcode_before_r575):#x}",
        "subcode_from_r575": f"{links.bits(first, *layout.subcode_from_r575):#x}",
    }
    if unit in ("NETIR_LINK_EVT", "NETIR_LINK_DOWN"):
        reason = links.bits(first, *layout.reason)
        attributes |= {"down_reason": f"{reason:#04x}", "down_reading": links.reason_reading(reason)}
    return attributes


def _fatal_link(row: Code, attributes: Attributes) -> Code:
    advice = Action.RESET_DEVICE if row.advice else Action.ESCALATE  # 147 and 148 are not to take a card out
    row = replace(
        row, kind="accelerator.link_fatal", severity=Severity.FATAL, blame=Blame.HARDWARE, advice=advice, when="now"
    )
    down = attributes.get("down_reading", "")
    if down in ("peer", "secondary", "software", "no_reset"):  # the far end, another event or a person is the cause
        return replace(
            row,
            kind="accelerator.link_nonfatal",
            severity=Severity.ERROR,
            blame=Blame.EITHER,
            advice=Action.WATCH,
            when="",
        )
    if down in ("signal", "software_then_signal"):
        return replace(row, advice=Action.CHECK_LINK)
    return row


def _nonfatal_link(row: Code, attributes: Attributes) -> Code:
    if attributes.get("reading") == "corrected":
        return _nothing(row, "accelerator.link_corrected")
    if attributes["containment"] != "XC0":  # the error came over from a peer of the partition, or goes there
        return _nothing(row, "accelerator.link_peer_error")
    advice = Action.WATCH if row.advice else None
    severity = Severity.INFO if row.severity is Severity.INFO else Severity.WARNING
    return replace(row, kind="accelerator.link_nonfatal", severity=severity, advice=advice, when="")


def _nothing(row: Code, kind: str) -> Code:
    return replace(row, kind=kind, severity=Severity.INFO, advice=None, when="")


def _recovery(row: Code, text: str) -> Told:
    found = _RECOVERY.search(text)
    if not found:  # cut off: something is asked for, but what?
        changed = "recovery action changed" in text
        return Told(replace(row, severity=Severity.WARNING, advice=Action.WATCH) if changed else row, {})
    number = _recovery_number(found["new"], found["now"])
    attributes = {
        "from": (found["was"] or found["old"] or "").strip(),
        "to": (found["now"] or found["new"] or "").strip(),
    }
    if number not in RECOVERY:
        return Told(replace(row, severity=Severity.WARNING), attributes)
    word, advice, when, severity = RECOVERY[number]
    return Told(replace(row, advice=advice, when=when, severity=severity), attributes | {"asks": word})


def _recovery_number(number: str | None, words: str | None) -> int:
    """The words count where they are known: a person reads those. -1 where neither is."""
    known = _RECOVERY_WORDS.get((words or "").strip().lower())
    return known if known is not None else int(number, 16) if number else -1


_GRAVITY_IN_TEXT = frozenset(range(144, 151))
_RULES: dict[int, Callable[[Code, str], Told]] = {
    13: _exception, 31: _page_fault, 108: _page_fault, 94: _contained, 95: _contained, 119: _rpc, 175: _rpc,
    74: _old_link, 136: _old_link, 137: _link_number, 155: _link_number, 154: _recovery,
    **dict.fromkeys(range(144, 151), _link5),
}  # fmt: skip
