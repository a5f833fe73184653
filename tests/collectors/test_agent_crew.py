"""Collectors at work: quiet ones share a thread, one that hangs keeps it, and who is told of news waits for them."""

import os
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collectors.agent.bell import Bell
from collectors.agent.source import Collected, Collector, Host
from collectors.agent.watching import HELD_S, Crew, Done
from collectors.host.kernel_log import TOLD_S, KernelLog
from sickbay.log import wall_ms
from sickbay.messages import Event
from sickbay.settings import Agent
from tests.collectors.agent_kit import XID, wait_for


class Quiet:
    """Notes in which thread it collects. `held`: it does not return until that is set."""

    asks_driver = False

    more = False

    def __init__(self, name: str, interval_s: float = 0.05, held: threading.Event | None = None) -> None:
        self.name, self.interval_s, self.held = name, interval_s, held
        self.threads, self.closed, self.within = list[int](), 0, 0

    def collect(self, now_ms: int) -> Collected:
        self.within += 1
        assert self.within == 1  # never in two threads at once
        self.threads.append(threading.get_ident())
        if self.held is not None:
            self.held.wait(20)
        self.within -= 1
        return Collected(place=b"%d" % len(self.threads), more=self.more)

    def close(self) -> None:
        self.closed += 1


class Asking(Quiet):
    """Calls a driver."""

    asks_driver = True


class Belled(Quiet):
    """Is told of its news by a bell. `ill`: it says so."""

    ill = False

    def __init__(self, name: str) -> None:
        super().__init__(name, 60.0)
        self.bell = Bell()

    @property
    def handle(self) -> int:
        return self.bell.handle

    def collect(self, now_ms: int) -> Collected:
        self.bell.silence()
        return super().collect(now_ms)._replace(problem="ill" if self.ill else "")


@contextmanager
def crew_of(*collectors: Collector) -> Iterator[Crew]:
    """At work, its news taken away, and ended."""
    out: queue.Queue[Done] = queue.Queue(0)
    crew = Crew(collectors, out, lambda: 1_000, 0.6)
    try:
        yield crew
    finally:
        crew.end(1.0)


def test_quiet_ones_share_a_thread_and_keep_their_pace() -> None:
    quick, slow, driver = Quiet("quick", 0.05), Quiet("slow", 0.2), Asking("driver", 0.05)
    with crew_of(quick, slow, driver):
        wait_for(lambda: len(slow.threads) >= 4)
    assert set(quick.threads) == set(slow.threads)
    assert len(set(driver.threads) | set(quick.threads)) == 2
    assert len(quick.threads) >= 3 * (len(slow.threads) - 2)
    assert [quick.closed, slow.closed, driver.closed] == [1, 1, 1]


def test_one_that_has_always_more_leaves_the_others_their_turns() -> None:
    busy, well = Quiet("a"), Quiet("b")
    busy.more = True
    with crew_of(busy, well):
        wait_for(lambda: len(well.threads) >= 5, 5.0)
    assert len(busy.threads) > len(well.threads)


def test_one_that_hangs_keeps_its_thread_and_the_others_go_on_in_another() -> None:
    held = [threading.Event() for _ in range(2)]
    first, second, well = Quiet("a", 0.05, held[0]), Quiet("b", 0.05, held[1]), Quiet("c")
    with crew_of(first, second, well) as crew:
        began = time.monotonic()
        wait_for(lambda: [crew.relieve()] and len(well.threads) >= 3)
        wait_for(lambda: len(well.threads) >= 6, 2.0)
        assert time.monotonic() - began < 2 * HELD_S + 2.0
        assert len({*first.threads, *second.threads, *well.threads}) == 3
        wait_for(lambda: [one.trouble for one in crew.watches if one.trouble] == ["a collection takes over 0.6 s"] * 2)
        for one in held:
            one.set()
        wait_for(lambda: len(first.threads) >= 3 and not any(one.trouble for one in crew.watches))
    assert [first.closed, second.closed, well.closed] == [1, 1, 1]


def test_the_end_waits_for_none_that_hangs_and_closes_all_others() -> None:
    held = threading.Event()
    stuck, well, told = Quiet("a", 0.05, held), Quiet("b"), Belled("told")
    crew = Crew([stuck, well, told], queue.Queue(0), lambda: 1_000, 0.6)
    wait_for(lambda: stuck.threads and told.threads)
    began = time.monotonic()
    assert crew.end(0.5) == ["a"]  # nobody relieved before
    assert time.monotonic() - began < 2.0
    assert [stuck.closed, well.closed, told.closed] == [0, 1, 1]
    held.set()
    wait_for(lambda: stuck.closed)


def test_who_is_told_of_news_looks_at_once_and_else_not_at_all() -> None:
    told = Belled("told")
    with crew_of(told):
        wait_for(lambda: told.threads)
        time.sleep(0.2)
        assert len(told.threads) == 1
        told.bell.ring()
        wait_for(lambda: len(told.threads) == 2, 2.0)
        time.sleep(0.2)
        assert len(told.threads) == 2


def test_who_is_ill_is_not_asked_without_end() -> None:
    told = Belled("told")
    told.ill, told.interval_s = True, 0.1
    with crew_of(told):
        for _ in range(20):
            told.bell.ring()
            time.sleep(0.02)
        assert 2 <= len(told.threads) <= 8


def test_the_kernels_ring_wakes_who_reads_it(tmp_path: Path) -> None:
    far, near = os.openpty()  # a character device that gives a line a read
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").symlink_to(os.ttyname(near))
    source, out = KernelLog(Host("n1", Agent(root=str(tmp_path), kernel_log="dev/kmsg"))), queue.Queue[Done](0)
    crew = Crew([source], out, wall_ms, 5.0)
    try:
        assert not out.get(timeout=5.0).collected.problem
        wait_for(lambda: source.interval_s == TOLD_S)
        written = time.monotonic()
        os.write(far, f"3,7,{written * 1e6:.0f},-;{XID}\n".encode())
        found = out.get(timeout=5.0).collected
        assert time.monotonic() - written < 2.0 < TOLD_S
        assert [one.record.kind for one in found.seen if isinstance(one.record, Event)] == ["accelerator.off_bus"]
    finally:
        assert crew.end(2.0) == []
        os.close(far)
        os.close(near)


def test_a_bell_rings_until_it_is_silenced_and_leaves_no_file() -> None:
    bell = Bell()
    for _ in range(70_000):  # more than a pipe holds
        bell.ring()
    os.fstat(bell.handle)
    handle = bell.handle
    bell.silence()
    bell.ring()
    del bell
    try:
        os.fstat(handle)
    except OSError:
        return
    raise AssertionError("it is open")
