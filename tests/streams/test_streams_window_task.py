"""Windows of the live path, from frames in the log to features in the log, against an oracle of the input log."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay.admission import Admission
from sickbay.app.running.side_reader import SideReader
from sickbay.frames import matrix_of
from sickbay.log import LogBusy, Output, Record, Task
from sickbay.placement import Placements
from sickbay.schema import Samples
from sickbay.selfmetrics import SelfMetrics
from sickbay.topics import FEATURES, TELEMETRY, partition_of
from streams.feature_record import decode, decode_clock, is_clock
from streams.runner import Mark, Runner
from streams.side_inputs import Fabric, Facts
from streams.window_task import Decoded, WindowTask
from tests.streams.windows_site import PARTITIONS, START, UNTIL_S, Crash, Placed, Sent, Site, Windows, expected


def calm(site: Site) -> Windows:
    runner = site.runner()
    for at_s in range(UNTIL_S):
        site.second(at_s)
        runner.drain()
    return site.windows()


STEADY = [Sent(at_s, host, (0, 1, 2, 3, 4)) for at_s in range(5, UNTIL_S, 5) for host in range(4)]


def test_windows_equal_the_oracle_and_go_where_their_job_and_plane_are() -> None:
    placed = [Placed(8, 71, (0, 1), 5), Placed(26, 71, (0, 1), 5, 22), Placed(27, 72, (1, 2), 23)]
    site = Site(STEADY, placed, cabled_s=31)
    found = calm(site)
    oracle, late = expected(site.log)
    assert found == oracle
    assert late == 0
    jobs = {partition_of(job, PARTITIONS) for job in (b"71", b"72")}
    assert jobs & {partition for partition, _, table, _ in found if table == "accelerator"}
    assert {partition for partition, _, table, end in found if table == "port" and end > START + 30_000} == {0, 1}


#  window 20 closes at append time 25: what is told of it at 24 counts, what is told later does not
@pytest.mark.parametrize(("told_s", "counts"), [(23, True), (24, True), (25, False)])
def test_a_placement_told_while_its_window_closes_counts_by_its_append_time(told_s: int, counts: bool) -> None:
    site = Site(STEADY, [Placed(told_s, 9, (0, 1, 2, 3), 12)])
    found = calm(site)
    assert found == expected(site.log)[0]
    of_job = partition_of(b"9", PARTITIONS)
    of_window = {partition for partition, _, table, end in found if table == "accelerator" and end == START + 20_000}
    assert (of_window == {of_job}) is counts


ages = st.lists(st.integers(-6, 45) | st.integers(0, 4), min_size=1, max_size=6).map(tuple)
what = st.sampled_from(("fine", "fine", "fine", "twice", "damaged"))
sent = st.builds(Sent, st.integers(0, UNTIL_S - 1), st.integers(0, 3), ages, what, st.booleans())
hosts = st.lists(st.integers(0, 3), max_size=3, unique=True).map(tuple)
seconds = st.integers(0, UNTIL_S - 1)
placed = st.builds(Placed, seconds, st.integers(70, 73), hosts, seconds, st.none() | seconds)
crash = st.tuples(st.integers(1, 60), st.sampled_from(("commit:before", "commit:after")))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    frames=st.lists(sent, min_size=5, max_size=50),
    jobs=st.lists(placed, max_size=6),
    cabled_s=st.none() | seconds,
    limits=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    crashes=st.lists(crash, max_size=8),
    seed=st.integers(0, 99),
)
def test_batches_order_crashes_and_hand_overs_change_nothing(
    frames: list[Sent], jobs: list[Placed], cabled_s: int | None, limits: Sequence[int],
    crashes: list[tuple[int, str]], seed: int,
) -> None:  # fmt: skip
    """Two processes share the tasks from the middle on; each forgets all at its crashes."""
    due, commits = dict(crashes), [0]

    def hook(moment: str) -> None:
        commits[0] += moment == "commit:before"
        if due.get(commits[0]) == moment:
            del due[commits[0]]
            raise Crash

    site = Site(frames, jobs, cabled_s, seed, hook)
    running = {"a": site.runner("a")}
    for at_s in range(UNTIL_S):
        site.second(at_s)
        if at_s == UNTIL_S // 2:
            running["b"] = site.runner("b")
        for member in sorted(running, reverse=bool(seed % 2)):
            _drained(site, running, member, limits[at_s % len(limits)])
    for member in running:
        _drained(site, running, member, 50)
    oracle, _ = expected(site.log)
    assert site.windows() == oracle


def _drained(site: Site, running: dict[str, Runner], member: str, limit: int) -> None:
    while True:
        try:
            running[member].drain(limit)
            return
        except Crash:
            running[member] = site.runner(member)  # it comes back under its name and has forgotten everything


def test_rows_beyond_the_lateness_are_counted_and_change_nothing() -> None:
    late = [Sent(44, 2, (30, 25, 0)), Sent(47, 3, (40,))]
    site, without = Site([*STEADY, *late]), Site([*STEADY, Sent(44, 2, (0,))])
    runner = site.runner()
    for at_s in range(UNTIL_S):
        site.second(at_s)
        runner.drain()
    counted = dict.fromkeys(("accelerator", "port"), 0)
    for task in runner.held.values():
        assert isinstance(task, WindowTask)
        for table in counted:
            counted[table] += task.counts["late", table]
    assert expected(site.log)[1] == sum(counted.values()) == 2 * 2 * 3
    assert site.windows() == expected(site.log)[0]
    of_parts = [
        {key: rows for key, rows in one.items() if key[2] in counted} for one in (site.windows(), calm(without))
    ]
    assert of_parts[0] == of_parts[1]  # a late frame is a sign of life all the same


def _told(*at_ms: int, host: str = "h1") -> Decoded:
    values = {"power_watts": np.ones(len(at_ms))}
    samples = Samples("accelerator", [f"accelerator:{host}/0"] * len(at_ms), np.array(at_ms, np.int64), values)
    return Decoded([matrix_of(samples)])


class Away:
    """Side inputs that cannot be read until somebody says so."""

    def __init__(self) -> None:
        self.here = False
        self.asked: list[int] = []
        self._facts = Facts(Placements(), Fabric())

    def at(self, cutoff_ms: int, clock_ms: int) -> Facts | None:
        self.asked.append(cutoff_ms)
        assert clock_ms >= cutoff_ms + 1_000
        return self._facts if self.here else None

    def known(self, cutoff_ms: int) -> Facts:
        return self._facts


class Alone:
    """One task, spoken to record by record."""

    def __init__(self, sides: Away | None = None, mark: Mark | None = None) -> None:
        self.told: dict[int, Decoded] = {}
        self.task = WindowTask(
            Task(TELEMETRY, 0), mark or Mark(), lambda record: self.told[record.offset], sides=sides, partitions=2
        )
        self.offset = 0

    def say(self, append_ms: int, told: Decoded | None = None) -> list[Output]:
        self.offset += 1
        if told is not None:
            self.told[self.offset] = told
        value = b"" if told is None else b"frame"
        return list(self.task.take(Record(TELEMETRY, 0, self.offset, append_ms, b"" if told is None else b"h", value)))

    def ends(self, outputs: Sequence[Output]) -> list[tuple[int, bool]]:
        blocks = [decode(one.value or b"") for one in outputs if one.topic == FEATURES and not is_clock(one.key)]
        return [(block.end_ms, block.stale) for block in blocks]

    def clocks(self, outputs: Sequence[Output]) -> list[tuple[int, bool]]:
        found = [decode_clock(one.value or b"") for one in outputs if is_clock(one.key) and one.partition == 1]
        return [(clock.clock_ms, clock.stale) for clock in found]


#  0        10       15 17
#  [--------)[ late  )closed
def test_a_window_closes_once_the_clock_passes_its_end_and_lateness() -> None:
    one = Alone()
    one.say(10_000, _told(1_000, 9_999))
    assert one.ends(one.say(14_999)) == []
    out = one.say(15_000)
    assert one.ends(out) == [(10_000, False)]
    assert one.clocks(out) == [(15_000, False)]
    assert one.ends(one.say(17_000)) == []


def test_stamps_far_ahead_are_clamped_so_that_no_window_stays_open() -> None:
    one = Alone()
    one.say(1_000, _told(1_000, 90_000_000))
    assert one.ends(one.say(15_000)) == [(10_000, False)]
    assert one.task.counts["clamped", "accelerator"] == 1
    assert one.task.mark(99).low == 99


def test_a_record_that_closes_a_window_is_judged_by_the_time_it_brings() -> None:
    one = Alone()
    one.say(9_500, _told(9_000))
    assert one.ends(one.say(20_100, _told(9_100, 20_000))) == [(10_000, False)]
    one.say(35_000)
    assert one.task.counts["late", "accelerator"] == 1
    assert one.task.counts["closed", "accelerator"] == 2


def test_a_window_waits_for_its_side_inputs_and_so_does_the_clock() -> None:
    sides = Away()
    one = Alone(sides)
    one.say(9_000, _told(1_000))
    one.say(14_000)
    first = one.say(15_000)
    assert one.ends(first) == one.clocks(first) == []
    one.say(16_000, _told(12_000))  # a record that closes nothing asks nobody
    assert sides.asked == [14_000]
    assert one.task.mark(99).frontier_ms == 0
    assert one.task.mark(99).low == 1  # a restart reads the window again
    assert one.ends(one.say(17_000)) == []
    sides.here = True
    out = one.say(18_000)
    assert one.ends(out) == [(10_000, False)]
    assert one.clocks(out) == [(18_000, False)]
    assert one.task.mark(99).frontier_ms == 10_000


def test_a_window_that_waited_for_ten_seconds_goes_out_and_says_so() -> None:
    one = Alone(Away())
    one.say(9_000, _told(1_000))
    for at_ms in range(15_000, 25_000, 1000):
        assert one.say(at_ms) == []
    out = one.say(25_000)
    assert one.ends(out) == [(10_000, True)]
    assert one.clocks(out) == [(25_000, True)]
    assert one.clocks(one.say(26_000)) == [(26_000, False)]
    assert one.task.counts["stale", "accelerator"] == 1


def test_side_inputs_that_cannot_be_read_are_no_answer_and_are_asked_again() -> None:
    site = Site([], [Placed(1, 5, (0,), 0)])
    site.second(1)
    reader = SideReader(site.log, Admission(), SelfMetrics())
    away = [True]
    bounds = site.log.bounds

    def asked(task: Task) -> object:
        if away[0]:
            raise LogBusy("away")
        return bounds(task)

    site.log.bounds = asked  # type: ignore[method-assign, assignment]
    assert reader.at(START + 2_000, START + 3_000) is None
    away[0] = False
    assert reader.at(START + 2_000, START + 3_000) is None  # not at once
    reader._retry_s = 0.0
    facts = reader.at(START + 2_000, START + 3_000)
    assert facts is not None
    assert facts is reader.at(START + 2_000, START + 3_000)
    assert facts.placements.at(START + 2_000).hosts_of("5") == ("h0",)
