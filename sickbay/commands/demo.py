"""`sickbay demo`: watch a small simulated cluster break, and see whether the verdicts are right."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from sickbay.app.demonstrating.demo import Outcome
    from sickbay.messages import Incident

REPORT_NEEDS = ("jinja2", "altair", "vl_convert")


def demo(
    *,
    seed: Annotated[int, Parameter(help="Draws names, faults, places and times.")] = 7,
    report: Annotated[Path | None, Parameter(help="Write an HTML report to this file.")] = None,
    json: Annotated[bool, Parameter(help="JSON on standard output.", negative="")] = False,
    lang: Annotated[Literal["en", "zh"], Parameter(help="Language of the sentences.")] = "en",
) -> int:
    """Watch a small simulated cluster break in three ways, with one decoy, and be diagnosed.

    64 accelerators train on the embedded log; simulated time runs much faster than real time. Exit status: 0 all
    three verdicts are right and the decoy was left alone, 1 not so.
    """
    from sickbay.app.demonstrating.demo import UNTIL_S, run

    if problem := _problem(seed, report):
        print(f"sickbay demo: {problem}", file=sys.stderr)
        return 2
    if not json:
        print(f"Seed {seed}: 8 simulated hosts with 8 accelerators each run 4 training jobs for {UNTIL_S} s.")
        print("Three parts will break, and one thing will only look like it.\n")
    with _progress(UNTIL_S) as advance:
        outcome = run(seed, lang=lang, say=(lambda at_s, one: None) if json else _say, progress=advance)
    if report:
        from sickbay.app.demonstrating.demo_report import write

        write(report, outcome, lang)
        print(f"report: {report}", file=sys.stderr)
    if json:
        from sickbay.app.demonstrating.demo_report import as_json

        sys.stdout.buffer.write(as_json(outcome) + b"\n")
        sys.stdout.buffer.flush()
    else:
        _end(outcome)
    return 0 if outcome.right else 1


def _problem(seed: int, report: Path | None) -> str:
    """What is wrong with the arguments: known before the demo begins, not after it."""
    if seed < 0:
        return "--seed must not be negative"
    if report and not report.absolute().parent.is_dir():
        return f"--report {report}: there is no folder {report.absolute().parent}"
    missing = [name for name in REPORT_NEEDS if report and find_spec(name) is None]
    return f"--report needs {', '.join(missing)}: pip install 'sickbay[report]'" if missing else ""


def _say(at_s: int, incident: "Incident") -> None:
    from sickbay.plain import plain

    sure = f"P {incident.probability:.2f}"
    head = "closed" if incident.state == "closed" else incident.verdict.upper()
    print(f"t={at_s:4d}s  {head:10}  {incident.component}  {incident.fault}  {sure}  -> {incident.action}", flush=True)
    if incident.state == "open":
        print(f"          {plain(incident.summary)}", flush=True)


@contextlib.contextmanager
def _progress(until_s: int) -> Iterator[Callable[[int], None]]:
    """A bar of simulated time on a terminal's standard error, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda at_s: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("simulated {task.completed:.0f} of {task.total:.0f} s"), BarColumn(), TimeElapsedColumn())
    # What is printed meanwhile must stay on standard output: the bar may catch it only where both are the terminal.
    console, same = Console(stderr=True), sys.stdout.isatty()
    with Progress(*columns, console=console, transient=True, redirect_stdout=same) as bar:
        task = bar.add_task("", total=until_s)
        yield lambda at_s: bar.update(task, completed=at_s)


def _end(outcome: "Outcome") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title="What happened, and what was said", title_justify="left")
    for column in ("at", "what happened", "where", "said", "after", "right"):
        table.add_column(column, overflow="fold")
    for one in sorted(outcome.scores, key=lambda score: (score.expectation.decoy, score.expectation.at_ms)):
        expected, incident = one.expectation, one.incident
        at_s = (expected.at_ms - outcome.scenario.start_ms) // 1000
        where = sorted(expected.components, key=lambda name: not name.startswith("accelerator:"))[:1] or ["(a decoy)"]
        after = f"{outcome.found_s[incident.id] - at_s} s" if incident and incident.id in outcome.found_s else ""
        right = Text("yes", "green") if one.right else Text(f"NO: {one.why}", "bold red")
        table.add_row(f"{at_s} s", expected.title, where[0], _said(incident, where[0]), after, right)
    for incident in outcome.extra:
        table.add_row("", "nothing", "", _said(incident, ""), "", Text("NO: nothing happened there", "bold red"))
    console = Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else 140)
    console.print()
    console.print(table)
    good = sum(score.right for score in outcome.scores)
    print(
        f"{good} of {len(outcome.scores)} right, {len(outcome.extra)} unfounded. "
        f"{len(outcome.scenario.cluster.cards)} accelerators, "
        f"{outcome.records} records of telemetry through the log, ticks included, "
        f"{outcome.simulated_s} s of simulated time in {outcome.real_s:.1f} s."
    )


def _said(incident: "Incident | None", where: str) -> str:
    """The verdict in short; the component only where it is not the one in the row already."""
    if incident is None:
        return "nothing"
    part = "" if incident.component == where else f" {incident.component}"
    return f"{incident.verdict}{part}: {incident.fault} -> {incident.action}"
