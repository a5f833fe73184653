"""Asks the status service of a job's collective library on this host which ranks have come, and which have not.

Read only: `STATUS`, never `MONITOR`, each question on a connection of its own and within a time. Any process answers
for the whole job, so the agents of all its hosts would ask the same: one on whose host rank 0 does not run asks seldom.
What tells no JSON yet (before 2.28.7) is asked for its text, the longer the larger the job, as that does not say where
rank 0 runs. Protocol: NCCL src/ras/client.cc (client protocol 2).
"""

import ipaddress
import re
import socket
import time
from collections.abc import Iterator, Sequence

from collectors.agent.source import Collected, Host, Seen
from collectors.formats import collective_status, collective_text
from collectors.formats.collective_status import MAX_BYTES, Standing, Status
from sickbay.components import UNKNOWN

INTERVAL_S = 20.0
ELSEWHERE_S = 300.0  # between two questions where another host's agent asks, too
MOST_ADDRESSES = 16
_JOBS = (b"SICKBAY_JOB", b"SLURM_JOB_ID", b"SLURM_JOBID")
_ADDRESS = re.compile(r"^\[?([0-9A-Za-z.:-]{1,253})\]?:(\d{1,5})$")


class NoStatus(Exception):
    """No usable answer; the text says why."""


class NobodyListens(NoStatus):
    """No job with such a service runs."""


class JobStatus:
    """The collector `job_ras` of one address."""

    asks_driver = False
    interval_s = INTERVAL_S

    def __init__(self, host: Host, address: str, name: str) -> None:
        self.name = name
        self._host, self._address = host, address
        self._standing = Standing()
        self._not_before_ms = 0

    def collect(self, now_ms: int) -> Collected:
        """What is new of the job's communicators."""
        if now_ms < self._not_before_ms <= now_ms + 1000 * ELSEWHERE_S:
            return Collected()
        try:
            raw = ask(self._address, self._host.settings.timeout_s)
            read = collective_text.status if raw.startswith(collective_text.BEGIN) else collective_status.status
            told = read(raw)
        except NobodyListens as error:
            self._standing, self._not_before_ms = Standing(), 0
            return Collected(absent=str(error))
        except (NoStatus, ValueError) as error:
            return Collected(problem=f"{self._address}: {error}"[:300])
        first = first_host(told)
        own = not first or _is_here(first)
        pause_s = min(ELSEWHERE_S, INTERVAL_S * told.nodes) if told.nodes else ELSEWHERE_S
        self._not_before_ms = 0 if own and told.nodes < 2 else round(now_ms + 1000 * pause_s)
        self._standing, found = collective_status.news(self._standing, told, now_ms)
        job = self._job(told)
        return Collected([Seen(one, now_ms, f"status/{self._address}", job=job) for one in found])

    def close(self) -> None:
        """Nothing is held."""

    def _job(self, told: Status) -> str:
        """The job of one of its processes on this host, as their environment says."""
        for pid in dict.fromkeys(
            one.pid for comm in told.communicators[:64] for one in comm.ranks if _is_here(one.host)
        ):
            try:
                with (self._host.root / "proc" / str(pid) / "environ").open("rb") as file:
                    words = dict(word.partition(b"=")[::2] for word in file.read(1 << 20).split(b"\0"))
            except OSError:
                continue
            if job := next((words[key] for key in _JOBS if words.get(key)), b""):
                return job.decode("utf-8", "replace")[:120]
        return UNKNOWN


def first_host(told: Status) -> str:
    """The address of the first rank of the largest communicator."""
    largest = max(told.communicators, key=lambda one: one.size, default=None)
    first = min(largest.ranks, key=lambda one: one.rank, default=None) if largest else None
    return first.host if first else ""


def _is_here(address: str) -> bool:
    """Whether an address is this host's own: only such a one can be bound."""
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
            return True
    except (OSError, ValueError):
        return False


def ask(address: str, timeout_s: float) -> bytes:
    """The JSON of one STATUS, or the text of one that tells none. Raises NoStatus, NobodyListens."""
    match = _ADDRESS.match(address)
    if match is None:
        raise NoStatus("[agent] collective_status: write host:port, such as 127.0.0.1:28028")
    deadline = time.monotonic() + timeout_s * 0.9
    try:
        connection = socket.create_connection((match[1], int(match[2])), timeout=timeout_s * 0.3)
    except ConnectionRefusedError:
        raise NobodyListens(f"no job offers its status at {address}") from None
    except (OSError, OverflowError) as error:
        raise NoStatus(str(error)[:200]) from None
    with connection:
        try:
            return _asked(connection, deadline, max(1, int(timeout_s) - 1))
        except TimeoutError:
            raise NoStatus(f"no whole answer within {timeout_s:g} s") from None
        except OSError as error:
            raise NoStatus(str(error)[:200]) from None


def _asked(connection: socket.socket, deadline: float, gather_s: int) -> bytes:
    said = _Lines(connection, deadline)
    if not said.answer("CLIENT PROTOCOL 2").startswith(b"SERVER PROTOCOL "):
        raise NoStatus("what answers is no status service")
    if said.answer(f"TIMEOUT {gather_s}") != b"OK":
        raise NoStatus("it takes no time limit")
    said.send("STATUS" if said.answer("SET FORMAT json") == b"OK" else "VERBOSE STATUS")
    return said.rest()


class _Lines:
    """Question and answer on a connection until a deadline."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection, self._deadline, self._held = connection, deadline, b""

    def answer(self, question: str) -> bytes:
        self.send(question)
        while b"\n" not in self._held and len(self._held) < 4096:
            piece = self._piece()
            if not piece:
                raise NoStatus("it closed the connection")
            self._held += piece
        line, _, self._held = self._held.partition(b"\n")
        return line.strip()

    def send(self, question: str) -> None:
        self._wait()
        self._connection.sendall(question.encode() + b"\n")

    def rest(self) -> bytes:
        pieces = list(self._pieces())
        return b"".join([self._held, *pieces])

    def _pieces(self) -> Iterator[bytes]:
        size = 0
        while piece := self._piece():
            size += len(piece)
            if size > MAX_BYTES:
                raise NoStatus(f"an answer of more than {MAX_BYTES >> 20} MiB")
            yield piece

    def _piece(self) -> bytes:
        self._wait()
        return self._connection.recv(1 << 16)

    def _wait(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)


def collectors(host: Host) -> Sequence[JobStatus]:
    """One for each address."""
    addresses = host.settings.collective_status[:MOST_ADDRESSES]
    return [
        JobStatus(host, address, "job_ras" if number == 0 else f"job_ras_{number}")
        for number, address in enumerate(addresses)
    ]
