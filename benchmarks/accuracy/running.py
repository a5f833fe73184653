"""Many windows on some processes, each written down when it is finished: a run that was ended goes on where it was."""

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

import msgspec

from benchmarks.accuracy import settings as frozen
from benchmarks.accuracy.cases import Case
from benchmarks.accuracy.outcomes import Result

ROOT = Path(__file__).parents[2]
OF_THE_RESULT = ("sickbay", "collectors", "streams", "diagnosis", "remediation", "simulator", "benchmarks")
SAY_S = 5.0
QUEUED = 4  # windows that wait for each process


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a results' file. `code`: what the result is of."""

    code: str
    result: Result


def code_digest(root: Path = ROOT) -> str:
    """Of everything that decides a result: sources and data of the packages, settings."""
    found = hashlib.sha256()
    for package in OF_THE_RESULT:
        for path in sorted((root / package).rglob("*")):
            if path.suffix in (".py", ".toml", ".csv") and path.is_file():
                found.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return found.hexdigest()[:16]


class Results:
    """The results' file: lines of finished windows; those of other code are left out, unless `any_code`."""

    def __init__(self, path: Path, code: str, *, any_code: bool = False) -> None:
        self._path, self._code, self._any = path, code, any_code
        path.parent.mkdir(parents=True, exist_ok=True)

    def read(self) -> dict[str, Result]:
        """Finished windows by key. A line that was cut off when a run was killed is passed over."""
        if not self._path.exists():
            return {}
        found = {}
        for raw in self._path.read_bytes().splitlines():
            try:
                line = msgspec.json.decode(raw, type=Line)
            except msgspec.DecodeError:
                continue
            if self._any or line.code == self._code:
                found[line.result.key] = line.result
        return found

    def add(self, result: Result) -> None:
        """One more."""
        with self._path.open("ab") as file:
            if file.tell() and not self._whole():
                file.write(b"\n")
            file.write(msgspec.json.encode(Line(code=self._code, result=result)) + b"\n")

    def _whole(self) -> bool:
        with self._path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def work(raw: bytes, numbers: Mapping[str, Sequence[int]], judged: bool = True) -> bytes:
    """One window, in a process of its own."""
    from benchmarks import baselines
    from benchmarks.accuracy import window

    case = msgspec.json.decode(raw, type=Case)
    return msgspec.json.encode(window.run(case, frozen.load(), baselines.load(numbers), numbers, judged=judged))


def run(
    cases: Sequence[Case], results: Results, numbers: Mapping[str, Sequence[int]], *, workers: int,
    say: Callable[[str], None], judged: bool = True,
) -> dict[str, Result]:  # fmt: skip
    """The results of all cases, those that were there before among them. Not `judged`: of baselines alone."""
    known = results.read()
    left = [case for case in cases if case.key not in known]
    done = {case.key: known[case.key] for case in cases if case.key in known}
    if done:
        say(f"{len(done)} of {len(cases)} windows were there")
    began, told = time.monotonic(), 0.0
    for place, result in enumerate(made(left, numbers, workers, judged=judged), 1):
        results.add(result)
        done[result.key] = result
        passed = time.monotonic() - began
        if passed - told > SAY_S or place == len(left):
            told = passed
            say(f"{place}/{len(left)} windows in {passed:.0f} s, {passed / place * (len(left) - place):.0f} s to go")
    return done


def made(
    cases: Iterable[Case],
    numbers: Mapping[str, Sequence[int]],
    workers: int,
    more: Callable[[], bool] = lambda: True,
    *,
    judged: bool = True,
) -> Iterator[Result]:
    """Results as they come; where there is no `more` time, no new one is begun."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # a process for each core is what is shared out
    rest = iter(cases)
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    waiting: set[Future[bytes]] = set()
    try:
        while True:
            while len(waiting) < workers * QUEUED and more() and (case := next(rest, None)) is not None:
                waiting.add(pool.submit(work, msgspec.json.encode(case), numbers, judged))
            if not waiting:
                return
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for one in finished:
                yield msgspec.json.decode(one.result(), type=Result)
    finally:
        pool.shutdown(cancel_futures=True)  # who is told to end does not make what only waits


def to_stderr(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)
