"""A `sickbay process` of some stages, forked from a server that has all modules: it begins at once and is killed.

`python -m tests.chaos.child FOLDER MEMBER STAGE...` runs one by hand on a site's folder.
"""

import multiprocessing
import os
import sys
import time
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import NamedTuple

from diagnosis.engine import detectors
from sickbay.app.archiving import archiver
from sickbay.app.diagnosing import diagnoser
from sickbay.app.running.service import Context, Service
from sickbay.app.running.stages import STAGES
from sickbay.commands.process import end
from sickbay.config import load
from sickbay.log import Log
from sickbay.log.kafka import KafkaLog
from sickbay.log.sqlite import SqliteLog
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config
from tests.chaos.points import Trap, arm
from tests.chaos.site import SMALL

PRELOADED = ["tests.chaos.child", "deltalake", "arro3.core", "confluent_kafka", "kafka", "polars"]
KNOWN = detectors(), archiver  # whatever is imported late is here already

POLL_INTERVAL_MS = 9_000  # more than a step of diagnosis with a backlog, which is 5 s and a look


class Spec(NamedTuple):
    """What a child is to do. `patience_s`: that a stage may stand still before its process ends itself."""

    folder: Path
    member: str
    stages: tuple[str, ...]
    trap: Trap | None = None
    patience_s: float = 0.0


def serving() -> ForkServerContext:
    """The server that children are forked from."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def opened(config: Config) -> Log:
    """The site's log, with its few partitions."""
    if config.log.engine == "kafka":
        return KafkaLog(config.log, SMALL, poll_interval_ms=POLL_INTERVAL_MS)
    return SqliteLog(Path(config.log.path), SMALL)


def run(spec: Spec) -> None:
    """One life."""
    said = os.open(spec.folder / f"said-{spec.member}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(said, sys.stderr.fileno())
    os.environ["SICKBAY_MEMBER"] = spec.member
    diagnoser.FOLLOW_S = 0.5  # a standby reads along at once: lives are short

    def say(text: str) -> None:
        os.write(said, f"{time.time():.3f} {os.getpid()} {text}\n".encode())

    if spec.trap:
        arm(spec.trap, say)
    say(f"begins: {' '.join(spec.stages)} {spec.trap or ''}")
    config = load(spec.folder / "sickbay.toml")
    log = opened(config)
    service = Service(Context(config, log, SelfMetrics(), say), {name: STAGES[name] for name in spec.stages})
    if spec.patience_s:
        service.call_s = service.step_s = spec.patience_s
    status = end(service, log, service.run())
    say(f"ends: {status}")
    os._exit(status)


if __name__ == "__main__":
    run(Spec(Path(sys.argv[1]), sys.argv[2], tuple(sys.argv[3:])))
