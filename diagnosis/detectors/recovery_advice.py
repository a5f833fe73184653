"""The driver's own verdict on a device: what it asks for, or that it asks for nothing.

It outranks the fault's usual action; where the driver sees nothing to repair, it speaks against a fault of the device.
"""

from collections.abc import Iterable

from diagnosis.case import Case
from diagnosis.detectors.explicit_code import build, bursts
from diagnosis.evidence import CERTAIN, FAIR, worst
from sickbay.messages import Action, Event, Evidence, Severity, replace

NAME, VERSION = "recovery_advice", "1"
FAULT = "accelerator_recovery_needed"
KIND = "accelerator.recovery_action"


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per burst of the driver's verdicts on one device; a later verdict replaces an earlier one."""
    spoken = [event for event in case.events if event.kind == KIND and "injected" not in event.attributes]
    for burst in bursts(event for event in spoken if event.advice is not None or _asks_nothing(event)):
        yield _claim(burst)


def _claim(burst: list[Event]) -> Evidence:
    nothing = _asks_nothing(burst[-1])
    claim = build(
        burst, FAULT, burst[0].component, detector=NAME, version=VERSION,
        says="driver_asks_nothing" if nothing else "driver_asks", llr=-FAIR if nothing else CERTAIN,
    )  # fmt: skip
    graver: Evidence = replace(claim, severity=worst([claim.severity, Severity.WARNING if nothing else Severity.ERROR]))
    return graver


def _asks_nothing(event: Event) -> bool:
    return event.attributes.get("asks") == "none" or event.advice is Action.IGNORE
