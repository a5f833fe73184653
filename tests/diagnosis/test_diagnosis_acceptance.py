"""Nights as an acceptance tester composed them: shutdowns in a row, undated clients, wrong clocks, dead links."""

from typing import Any

import polars as pl

from diagnosis.case import Case
from diagnosis.engine import diagnose, evidence_of
from diagnosis.localise import hosts_with_wrong_clock
from remediation.plan import plan
from sickbay.messages import Action, Edge, Event, Incident, Relation, Step, Verdict
from tests.diagnosis.kit import T0, card, case, event, placement

HOSTS = [f"h{number}" for number in range(15, 23)]


def only(at: Case) -> Incident:
    (incident,) = diagnose(at)
    return incident


def done(incident: Incident, at: Case) -> set[str]:
    return {step.do for step in plan(incident, at)}


def shutdowns(hosts: list[str], apart_s: int = 40) -> list[Event]:
    found = []
    for number, host in enumerate(hosts):
        at = number * apart_s
        found += [
            event("host.shutdown_orderly", f"host:{host}", at, path=f"{host}.log"),
            event("port.down", f"port:{host}/eth0", at + 1, path=f"{host}.log"),
            event("scheduler.host_down", f"host:{host}", at + 292, path="controller.log"),
        ]
    return found


def test_hosts_shut_down_one_after_the_other_are_one_person_at_work() -> None:
    at = case(shutdowns(HOSTS), [placement("4471", HOSTS)])
    incident = only(at)
    assert (incident.verdict, incident.component, incident.action) == (
        Verdict.MAINTENANCE, "host:h15", Action.IGNORE,
    )  # fmt: skip
    assert {f"host:{host}" for host in HOSTS[1:]} <= set(incident.dependants)
    told = plan(incident, at)
    assert [step.target for step in told if step.do == "page_owner"] == ["owner:operations"]
    assert {step.target for step in told if step.do == "exclude_for_job"} == {f"host:{host}" for host in HOSTS}
    assert not {"drain_host", "relaunch_in_allocation", "reboot_host", "power_cycle"} & done(incident, at)


def test_the_rack_that_they_share_is_the_place_of_the_work() -> None:
    racks = [Edge(child=f"host:{host}", parent="rack:r1", relation=Relation.PART_OF) for host in HOSTS]
    at = case(shutdowns(HOSTS), [placement("4471", HOSTS)], racks)
    assert (only(at).verdict, only(at).component) == (Verdict.MAINTENANCE, "rack:r1")


def test_shutdowns_that_nothing_dates_are_one_question_too() -> None:
    events = [
        event(kind, component, None, path=f"{host}.log")
        for host in HOSTS
        for kind, component in (("host.shutdown_orderly", f"host:{host}"), ("port.down", f"port:{host}/eth0"))
    ]
    assert (only(case(events)).verdict, only(case(events)).component) == (Verdict.MAINTENANCE, "host:h15")


def test_shutdowns_hours_apart_are_not_one_work() -> None:
    at = case(shutdowns(HOSTS[:2], apart_s=3_600), [placement("4471", HOSTS)])
    assert [one.component for one in diagnose(at)] == ["host:h15", "host:h16"]


def test_the_servers_word_about_a_client_is_no_second_client() -> None:
    told = event(
        "filesystem.client_evicted", "filesystem:192.0.2.7@o2ib/OST0012", peer="storage:OST0012", host="oss03",
        path="oss03.log", attributes={"told_by": "server"},
    )  # fmt: skip
    own = event("filesystem.client_evicted", "filesystem:h16/OST0012", 1, peer="storage:OST0012", path="h16.log")
    at = case([told, own], [placement("4471", HOSTS)])
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.COMPONENT, "filesystem:h16/OST0012")
    told_steps = {step.do: step.when for step in plan(incident, at)}
    assert told_steps["restart_service"] == "when_idle"
    assert {"page_owner", "request_checkpoint", "run_test"} <= set(told_steps)


def stuck_on(hosts: list[str], **fields: Any) -> list[Event]:
    return [
        event("host.task_stuck", f"host:{host}", 120 + number, path=f"{host}.log", **fields)
        for number, host in enumerate(hosts)
    ]


def test_clients_that_name_one_target_without_a_time_are_one_shared_stall() -> None:
    slow = [
        event("filesystem.request_slow", f"filesystem:{host}/MDT0", None, peer="storage:MDT0", path=f"{host}.log")
        for host in HOSTS
    ]
    at = case(slow, [placement("A", HOSTS[:4]), placement("B", HOSTS[4:])])
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.SHARED, "storage:MDT0")
    assert {step.target for step in plan(incident, at) if step.do == "hold_job"} <= {"job:A", "job:B"}
    assert not {"drain_host", "soft_avoid"} & done(incident, at)


def test_tasks_stuck_on_many_hosts_with_no_target_are_one_question() -> None:
    at = case(stuck_on(HOSTS), [placement("A", HOSTS[:4]), placement("B", HOSTS[4:])])
    incident = only(at)
    assert (incident.verdict, incident.fault) == (Verdict.UNKNOWN, "storage_suspected")
    assert not {"drain_host", "reboot_host", "relaunch_in_allocation"} & done(incident, at)


def test_tasks_that_hang_behind_a_broken_part_ask_nothing_about_storage() -> None:
    lost = [event("accelerator.off_bus", card(host, 1), 10, path=f"{host}.log") for host in HOSTS[:2]]
    at = case([*lost, *stuck_on(HOSTS[:2])], [placement("A", HOSTS)])
    assert {one.fault for one in diagnose(at)} == {"accelerator_off_bus"}


def test_the_host_of_a_dead_link_is_held_without_blame() -> None:
    at = case([event("port.down", "port:h16/eth0")], [placement("4471", HOSTS)])
    told = plan(only(at), at)
    assert [step.target for step in told if step.do == "dependency_hold"] == ["host:h16"]
    assert "drain_host" not in {step.do for step in told}


def test_a_link_that_came_back_holds_nobody() -> None:
    events = [event("port.down", "port:h16/eth0"), event("port.up", "port:h16/eth0", 5)]
    at = case(events, [placement("4471", HOSTS)])
    assert "dependency_hold" not in done(only(at), at)


def test_an_optic_and_its_port_are_one_by_the_address_of_the_adapter() -> None:
    dark = event("optic.unplugged", "optic:h16/0000:5e:00.0", 0)
    down = event("port.down", "port:h16/eth0", 0.1, attributes={"pci": "0000:5e:00.0"})
    assert only(case([dark, down])).component == "optic:h16/0000:5e:00.0"
    nearby = event("port.down", "port:h17/eth0", 0.1, attributes={"pci": "0000:5e:00.0"}, path="other.log")
    assert len(diagnose(case([dark, nearby]))) == 2


def test_a_clock_that_is_off_is_a_notice_and_takes_the_host_out_of_order() -> None:
    rows = {"component": ["host:h15", "host:h16", "host:h17"], "end_ms": [T0] * 3, "n": [10] * 3}
    frame = pl.DataFrame(rows | {"clock_offset_seconds": [90.0, -2.0, 0.001]})
    at = case([], [placement("4471", HOSTS)], features={"host": frame})
    assert diagnose(at) == ()
    told = {one.component: one for one in evidence_of(at)}
    assert set(told) == {"monitor:h15/clock", "monitor:h16/clock"}
    assert {one.advice for one in told.values()} == {Action.FIX_SOFTWARE}
    assert hosts_with_wrong_clock(at) == frozenset({"h15"})


def test_a_repair_that_failed_drains_the_host_whatever_its_code_asks_for() -> None:
    failed = event("accelerator.memory_repair_failed", card("h16", 2), advice=Action.RESET_DEVICE)
    at = case([failed])
    assert only(at).action is Action.DRAIN_HOST
    steps = [step.do for step in plan(only(at), at)]
    assert "reset_device" not in steps
    assert steps.index("run_test") < steps.index("replace_part")


def log_of(saved_s: list[int]) -> tuple[Step, ...]:
    """Steps of 10 s with a checkpoint after every tenth; only the steps bear a time."""
    found, at, line = [], T0, 1
    for round_, seconds in enumerate(saved_s):
        for number in range(10):
            at += 10_000
            step = round_ * 10 + number
            found.append(Step(step=step, job="A", at_ms=at, duration_ms=10_000.0, path="job.log", line=line))
            line += 1
        for phase in ("checkpoint_begin", "checkpoint_end"):
            found.append(Step(step=round_ * 10 + 9, job="A", phase=phase, path="job.log", line=line))
            line += 1
        at += seconds * 1000
    last = Step(step=10 * len(saved_s), job="A", at_ms=at + 10_000, duration_ms=10_000.0, path="job.log", line=line)
    return (*found, last)


def test_undated_checkpoints_are_timed_by_the_steps_around_them() -> None:
    at = case(placements=[placement("A", HOSTS)], steps=log_of([70, 70, 70, 70, 300]))
    incident = only(at)
    assert (incident.verdict, incident.fault) == (Verdict.SHARED, "storage_stall")
    (claim,) = evidence_of(at)
    assert (claim.facts["seconds"], claim.facts["usual"]) == ("300", "70")
    assert diagnose(case(placements=[placement("A", HOSTS)], steps=log_of([70] * 5))) == ()
