"""Verdicts on explicit events: which words in a log deserve which headline, and which deserve none."""

import pytest

from diagnosis.engine import diagnose
from sickbay.messages import ALLOWED_ACTIONS, Action, Blame, Event, Severity, Verdict
from sickbay.vocabulary import event_kinds, faults
from tests.diagnosis.kit import HOSTS, card, case, event, placement, progress

CARD = card("h17", 3)


def headline(*events: Event) -> tuple[Verdict, str, Action]:
    (incident,) = diagnose(case(events))
    return incident.verdict, incident.component, incident.action


def test_a_program_error_is_the_job_and_touches_no_host() -> None:
    errors = [event("accelerator.program_error", CARD, n / 10, code="Xid 13", process="train[7]") for n in range(12)]
    crash = event("process.crashed", "process:h17/train[7]", 1.0)
    verdict, _, action = headline(*errors, crash)
    assert (verdict, action) == (Verdict.JOB, Action.RESTART_JOB)


def test_runs_of_one_failing_program_stay_the_program() -> None:
    faults_ = [event("accelerator.page_fault", CARD, 60.0 * n, code="Xid 31", process=f"train[{n}]") for n in range(4)]
    assert headline(*faults_)[0] is Verdict.JOB


def test_one_failure_on_two_devices_is_one_incident() -> None:
    both = [event("accelerator.page_fault", card("h17", n), n / 10, process="serve[3]") for n in (1, 2)]
    assert headline(*both)[0] is Verdict.JOB


def test_the_known_job_is_named() -> None:
    at = case([event("accelerator.page_fault", CARD)], [placement("4471", HOSTS)])
    (incident,) = diagnose(at)
    assert (incident.verdict, incident.component) == (Verdict.JOB, "job:4471")


def test_the_same_error_in_different_jobs_is_the_device() -> None:
    marked = {"repeats_across_jobs": "3"}
    errors = [event("accelerator.program_error", CARD, n * 3600.0, job=f"j{n}", attributes=marked) for n in range(3)]
    found = {one.component: one for one in diagnose(case(errors))}
    assert found[CARD].verdict is Verdict.COMPONENT
    assert found[CARD].fault == "accelerator_code_repeats"
    assert found[CARD].action is Action.DRAIN_HOST


def test_a_context_timeout_after_a_program_error_is_one_incident_that_restarts_the_job() -> None:
    errors = [event("accelerator.program_error", CARD, 0.0, code="Xid 13", count=3)]
    hang = event("accelerator.context_timeout", CARD, 5.0, code="Xid 109", advice=Action.RESTART_JOB)
    assert headline(*errors, hang)[2] is Action.RESTART_JOB


def test_memory_error_with_pending_repair_and_containment_is_one_incident_that_resets() -> None:
    words = [
        event("accelerator.memory_uncorrectable", CARD, 0.0, code="Xid 48"),
        event("accelerator.memory_repair_pending", CARD, 0.1, code="Xid 63"),
        event("accelerator.memory_contained", CARD, 0.2, code="Xid 94"),
        event("accelerator.channel_closed", CARD, 0.3, code="Xid 45", count=200),
    ]
    assert headline(*words) == (Verdict.COMPONENT, CARD, Action.RESET_DEVICE)


def test_undated_lines_of_one_device_are_one_incident() -> None:
    words = [
        event("accelerator.memory_uncorrectable", CARD, None, line=3),
        event("accelerator.memory_contained", CARD, None, line=4),
        event("accelerator.program_error", CARD, None, line=5),
    ]
    assert headline(*words)[:2] == (Verdict.COMPONENT, CARD)


def test_a_corrected_error_and_a_notice_are_no_incidents() -> None:
    quiet = [
        event("pcie.corrected", "pcie:h17/0000:20:03.1", count=359),
        event("accelerator.memory_corrected", CARD),
        event("monitor.error", "monitor:h17/engine"),
        event("port.config_notice", "port:leaf2/Ethernet0", count=60),
        event("accelerator.unknown_code", CARD, attributes={"window": "300"}),
        event("host.boot", "host:h17"),
        event("job.failed", "job:4471"),
    ]
    assert diagnose(case(quiet)) == ()


def test_an_injected_error_is_no_evidence() -> None:
    assert diagnose(case([event("accelerator.off_bus", CARD, attributes={"injected": "yes"})])) == ()


@pytest.mark.parametrize("word", ["window", "last_value", "cleared_by_boot", "cleared_by_recovery"])
def test_what_only_tells_that_something_was_is_never_above_watch(word: str) -> None:
    old = event("accelerator.firmware_hang", CARD, advice=Action.RESET_DEVICE, attributes={word: "yes"})
    assert headline(old)[2] is Action.WATCH


def test_the_drivers_verdict_outranks_the_usual_action() -> None:
    hang = event("accelerator.engine_hang", CARD, 0.0)
    asks = event("accelerator.recovery_action", CARD, 1.0, advice=Action.REBOOT_HOST, attributes={"asks": "reboot"})
    assert headline(hang, asks) == (Verdict.COMPONENT, CARD, Action.REBOOT_HOST)


def test_a_driver_that_asks_for_nothing_speaks_against_the_device() -> None:
    contained = event("accelerator.memory_contained", CARD, 0.0)
    nothing = event("accelerator.recovery_action", CARD, 1.0, attributes={"asks": "none"})
    (incident,) = diagnose(case([contained, nothing]))
    assert incident.action in (Action.WATCH, Action.RESTART_JOB)
    assert [one.says for one in incident.against] == ["driver_asks_nothing"]
    (alone,) = diagnose(case([contained]))
    assert incident.probability < alone.probability


def test_a_device_that_left_the_bus_is_not_reset_whatever_its_driver_asks() -> None:
    lost = event("accelerator.off_bus", CARD, 0.0)
    asks = event("accelerator.recovery_action", CARD, 1.0, advice=Action.RESET_DEVICE, attributes={"asks": "reset"})
    assert headline(lost, asks)[2] is Action.REBOOT_HOST


def test_a_reporter_of_a_peers_link_is_a_symptom() -> None:
    root = event("accelerator.link_fatal", CARD, 0.0)
    peer = event("accelerator.link_nonfatal", card("h17", 1), 0.2, attributes={"victim_of": CARD})
    (incident,) = diagnose(case([root, peer]))
    assert incident.component == CARD
    assert incident.dependants == (card("h17", 1),)


def test_no_accelerator_at_all_is_software_and_one_too_few_is_not() -> None:
    assert headline(event("scheduler.accelerators_none", "host:dev-1"))[2] is Action.FIX_SOFTWARE
    assert headline(event("scheduler.accelerators_fewer", "host:dev-1"))[2] is Action.DRAIN_HOST


def test_a_host_that_failed_a_job_is_watched() -> None:
    assert headline(event("scheduler.host_failed_job", "host:b22")) == (Verdict.COMPONENT, "host:b22", Action.WATCH)


def test_a_broken_path_names_no_end() -> None:
    path = "path:192.0.2.182~192.0.2.221"
    broken = event("path.retry_exceeded", path, code="status 12")
    flushed = event("path.flushed", path, 0.1, count=2)
    assert headline(broken, flushed) == (Verdict.COMPONENT, path, Action.CHECK_LINK)


def test_three_paths_that_share_an_end_name_it() -> None:
    broken = [event("path.retry_exceeded", f"path:192.0.2.{n}~192.0.2.9", n) for n in (1, 2, 3)]
    assert headline(*broken)[1] == "path:192.0.2.9~?"


def test_an_orderly_shutdown_is_maintenance() -> None:
    words = [event("host.shutdown_orderly", "host:h17", 0.0), event("port.down", "port:h17/eth0", 3.0)]
    verdict, component, action = headline(*words)
    assert (verdict, component, action) == (Verdict.MAINTENANCE, "host:h17", Action.IGNORE)


def test_an_orderly_shutdown_that_hits_nobody_is_no_incident() -> None:
    down = [event("host.shutdown_orderly", "host:h17")]
    assert diagnose(case(down)) == ()
    (hit,) = diagnose(case(down, [placement("4471", HOSTS)]))
    assert (hit.verdict, hit.affected.jobs) == (Verdict.MAINTENANCE, ("4471",))


def test_a_port_closed_by_a_person_is_no_fault() -> None:
    words = [event("port.admin_down", "port:leaf/E1", 0.0), event("port.down", "port:leaf/E1", 0.1)]
    assert diagnose(case(words)) == ()


def test_light_lost_and_card_lost_in_one_job_are_two_incidents() -> None:
    lost = event("accelerator.off_bus", CARD, 0.0)
    dark = event("optic.unplugged", "optic:h20/eth3", 30.0)
    assert len(diagnose(case([lost, dark], [placement("4471", HOSTS)]))) == 2


def test_a_loss_that_is_not_finite_blames_nobody() -> None:
    (incident,) = diagnose(case([event("job.loss_not_finite", "job:4471")]))
    assert (incident.verdict, incident.action, incident.test) == (Verdict.UNKNOWN, Action.WATCH, "replay_batch")


@pytest.mark.parametrize("kind", sorted(event_kinds()))
def test_every_kind_of_event_gives_a_lawful_incident_or_none(kind: str) -> None:
    row = event_kinds()[kind]
    words = [(row.severity, blame, 0.0) for blame in Blame] + [(severity, row.blame, None) for severity in Severity]
    for severity, blame, at_s in words:
        one = event(kind, f"{row.component}:h17/x", at_s, severity=severity, blame=blame)
        for incident in diagnose(case([one])):
            assert incident.action in ALLOWED_ACTIONS[incident.verdict]
            assert incident.fault in faults()
            assert sum(suspect.probability for suspect in incident.suspects) <= 1.0
            assert incident.summary


def test_a_hardware_error_that_a_rank_was_told_of_names_its_device() -> None:
    told = event("rank.device_error", "rank:4471/19", 0.0, blame=Blame.HARDWARE, severity=Severity.ERROR, code="ECC")
    (incident,) = diagnose(case([told], [placement("4471", HOSTS)]))
    assert (incident.verdict, incident.component) == (Verdict.COMPONENT, card("h17", 3))
    assert incident.action is Action.RESET_DEVICE


def test_the_hosts_own_log_says_it_better_than_the_rank() -> None:
    told = event("rank.device_error", "rank:4471/19", 3.0, blame=Blame.HARDWARE, path="job.log")
    lost = event("accelerator.off_bus", CARD, 0.0)
    (incident,) = diagnose(case([told, lost], [placement("4471", HOSTS)]))
    assert (incident.component, incident.fault) == (CARD, "accelerator_off_bus")


def test_a_program_error_that_a_rank_was_told_of_is_the_job() -> None:
    told = event("rank.device_error", "rank:4471/19", 0.0, blame=Blame.APPLICATION, code="illegal memory access")
    assert headline(told)[:2] == (Verdict.JOB, "job:4471")


def test_a_failed_collective_alone_is_a_question() -> None:
    assert headline(event("rank.collective_error", "rank:4471/3"))[::2] == (Verdict.UNKNOWN, Action.WATCH)


def test_one_soft_lockup_is_watched_and_many_are_not() -> None:
    once = event("host.soft_lockup", "host:h17")
    assert headline(once)[2] is Action.WATCH
    many = [event("host.soft_lockup", "host:h17", n * 5.0) for n in range(4)]
    assert headline(*many)[2] is Action.DRAIN_HOST


def test_a_crash_of_some_program_on_a_host_is_no_incident() -> None:
    assert diagnose(case([event("process.crashed", "process:h17/bash[12]")])) == ()


def test_carriers_that_come_and_go_while_a_host_starts_are_no_fault() -> None:
    since_boot = event("port.down", "port:h17/eth2", None, at_boot_s=12.0)
    dated = [event("host.boot", "host:h18"), event("port.down", "port:h18/eth2", 20.0)]
    assert diagnose(case([since_boot, *dated])) == ()
    assert headline(event("port.down", "port:h17/eth2", None, at_boot_s=90_000.0))[2] is Action.CHECK_LINK


def test_a_pause_storm_that_a_switch_tells_of_drains_nobody_by_itself() -> None:
    assert headline(event("port.pause_storm", "port:leaf2/Ethernet8"))[2] is Action.WATCH


def test_undated_transport_failures_in_the_log_of_a_hang_join_what_explains_the_hang() -> None:
    waits = tuple(progress(rank, path="job.log") for rank in (1, 2))
    broken = event("path.retry_exceeded", "path:10.0.0.15~10.0.0.17", None, path="job.log")
    lost = event("accelerator.off_bus", CARD, 0.0)
    (incident,) = diagnose(case([lost, broken], [placement("4471", HOSTS)], progress=waits))
    assert incident.component == CARD
    elsewhere = event("path.retry_exceeded", "path:10.0.0.15~10.0.0.17", None, path="other.log")
    assert len(diagnose(case([lost, elsewhere], [placement("4471", HOSTS)], progress=waits))) == 2
