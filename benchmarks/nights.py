"""The nights on call, all of them: generated from their files, run through the live folds in memory, and judged.

`python -m benchmarks nights`: a row a night; `--night N` with what was told; `--write` puts the table into the docs.
"""

import argparse
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.accuracy.feed import Senders
from benchmarks.accuracy.pipeline import Delays, Pipeline
from benchmarks.accuracy.window import fed, modules
from collectors.identity import Names
from sickbay.app.answering.offline import Options
from sickbay.app.answering.offline import run as diagnose
from simulator.output.files import write as write_files
from simulator.parts import facility
from simulator.scenario import Scenario
from simulator.scenario_file import load, read, truth_of
from simulator.scenario_keys import Night
from simulator.truth.plan import Marks, Told, marks

FOLDER = Path(__file__).parent.parent / "simulator" / "nights"
DOCS = Path(__file__).parent.parent / "docs" / "nights.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
SEED = 11


@dataclass(frozen=True, slots=True)
class Ran:
    """One night as it went."""

    path: Path
    night: Night
    told: tuple[Told, ...]
    marks: Marks
    cpu_s: float
    unparsed: int = 0


def files() -> list[Path]:
    """The nights' files, in order."""
    return sorted(FOLDER.glob("[0-9][0-9]-*.toml"))


def run(path: Path, seed: int = SEED) -> Ran:
    """Generates a night and lets the pipeline see it second by second. Raises ValueError."""
    began = time.process_time()
    night, made = read(path), load(path, seed=seed)
    pipeline = Pipeline(Names(made.cluster.identities()), Delays())
    told = tuple(_through(made, pipeline, night.seconds))
    cpu_s = time.process_time() - began
    return Ran(path, night, told, marks(truth_of(night, made), told), cpu_s, pipeline.unparsed)


def run_raw(path: Path, folder: Path, seed: int = SEED) -> Ran:
    """The night as an operator's files, in an empty folder, and what `sickbay diagnose` says of them."""
    began = time.process_time()
    night, made = read(path), load(path, seed=seed)
    result = diagnose([write_files(made, folder, until_s=night.seconds, cables=True)], Options())
    told = tuple(Told(incident) for incident in result.incidents)
    unparsed = sum(one.unparsed for one in result.answer.inputs)
    return Ran(path, night, told, marks(truth_of(night, made), told), time.process_time() - began, unparsed)


def _through(made: Scenario, pipeline: Pipeline, until_s: int) -> Iterator[Told]:
    """What is told of the night, and when."""
    cluster, start_ms = made.cluster, made.start_ms
    edges = [*cluster.edges(), *facility.edges(cluster, made.feeds)]
    pipeline.facts(edges, [*cluster.identities(), *modules(cluster)], start_ms)
    senders = Senders(cluster)
    for at_s, second in enumerate(made.seconds(until_s)):
        for said in fed(pipeline, senders, second, at_s, start_ms):
            yield Told(said.incident, (said.at_ms - start_ms) / 1000)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of its own."""
    parser.add_argument("--night", type=int, help="only this one, with what was told")
    parser.add_argument("--seed", type=int, default=SEED, help="of names, places and noise")
    parser.add_argument("--raw", action="store_true", help="as files through `sickbay diagnose`, not through the folds")
    parser.add_argument("--write", action="store_true", help="put the table into docs/nights.md")


def measure(
    size: int | None, night: int | None = None, seed: int = SEED, raw: bool = False, write: bool = False
) -> dict[str, Any]:
    """A row for every night, and how many are right. `size`: the first so many."""
    ran = []
    for path in files()[:size]:
        if night is None or path.name.startswith(f"{night:02d}-"):
            ran.append(_raw(path, seed) if raw else run(path, seed))
            print(row(ran[-1]), flush=True)
    for text in (text for one in ran for text in _details(one) if night is not None):
        print(text)
    if write and night is None and not raw:
        write_table(ran)
    return {
        "nights": len(ran), "diagnosed": sum(one.marks.diagnosed for one in ran),
        "right": sum(one.marks.right for one in ran), "with forbidden acts": sum(bool(one.marks.harm) for one in ran),
        "conditions": {"seed": seed, "cpu_s": round(sum(one.cpu_s for one in ran), 1)},
    }  # fmt: skip


def _raw(path: Path, seed: int) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        return run_raw(path, Path(folder) / "night", seed)


def _details(ran: Ran) -> Iterator[str]:
    for one in ran.told:
        incident, plan = one.incident, ", ".join(f"{s.do} {s.target} {s.when}" for s in one.incident.plan)
        yield f"{one.at_s or 0:8} {incident.id[:6]} {incident.state} {incident.verdict} {incident.component}"
        yield f"         {incident.fault} p {incident.probability:.2f} {incident.action}: {plan}"
    yield f"unparsed lines: {ran.unparsed}"


HEAD = ("| Night | Tier | Verdict | Part | Class | In time | Plan | Forbidden | Otherwise | Later stages |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")  # fmt: skip


def row(ran: Ran) -> str:
    """One line of the table."""
    found, night = ran.marks, ran.night
    plan = _sign(found.plan) + (": no " + ", ".join(found.missing) if found.missing else "")
    cells = (
        f"{night.night} · {night.title}", str(night.tier), _sign(found.verdict), _sign(found.component),
        _sign(found.fault), _sign(found.in_time), plan, "; ".join(found.harm[:3]) or "none",
        "; ".join(found.extra[:2]) or "–", str(len(night.duty)),
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _sign(mark: bool | None) -> str:
    return "–" if mark is None else "yes" if mark else "**no**"


def write_table(ran: Sequence[Ran]) -> None:
    """The table between its marks in the docs."""
    before, _, rest = DOCS.read_text(encoding="utf-8").partition(BEGIN)
    text = (
        f"{before}{BEGIN}\n{summary(ran)}\n\n"
        + "\n".join([*HEAD, *map(row, ran)])
        + "\n"
        + END
        + rest.partition(END)[2]
    )
    DOCS.write_text(text, encoding="utf-8")


def summary(ran: Iterable[Ran]) -> str:
    """Which are right today."""
    each = list(ran)
    diagnosed = ", ".join(str(one.night.night) for one in each if one.marks.diagnosed)
    right = ", ".join(str(one.night.night) for one in each if one.marks.right)
    return f"Diagnosed rightly: {diagnosed}.\n\nWith the right plan: {right}."
