"""Faults of hosts and their disks, and a computation that is wrong in silence: where, when, and nowhere else."""

import pytest

from simulator.faults import disk, host
from tests.simulator.part_kit import AT, says_what_it_is, seen_at, shows_in_place, sign, truth_holds
from tests.simulator.signature_kit import signature

SIGNS = {
    "disk_failed": sign(
        "disk.timeout", "disk.failed", "disk.io_error", "filesystem.error", "filesystem.read_only",
        own="host.tasks_blocked host.pressure_io_ratio", until_s=AT + 70,
    ),
    "disk_degrading": sign("disk.timeout", "disk.io_error", own="host.tasks_blocked host.pressure_io_ratio"),
    "host_lockup": sign("host.soft_lockup", "host.cpu_stall", own="host.load_1m", until_s=AT + 70),
    "host_panic": sign("host.panic", "scheduler.host_silent", own="host.(told)", until_s=AT + 50),
    "host_down": sign("scheduler.host_silent", own="host.(told)", late_s=1, until_s=AT + 50),
    "host_condition": sign("scheduler.host_condition"),
    "host_tasks_stuck": sign("host.task_stuck", own="host.tasks_blocked", until_s=AT + 130),
    "loss_anomaly": sign(late_s=6),
}  # fmt: skip


def test_every_class_of_these_files_is_looked_at() -> None:
    assert SIGNS.keys() == {*disk.FAULTS, *host.FAULTS}


@pytest.mark.parametrize("fault", sorted(SIGNS))
def test_it_shows_where_and_when_it_should_and_nowhere_else(fault: str) -> None:
    shows_in_place(seen_at(fault, 1.0, SIGNS[fault].until_s), SIGNS[fault])


@pytest.mark.parametrize("fault", sorted(SIGNS))
def test_every_line_is_read_as_what_it_is(fault: str) -> None:
    says_what_it_is(seen_at(fault, 1.0, SIGNS[fault].until_s), SIGNS[fault])
    truth_holds(seen_at(fault, 1.0, SIGNS[fault].until_s))


def test_a_lost_host_takes_its_sensors_and_its_ports_and_the_scheduler_misses_it_later() -> None:
    seen = seen_at("host_down", 1.0, AT + 50)
    cards = seen.scenario.cluster.of(seen.host)
    told = {part for part, row in seen.changed("port").items() if "(told)" in row}
    assert told == {card.port for card in cards}
    assert [at_s for at_s, line in seen.added if line.source == "scheduler"] == [AT + 45]
    assert not seen.texts("kernel")


def test_the_scheduler_gives_a_lost_host_up_after_its_five_minutes() -> None:
    seen = signature("host_down", at_s=5, until_s=310, hosts=2)
    assert [event.kind for event in seen.events("scheduler")] == ["scheduler.host_silent", "scheduler.host_down"]
    assert [at_s for at_s, line in seen.added if line.source == "scheduler"] == [50, 305]


def test_a_lockup_that_is_hard_to_see_slows_the_job_and_does_not_stop_it() -> None:
    seen = seen_at("host_lockup", 0.2)
    kinds = {event.kind for event in seen.events("job")}
    assert not kinds
    assert seen.lost


def test_a_disk_is_told_of_when_its_command_has_waited_and_its_job_dies_of_it() -> None:
    seen = seen_at("disk_failed", 1.0, AT + 70)
    times = sorted({at_s for at_s, line in seen.added if line.source == "kernel"})
    assert times[0] == AT + 30
    assert times[-1] <= AT + 65
    assert "rank.exited" in {event.kind for event in seen.events("job")}


def test_a_wrong_gradient_jumps_on_the_job_and_shows_in_no_sensor() -> None:
    seen = seen_at("loss_anomaly")
    assert not seen.parts()
    assert {line.source for _, line in seen.added} == {"job"}
    norms = [float(text.rpartition("grad norm: ")[2].split()[0]) for text in seen.texts("job")]
    assert all(norm == pytest.approx(0.412 * 14, rel=0.01) for norm in norms)
    assert 2 <= len(norms) <= 4
    assert {f"host:{name}" for name in seen.job_hosts()} <= seen.expectation.exonerated


def test_one_that_is_no_number_is_told_as_such() -> None:
    seen = signature("loss_anomaly", at_s=AT, until_s=AT + 20, finite=False)
    assert {event.kind for event in seen.events("job")} == {"job.loss_not_finite"}
