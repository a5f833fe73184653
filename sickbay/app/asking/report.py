"""`sickbay report`: the story of one incident as JSON, as text for a terminal, and as the page of `diagnose --html`."""

import sys
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from dashboards.report import Done, labels, render
from dashboards.report import word as worded
from diagnosis.explain import says
from sickbay import __version__
from sickbay.actions import Action
from sickbay.answer import Answer, as_dict, event_rows, incident_row
from sickbay.app.answering.labels import labels as terminal_labels
from sickbay.app.answering.terminal import print_incident
from sickbay.app.asking.story import Story
from sickbay.clock import rfc3339
from sickbay.plain import plain

SCHEMA = "sickbay.report/1"
_COLOURS = {"onset": "bold red", "incident": "bold", "closed": "green", "outcome": "green"}


def answer_of(told: Story, lang: str) -> Answer:
    """The incident in the contract of `diagnose`."""
    rows, left_out = event_rows([one.message for one in told.events])
    row = incident_row(told.incident, lambda evidence: says(evidence, lang))
    return Answer(events=rows, omitted={"events": left_out}, incidents=(row,))


def actions_of(told: Story) -> list[Action]:
    """Each action as it stands now, in the order in which they were first proposed."""
    newest: dict[str, Action] = {}
    for one in told.actions:
        newest[one.message.id] = one.message
    return list(newest.values())


def as_json(told: Story, lang: str) -> bytes:
    """The story for scripts: times are RFC 3339 UTC or null."""
    answer = answer_of(told, lang)
    story: dict[str, Any] = {
        "schema": SCHEMA,
        "state": told.incident.state,
        "merged_into": told.incident.merged_into or None,
        "incident": answer.incidents[0],
        "timeline": [{"at": rfc3339(row.at_ms), "what": row.what, "detail": row.detail} for row in told.rows()],
        "actions": [msgspec.to_builtins(action) for action in actions_of(told)],
        "outcomes": [msgspec.to_builtins(one.message) for one in told.outcomes],
        "cost": told.cost(),
        "events": answer.events,
    }
    return msgspec.json.encode(story)


def page(told: Story, lang: str) -> str:
    """The story as one self-contained page."""
    done = Done(told.rows(), actions_of(told), told.cost(), told.incident.state)
    title = labels(lang)["story_title"]
    answer = as_dict(answer_of(told, lang))
    return render(answer, lang=lang, title=title, version=__version__, done={told.incident.id: done})


def write_page(path: Path, told: Story, lang: str) -> None:
    """Writes the page. Raises OSError where the file cannot be written."""
    path.write_text(page(told, lang), encoding="utf-8", errors="replace")


def print_story(told: Story, lang: str, console: Console | None = None) -> None:
    """The verdict as `diagnose` prints it, then the time line and what it took."""
    words = labels(lang)
    out = console or Console(file=sys.stdout, highlight=False, soft_wrap=True, emoji=False)
    print_incident(out, answer_of(told, lang).incidents[0], terminal_labels(lang))
    rows = told.rows()
    out.print(Text(f"{words['story']}  ({words['state']}: {worded(told.incident.state, words)})", style="bold"))
    first_ms = rows[0].at_ms if rows else 0
    for row in rows:
        at = (rfc3339(row.at_ms) or "")[:23].replace("T", " ")
        line = f"  {at}  {(row.at_ms - first_ms) / 1000:>+9.1f} s  {worded(row.what, words)}  {plain(row.detail)[:300]}"
        out.print(Text(line.rstrip(), style=_COLOURS.get(row.what, "")))
    if not told.actions:
        out.print(Text(f"  {words['nothing_done']}", style="yellow"))
    took = told.cost()
    if took.jobs:
        said = f"{words['jobs']} {len(took.jobs)}, {words['ranks']} {took.ranks or '?'}"
        lost = words["not_running"] if took.open_jobs else words["not_told"]
        for key, seconds in (("card_seconds", took.card_seconds), ("host_seconds", took.host_seconds)):
            said += f"; {words[key]}: {lost if seconds is None else f'{seconds:.0f}'}"
        out.print(Text(f"{words['cost']}: {said}"))
