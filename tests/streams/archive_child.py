"""An archiver in a process of its own, to be killed. Forked from a server that has all modules: it begins at once."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

from sickbay.log.sqlite import SqliteLog
from streams import archive, archive_upkeep
from tests.streams import archive_full_kit as full_kit
from tests.streams.archive_kit import SMALL


def serving() -> ForkServerContext:
    """The server that children are forked from."""
    context = multiprocessing.get_context("forkserver")
    own = ["tests.streams.archive_child", "tests.streams.archive_full_kit"]
    context.set_forkserver_preload([*own, "deltalake", "arro3.core"])
    return context


def work(folder: Path, out: Path, topics: Sequence[str]) -> None:
    """Archive for ever, a few records a commit; each round tells the rows it wrote and how often it was beaten."""
    os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT), sys.stdout.fileno())
    archive.BATCH_RECORDS, archive.READ_RECORDS = 6, 3
    made = archive.Archive(SqliteLog(folder / "log", SMALL), folder / "archive", topics=topics)
    print("ready", flush=True)
    while True:
        done = made.step()
        print(sum(sum(one.rows.values()) for one in done), sum(one.beaten for one in done), flush=True)
        if not any(one.more or one.beaten for one in done):
            time.sleep(0.01)


def keep(folder: Path, out: Path, topics: Sequence[str]) -> None:
    """Archive telemetry for ever, a few frames a commit, and keep it in order; each round tells rows and pieces of
    upkeep."""
    os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT), sys.stdout.fileno())
    archive.FULL_RECORDS = 20
    archive_upkeep.FEW_FILES = 3
    made = full_kit.archive(SqliteLog(folder / "log", full_kit.SMALL), folder / "archive")
    print("ready", flush=True)
    while True:
        done = made.step()
        print(sum(sum(one.rows.values()) for one in done), 0, flush=True)
        if not any(one.more or one.beaten for one in done):
            for _ in full_kit.pieces(made, folder / "archive"):
                print(0, 1, flush=True)


class Child:
    """One such process."""

    def __init__(
        self,
        server: ForkServerContext,
        folder: Path,
        number: int,
        topics: Sequence[str],
        target: Callable[[Path, Path, Sequence[str]], None] = work,
    ) -> None:
        self.told = folder / f"child-{number}"
        self.process: BaseProcess = server.Process(target=target, args=(folder, self.told, topics), daemon=True)
        self.process.start()

    def ready(self, limit_s: float = 60.0) -> None:
        """Wait until it has opened the archive."""
        until = time.monotonic() + limit_s
        while not self.told.exists() or "ready" not in self.told.read_text():
            assert self.process.is_alive(), "an archiver ended by itself"
            assert time.monotonic() < until, f"an archiver did not begin within {limit_s} s"
            time.sleep(0.005)

    def kill(self) -> list[tuple[int, int]]:
        """SIGKILL; what its rounds told."""
        assert self.process.is_alive(), "an archiver ended by itself"
        self.process.kill()
        self.process.join(10)
        assert self.process.exitcode == -signal.SIGKILL
        lines = self.told.read_text().rpartition("\n")[0].splitlines()[1:]
        return [(int(rows), int(beaten)) for rows, beaten in (line.split() for line in lines)]
