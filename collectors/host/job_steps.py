"""Steps of training jobs on this host, as their ranks tell them through the training hook (`sickbay.steps`).

Any user of the host may write to the socket, so what comes in is bounded, checked and held against the user the kernel
names: a job belongs to the user who spoke of it first. Ends of steps and phases are told at once; a step that was begun
is told only where it does not end. What is refused is counted.
"""

import os
import time
from collections.abc import Iterator, Sequence

from collectors.agent.source import Collected, Host, Seen
from collectors.host.datagrams import Listener, Unavailable
from collectors.host.step_senders import Senders, Told

INTERVAL_S = 0.5  # after a socket that cannot be had; else the first word wakes it
LINGER_S = 0.25  # that one collection listens: shorter than anybody waits for a verdict, longer than a burst
MOST = 4_000  # datagrams of one collection
IDLE_S = 2.0  # between two looks at what time alone tells
CHECK_MS = 1_900  # the least between two: others come at each word


class JobSteps:
    """The collector `job_steps`."""

    name = "job_steps"
    asks_driver = False

    def __init__(self, host: Host) -> None:
        self._host = host
        self._listener: Listener | None = None
        self._senders = Senders()
        self._checked_ms = 0

    def collect(self, now_ms: int) -> Collected:
        """What comes within a quarter of a second of the first word."""
        try:
            listener = self._listening()
        except Unavailable as error:
            return Collected(problem=str(error))
        seen = [self._seen(told) for told in self._heard(listener, now_ms)]
        if abs(now_ms - self._checked_ms) >= CHECK_MS:
            self._checked_ms = now_ms
            seen += [self._seen(told) for pid, told in self._senders.due(now_ms) if _lives(pid)]
            if not listener.reachable:
                self.close()
        lost, why = self._refused()
        return Collected(seen, lost=lost, lost_why=why)

    @property
    def interval_s(self) -> float:
        """While it listens it is only looked at what time alone tells."""
        return INTERVAL_S if self._listener is None else IDLE_S

    @property
    def handle(self) -> int:
        """The socket: a host without a job costs nothing."""
        return -1 if self._listener is None else self._listener.handle

    def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _listening(self) -> Listener:
        if self._listener is None:
            self._listener = Listener(self._host.root / self._host.settings.steps_socket.lstrip("/"))
        return self._listener

    def _heard(self, listener: Listener, now_ms: int) -> Iterator[Told]:
        began = time.monotonic()
        if not listener.wait(0.0):
            return
        until = time.monotonic() + LINGER_S
        for _ in range(MOST):
            now = time.monotonic()
            datagram = listener.receive() if now < until else None
            if datagram is None:
                if now >= until or not listener.wait(until - now):
                    return
                continue
            if datagram.whole:
                at_ms = now_ms + round((now - began) * 1000)
                yield from self._senders.take(datagram.data, datagram.uid, datagram.pid, at_ms)
            else:
                self._senders.refused["too long"] += 1

    def _seen(self, told: Told) -> Seen:
        return Seen(told.record, told.at_ms, host=self._host.name)

    def _refused(self) -> tuple[int, str]:
        refused, self._senders.refused = +self._senders.refused, type(self._senders.refused)()
        return refused.total(), "messages of training jobs: " + ", ".join(
            f"{number} {why}" for why, number in refused.most_common()
        )


def _lives(pid: int) -> bool:
    """Whether a process is there; one that ended began a step, but nobody waits for its end."""
    if pid <= 0:  # of a name space that is not ours: nobody knows
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def collectors(host: Host) -> Sequence[JobSteps]:
    """One where the settings name a socket."""
    return (JobSteps(host),) if host.settings.steps_socket else ()
