"""A job's own words when nothing names a part: a hang without an operation, a death without a reason, mixed blame."""

from typing import Any

import pytest

from diagnosis.case import Case
from diagnosis.engine import diagnose
from sickbay.messages import Action, Blame, Event, Incident, Severity, Verdict
from tests.diagnosis.kit import event


def incidents(*events: Event) -> tuple[Incident, ...]:
    return diagnose(Case(events=events))


def ended(**fields: Any) -> Event:
    return event("rank.exited", "rank:j1/3", code="exit -9 SIGKILL", attributes={"unexplained": "true"}, **fields)


def test_a_watchdog_that_stood_still_is_a_hang_that_blames_nobody() -> None:
    stuck = [event("rank.collective_aborted", f"rank:j1/{rank}", code="heartbeat monitor") for rank in range(3)]
    (found,) = incidents(*stuck)
    assert (found.verdict, found.fault, found.action) == (Verdict.UNKNOWN, "collective_stall", Action.WATCH)
    assert found.component == "job:j1"


def test_teardown_alone_is_no_hang() -> None:
    assert incidents(event("rank.collective_aborted", "rank:j1/3", code="store connection")) == ()


def test_a_death_that_nothing_explains_restarts_the_job_and_blames_nobody() -> None:
    (found,) = incidents(ended())
    assert (found.verdict, found.fault, found.action) == (Verdict.UNKNOWN, "job_killed", Action.RESTART_JOB)


@pytest.mark.parametrize("kind", ["rank.collective_timeout", "job.out_of_memory", "rank.collective_error"])
def test_a_death_that_another_line_explains_adds_no_claim(kind: str) -> None:
    component = "job:j1" if kind.startswith("job.") else "rank:j1/5"
    assert "job_killed" not in {found.fault for found in incidents(ended(), event(kind, component))}


def test_a_program_that_ends_with_its_own_code_is_an_event_only() -> None:
    assert incidents(event("rank.exited", "rank:j1/3", code="exit 1", severity=Severity.WARNING)) == ()


def test_a_dead_process_names_no_job_after_its_host() -> None:
    died = event("process.exited", "process:192.0.2.8/77", code="ActorDiedError", attributes={"unexplained": "true"})
    (found,) = incidents(died)
    assert found.component == "job:?"


def test_one_hardware_word_among_vague_ones_decides() -> None:
    vague = event("rank.device_error", "rank:j1/3", code="launch timed out")
    hard = event("rank.device_error", "rank:j1/3", code="uncorrectable ECC error", blame=Blame.HARDWARE)
    (found,) = incidents(vague, hard)
    assert found.fault == "accelerator_error_told"
    assert found.action not in (Action.IGNORE, Action.RESTART_JOB)
