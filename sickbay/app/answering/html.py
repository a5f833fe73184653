"""`diagnose --html`: the answer as one self-contained page, with pictures of what the telemetry showed."""

from pathlib import Path

from dashboards.report import render
from sickbay import __version__
from sickbay.answer import as_dict
from sickbay.app.answering.offline import Result
from sickbay.app.answering.plots import plots_of


def write_report(path: Path, result: Result, lang: str) -> None:
    """Writes the page. Raises OSError where the file cannot be written."""
    plots = [plot for incident in result.incidents for plot in plots_of(incident, result.case)]
    page = render(as_dict(result.answer), lang=lang, plots=plots, version=__version__)
    path.write_text(page, encoding="utf-8", errors="replace")
