"""A storm over a site, the calm after it, and the judgement: everything that the log and the archive hold is right."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sickbay.admission import Admission
from sickbay.app.archiving.archive_frames import ArchiveFrames
from sickbay.app.diagnosing.diagnoser import GROUP, newest
from sickbay.app.diagnosing.diagnosis_fold import WATCHED
from sickbay.app.diagnosing.explicit import GROUP as EXPLICIT
from sickbay.app.running.live import WINDOWS_GROUP
from sickbay.log import Log, tasks_of
from sickbay.selfmetrics import SelfMetrics
from sickbay.topics import CONTROL, EVENTS, EVIDENCE, FEATURES, INCIDENTS, PLACEMENT, TELEMETRY, TOPOLOGY
from streams.archive import Archive
from streams.archive_rows import Reading
from streams.runner import read_mark
from tests.chaos import naive, oracle
from tests.chaos.child import serving
from tests.chaos.site import KEY, LATENESS_MS, WIDTH_MS, Site, Speaker
from tests.chaos.storm import Member, Storm
from tests.streams.archive_kit import expected as expected_rows
from tests.streams.archive_kit import stored

SETTINGS = """
[log]
{log}
[windows]
width_s = {width}
lateness_s = {lateness}
[security]
key_file = "key"
require_signed = true
[archive]
path = "archive"
every_s = 1.0
"""
TRUST = Admission(KEY, True)
KEPT = (FEATURES, EVENTS, PLACEMENT, TOPOLOGY, EVIDENCE, INCIDENTS, CONTROL)  # what the archive holds of a site
SETTLED_S = 120.0


def prepared(folder: Path, log: str) -> None:
    """The settings of a site."""
    told = SETTINGS.format(log=log, width=WIDTH_MS // 1000, lateness=LATENESS_MS // 1000)
    (folder / "sickbay.toml").write_text(told)
    (folder / "key").write_text(KEY.hex())


def seeded(given: str) -> int:
    """The seed of this run: `CHAOS_SEED`, else a new one."""
    return int(given) if given else random.SystemRandom().randrange(10**6)


@contextmanager
def storm(folder: Path, engine: str, members: list[Member], seed: int, lives_s: tuple[float, float]) -> Iterator[Storm]:
    """A storm that leaves nobody behind."""
    made = Storm(serving(), folder, engine, members, seed, lives_s)
    try:
        yield made
    finally:
        made.over()
        print(made.summary)


def speaking(log: Log, seed: int, seconds: float) -> tuple[Site, Speaker]:
    """A site that has begun to speak."""
    speaker = Speaker(log)
    site = Site(seed, speaker, seconds)
    site.start()
    return site, speaker


def settled(log: Log, site: Site, said: Callable[[], str]) -> None:
    """Everything that the site said was judged, some seconds of silence behind it too."""
    until = time.monotonic() + SETTLED_S
    while waits := _waits(log, site.last_ms + 4_000):
        assert time.monotonic() < until, f"waits for {waits}\n{said()}"
        time.sleep(0.3)


def _waits(log: Log, at_ms: int) -> str:
    windows = oracle.positions(log, WINDOWS_GROUP, [TELEMETRY])
    marks = [read_mark(windows.get(task)).frontier_ms for task in tasks_of(log.topics, [TELEMETRY])]
    if min(marks) < at_ms:
        return f"windows: {marks} of {at_ms}"
    judged = newest(oracle.positions(log, GROUP, WATCHED).values()).frontier_ms
    if judged < at_ms:
        return f"diagnosis: {judged} of {at_ms}"
    explicit = oracle.positions(log, EXPLICIT, [EVENTS])
    clocks = [read_mark(explicit.get(task)).clock_ms for task in tasks_of(log.topics, [EVENTS])]
    return f"explicit: {clocks} of {at_ms}" if min(clocks) < at_ms else ""


def judge(log: Log, folder: Path, *, clocks: bool = True) -> oracle.Words:
    """Raises AssertionError that names the first things that differ. `clocks`: see `oracle.differences`."""
    right = oracle.expected(log, TRUST)
    found = oracle.written(log)
    wrong = oracle.differences(found, right, clocks=clocks)
    assert not wrong, "\n".join(f"{one.what}: {one.says}" for one in wrong[:8])
    windows, late = naive.windows(log, TRUST)
    unlike = naive.unlike(naive.put_out(log), windows)
    assert not unlike, "\n".join(unlike)
    assert late == right.counts["late"] > 0
    _archived(log, folder / "archive")
    return right


def _archived(log: Log, folder: Path) -> None:
    """The archiver reads what is left; then each row is there, once."""
    frames = ArchiveFrames(log, TRUST, SelfMetrics())
    Archive(log, folder, Reading(TRUST), frames=frames).drain()
    for table, rows in naive.telemetry(log, TRUST).items():
        _same(f"telemetry_{table}", naive.archived(folder, table), rows)
    right, found = expected_rows(log, KEPT), stored(folder)
    admitted = set(naive.messages_of(log, TRUST, EVENTS))
    right["events"] = [row for row in right["events"] if row[:3] in admitted]
    for table in {*right, *found}:
        if not table.startswith("telemetry_"):
            _same(table, found.get(table, []), right.get(table, []))


def _same(table: str, found: naive.Rows, right: naive.Rows) -> None:
    if found != right:
        extra, lacks = ([row for row in one if row not in other] for one, other in ((found, right), (right, found)))
        raise AssertionError(
            f"archive {table}: {len(found)} rows, not {len(right)}; too many: {extra[:2]}; lacks: {lacks[:2]}"
        )
