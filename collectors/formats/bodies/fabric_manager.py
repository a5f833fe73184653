"""NVIDIA's fabric manager: switch errors it passes on, links of cards that failed, and faults of its own.

Its log file writes `[ERROR] [tid 841]` before a sentence; in the journal the sentence stands alone. One error of a
card's link is a headline and then a line per fact.
"""

import re
from collections.abc import Iterable

from collectors.codes import nvidia, nvidia_links, nvidia_text
from collectors.formats.bodies import Sample
from collectors.formats.nvidia_lines import MAX_TEXT, coded
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, name, pci_address
from sickbay.messages import Action, Blame, Event, Severity

_SPEAKERS = frozenset(
    ("", "nv-fabricmanager", "nv-fabricmanage", "nvidia-fabricmanager-start.sh", "nvidia-fabricmanager")
)
_LEVEL = re.compile(r"\[(?P<level>[A-Z]{4,8})\] \[tid \d{1,10}\] ?")
_SWITCH = re.compile(
    r"detected NVSwitch (?P<word>fatal|non-fatal) error (?P<code>\d{1,9})\b"
    r".{0,60}? pci bus id (?P<pci>[0-9a-fA-F:.]{5,24})"
    r"(?: physical id (?P<switch>\d{1,4}))?(?: port (?P<port>\d{1,4}))?"
)
_CARD_LINK = re.compile(r"(?:Fabric Manager )?detected GPU NVL (?P<word>Fatal|Non-?[Ff]atal) error\b")
_FACT = re.compile(r"(?P<key>[A-Za-z]{3,24}) : (?P<value>\S{1,64})$")
_LAST_FACT = "errorStatus"
MAX_FACTS = 24
_MISMATCH = re.compile(r"fabric manager NVIDIA GPU driver interface version \S{1,32} do(?:es)?n't match ")
_NO_SWITCH = re.compile(r"request to query NVSwitch device information from NVSwitch driver failed\b")
_MULTICAST = re.compile(r"failed to find the member GPU handle \d{1,24} in partition\b")
_OWN = (  # pattern, code, advice
    (_NO_SWITCH, "no switch device", Action.FIX_SOFTWARE),
    (_MULTICAST, "multicast set-up failed", Action.WATCH),
)


class Grammar:
    """Reads one input's lines; remembers the headline of a card's link error until its facts are told."""

    def __init__(self) -> None:
        self._head: Line | None = None
        self._facts: dict[str, str] = {}

    def read(self, line: Line) -> Iterable[Record | tuple[Record, Line]]:
        """Records of this line, or of a card's link error that ends before or with it."""
        if line.origin not in _SPEAKERS:
            return
        text = line.body.strip()[:MAX_TEXT]
        if self._head and (fact := _FACT.match(text)):
            yield from self._told(fact["key"], fact["value"])
            return
        yield from self.end()
        level = _LEVEL.match(text)
        text = text[level.end() :] if level else text
        if found := _CARD_LINK.match(text):
            self._head, self._facts = line, {"word": found["word"].lower().replace("-", "")}
        elif event := _event(text, level["level"] if level else ""):
            yield event

    def end(self) -> Iterable[tuple[Record, Line]]:
        """A link error whose last fact was not told."""
        head, facts = self._head, self._facts
        self._head, self._facts = None, {}
        return ((_link_event(facts), head),) if head else ()

    def _told(self, key: str, value: str) -> Iterable[tuple[Record, Line]]:
        if len(self._facts) < MAX_FACTS:
            self._facts[key] = value
        return self.end() if key == _LAST_FACT else ()


def _event(text: str, level: str) -> Event | None:
    if found := _SWITCH.match(text):
        return _switch_event(found)
    if _MISMATCH.match(text):
        return _own("version mismatch", "host.driver_mismatch", Action.FIX_SOFTWARE)
    for pattern, code, advice in _OWN:
        if pattern.match(text):
            return _own(code, "fabric.manager_error", advice)
    if level in ("ERROR", "FATAL", "CRITICAL"):
        return _own("error", "fabric.manager_error", Action.WATCH)
    return None


def _own(code: str, kind: str, advice: Action) -> Event:
    host = kind.startswith("host.")
    component = name(Kind.HOST, UNKNOWN) if host else name(Kind.FABRIC, UNKNOWN, "fabric-manager")
    return Event(
        component=component,
        kind=kind,
        code=f"fabric manager: {code}",
        severity=Severity.WARNING,
        blame=Blame.EITHER,
        scope="host",
        advice=advice,
    )


def _switch_event(found: re.Match[str]) -> Event:
    row = nvidia_text.worded(nvidia.sxid(int(found["code"])), found["word"])
    attributes = {"word": found["word"].replace("-", ""), "told_by": "fabric manager"}
    attributes |= {key: found[part] for key, part in (("switch", "switch"), ("link", "port")) if found[part]}
    component = name(Kind.FABRIC, UNKNOWN, pci_address(found["pci"]) or UNKNOWN)
    return coded(row, f"SXid {int(found['code'])}", component, attributes)


def _link_event(facts: dict[str, str]) -> Event:
    """An error of a card's link; why it went down decides who has to act, as in the driver's own code 149."""
    reason = facts.get("portDownReasonCode", "")
    reading = nvidia_links.reason_reading(int(reason, 16)) if re.fullmatch(r"0x[0-9a-fA-F]{1,2}", reason) else ""
    fatal = facts["word"] == "fatal" and reading not in ("peer", "secondary", "software", "no_reset")
    advice = Action.CHECK_LINK if reading in ("signal", "software_then_signal") else Action.RESET_DEVICE
    return Event(
        component=name(Kind.ACCELERATOR, UNKNOWN, facts.get("gpuGuid", UNKNOWN)),
        kind="accelerator.link_fatal" if fatal else "accelerator.link_nonfatal",
        code="NVL error",
        severity=Severity.FATAL if fatal else Severity.WARNING,
        blame=Blame.HARDWARE if fatal else Blame.EITHER,
        scope="domain",
        advice=advice if fatal else Action.WATCH,
        attributes=facts | ({"down_reading": reading} if reading else {}),
    )


GRAMMAR = Grammar

LITERALS: tuple[str, ...] = (
    "detected NVSwitch ", "detected GPU NVL ", "fabric manager NVIDIA GPU driver", "request to query NVSwitch ",
    "failed to find the member GPU handle", "[ERROR] [tid ", "[FATAL] [tid ", "[CRITICAL] [tid ", "moduleId : ",
    "nodeId : ", "partitionId : ", "gpuGuid : ", "portNum : ", "portStatus : ", "errorCode : ", "errorSubcode : ",
    "portDownReasonCode : ", "isErrorFirst : ", "errorStatus : ",
)  # fmt: skip


def _of(kind: str, component: str, code: str, **fields: object) -> dict[str, object]:
    return {"type": "event", "component": component, "kind": kind, "code": code, **fields}


_MANAGER = "fabric:?/fabric-manager"
SAMPLES: tuple[Sample, ...] = (
    Sample(
        "[ERROR] [tid 911] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:9C:00.0"
        " physical id 2 port 31",
        (_of("fabric.switch_fatal", "fabric:?/0000:9c:00", "SXid 20034", severity="fatal"),),
    ),
    Sample(
        "detected NVSwitch non-fatal error 12028 on NodeId 0 on NVSwitch pci bus id 00000000:9C:00.0"
        " physical id 2 port 7",
        (_of("fabric.switch_nonfatal", "fabric:?/0000:9c:00", "SXid 12028", severity="warning"),),
    ),
    Sample(
        "[ERROR] [tid 202] Fabric Manager detected GPU NVL Fatal error on :\nmoduleId : 2\n"
        "gpuGuid : 0x7A1B2C3D4E5F6071\nportNum : 5\nportDownReasonCode : 0x0A\nerrorStatus : 0x00000000",
        (_of("accelerator.link_fatal", "accelerator:?/0x7A1B2C3D4E5F6071", "NVL error", advice="check_link"),),
    ),
    Sample(
        "fabric manager NVIDIA GPU driver interface version 570.11.01 don't match with driver version 570.10.20.",
        (_of("host.driver_mismatch", "host:?", "fabric manager: version mismatch", advice="fix_software"),),
    ),
    Sample(
        "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do"
        " [NV_WARN_NOTHING_TO_DO]",
        (_of("fabric.manager_error", _MANAGER, "fabric manager: no switch device", advice="fix_software"),),
    ),
    Sample(
        "[ERROR] [tid 1569] failed to find the member GPU handle 29774 in partition -1 in the multicast team"
        " setup request",
        (_of("fabric.manager_error", _MANAGER, "fabric manager: multicast set-up failed", advice="watch"),),
    ),
    Sample(
        "[ERROR] [tid 1569] the connection to the local node was lost",
        (_of("fabric.manager_error", _MANAGER, "fabric manager: error", advice="watch"),),
    ),
)
