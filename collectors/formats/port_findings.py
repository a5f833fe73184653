"""What counters and states of a port mean, whichever tool printed them.

A lifetime total only says that something was once: it is told as a warning to watch. What grew between two listings of
one port, and an error ratio over a stated time, are faults of now. Corrected bits are normal and never told. A counter
that stands at its maximum counts no more: that it does not grow is no news.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources

import msgspec

from collectors.formats.events import event
from sickbay.components import Kind, Name
from sickbay.messages import MAX_MESSAGE, Action, Event, Severity

MAX_COUNTERS = 4096  # of one port
STUCK = {  # the greatest values of the old form's counters, which stay there until somebody clears them (IBA)
    "SymbolErrorCounter": 65535, "PortRcvErrors": 65535, "LinkErrorRecoveryCounter": 255, "LinkDownedCounter": 255,
    "LocalLinkIntegrityErrors": 15, "symbol_error": 65535, "port_rcv_errors": 65535, "link_error_recovery": 255,
    "link_downed": 255, "local_link_integrity_errors": 15,
}  # fmt: skip
POST_CORRECTION_LIMIT = 1e-12  # [house] errors that correction left over: frames are lost all the time
POST_CORRECTION_WATCH = 1e-14  # [house] of the field's usual 1e-14 to 1e-15
PRE_CORRECTION_LIMIT = 2.4e-4  # IEEE 802.3 clause 91/119: what RS(544,514) corrects on an optical link
NO_SIGNAL = ("down", "polling", "port_down", "physical link is down", "sleep", "training")
CLOSED = ("disable", "closed by command")
UNMANAGED = ("init", "armed")  # the link is up, no subnet manager has brought the port up
_NUMBER = re.compile(r"\d{1,6}: ?")


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Counters of one meaning: a section of port_counters.toml."""

    least: int
    names: tuple[str, ...]


@cache
def groups() -> dict[str, Group]:
    """The groups of counters by name."""
    text = resources.files("collectors.codes").joinpath("port_counters.toml").read_bytes()
    return msgspec.toml.decode(text, type=dict[str, Group])


def of_counters(port: Name, now: Mapping[str, int], before: Mapping[str, int] | None = None) -> Iterator[Event]:
    """What the counters of one listing say, compared with an earlier one of the same port where there is one."""
    for group, kind in (("lost", "port.errors"), ("flaps", "port.errors"), ("pauses", "port.pause_storm")):
        yield from _of_group(port, kind, groups()[group], now, before)
    if stuck := _stuck(STUCK, now):
        text = f"{_written(stuck)}: at its maximum, it counts no more until somebody clears it"[:MAX_MESSAGE]
        yield event("port.counters_blind", port, stuck, code="saturated", message=text)
    if shown := _least(groups()["module"], now):
        optic = Kind.OPTIC + ":" + port.partition(":")[2]
        text = _written(shown)
        yield event(
            "optic.error", optic, shown, severity=Severity.WARNING, advice=Action.WATCH, code="counted", message=text
        )


def _of_group(
    port: Name, kind: str, group: Group, now: Mapping[str, int], before: Mapping[str, int] | None
) -> Iterator[Event]:
    grown = {name: str(now[name] - before[name]) for name in group.names if before and _grew(name, now, before)}
    if grown:
        more = f"{kind}_grow" if kind == "port.errors" else kind
        advice = Action.CHECK_LINK if kind == "port.errors" else None
        yield event(more, port, grown, code="grew", message=_written(grown, "+"), advice=advice)
    elif shown := _stuck(group.names, now) if before else _least(group, now):
        more = f"{kind}_counted" if kind == "port.errors" else kind
        told = {"severity": Severity.WARNING, "advice": Action.WATCH}
        yield event(more, port, shown, code="counted", message=_written(shown), **told)


def _grew(name: str, now: Mapping[str, int], before: Mapping[str, int]) -> bool:
    return name in now and name in before and now[name] > before[name]


def _least(group: Group, now: Mapping[str, int]) -> dict[str, str]:
    return {name: str(now[name]) for name in group.names if now.get(name, 0) >= group.least}


def _stuck(names: Iterable[str], now: Mapping[str, int]) -> dict[str, str]:
    return {name: str(now[name]) for name in names if name in now and now[name] == STUCK.get(name)}


def _written(facts: Mapping[str, str], sign: str = "") -> str:
    return ", ".join(f"{name} {sign}{value}" for name, value in facts.items())[:MAX_MESSAGE]


def of_state(port: Name, state: str, physical: str = "", reason: str = "", *, spare: bool = False) -> Event | None:
    """What the state of a port says; None where it says nothing known. `spare`: perhaps nobody ever used this port."""
    logical, link = (_NUMBER.sub("", text).strip().lower() for text in (state, physical))
    facts = {"state": state, "physical_state": physical, "reason": reason}
    message = " ".join(f"{key}={value}" for key, value in facts.items() if value)[:MAX_MESSAGE]
    if any(word in text for word in CLOSED for text in (logical, link, reason.lower())):
        return event("port.admin_down", port, facts, code="closed", message=message)
    if logical.removeprefix("port_").startswith("active"):
        return event("port.up", port, facts, code="active", message=message)
    if logical.removeprefix("port_").startswith(UNMANAGED):
        told = {"severity": Severity.WARNING, "advice": Action.FIX_SOFTWARE}
        return event("port.down", port, facts, code="not brought up", message=message, **told)
    if logical.startswith(NO_SIGNAL) or (not logical and link.startswith(NO_SIGNAL)):
        doubt = {"severity": Severity.WARNING, "advice": Action.WATCH} if spare else {}
        return event("port.down", port, facts, code="no link", message=message, **doubt)
    return None


def of_error_ratio(port: Name, ratios: Mapping[str, float], facts: Mapping[str, str]) -> Event | None:
    """What error ratios say: `raw` before correction, any other name after it. None where all are well."""
    before = ratios.get("raw", 0.0)
    after = max((value for name, value in ratios.items() if name != "raw"), default=0.0)
    if after >= POST_CORRECTION_LIMIT or before >= PRE_CORRECTION_LIMIT:
        told = {"advice": Action.CHECK_LINK, "message": _written(facts)}
        return event("port.errors_grow", port, facts, code="error ratio", **told)
    if after >= POST_CORRECTION_WATCH:
        told = {"advice": Action.WATCH, "message": _written(facts)}
        return event("port.errors_counted", port, facts, code="error ratio", **told)
    return None
