"""Faults of storage: who does input or output shows them, all clients are innocent unless one alone is the fault."""

import pytest

from simulator.faults.storage import FAULTS, STUCK_S
from tests.simulator.signature_kit import Signature
from tests.simulator.site_kit import AT, misunderstood, parts_with, seen_of

SAYS = {
    "storage_stall": {"filesystem.request_slow"},
    "storage_filer": {"filesystem.server_silent"},
    "storage_target_slow": set(),
    "storage_failover": {"filesystem.connection_lost", "filesystem.connection_restored"},
    "storage_client": {"filesystem.client_evicted", "filesystem.connection_lost", "filesystem.connection_restored"},
    "storage_suspected": set(),
}


def seen(fault: str, **settings: object) -> Signature:
    more = {"lasts_s": 25} if fault == "storage_failover" else {}
    return seen_of(fault, **{"timeout_s": 300, "hosts": 8} | more | settings)


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("severity", [1.0, 0.25])
def test_a_fault_of_storage_breaks_no_part_of_any_host_and_not_before_it_begins(fault: str, severity: float) -> None:
    found = seen(fault, severity=severity)
    earliest = AT - 4 if fault == "storage_client" else AT  # its checkpoint begins before
    assert earliest <= (found.began() or 0) <= AT + 3
    assert not {part for part in found.parts() if part.startswith(("optic:", "switch:", "pdu:", "cdu:"))}
    assert not parts_with(found, "port", "up")
    assert not parts_with(found, "host", "up")
    wall = {f"host:{host}" for host in found.scenario.cluster.hosts}
    assert found.expectation.exonerated & wall or fault == "storage_client"


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_every_line_of_it_is_read_and_names_the_target(fault: str) -> None:
    found = seen(fault)
    assert misunderstood(found) == []
    events = found.events("kernel")
    assert {event.kind for event in events} == SAYS[fault]
    known = found.expectation.touched | found.expectation.exonerated
    assert {event.peer for event in events} <= {part for part in known if part.startswith("storage:")}


def test_only_jobs_that_do_input_or_output_stall() -> None:
    found = seen("storage_stall")
    waiting = {
        host for job in found.scenario.jobs for host in job.hosts if f"job:{job.id}" in found.expectation.touched
    }
    assert 0 < len(waiting) < len(found.scenario.cluster.hosts)
    assert found.hosts() == waiting
    assert parts_with(found, "host", "tasks_blocked") == {f"host:{host}" for host in waiting}


def test_fewer_jobs_wait_where_it_is_hard_to_see() -> None:
    many, few = seen("storage_stall", severity=1.0), seen("storage_stall", severity=0.25)
    assert few.hosts() < many.hosts()


def test_all_clients_lose_a_server_that_is_taken_over_and_have_it_back() -> None:
    found = seen("storage_failover")
    hosts = {line.host for _, line in found.added if line.source == "kernel"}
    assert hosts == set(found.scenario.cluster.hosts)
    lost = [at_s for at_s, line in found.added if "was lost" in line.text]
    back = [at_s for at_s, line in found.added if "Connection restored" in line.text]
    assert AT + 3 <= min(lost) <= max(lost) < AT + 10
    assert AT + 25 <= min(back) <= max(back) <= AT + 30


def test_one_client_alone_is_evicted_and_its_target_is_innocent() -> None:
    found = seen("storage_client")
    assert {line.host for _, line in found.added if line.source == "kernel"} == {found.target}
    assert "storage:scratch-OST0012" in found.expectation.exonerated
    assert any("saving checkpoint" in line.text for at_s, line in found.added if at_s == AT - 4)


def test_a_slow_target_shows_in_checkpoints_alone() -> None:
    found = seen("storage_target_slow", until_s=100)
    assert {event.kind for event in found.events("kernel")} == {"filesystem.request_slow"}
    assert min(at_s for at_s, line in found.added if line.source == "kernel") == AT + 46
    faint = seen("storage_target_slow", until_s=100, severity=0.25)
    assert not faint.events("kernel"), "no request runs out of its time"


@pytest.mark.slow
def test_stuck_tasks_are_told_two_minutes_later_and_name_nobody() -> None:
    found = seen("storage_suspected", until_s=AT + STUCK_S + 14)
    events = found.events("kernel")
    assert {event.kind for event in events} == {"host.task_stuck"}
    assert not any(event.peer for event in events)
    assert min(at_s for at_s, line in found.added if line.source == "kernel") == AT + STUCK_S
    assert misunderstood(found) == []


@pytest.mark.slow
def test_a_file_server_says_when_it_is_back() -> None:
    found = seen("storage_filer", for_s=60, until_s=AT + 65)
    assert {event.kind for event in found.events("kernel")} == {"filesystem.server_silent", "filesystem.server_answers"}
