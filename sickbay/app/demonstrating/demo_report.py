"""What the demo leaves behind: the JSON of its outcome, and the same HTML report that `diagnose --html` writes."""

from pathlib import Path
from typing import Any

import msgspec

from sickbay import __version__
from sickbay.answer import Answer, InputRow, as_dict, event_rows, incident_row
from sickbay.app.demonstrating.demo import Outcome
from sickbay.clock import rfc3339
from sickbay.messages import Incident


def answer_of(outcome: Outcome, lang: str) -> Answer:
    """The demo's findings in the contract of `diagnose`."""
    from diagnosis.explain import explained, says

    rows, left_out = event_rows(outcome.case.events)
    source = InputRow(
        path=f"simulated cluster, seed {outcome.seed}", kind="simulation", records=outcome.records,
        unparsed=outcome.unparsed, clock="absolute",
    )  # fmt: skip
    incidents = tuple(
        incident_row(explained(one, lang), lambda evidence: says(evidence, lang)) for one in _current(outcome)
    )
    return Answer(inputs=(source,), events=rows, omitted={"events": left_out}, incidents=incidents)


def _current(outcome: Outcome) -> list[Incident]:
    return [one for one in outcome.incidents if one.state != "merged"]


def write(path: Path, outcome: Outcome, lang: str) -> None:
    """Writes the HTML report."""
    from dashboards.report import render
    from sickbay.app.answering.plots import plots_of

    plots = [plot for incident in _current(outcome) for plot in plots_of(incident, outcome.case)]
    page = render(as_dict(answer_of(outcome, lang)), lang=lang, plots=plots, version=__version__)
    path.write_text(page, encoding="utf-8", errors="replace")


def as_json(outcome: Outcome) -> bytes:
    """The outcome: what happened, what was said, what was right."""
    start = outcome.scenario.start_ms
    scores = [
        {
            "name": one.expectation.name,
            "decoy": one.expectation.decoy,
            "at": rfc3339(one.expectation.at_ms),
            "components": sorted(one.expectation.components),
            "right": one.right,
            "why": one.why,
            "incident": _row(one.incident),
            "after_s": outcome.found_s[one.incident.id] - (one.expectation.at_ms - start) // 1000
            if one.incident and one.incident.id in outcome.found_s
            else None,
        }
        for one in outcome.scores
    ]
    return msgspec.json.encode(
        {
            "schema": "sickbay.demo/1",
            "seed": outcome.seed,
            "accelerators": len(outcome.scenario.cluster.cards),
            "simulated_s": outcome.simulated_s,
            "real_s": round(outcome.real_s, 2),
            "right": outcome.right,
            "faults": [score for score in scores if not score["decoy"]],
            "decoys": [score for score in scores if score["decoy"]],
            "unfounded": [_row(incident) for incident in outcome.extra],
        }
    )


def _row(incident: Incident | None) -> dict[str, Any] | None:
    if incident is None:
        return None
    return {
        "id": incident.id,
        "verdict": incident.verdict,
        "component": incident.component,
        "fault": incident.fault,
        "probability": incident.probability,
        "action": incident.action,
        "state": incident.state,
        "summary": incident.summary,
    }
