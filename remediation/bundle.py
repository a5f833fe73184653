"""Saving evidence before anything is stopped or reset: one file per incident, written beside, never in the way."""

import os
import re
import threading
from pathlib import Path

import msgspec

from remediation.decision import Context, Decision
from sickbay import messages
from sickbay.actions import Action

UNFIT = re.compile(r"[^A-Za-z0-9._-]")


def bundle(decision: Decision, context: Context) -> bytes:
    """What is known now of an incident, its host and its jobs, as JSON."""
    node = context.node(decision.host)
    incident = decision.incident
    jobs = [context.job(f"job:{job}") for job in (incident.affected.jobs if incident else ())]
    return msgspec.json.encode(
        {
            "schema": "sickbay.bundle/1",
            "action": decision.action,
            "incident": msgspec.Raw(messages.encode(incident)) if incident else None,
            "judged": context.judged,
            "node": msgspec.to_builtins(node, builtin_types=()) if node else None,
            "jobs": [msgspec.to_builtins(job) for job in jobs if job],
            "ledger": [one for one in context.ledger.lines.values() if one.incident == decision.action.incident],
            "at_ms": context.now_ms,
        }
    )


class Saving:
    """One file being written in a thread of its own, as a disk that hangs must not hold up the rest."""

    def __init__(self, folder: Path, action: Action, data: bytes) -> None:
        self.path = folder / UNFIT.sub("_", action.incident)[:120] / f"{UNFIT.sub('_', action.id)[:64]}.json"
        self.error: str | None = None  # None: not over; "": written
        self._data = data
        threading.Thread(target=self._write, name="evidence", daemon=True).start()

    def _write(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part = self.path.with_suffix(".part")
            with part.open("wb") as file:
                file.write(self._data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
            self.error = ""
        except OSError as error:
            self.error = f"{self.path}: {error.strerror or error}"
