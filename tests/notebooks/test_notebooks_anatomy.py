"""The notebook runs on an archive and says what the archive says."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import nbclient
import nbformat
import polars as pl
import pytest

from sickbay import messages
from sickbay.history import History
from sickbay.history import told as told_messages
from sickbay.log.memory import MemoryLog
from sickbay.messages import Action, Incident, Placement, Severity, Verdict
from streams.archive import Archive
from tests.notebooks.night import AGAIN_MS, Night, night

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SECONDS = 120  # a cell may take, on a loaded machine


def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks_build", NOTEBOOKS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def executed(archive: Path, incident: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The outputs of all cells of the committed notebook, in order."""
    monkeypatch.setenv("SICKBAY_ARCHIVE", str(archive))
    monkeypatch.setenv("SICKBAY_INCIDENT", incident)
    monkeypatch.setenv("PYTHONPATH", str(NOTEBOOKS.parent))
    reading: Any = nbformat
    notebook = reading.read(NOTEBOOKS / "anatomy_of_an_incident.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=SECONDS, kernel_name="python3").execute()
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def summary(outputs: list[Any]) -> dict[str, Any]:
    """What the last cell prints."""
    assert not [output for output in outputs if output.output_type == "error"]
    found: dict[str, Any] = json.loads(outputs[-1].text)
    return found


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Night:
    return night(tmp_path_factory.mktemp("archive"))


def test_the_committed_notebooks_are_those_of_their_files() -> None:
    built = builder()
    assert built.sources()
    for source in built.sources():
        assert source.with_suffix(".ipynb").read_text(encoding="utf-8") == built.written(source), "run: make notebook"


@pytest.mark.slow
def test_the_notebook_tells_the_night_in_the_archives_own_numbers(lost: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = executed(lost.archive, lost.incident.id, monkeypatch)
    told, history, onset = summary(outputs), History(lost.archive), lost.incident.onset_ms or 0
    assert (told["incident"], told["component"]) == (lost.incident.id, lost.incident.component)
    assert told["fault"] == "accelerator_off_bus"
    assert told["onset_to_detected_s"] == ((lost.incident.detected_ms or 0) - onset) / 1000
    assert (told["onset_to_hold_s"], told["onset_to_requeue_s"], told["onset_to_release_s"]) == (6.4, 20.0, 90.0)
    assert told["changes_in_ledger"] == history.scan("actions").collect().height
    newest = history.incidents().filter(pl.col("id") == lost.incident.id).collect().to_dicts()[0]
    assert told["claims"] == len(json.loads(newest["evidence"])) + len(json.loads(newest["against"]))
    assert told["events"] >= 1
    first = told_messages(history.scan("placements").sort("offset"), Placement)[0].message
    ranks = len(first.ranks)
    assert told["accelerator_hours"] == round(ranks * AGAIN_MS / 3_600_000, 3)
    pictures = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert sum(page.count("<svg") for page in pictures) == 2


@pytest.mark.slow
def test_the_notebook_tells_an_incident_of_which_little_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MemoryLog()
    bare = Incident(id="i1", verdict=Verdict.UNKNOWN, component="job:7", fault="job_hang", probability=0.4,
                    severity=Severity.ERROR, action=Action.WATCH)  # fmt: skip
    log.appender().append("sickbay.incidents.v1", b"i1", messages.encode(bare))
    Archive(log, tmp_path).drain()
    told = summary(executed(tmp_path, "", monkeypatch))
    assert (told["verdict"], told["claims"], told["accelerator_hours"]) == ("unknown", 0, None)
    assert told["onset_to_hold_s"] is None
