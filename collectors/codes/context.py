"""What neighbours say about an event: rules on a list of events that outrank the tables.

Every rule is a pure function from a list to a list, in linear time (sorting aside), that keeps the order. Rules add
attributes, which detectors read, and change advice where the driver's own word or the order of events says so:

follows              a timeout right after a program's error on the same device: the program is the likelier cause
caused_by            a hardware fault of the same device came right before this program's error
verdict              the driver's recovery action that belongs to this event
cleared_by_recovery  the driver later said that nothing is to be done any more
victim_of            another device of the host, or its switch, died at the same moment
cleared_by_boot      the host has booted since: a pending repair or a hang is over
repeats_across_jobs  different programs or jobs get the same code from the same place of one device
"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from collectors.codes.moments import host_key, moment, noted, within
from collectors.codes.repeats import repeats
from sickbay.messages import Action, Blame, Event, Severity

STORM_S = 60.0  # one teardown prints a line per channel: one event per device, process and minute
FOLLOWS_S = 30.0  # a context that does not switch out is given up seconds after the program's error
AFTER_S = 10.0  # programs on a device that fails notice within seconds
VERDICT_S = 10.0  # the driver states its recovery action right after the fault
VICTIM_S = 10.0  # peers notice within a fraction of a second, but some lines wait for a time-out
RECENT = 16  # events of one device that a verdict may still belong to

TEARDOWN = "Xid 45"
RECOVERY = "accelerator.recovery_action"
PROGRAM_ERRORS = frozenset({"accelerator.program_error", "accelerator.page_fault"})
CONSEQUENCES = PROGRAM_ERRORS | {"accelerator.channel_closed"}
GRAVE = (Severity.ERROR, Severity.FATAL)
CLEARED_BY_BOOT = frozenset(
    {
        "accelerator.memory_repair_pending", "accelerator.memory_contained", "accelerator.memory_uncorrectable",
        "accelerator.firmware_hang", "accelerator.engine_hang", "accelerator.context_timeout", "accelerator.link_fatal",
        RECOVERY,
    }
)  # fmt: skip  # not: off the bus, failed to start, repair failed: a boot does not heal these
PORT = "port"  # stands for any fatal error of one port of a switch
PEER_CODES = frozenset({"Xid 45", "Xid 74", "Xid 145", "SXid 14017", "SXid 19084", "SXid 20034", PORT})
LINK_CODES = frozenset({"Xid 74", "Xid 145", "SXid 20034"})
LINK_ROOTS = frozenset({"Xid 149", "Xid 150"})

Events = list[Event]


def apply(events: Sequence[Event]) -> Events:
    """All rules, in the order in which they may overrule each other."""
    told = list(events)
    for rule in RULES:
        told = rule(told)
    return told


def folded_teardowns(events: Events) -> Events:
    """One event per device, process and minute for channels torn down, with their count."""
    kept: Events = []
    first: dict[tuple[str, str, str, str], int] = {}
    for event in events:
        if event.code != TEARDOWN:
            kept.append(event)
            continue
        key = (event.component, event.process, event.attributes.get("caused_by", ""), event.path)
        place = first.get(key)
        if place is not None and within(moment(kept[place]), moment(event), STORM_S):
            until = max(
                (ms for ms in (kept[place].until_ms, event.until_ms, event.at_ms) if ms is not None), default=None
            )
            kept[place] = replace(kept[place], count=kept[place].count + event.count, until_ms=until)
        else:
            first[key] = len(kept)
            kept.append(event)
    return kept


def after_program_errors(events: Events) -> Events:
    """A context timeout right after a program's error on the same device asks for the job, not for the device."""
    told, last = list(events), dict[str, Event]()
    for place, event in enumerate(events):
        if event.kind in PROGRAM_ERRORS:
            last[event.component] = event
        elif event.kind == "accelerator.context_timeout":
            cause = last.get(event.component)
            if cause and within(moment(cause), moment(event), FOLLOWS_S):
                eased = {key: value for key, value in event.attributes.items() if key != "when"} | {
                    "follows": cause.code
                }
                told[place] = replace(event, advice=Action.RESTART_JOB, attributes=eased)
    return told


def after_hardware(events: Events) -> Events:
    """A program's error right after a hardware fault of its device is a consequence; undated lines tell no order."""
    told, last = list(events), dict[str, Event]()
    for place, event in enumerate(events):
        if event.kind in CONSEQUENCES:
            cause = last.get(event.component)
            if cause and not moment(event).clock.startswith("input") and within(moment(cause), moment(event), AFTER_S):
                told[place] = noted(event, caused_by=event.attributes.get("caused_by", cause.code))
        elif event.severity in GRAVE and event.blame is Blame.HARDWARE:
            last[event.component] = event
    return told


def driver_verdicts(events: Events) -> Events:
    """Gives the driver's recovery action to the faults that it was stated for; "none" closes them."""
    told = list(events)
    recent: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=RECENT))
    for place, event in enumerate(events):
        if event.kind != RECOVERY:
            if event.severity is not Severity.INFO and event.blame is not Blame.APPLICATION:
                recent[event.component].append(place)
            continue
        asks = event.attributes.get("asks", "")
        for earlier in recent[event.component]:
            told[earlier] = _with_verdict(told[earlier], event, asks)
        if asks == "none":
            recent[event.component].clear()
        else:
            recent[event.component].append(place)
    return told


def _with_verdict(fault: Event, verdict: Event, asks: str) -> Event:
    if asks == "none":
        over = replace(fault, advice=None) if fault.kind == RECOVERY else fault  # that it asked for something is over
        return noted(over, cleared_by_recovery=verdict.code)
    if not asks or fault.kind == RECOVERY or not within(moment(fault), moment(verdict), VERDICT_S):
        return fault
    lost = fault.kind == "accelerator.off_bus"  # what the bus has lost cannot be reset, whatever the text says
    return noted(replace(fault, advice=fault.advice if lost else verdict.advice), verdict=asks)


def victims(events: Events) -> Events:
    """Peers of a dead device (or of a dead link or switch) complain of it: they are not to blame."""
    roots: defaultdict[tuple[str, str], list[tuple[float, str, frozenset[str]]]] = defaultdict(list)
    for event in events:
        if codes := _claimed_by(event):
            at = moment(event)
            roots[host_key(event), at.clock].append((at.s, event.component, codes))
    for found in roots.values():
        found.sort(key=lambda root: (root[0], root[1]))
    return [_blamed(event, roots.get((host_key(event), moment(event).clock), [])) for event in events]


def _claimed_by(event: Event) -> frozenset[str]:
    """The codes at peers that this event explains."""
    if event.kind == "accelerator.off_bus":
        return PEER_CODES
    if event.kind == "fabric.switch_fatal" and event.scope == "fabric":
        return PEER_CODES
    return LINK_CODES if event.kind == "accelerator.link_fatal" and event.code in LINK_ROOTS else frozenset()


def _complaint(event: Event) -> str:
    """The code under which a dead peer may be complained of, "" for any other event."""
    if event.code == "Xid 145":  # only where the error crossed over from a peer
        return event.code if event.kind == "accelerator.link_peer_error" else ""
    if event.code in PEER_CODES:
        return event.code
    return PORT if event.kind == "fabric.switch_fatal" and event.scope == "domain" else ""


def _blamed(event: Event, roots: Sequence[tuple[float, str, frozenset[str]]]) -> Event:
    complaint = _complaint(event) if roots else ""
    if not complaint:
        return event
    at = moment(event).s
    start = bisect_left(roots, at - VICTIM_S, key=lambda root: root[0])
    near = [root for root in roots[start : start + RECENT] if root[0] <= at + VICTIM_S]
    others = [component for _, component, codes in near if component != event.component and complaint in codes]
    own = len(others) < sum(complaint in codes for _, _, codes in near)  # the device itself is among the dead
    return noted(event, victim_of=others[0]) if others and not own else event


class _Boots(NamedTuple):
    """When each host has last booted, as far as events tell."""

    by_time: dict[str, int]  # host -> at_ms of its last boot
    by_line: dict[tuple[str, str], int]  # (host, input) -> line of the last boot in it
    now: dict[str, tuple[int, str]]  # host -> at_ms and boot id of its last event that has both

    def since(self, event: Event) -> bool:
        """Whether the host has booted since the event."""
        host = host_key(event)
        at, boot_id = self.now.get(host, (0, ""))
        if event.at_ms is None:  # a log is written in order: what stands further down is later
            return self.by_line.get((host, event.path), 0) > event.line
        return self.by_time.get(host, event.at_ms) > event.at_ms or bool(
            event.boot_id and boot_id != event.boot_id and at > event.at_ms
        )


def before_boots(events: Events) -> Events:
    """Marks hangs and pending repairs after which the host has booted."""
    boots = _Boots({}, {}, {})
    for event in events:
        host = host_key(event)
        if event.kind == "host.boot":
            boots.by_line[host, event.path] = max(event.line, boots.by_line.get((host, event.path), 0))
            if event.at_ms is not None:
                boots.by_time[host] = max(event.at_ms, boots.by_time.get(host, event.at_ms))
        if event.boot_id and event.at_ms is not None:
            boots.now[host] = max((event.at_ms, event.boot_id), boots.now.get(host, (event.at_ms, "")))
    return [
        noted(event, cleared_by_boot="yes") if event.kind in CLEARED_BY_BOOT and boots.since(event) else event
        for event in events
    ]


RULES: tuple[Callable[[Events], Events], ...] = (
    folded_teardowns, after_hardware, after_program_errors, driver_verdicts, victims, before_boots, repeats,
)  # fmt: skip
