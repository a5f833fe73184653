"""The answer for people at a terminal: what is wrong, how sure, why, what to do, which lines.

All text of sources is hostile: control and direction characters are shown as such, and nothing is read as markup.
"""

import sys
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from sickbay.answer import Answer, EventRow, IncidentRow, InputRow
from sickbay.app.answering.labels import labels
from sickbay.components import called
from sickbay.plain import plain

_COLOURS = {"fatal": "bold red", "error": "red", "warning": "yellow", "info": "dim"}
MAX_LINES = 8  # evidence lines an incident shows; the JSON has all


class _Out(Console):
    """A console whose reader may go away: the caller decides what that means, rich would end the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def print_answer(answer: Answer, lang: str = "en", console: Console | None = None) -> None:
    """Prints the answer: incidents first, then inputs that need a look. Plain where the output is no terminal."""
    out = console or _Out(file=sys.stdout, highlight=False, soft_wrap=True, emoji=False)
    words = labels(lang)
    for incident in answer.incidents:
        print_incident(out, incident, words)
    if not answer.incidents:
        out.print(_nothing(answer, words))
        for event in worst(answer.events):
            out.print(
                Text(f"  {_when(event.at)}{plain(called(event.component))}  {event.code or event.kind}  x{event.count}")
            )
    if any("~" in incident.component.partition(":")[2][:1] for incident in answer.incidents):
        out.print(Text(words["name_host"], style="dim"))
    _inputs(out, answer, words)


def _nothing(answer: Answer, words: dict[str, str]) -> Text:
    """What no incident means: silence of what was not understood must not look like health."""
    if not any(row.kind not in ("unknown", "empty") for row in answer.inputs):
        return Text(words["no_verdict"], style="bold yellow")
    if any(row.kind == "unknown" or row.unparsed for row in answer.inputs):
        return Text(words["no_incident_known"], style="bold yellow")
    return Text(words["no_incident"], style="bold green")


def worst(events: tuple[EventRow, ...], count: int = 5) -> list[EventRow]:
    """The worst few events: what was seen although nothing needs doing."""
    order = ("fatal", "error", "warning", "info")
    return sorted(events, key=lambda event: order.index(event.severity))[:count]


def print_incident(out: Console, incident: IncidentRow, words: Mapping[str, str]) -> None:
    """One incident: what, how sure, what to do, since when, why, and what speaks against it."""
    sure = f"{words['sure']} {incident.probability:.0%}"
    head = f"{incident.verdict.upper()}  {plain(called(incident.component))}  {incident.fault}  {sure}"
    out.print(Text(head, style=_COLOURS[incident.severity]))
    out.print(Text(f"  {plain(incident.summary)}"))
    out.print(Text(f"  {words['do']}: {incident.action}", style="bold"))
    for number, step in enumerate(incident.plan, 1):
        approval = f" ({words['approval']})" if step.needs_approval else ""
        line = f"    {number}. {step.do} {plain(called(step.target))} [{step.when}]{approval} {plain(step.why)}"
        out.print(Text(line.rstrip()))
    out.print(Text(f"  {words['onset']}: {incident.onset or words['unknown_time']}"))
    for title, rows in ((words["because"], incident.evidence), (words["against"], incident.against)):
        if rows:
            out.print(Text(f"  {title}:"))
        for row in rows[:MAX_LINES]:
            where = f"  ({plain(row.path)}:{row.line})" if row.path else ""
            out.print(Text(f"    - {plain(row.says)}{where}"))
        if len(rows) > MAX_LINES:
            out.print(Text(f"    … {len(rows) - MAX_LINES} {words['more']}", style="dim"))
    rivals = [f"{plain(called(suspect.component))} {suspect.probability:.0%}" for suspect in incident.suspects[1:4]]
    if rivals:
        out.print(Text(f"  {words['rivals']}: {', '.join(rivals)}"))
    if incident.test:
        out.print(Text(f"  {words['test']}: {incident.test}"))
    out.print()


def _inputs(out: Console, answer: Answer, words: dict[str, str]) -> None:
    understood = [row for row in answer.inputs if _fine(row)]
    records = sum(row.records for row in answer.inputs)
    out.print(
        Text(f"{len(understood)}/{len(answer.inputs)} {words['inputs']}, {records} {words['records']}", style="dim")
    )
    for row in answer.inputs:
        if not _fine(row):
            unread = f", {row.unparsed} {words['unparsed']}" if row.unparsed else ""
            note = f": {plain(row.note)}" if row.note else ""
            out.print(Text(f"  {plain(row.path)}  {row.kind}{unread}{note}", style="yellow"))
    if answer.omitted.get("events"):
        out.print(Text(f"  {answer.omitted['events']} {words['omitted']}", style="yellow"))


def _fine(row: InputRow) -> bool:
    return row.kind != "unknown" and not row.unparsed and not row.note


def _when(at: str | None) -> str:
    return f"{at}  " if at else ""
