"""Ascend fault codes: eight hex digits, with the level that the vendor's scheduler gives them (`ascend_faults.csv`).

The level says what the vendor does about a code and is published for all; what a code means is not. A code without a
meaning is told to people and asks for nothing that stops work.
"""

import csv
from functools import cache
from importlib import resources

from collectors.codes.table import Code, When, unknown
from sickbay.messages import Action, Blame, Severity
from sickbay.vocabulary import event_kinds

SOURCE = "mindcluster_levels+mindcluster_meanings"
REPORTED = "accelerator.code_reported"
SUSPECT = "accelerator.fault_reported"

# What the vendor's scheduler does at each level (MindCluster, resumable training guide): severity, advice, moment.
LEVELS: dict[str, tuple[Severity, Action | None, When]] = {
    "NotHandleFault": (Severity.INFO, None, ""),
    "SubHealthFault": (Severity.WARNING, Action.WATCH, ""),
    "RestartRequest": (Severity.ERROR, Action.RESTART_JOB, "now"),
    "RestartBusiness": (Severity.ERROR, Action.RESTART_JOB, "now"),
    "FreeRestartNPU": (Severity.ERROR, Action.RESET_DEVICE, "when_idle"),
    "RestartNPU": (Severity.FATAL, Action.RESET_DEVICE, "now"),
    "PreSeparateNPU": (Severity.ERROR, Action.DRAIN_HOST, "when_idle"),  # what runs may end
    "SeparateNPU": (Severity.FATAL, Action.DRAIN_HOST, "now"),
}
_GRAVE = ("RestartNPU", "PreSeparateNPU", "SeparateNPU")


@cache
def codes() -> dict[int, Code]:
    """All published codes. Raises KeyError for a level or a kind that is none of ours."""
    text = resources.files("collectors.codes").joinpath("ascend_faults.csv").read_text(encoding="utf-8")
    return {int(row["code"], 16): _code(row) for row in csv.DictReader(text.splitlines())}


def code(number: int) -> Code:
    """The row of a code; any integer is answered."""
    return codes().get(number) or unknown(number)


def _code(row: dict[str, str]) -> Code:
    number, level = int(row["code"], 16), row["level"]
    if not row["meaning"] or not level:
        return _without_meaning(number, level, row["meaning"])
    severity, advice, when = LEVELS[level]
    return Code(
        code=number,
        kind=row["kind"],
        severity=severity,
        blame=_blame(row["kind"], level),
        advice=advice,
        when=when,
        meaning=row["meaning"],
        source=SOURCE,
    )


def _without_meaning(number: int, level: str, meaning: str) -> Code:
    """Only one of the two is published: nothing is done on it but asking."""
    grave = level in _GRAVE
    return Code(
        code=number,
        kind=SUSPECT if grave else REPORTED,
        severity=Severity.WARNING if grave else Severity.INFO,
        advice=Action.ESCALATE if grave else None,
        verified=False,
        meaning=meaning or "meaning not published",
        source=SOURCE,
    )


def _blame(kind: str, level: str) -> Blame:
    """A level that only runs the job again leaves open whose fault it was."""
    told = Blame(event_kinds()[kind].blame)
    return Blame.EITHER if told is Blame.HARDWARE and level in ("RestartRequest", "RestartBusiness") else told
