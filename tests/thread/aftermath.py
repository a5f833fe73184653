"""What the thread leaves behind: report, board with its queries run, archive, notebook, the logs of the processes."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

from sickbay.history import History
from tests.services import prometheus
from tests.thread.place import Place
from tests.thread.story import Story

FORMAT: Any = nbformat  # has no types
ROOT = Path(__file__).resolve().parents[2]
REPORTED = ("incident", "drain_host", "requeue", "release")


@contextmanager
def scraped(place: Place, folder: Path) -> Iterator[str]:
    """A real Prometheus that scrapes every process of the place; its address."""
    targets = [f"127.0.0.1:{place.ports[name]}" for name in place.names]
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "900ms"},
        "scrape_configs": [{"job_name": "sickbay", "static_configs": [{"targets": targets}]}],
    }
    with prometheus.serving(json.dumps(config), folder) as url:
        yield url


def keep(story: Story, out: Path, prometheus_url: str) -> None:
    """Write everything below `out`, checking each on the way."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    place = story.place
    (out / "timeline.txt").write_text("\n".join(story.shown()) + "\n")
    place.sickbay("report", story.incident, f"--html={out / 'report.html'}")
    told = place.sickbay("report", story.incident)
    assert all(word in told for word in REPORTED), told
    board(place, out, prometheus_url)
    archived(story)
    shutil.copytree(place.folder / "archive", out / "archive")
    anatomy(story, out)
    for log in place.folder.glob("*.log"):
        shutil.copy(log, out)


def board(place: Place, out: Path, prometheus_url: str) -> None:
    """Every query of the board is answered by the Prometheus that watched, the ones of this story with data."""
    place.sickbay("dashboards", "build", f"--out={out / 'board'}")
    answer = json.loads(place.sickbay("dashboards", "check", f"--prometheus={prometheus_url}", "--json"))
    (out / "board" / "queries.json").write_text(json.dumps(answer, indent=1))
    assert not any(answer["faults"].values()), answer["faults"]


def anatomy(story: Story, out: Path) -> None:
    """The notebook, executed on the archive; its pictures as files."""
    notebook = FORMAT.read(ROOT / "notebooks" / "anatomy_of_an_incident.ipynb", as_version=4)
    told = {"SICKBAY_ARCHIVE": str((out / "archive").resolve()), "SICKBAY_INCIDENT": story.incident}
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}},
        config=Config({"KernelManager": {"transport": "ipc"}}),
    )  # fmt: skip
    client.execute(env={**os.environ, **told})
    FORMAT.write(notebook, out / "anatomy_of_an_incident.ipynb")
    drawn = [output["data"]["text/html"] for cell in notebook.cells for output in cell.get("outputs", ())
             if "<svg" in output.get("data", {}).get("text/html", "")]  # fmt: skip
    pictures = re.findall(r"<svg.*?</svg>", "".join(drawn), re.DOTALL)
    assert pictures, "the notebook drew nothing"
    for number, picture in enumerate(pictures, 1):
        (out / f"picture-{number}.svg").write_text(picture)


def archived(story: Story) -> None:
    """The archive tells of the same incident and the same actions as the log."""
    history = History(story.place.folder / "archive")
    incidents = history.incidents().collect()
    assert story.incident in incidents["id"].to_list()
    done = history.actions().collect()
    assert {"drain_host", "requeue", "run_test", "release"} <= set(done["do"].to_list())
    assert history.features("accelerator").collect().height > 0
    assert history.events().collect().height > 0
