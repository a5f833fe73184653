"""A real agent process whose log goes away and comes back: what reached the log, told by sequence numbers.

The log is the embedded one; it is away while this process holds its file's write lock.
"""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sickbay import wire
from sickbay.frames import Frame
from sickbay.layouts import Schemas, decoded
from sickbay.log import Log
from sickbay.messages import Event
from sickbay.topics import BACKFILL, EVENTS, SCHEMAS, TELEMETRY
from tests.collectors.agent_kit import XID, events, records, told, wait_for, write

LOG = '[log]\nengine = "sqlite"\npath = "log"\n'


class Process:
    """`sickbay agent` with its settings below `folder`; killed and started as often as one likes."""

    def __init__(self, folder: Path, agent: str, more: str = "") -> None:
        self.folder, self.children = folder, list[subprocess.Popen[bytes]]()
        self.kernel_log = folder / "root/kern.log"
        self.kernel_log.parent.mkdir(parents=True, exist_ok=True)
        self.kernel_log.touch()
        self.lines = 0
        self.settle(agent, more)

    def settle(self, agent: str, more: str = "") -> None:
        """Write the settings."""
        text = f'{LOG}[agent]\nhost = "n1"\nroot = "root"\nkernel_log = "kern.log"\nspool = "spool"\n{agent}\n{more}'
        text = text.replace('root = "root"', f'root = "{self.folder / "root"}"')
        (self.folder / "sickbay.toml").write_text(text, encoding="utf-8")

    def start(self) -> "subprocess.Popen[bytes]":
        """Begin, with what it says in `said`."""
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        line = [sys.executable, "-m", "sickbay", "agent", "--config", str(self.folder / "sickbay.toml")]
        with (self.folder / "said").open("ab") as said:
            self.children.append(subprocess.Popen(line, env=environment, stderr=said))
        return self.children[-1]

    @property
    def said(self) -> str:
        """All that it said."""
        return (self.folder / "said").read_text(encoding="utf-8")

    def kill(self, how: int = signal.SIGKILL) -> int:
        """End it, at once or in good order; its status."""
        self.children[-1].send_signal(how)
        return self.children[-1].wait(20)

    def say(self, code: int = 31) -> None:
        """One more line in the kernel log, of a process of its own."""
        self.lines += 1
        write(self.kernel_log, f"[1.1] {XID.replace('79', str(code)).replace('1234', str(self.lines))}\n")

    def numbered(self, topic: str) -> int:
        """The newest number that it gave to a record of a topic."""
        file = self.folder / "spool/spool.sqlite"
        if not file.exists():
            return 0
        db = sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=5)
        try:
            row = db.execute("SELECT next FROM sequences WHERE topic = ?", (topic,)).fetchone()
        except sqlite3.OperationalError:  # it is being made
            return 0
        finally:
            db.close()
        return row[0] if row else 0

    def waiting(self) -> int:
        """How many entries lie in its spool."""
        db = sqlite3.connect(f"file:{self.folder / 'spool/spool.sqlite'}?mode=ro", uri=True, timeout=5)
        try:
            return int(db.execute("SELECT count(*) FROM entries").fetchone()[0])
        finally:
            db.close()

    def close(self) -> None:
        """End what still runs."""
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait(10)


@contextmanager
def process(folder: Path, agent: str, more: str = "") -> Iterator[Process]:
    """One, ended at the end."""
    one = Process(folder, agent, more)
    try:
        yield one
    finally:
        one.close()


@contextmanager
def away(folder: Path) -> Iterator[None]:
    """The log takes nothing meanwhile."""
    db = sqlite3.connect(folder / "log/log.sqlite3", timeout=30, isolation_level=None)
    wait_for(lambda: _locked(db), 30)
    try:
        yield
    finally:
        db.execute("ROLLBACK")
        db.close()


def _locked(db: sqlite3.Connection) -> bool:
    try:
        db.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    return True


def frames(log: Log, topic: str) -> list[Frame]:
    """The frames of a topic as they lie there."""
    schemas = Schemas()
    for record in records(log, SCHEMAS):
        schemas.learn(decoded(record.value or b""))
    return [wire.decode(record.value or b"", schemas) for record in records(log, topic)]


def whole(log: Log) -> tuple[set[int], set[int]]:
    """The numbers of whole frames, live and as backfill; each frame that stands twice says the same."""
    found = []
    for topic in (TELEMETRY, BACKFILL):
        kept: dict[int, tuple[int, int]] = {}
        for frame in frames(log, topic):
            if frame.tables:
                same = (frame.sent_ms, sum(len(one.at_ms) for one in frame.tables))
                assert kept.setdefault(frame.sequence, same) == same
        found.append(set(kept))
    return found[0], found[1]


def numbers(log: Log, topic: str) -> set[int]:
    """All numbers that stand in a topic, those of empty frames too."""
    if topic == EVENTS:
        return {one.seal.sequence for one in told(log) if one.seal}
    return {frame.sequence for frame in frames(log, topic)}


def dropped(log: Log, topic: str) -> list[tuple[int, int, int]]:
    """What the agent told of records that it gave up: first and last number, and how many."""
    facts = [event.attributes for event in unique(log) if event.kind == "monitor.lines_lost"]
    return [(int(one["from"]), int(one["to"]), int(one["lost"])) for one in facts if one.get("topic") == topic]


def unique(log: Log) -> list[Event]:
    """Events, those with the same number once."""
    once = {one.seal.sequence: at for at, one in enumerate(told(log)) if one.seal}
    found = events(log)
    return [found[at] for at in sorted(once.values())]
