"""Real services as children of the tests: started by us, ready or failing clearly, ended by process id.

A child leads a process group of its own; whatever it started ends with it. Its output goes to a file, and the tail of
that file is what a failure shows. Nothing here ends a process by its name.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pytest

CACHE = Path(os.environ.get("SICKBAY_SERVICES") or Path.home() / ".cache" / "sickbay-services")
TAIL = 2000  # characters of the log that a failure shows
LOWEST, HIGHEST = 20_000, 32_000  # below the ports that the kernel gives to clients (32768 and up)


class NotReady(Exception):
    """The service ended or did not answer in time; the text holds the tail of its log."""


def missing(what: str) -> NoReturn:
    """The test cannot run here: skipped, or failed with SERVICES=require."""
    text = f"{what} is not installed (make services)"
    (pytest.fail if os.environ.get("SERVICES") == "require" else pytest.skip)(text)
    raise AssertionError  # both of them raise


def found(*commands: str) -> tuple[str, ...]:
    """Paths of commands, also of those that Debian keeps in /usr/sbin; else the test is skipped or fails."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
    paths = [shutil.which(command, path=path) for command in commands]
    absent = [command for command, place in zip(commands, paths, strict=True) if place is None]
    if absent:
        missing(", ".join(absent))
    return tuple(str(place) for place in paths)


def free_port() -> int:
    """A TCP port on loopback that nothing listens on.

    Drawn below the range from which the kernel serves clients, so that no outgoing connection takes it between this
    look and the service's own bind; another test that draws the same one is what `retried` is for.
    """
    draw = random.SystemRandom()
    for _ in range(200):
        port = draw.randrange(LOWEST, HIGHEST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port on loopback")


def free_ports(count: int) -> list[int]:
    """So many of them, all different, in order."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return sorted(ports)


@dataclass(slots=True)
class Child:
    """A service that the tests run. `log` takes its output, appended over restarts; `env` is added to ours."""

    command: Sequence[str]
    cwd: Path
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    stdin_open: bool = False  # for those that read a console and spin, or end, at its end
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Child":
        """Starts it; `await_ready` says when it serves."""
        if self.alive():
            raise RuntimeError(f"already running as {self.pid}: {self.command[0]}")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                list(self.command), cwd=self.cwd, env={**os.environ, **self.env}, stdout=log, stderr=log,
                stdin=subprocess.PIPE if self.stdin_open else subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        return self

    @property
    def pid(self) -> int:
        """Its process id, which is its process group's too."""
        return self._started().pid

    @property
    def status(self) -> int | None:
        """The exit status; negative: the signal that ended it; None: it runs."""
        return self._started().poll()

    def alive(self) -> bool:
        """Whether it runs (also while paused)."""
        return self._process is not None and self._process.poll() is None

    def say(self, line: str) -> None:
        """One line to its console (`stdin_open`)."""
        stdin = self._started().stdin
        if stdin is None:
            raise RuntimeError("started without stdin_open")
        stdin.write(line.encode() + b"\n")
        stdin.flush()

    def stop(self, limit_s: float = 20.0) -> None:
        """TERM to the group; KILL to what is left of it after `limit_s`. Nothing to do where it never started."""
        if self._process is None:
            return
        self._signal(signal.SIGCONT)  # a paused one cannot end
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline and (self.alive() or self._group_alive()):
            time.sleep(0.02)
        self.kill()

    def kill(self) -> None:
        """KILL to the whole group at once: a crash."""
        if self._process is None:
            return
        self._signal(signal.SIGKILL)
        self._process.wait(timeout=10)
        if self._process.stdin is not None:
            self._process.stdin.close()

    def pause(self) -> None:
        """STOP: it holds its place and does nothing."""
        self._signal(signal.SIGSTOP)
        time.sleep(0.2)  # until its last thread stands

    def resume(self) -> None:
        """CONT after `pause`."""
        self._signal(signal.SIGCONT)

    def tail(self) -> str:
        """The end of its log."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - TAIL))
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"not started: {self.command[0]}")
        return self._process

    def _signal(self, number: int) -> None:
        # The id stays ours while the leader is not yet waited for or a member of its group lives.
        if self.alive() or self._group_alive():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def _group_alive(self) -> bool:
        return any(group == self.pid and state != "Z" for group, state in _groups())


def _groups() -> Iterator[tuple[int, str]]:
    """Process group and state of every process of this machine."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as stat:
                    fields = stat.read().rpartition(")")[2].split()
            except OSError:
                continue
            yield int(fields[2]), fields[0]


def await_ready(check: Callable[[], bool], child: Child, limit_s: float) -> None:
    """Returns once `check()` is true; OSError of it counts as not yet.

    Raises NotReady, with the log's tail, where the child ends before or the time is up.
    """
    deadline = time.monotonic() + limit_s
    while True:
        try:
            if check():
                return
        except OSError:
            pass
        name = Path(child.command[0]).name
        if not child.alive():
            raise NotReady(f"{name} ended with {child.status} before it was ready:\n{child.tail()}")
        if time.monotonic() >= deadline:
            raise NotReady(f"{name} was not ready within {limit_s:.0f} s:\n{child.tail()}")
        time.sleep(0.05)


TAKEN = ("address already in use", "bind: address", "addressinuse", "failed to bind")


def retried(start: Callable[[], Child], times: int = 3) -> Child:
    """What `start` started and saw ready; tried again, with new ports, where its log says that a port was taken.

    `start` stops its child itself where it raises NotReady. Fails the test with the log's tail.
    """
    for left in reversed(range(times)):
        try:
            return start()
        except NotReady as error:
            if not left or not any(word in str(error).lower() for word in TAKEN):
                pytest.fail(str(error))
    raise AssertionError


def started(child: Child, check: Callable[[], bool], limit_s: float) -> Child:
    """The child, running and ready; stopped again where it does not get ready. Raises NotReady."""
    try:
        await_ready(check, child.start(), limit_s)
    except BaseException:
        child.stop(5.0)
        raise
    return child


@contextmanager
def serving(start: Callable[[], Child]) -> Iterator[Child]:
    """A ready child, stopped at the end (see `retried`)."""
    child = retried(start)
    try:
        yield child
    finally:
        child.stop()


def answers(url: str, timeout_s: float = 2.0) -> bool:
    """Whether a GET of `url` gets a 2xx; proxies of the environment are left aside."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=timeout_s) as answer:
        return bool(200 <= answer.status < 300)
