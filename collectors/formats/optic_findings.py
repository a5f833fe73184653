"""What a module's own readings mean: light, heat and the flags that it raises itself.

A lane that neither sends nor receives is not in use, whatever flag it raises; copper has no light, and flags stay on
until somebody reads them. A module whose own laser is off, or one lane of it that is lit from afar, was switched off or
asks for a look at its port first: nothing to replace.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from collectors.formats.events import event
from sickbay.components import Name
from sickbay.messages import MAX_MESSAGE, Action, Event, Severity

MAX_LANES = 16
LOW = "received light low"
DARK_DBM = -30.0  # modules report -40 or no number for no light at all
_LANE = re.compile(r"\((?:Channel|Chan|Lane) (\d{1,2})\)$")
_NUMBER = re.compile(r"-?(?:\d{1,6}(?:\.\d{1,6})?|inf)")
_RANGE = re.compile(r"\[ ?(-?\d{1,6}(?:\.\d{1,6})?) ?\.\. ?(-?\d{1,6}(?:\.\d{1,6})?) ?\]")


@dataclass(slots=True)
class Module:
    """One module as a tool told it: lanes in order, powers in dBm, None where it tells none."""

    name: Name
    line: int = 0
    copper: bool = False
    receive: dict[int, float] = field(default_factory=dict)
    send: dict[int, float] = field(default_factory=dict)
    receive_low: float | None = None  # the module's own alarm threshold
    temperature: float | None = None  # degrees Celsius
    temperature_high: float | None = None
    alarms: list[str] = field(default_factory=list)  # flags that are on
    warnings: list[str] = field(default_factory=list)


def findings(module: Module) -> Iterator[Event]:
    """At most one event for light and one for heat."""
    dark = [lane for lane, power in sorted(module.receive.items()) if _in_use(module, lane) and _low(module, power)]
    light = [flag for flag in module.alarms if "emperature" not in flag and not _of_idle(module, flag)]
    near = [flag for flag in module.warnings if not _of_idle(module, flag)]
    if not module.copper and (dark or light):
        yield _of_light(module, dark, light)
    elif not module.copper and (silent := _silent(module)):
        yield _told(module, {"lanes": " ".join(map(str, silent))}, "laser off", watch=True)
    elif not module.copper and near:
        yield _told(module, {"warnings": ", ".join(near)}, "light near its limit", watch=True)
    if _hot(module):
        facts = {"celsius": f"{module.temperature}", "limit": f"{module.temperature_high}"}
        yield _told(module, facts, "high temperature", watch=True)


def _of_light(module: Module, dark: list[int], light: list[str]) -> Event:
    powers = {f"lane_{lane}_dbm": f"{module.receive[lane]:g}" for lane in dark}
    facts = powers | {"alarms": ", ".join(light)}
    off = any("output" in flag or "tx" in flag.lower() for flag in light) and any("bias" in flag for flag in light)
    return _told(module, facts, "laser off" if off else LOW, watch=off)


def _of_idle(module: Module, flag: str) -> bool:
    """Whether a flag is raised for a lane that nobody uses while others are used."""
    match = _LANE.search(flag)
    lane = int(match[1]) if match else 0
    told = lane in module.send and lane in module.receive
    lit = any(power > DARK_DBM for powers in (module.send, module.receive) for power in powers.values())
    return told and lit and max(module.send[lane], module.receive[lane]) <= DARK_DBM


def _silent(module: Module) -> list[int]:
    """Lanes that are lit from afar and send nothing, while others send."""
    sends = any(power > DARK_DBM for power in module.send.values())
    lit = [lane for lane, power in sorted(module.receive.items()) if power > DARK_DBM]
    return [lane for lane in lit if sends and not _in_use(module, lane)]


def _in_use(module: Module, lane: int) -> bool:
    return module.send.get(lane, 0.0) > DARK_DBM


def _low(module: Module, power: float) -> bool:
    return power <= (DARK_DBM if module.receive_low is None else module.receive_low)


def _hot(module: Module) -> bool:
    over = (
        module.temperature is not None
        and module.temperature_high is not None
        and module.temperature > module.temperature_high > 0
    )
    return over or any("emperature high" in flag for flag in module.alarms)


def _told(module: Module, facts: dict[str, str], code: str, *, watch: bool) -> Event:
    message = ", ".join(f"{key} {value}" for key, value in facts.items() if value)[:MAX_MESSAGE]
    doubt = {"severity": Severity.WARNING, "advice": Action.WATCH} if watch else {}
    return event("optic.error", module.name, facts, code=code, message=f"{code}: {message}"[:MAX_MESSAGE], **doubt)


def numbers(text: str) -> dict[int, float]:
    """Lane -> value of `1.9,-inf,2.0 [-5..4]`; empty where it is no list of numbers."""
    words = [word.strip() for word in _RANGE.sub("", text).split(",")]
    found = [_NUMBER.fullmatch(word) for word in words[:MAX_LANES]]
    return {lane: float(match[0]) for lane, match in enumerate(found, 1) if match}


def limits(text: str) -> tuple[float, float] | None:
    """The range `[low..high]` behind a value; None where there is none or where it is empty."""
    match = _RANGE.search(text)
    low, high = (float(match[1]), float(match[2])) if match else (0.0, 0.0)
    return (low, high) if low < high else None
