"""`sickbay simulate`: a cluster of any size, faults by the seed, and what its agents tell, as fast as it goes.

Parts of the hosts are worked on by one or two processes; what comes out does not depend on how many. Every process
lives through the whole night; only the sensors of its own hosts are read.
"""

import hashlib
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path

from sickbay.app.demonstrating.demo import told as new_lines
from sickbay.app.demonstrating.simulated_night import TRUTH
from sickbay.app.demonstrating.simulated_part import PART_HOSTS, Part, parts
from sickbay.app.demonstrating.simulated_sinks import Appended, Files, digest_of
from sickbay.log import Log
from simulator.scenario import Scenario

SITE_CARDS = 16_384  # up to here modules, switches and units are told of too
MANY_HOSTS = 2_048  # from so many on a second process is worth its start
Progress = Callable[[int], object]


@dataclass(slots=True)
class Produced:
    """What came out. `files`: name -> SHA-256; `cpu_s` of all processes, `peak_mb` of all of them together."""

    counts: Counter[str] = field(default_factory=Counter)
    files: dict[str, str] = field(default_factory=dict)
    seconds: int = 0
    setup_s: float = 0.0  # until the first second: facts included
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    workers: int = 1

    @property
    def realtime(self) -> float:
        """Simulated seconds in one of ours, setting up included."""
        return self.seconds / self.wall_s if self.wall_s else 0.0

    @property
    def digest(self) -> str:
        """Of all bytes."""
        return digest_of(self.files)

    def add(self, other: "Produced") -> None:
        """What another process produced at the same time."""
        self.counts.update(other.counts)
        self.files.update(other.files)
        self.seconds, self.setup_s = max(self.seconds, other.seconds), max(self.setup_s, other.setup_s)
        self.cpu_s, self.peak_mb = self.cpu_s + other.cpu_s, self.peak_mb + other.peak_mb


def produce(
    scenario: Scenario, until_s: int, folder: Path | None, *, workers: int = 1, progress: Progress = lambda done: None
) -> Produced:
    """The night as wire records in `folder`; None: encoded and summed, not written.

    `workers`: processes, forked: more than one only where no library has threads at work, as in a command's begin.
    """
    began, before_s = time.monotonic(), time.process_time()
    mine = parts(len(scenario.cluster.hosts))
    shares = _shares(mine, workers)
    whole = Produced(workers=len(shares))
    if len(shares) == 1:
        whole.add(_work(scenario, until_s, folder, mine, progress, began))
    else:
        _ = scenario.cluster.components, scenario.cluster.ports  # made once, shared by all
        own_s = time.process_time() - before_s
        for one in _all(scenario, until_s, folder, shares, progress, began):
            whole.add(one)
        whole.cpu_s += own_s
    whole.wall_s = time.monotonic() - began
    return whole


def into_log(scenario: Scenario, until_s: int, log: Log, progress: Progress = lambda done: None) -> Produced:
    """The night appended to a log, in the order of time."""
    began, before_s = time.monotonic(), time.process_time()
    with closing(log.appender()) as appender:
        own = [Part(scenario, hosts, Appended(appender)) for hosts in parts(len(scenario.cluster.hosts))]
        done = tell(scenario, until_s, own, progress, began)
    for part in own:
        done.counts.update(part.counts)
        done.files.update({f"{topic}/{part.hosts.start}": one for topic, one in part.sink.close().items()})
    return _measured(done, began, before_s)


def into_files(scenario: Scenario, until_s: int, folder: Path, progress: Progress = lambda done: None) -> Produced:
    """The night as the files of an operator, which `sickbay diagnose` reads."""
    from simulator.output.files import write

    began, before_s = time.monotonic(), time.process_time()
    write(scenario, folder, until_s=until_s, cables=True, each=progress)
    done = Produced(seconds=until_s)
    for path in sorted(folder.iterdir()):
        if path.name != TRUTH:
            data = path.read_bytes()
            done.files[path.name] = hashlib.sha256(data).hexdigest()
            done.counts.update(files=1, bytes=len(data))
    return _measured(done, began, before_s)


def _measured(done: Produced, began: float, before_s: float) -> Produced:
    done.wall_s, done.cpu_s = time.monotonic() - began, time.process_time() - before_s
    done.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return done


def paying(scenario: Scenario) -> int:
    """How many processes are worth their start."""
    forks = "fork" in get_all_start_methods() and sys.platform == "linux"
    return min(2, os.cpu_count() or 1) if forks and len(scenario.cluster.hosts) >= MANY_HOSTS else 1


def _shares(mine: Sequence[range], workers: int) -> list[Sequence[range]]:
    """Neighbouring parts for each worker, nearly equally many."""
    edges = [len(mine) * place // workers for place in range(workers + 1)]
    return [mine[a:b] for a, b in pairwise(edges) if b > a]


def _work(
    scenario: Scenario, until_s: int, folder: Path | None, mine: Sequence[range], progress: Progress, began: float
) -> Produced:
    before_s = time.process_time()
    own = [Part(scenario, hosts, Files(folder, hosts.start // PART_HOSTS)) for hosts in mine]
    done = tell(scenario, until_s, own, progress, began)
    for part in own:
        done.counts.update(part.counts)
        done.files.update(part.sink.close())
    return _measured(done, began, before_s)


def tell(scenario: Scenario, until_s: int, own: Sequence[Part], progress: Progress, began: float) -> Produced:
    """The night, told by some parts of the cluster."""
    done = Produced(seconds=until_s)
    for part in own:
        part.facts(scenario.start_ms)
    done.setup_s = time.monotonic() - began
    which = range(own[0].hosts.start, own[-1].hosts.stop)
    for at_s, second in enumerate(scenario.seconds(until_s, which=which, site=site(scenario))):
        lines = [*new_lines(second, scenario.start_ms)]
        for part in own:
            part.take(second, lines)
        progress(at_s + 1)
    return done


def site(scenario: Scenario) -> bool:
    """Whether cables, power and cooling are read: of a cluster of moderate size."""
    return len(scenario.cluster.cards) <= SITE_CARDS


def _all(
    scenario: Scenario, until_s: int, folder: Path | None, shares: Sequence[Sequence[range]], progress: Progress,
    began: float,
) -> Iterator[Produced]:  # fmt: skip
    context = get_context("fork")
    ends: dict[Connection, int] = {}
    running = []
    for mine in shares:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_child, args=(there, scenario, until_s, folder, mine, began), daemon=True)
        process.start()
        there.close()
        running.append(process)
        ends[here] = 0
    try:
        yield from _gathered(ends, progress)
    finally:
        for process in running:
            process.terminate()
            process.join()


def _gathered(ends: dict[Connection, int], progress: Progress) -> Iterator[Produced]:
    """What the workers send until the last one is done. Raises RuntimeError where one ended before."""
    open_ = set(ends)
    while open_:
        for end in wait(list(open_)):
            assert isinstance(end, Connection)
            try:
                told = end.recv()
            except EOFError:
                raise RuntimeError("a process of the simulation ended before it was done") from None
            if isinstance(told, Produced):
                open_.discard(end)
                yield told
            elif isinstance(told, BaseException):
                raise told
            else:
                ends[end] = told
                progress(min(ends.values()))


def _child(
    end: Connection, scenario: Scenario, until_s: int, folder: Path | None, mine: Sequence[range], began: float
) -> None:
    try:
        end.send(_work(scenario, until_s, folder, mine, end.send, began))
    except KeyboardInterrupt:
        pass
    except Exception as error:
        end.send(RuntimeError(f"{type(error).__name__}: {error}"))
