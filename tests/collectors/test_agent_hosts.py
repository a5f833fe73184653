"""Recorded hosts and their golden answers: everything that an agent tells of a folder that looks like a host.

A new one: copy a host's files below `hosts/NAME/root` or list them in `root.txt` (see recorded.py), its exporters'
answers to `exporters/*.prom`, its tools' to `tools.txt` and its driver's to `nvml.jsonl`, and run the test once with
GOLDEN=write; then read what it wrote.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collectors.agent.catalogue import collectors_of
from collectors.agent.composing import Composer, Work
from collectors.agent.hosting import host_of
from collectors.host import accelerator_exporter, accelerator_nvml, tool
from sickbay import layouts, wire
from sickbay.config import parse
from sickbay.frames import Matrix, samples_of
from sickbay.schema import TABLES, Samples
from sickbay.seal import opened
from sickbay.topics import SCHEMAS
from streams import windows
from tests.collectors.recorded import RecordedLibrary, answers, lay_out

HOSTS = sorted((Path(__file__).parent / "hosts").iterdir())
START_MS = 1_790_000_000_000  # 2026-09-21 14:13:20 UTC: the agent begins
AFTER_MS = (0, 1_500, 11_500)  # it reads then


def root_of(folder: Path, scratch: Path) -> Path:
    """What the host's agent takes for `/`."""
    listing = folder / "root.txt"
    return lay_out(listing.read_text(encoding="utf-8"), scratch) if listing.exists() else folder / "root"


def everything(folder: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    """What the agent of the host puts into its spool."""
    tools = folder / "tools.txt"
    monkeypatch.setattr(tool, "ask", answers(tools.read_text(encoding="utf-8") if tools.exists() else ""))
    library = folder / "nvml.jsonl"
    told_by_driver = library.read_text(encoding="utf-8") if library.exists() else ""
    monkeypatch.setattr(accelerator_nvml, "child", lambda: RecordedLibrary(told_by_driver))
    pages = {f"/{path.stem}": path.read_bytes() for path in sorted((folder / "exporters").glob("*.prom"))}
    monkeypatch.setattr(accelerator_exporter, "get", lambda address, *_: pages[address.path])
    monkeypatch.setattr("collectors.host.job_log.STALE_MS", 1 << 60)  # a checkout's files are of any age
    urls = json.dumps([f"http://127.0.0.1{path}" for path in pages])
    told = f'[agent]\nroot = "{root_of(folder, scratch)}"\nexporters = {urls}\njob_logs = ["scratch/slurm-*.out"]\n'
    host = host_of(parse(told.encode(), "test"), lambda source: None)
    composer, work, sources = Composer(host.name, 5.0), Work(), collectors_of(host)
    for now_ms in (START_MS + after for after in AFTER_MS):
        for source in sources:
            composer.take(source.name, source.collect(now_ms), now_ms, work)
        composer.tell_losses([], now_ms, work)
    for source in (one for one in sources if one.name.startswith("optic_")):  # one question at a time
        for now_ms in range(START_MS + AFTER_MS[-1], START_MS + 60_000, 1_000):
            composer.take(source.name, source.collect(now_ms), now_ms, work)
    composer.frame(START_MS + AFTER_MS[-1], work)
    for source in sources:
        source.close()
    return work


def told_by(folder: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Its records, one a line, with the host's own paths: where it is recorded stands in no golden answer."""
    lines = lines_of(everything(folder, scratch, monkeypatch))
    return [line.replace(str(scratch), "").replace(str(folder / "root"), "") for line in lines]


def lines_of(work: Work) -> Iterator[str]:
    """One line of JSON for each record, a frame table by table."""
    schemas = layouts.Schemas()
    for fact in work.facts:
        if fact.topic == SCHEMAS:
            schemas.learn(layouts.decoded(fact.payload))
        else:
            yield json.dumps({"topic": fact.topic, "key": fact.key.decode(), **json.loads(fact.payload)})
    for number, draft in enumerate(work.drafts):
        payload = draft.build(1, number)
        if payload.startswith(wire.MAGIC):
            frame = wire.decode(payload, schemas)
            yield from (json.dumps({"topic": draft.topic, "host": frame.host, **table(one)}) for one in frame.tables)
        else:
            yield json.dumps({"topic": draft.topic, **json.loads(opened(payload).payload)})


def table(matrix: Matrix) -> dict[str, Any]:
    samples = samples_of(matrix)
    values = {name: [None if one != one else one for one in of.tolist()] for name, of in samples.values.items()}
    return {"table": samples.table, "component": samples.component, "at_ms": samples.at_ms.tolist(), **values}


@pytest.mark.parametrize("folder", HOSTS, ids=lambda path: path.name)
def test_a_recorded_host_gives_its_golden_answer(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = told_by(folder, tmp_path, monkeypatch)
    golden = folder / "golden.jsonl"
    if os.environ.get("GOLDEN") == "write":
        golden.write_text("".join(f"{line}\n" for line in found), encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8").splitlines()


def test_no_answer_tells_where_the_host_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "root.txt").write_text("etc/hostname: n9\n")  # and no dev/kmsg: that is told with its path
    found = told_by(tmp_path / "new", tmp_path / "scratch", monkeypatch)
    blind = [json.loads(line)["message"] for line in found if '"monitor.blind"' in line]
    assert any("/dev/kmsg" in message for message in blind)
    assert not any(str(tmp_path) in line for line in found)


@pytest.mark.slow
def test_windows_take_every_column_that_a_recorded_host_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = next(one for one in HOSTS if one.name == "eight-accelerators")
    told = [json.loads(line) for line in lines_of(everything(folder, tmp_path, monkeypatch)) if '"table"' in line]
    samples = [
        Samples(
            one["table"],
            one["component"],
            np.array(one["at_ms"], np.int64),
            {name: np.array(one[name], np.float64) for name in TABLES[one["table"]].names if name in one},
        )
        for one in told
    ]
    frames = windows.join(samples)
    assert frames.keys() == {"accelerator", "filesystem", "host", "optic", "port"}
    features = {table: windows.features(frame, TABLES[table]) for table, frame in frames.items()}
    assert features["accelerator"]["bus_width_lanes"].min() == 8.0
    assert features["port"]["symbol_errors_total__increase"].drop_nulls().to_list()  # of those that can count
    assert features["filesystem"]["requests_total__increase"].max() == 0.0
