"""Points inside a running process at which it dies, stands still, or sleeps: armed in a child before it begins.

Each names a function of ours and a side of it. A trap springs at its n-th passage, counted over all stages.
"""

import contextlib
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from sickbay.app.diagnosing.diagnoser import Diagnoser
from sickbay.app.diagnosing.diagnosis_fold import DiagnosisFold
from sickbay.log import sqlite, store
from sickbay.log.kafka_lead import KafkaLead
from sickbay.log.kafka_tasks import KafkaTasks
from sickbay.log.kafka_transactions import Transactions
from streams.archive_table import ArchiveTable
from streams.runner import Runner

BEFORE, AFTER = "before", "after"

KAFKA: dict[str, tuple[type, str, str]] = {
    "between two sends": (Transactions, "_produce", AFTER),
    "sends done, offsets not": (Transactions, "_offset", BEFORE),
    "offsets sent, commit not": (Transactions, "_settle", BEFORE),
    "committed, not told": (Transactions, "_settle", AFTER),
    "older transactions ended": (Transactions, "ready", AFTER),
    "tasks come": (KafkaTasks, "_assigned", BEFORE),
    "tasks came": (KafkaTasks, "_assigned", AFTER),
    "tasks go": (KafkaTasks, "_revoked", BEFORE),
    "tasks went": (KafkaTasks, "_revoked", AFTER),
    "change told": (KafkaTasks, "_change", AFTER),
    "lead comes": (KafkaLead, "_assigned", AFTER),
    "lead goes": (KafkaLead, "_revoked", BEFORE),
}
ALL: dict[str, tuple[type, str, str]] = {
    "rebuild begins": (Runner, "_begin", BEFORE),
    "rebuild has sought": (Runner, "_seek", AFTER),
    "in rebuild": (Runner, "_take", AFTER),
    "lead begins": (Diagnoser, "_begin", BEFORE),
    "lead has begun": (DiagnosisFold, "begin", AFTER),
    "in diagnosis' rebuild": (DiagnosisFold, "take", AFTER),
    "looks, not committed": (Diagnoser, "_looked", AFTER),
    "archive row to be written": (ArchiveTable, "_write", BEFORE),
    "archive row written": (ArchiveTable, "_write", AFTER),
}
SQLITE: dict[str, tuple[type, str, str]] = {
    "outputs in, positions not": (store.Store, "put", AFTER),
    "on disk, not told": (sqlite.SqliteTasks, "commit", AFTER),
}
IN_COMMIT = "positions in, commit not"  # of SQLite: inside a context manager, which is replaced

COMMITS = ("between two sends", "sends done, offsets not", "offsets sent, commit not")  # inside a transaction


class Trap(NamedTuple):
    """`what`: kill, stop (until somebody lets it go on), or seconds to sleep."""

    point: str
    passage: int
    what: str = "kill"


def points(engine: str) -> list[str]:
    """All that an engine has."""
    return [*ALL, *(KAFKA if engine == "kafka" else [*SQLITE, IN_COMMIT])]


def arm(trap: Trap, tell: Callable[[str], None]) -> None:
    """Sets it. `tell` hears of it before it springs."""
    passed, lock = [0], threading.Lock()

    def spring() -> None:
        with lock:
            passed[0] += 1
            due = passed[0] == trap.passage
        if not due:
            return
        tell(f"sprung {trap.what}: {trap.point}")
        if trap.what in ("kill", "stop"):
            os.kill(os.getpid(), signal.SIGKILL if trap.what == "kill" else signal.SIGSTOP)
        else:
            time.sleep(float(trap.what))

    if trap.point == IN_COMMIT:
        _in_commit(spring)
    else:
        _wrap(*(KAFKA | SQLITE | ALL)[trap.point], spring)


def _wrap(owner: type, name: str, side: str, spring: Callable[[], None]) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        if side == BEFORE:
            spring()
        found = original(*arguments, **named)
        if side == AFTER:
            spring()
        return found

    setattr(owner, name, wrapped)


def _in_commit(spring: Callable[[], None]) -> None:
    @contextmanager
    def all_or_nothing(connection: sqlite3.Connection) -> Iterator[None]:
        before = connection.total_changes
        try:
            yield
            if connection.total_changes > before:
                spring()
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    store._all_or_nothing = all_or_nothing
