"""The nights on call: right verdict, right component, right headline, and none of the forbidden acts."""

from collections.abc import Iterable
from typing import Any

import polars as pl
import pytest

from diagnosis.case import Case
from diagnosis.engine import diagnose
from remediation.plan import plan, planned
from sickbay.messages import Action, Edge, Incident, PlanStep, Relation, Step, Verdict
from tests.diagnosis.kit import (
    T0,
    Row,
    accelerators,
    card,
    case,
    event,
    hosts_up,
    leaf,
    placement,
    progress,
    stalled_after,
)

HOSTS = [f"h{number}" for number in range(15, 21)]


def steps(incident: Incident, at: Case) -> list[str]:
    return [step.do for step in plan(incident, at)]


def all_steps(at: Case) -> list[PlanStep]:
    return [step for incident in planned(diagnose(at), at) for step in incident.plan]


def only(at: Case) -> Incident:
    (incident,) = diagnose(at)
    return incident


def in_order(wanted: Iterable[str], done: list[str]) -> bool:
    rest = iter(done)
    return all(any(step == word for step in rest) for word in wanted)


def h17_goes_blind(component: str, end_s: int, row: Row) -> Row | None:
    if component.startswith("accelerator:h17/") and end_s > 0:
        return None
    return stalled_after(0, row, end_s)


def night_1(**more: Any) -> Case:
    events = [
        event("pcie.corrected", "pcie:h17/0000:00:01.1", -40, count=12),
        event("accelerator.off_bus", card("h17", 3), 0, code="XID 79"),
        *(event("path.retry_exceeded", f"path:10.0.0.{n}~10.0.0.17", 40 + n) for n in range(4)),
    ]
    waiting = tuple(progress(r, group_ranks=tuple(range(48))) for r in range(48) if not 16 <= r < 24)
    features = {"accelerator": accelerators(HOSTS, h17_goes_blind), "host": hosts_up(HOSTS)}
    return case(events, [placement("4471", HOSTS)], [], features, progress=waiting, now_ms=T0 + 660_000, **more)


def test_night_1_card_off_the_bus_is_one_incident_with_its_late_symptoms() -> None:
    at = night_1()
    incident = only(at)
    assert incident.verdict is Verdict.COMPONENT
    assert incident.component == card("h17", 3)
    assert incident.fault == "accelerator_off_bus"
    assert incident.action is Action.REBOOT_HOST
    assert incident.probability >= 0.95
    assert incident.affected.jobs == ("4471",)
    done = steps(incident, at)
    wanted = [
        "drain_host",
        "collect_evidence",
        "stop_job",
        "relaunch_in_allocation",
        "power_cycle",
        "run_test",
        "release",
    ]
    assert in_order(wanted, done)
    assert "reset_device" not in done
    assert "restart_service" not in done
    drained = {step.target for step in plan(incident, at) if step.do in ("drain_host", "power_cycle")}
    assert drained == {"host:h17"}


def test_night_1_blames_no_peer_and_no_rank_that_waited() -> None:
    incident = only(night_1())
    assert {suspect.component for suspect in incident.suspects} == {card("h17", 3)}
    assert sum(suspect.probability for suspect in incident.suspects) <= 1.0


def slow_card(component: str, end_s: int, row: Row) -> Row:
    row |= {"matrix_active_ratio": row["matrix_active_ratio"] * 0.93}  # everybody waits for it alike
    if component == card("h18", 2) and end_s > 0:
        row |= {
            "clock_megahertz": 1620.0, "temperature_celsius": 84.0,
            "thermal_violation_nanoseconds_total__increase": 2e9,
        }  # fmt: skip
    return row


def test_night_4_slow_card_is_watched_and_swapped_at_a_committed_checkpoint() -> None:
    at = case([], [placement("4471", HOSTS)], [], {"accelerator": accelerators(HOSTS, slow_card)})
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.COMPONENT, card("h18", 2))
    assert incident.fault == "accelerator_thermal"
    assert incident.action is Action.WATCH
    told = plan(incident, at)
    assert [step.do for step in told][:2] == ["watch", "soft_avoid"]
    assert all(step.when == "at_checkpoint" for step in told if step.do in ("stop_job", "drain_host"))


def test_night_4_needs_thirty_seconds() -> None:
    frame = accelerators(HOSTS, slow_card, to_s=20)
    assert diagnose(case([], [placement("4471", HOSTS)], [], {"accelerator": frame})) == ()


def one_low_clock(component: str, end_s: int, row: Row) -> Row:
    return row | {"clock_megahertz": 1620.0} if component == card("h18", 2) and end_s > 0 else row


def test_one_family_of_signs_needs_two_minutes_and_earns_a_watch_at_most() -> None:
    short = accelerators(HOSTS, one_low_clock, to_s=100)
    assert diagnose(case([], [placement("4471", HOSTS)], [], {"accelerator": short})) == ()
    long = accelerators(HOSTS, one_low_clock, to_s=130)
    at = case([], [placement("4471", HOSTS)], [], {"accelerator": long})
    assert only(at).action is Action.WATCH
    assert not {"stop_job", "drain_host"} & set(steps(only(at), at))


def narrow_bus(component: str, end_s: int, row: Row) -> Row:
    return row | {"bus_width_lanes": 8.0} if component == card("h18", 2) else row


def test_night_5b_a_link_narrow_since_boot_is_seen_and_an_idle_host_drained() -> None:
    at = case([], [], [], {"accelerator": accelerators(HOSTS, narrow_bus)})
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.COMPONENT, card("h18", 2))
    assert (incident.fault, incident.action) == ("pcie_degraded", Action.DRAIN_HOST)
    done = steps(incident, at)
    assert in_order(["drain_host", "collect_evidence", "power_cycle", "run_test", "release"], done)
    assert not {"stop_job", "isolate_port"} & set(done)


def test_night_5a_under_a_living_job_nothing_is_stopped_at_once() -> None:
    at = case([], [placement("4471", HOSTS)], [], {"accelerator": accelerators(HOSTS, narrow_bus)})
    told = plan(only(at), at)
    assert all(step.when == "at_checkpoint" for step in told if step.do in ("stop_job", "drain_host"))
    assert "isolate_port" not in [step.do for step in told]


def night_8(events: Iterable[Any] = (), placed: bool = True) -> Case:
    features = {"accelerator": accelerators(HOSTS, h17_goes_blind), "host": hosts_up(HOSTS)}
    return case(events, [placement("4471", HOSTS)] if placed else [], [], features)


def test_night_8_going_blind_as_the_job_stalls_is_that_host() -> None:
    at = night_8()
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.COMPONENT, "host:h17")
    assert incident.fault == "host_blind"
    assert incident.probability >= 0.9
    assert steps(incident, at)[0] == "exclude_for_job"
    assert {step.target for step in plan(incident, at) if step.phase == "contain"} == {"host:h17"}


def test_night_8_without_a_scheduler_the_host_is_named_too() -> None:
    assert only(night_8(placed=False)).component == "host:h17"


def test_night_8_the_code_that_comes_45_s_later_names_the_card_in_the_same_incident() -> None:
    at = night_8([event("accelerator.firmware_hang", card("h17", 2), 45, code="XID 119")])
    incident = only(at)
    assert (incident.component, incident.fault) == (card("h17", 2), "accelerator_firmware_hang")
    assert in_order(["exclude_for_job", "collect_evidence", "drain_host", "stop_job"], steps(incident, at))


def test_blindness_while_the_job_moves_is_nothing() -> None:
    def blind_only(component: str, end_s: int, row: Row) -> Row | None:
        return None if component.startswith("accelerator:h17/") and end_s > 0 else row

    features = {"accelerator": accelerators(HOSTS, blind_only), "host": hosts_up(HOSTS)}
    assert diagnose(case([], [placement("4471", HOSTS)], [], features)) == ()


def test_a_cluster_that_goes_blind_as_a_whole_is_the_monitoring() -> None:
    def all_blind(component: str, end_s: int, row: Row) -> Row | None:
        return None if end_s > 0 else row

    features = {"accelerator": accelerators(HOSTS, all_blind), "host": hosts_up(HOSTS)}
    assert diagnose(case([], [placement("4471", HOSTS)], [], features)) == ()


def test_night_12_dirty_connector_is_cleaned_not_replaced_and_nothing_is_drained() -> None:
    def received(end: int) -> float:
        return -1.9 if end <= 0 else -4.1

    def steady(end: int) -> float:
        return -2.0

    port, far = "h18/eth3", "leaf-07/Ethernet3"
    rows = [
        {"component": f"optic:{name}", "end_ms": T0 + end * 1000, "rx_power_dbm": level(end), "tx_power_dbm": -1.0}
        for end in range(-120, 61, 10)
        for name, level in ((port, received), (far, steady))
    ]
    edges = [Edge(child=f"port:{port}", parent=f"port:{far}", relation=Relation.LINK_END)]
    flap = [event("port.down", f"port:{port}", 43_200), event("port.up", f"port:{port}", 43_202)]
    at = case(flap, [placement("4471", HOSTS)], edges, {"optic": pl.DataFrame(rows)})
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.COMPONENT, f"link:{port}~{far}")
    assert incident.action is Action.CHECK_LINK
    done = steps(incident, at)
    assert in_order(["check_link", "soft_avoid", "watch"], done)
    assert not {"drain_host", "isolate_port", "replace_part", "page_owner", "stop_job"} & set(done)


BREAKOUT = [
    Edge(child=f"port:{host}/eth3", parent="optic:leaf-07/Ethernet7", relation=Relation.ATTACHED_TO)
    for host in ("h101", "h102")
] + leaf("leaf-07", [f"h{number}" for number in range(100, 116)])  # fmt: skip


def test_night_13_breakout_optic_is_one_shared_incident_and_holds_without_blame() -> None:
    events = [event("port.down", "port:h101/eth3", 0.0), event("port.down", "port:h102/eth3", 0.2)]
    at = case(events, [placement("A", ["h101", "h100"]), placement("B", ["h102", "h103"])], BREAKOUT)
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.SHARED, "optic:leaf-07/Ethernet7")
    assert incident.affected.jobs == ("A", "B")
    assert [one for one in incident.dependants if one.startswith("host:")] == ["host:h101", "host:h102"]
    told = plan(incident, at)
    assert {step.target for step in told if step.do == "dependency_hold"} == {"host:h101", "host:h102"}
    assert "drain_host" not in [step.do for step in told]


def night_14() -> Case:
    hosts = [f"n{number}" for number in range(64)]
    downs = [event("port.down", f"port:{host}/eth3", number / 64) for number, host in enumerate(hosts)]
    broken = [event("path.retry_exceeded", f"path:10.0.0.{n}~10.0.1.{n}", 40 + n % 10) for n in range(64)]
    ups = [event("port.up", f"port:{host}/eth3", 240 + number / 4) for number, host in enumerate(hosts)]
    return case(
        [*downs, *broken, *ups], [placement("A", hosts[:32]), placement("B", hosts[32:])], leaf("leaf-07", hosts)
    )


def test_night_14_leaf_reboot_is_the_switch_and_holds_jobs_not_hosts() -> None:
    at = night_14()
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.SHARED, "switch:leaf-07")
    assert len(incident.dependants) >= 64
    told = plan(incident, at)
    assert {step.target for step in told if step.do == "hold_job"} == {"job:A", "job:B"}
    assert [step.target for step in told if step.do == "page_owner"] == ["owner:network"]
    assert not {"drain_host", "dependency_hold", "relaunch_in_allocation", "release"} & {step.do for step in told}


def test_two_of_64_links_are_not_the_leaf() -> None:
    hosts = [f"n{number}" for number in range(64)]
    events = [event("port.down", "port:n0/eth3", 0.0), event("port.down", "port:n1/eth3", 0.3)]
    found = diagnose(case(events, [], leaf("leaf-07", hosts)))
    assert [one.component for one in found] == ["port:n0/eth3", "port:n1/eth3"]
    assert all(one.action is Action.CHECK_LINK for one in found)
    assert all(any(claim.component == "switch:leaf-07" for claim in one.against) for one in found)


def test_night_21_stalled_storage_target_clears_its_clients() -> None:
    hosts = ["h1", "h9", "h20", "h33"]
    slow = [
        event(
            "filesystem.request_slow", f"filesystem:{host}/scratch", n, peer="storage:MDT0000", host=host,
            path=f"{host}.log",
        )
        for n, host in enumerate(hosts)
    ]  # fmt: skip
    stuck = [event("host.task_stuck", f"host:{host}", 120 + n, path=f"{host}.log") for n, host in enumerate(hosts)]
    at = case([*slow, *stuck], [placement(f"job{n}", [host]) for n, host in enumerate(hosts)])
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.SHARED, "storage:MDT0000")
    assert set(incident.affected.jobs) == {"job0", "job1", "job2", "job3"}
    done = {step.do for step in plan(incident, at)}
    assert {"page_owner", "hold_job"} <= done
    assert not {"drain_host", "reboot_host", "relaunch_in_allocation"} & done


def test_night_22_one_evicted_client_is_the_client() -> None:
    evicted = event("filesystem.client_evicted", "filesystem:h300/scratch", peer="storage:OST0012")
    at = case([evicted], [placement("A", ["h300", "h301"])])
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.COMPONENT, "filesystem:h300/scratch")
    assert not any(step.target.startswith("storage") for step in plan(incident, at))


def checkpoints(lasted: list[int], ranks: dict[int, float]) -> tuple[Step, ...]:
    found = []
    for number, seconds in enumerate(lasted):
        begin = T0 + number * 1_800_000
        for rank, factor in ranks.items():
            took = round(seconds * 1000 * factor)
            found.append(Step(step=number, job="A", rank=rank, at_ms=begin, phase="checkpoint_begin"))
            found.append(Step(step=number, job="A", rank=rank, at_ms=begin + took, phase="checkpoint_end"))
    return tuple(found)


def test_night_23_a_usual_checkpoint_is_nothing() -> None:
    at = case(placements=[placement("A", HOSTS)], steps=checkpoints([70] * 5, dict.fromkeys(range(4), 1.0)))
    assert diagnose(at) == ()


def test_night_23_a_long_checkpoint_on_all_ranks_is_storage() -> None:
    at = case(
        placements=[placement("A", HOSTS)], steps=checkpoints([70] * 4 + [300], {0: 1.0, 1: 0.95, 2: 0.9, 3: 0.92})
    )
    incident = only(at)
    assert incident.verdict is Verdict.SHARED
    done = {step.do for step in plan(incident, at)}
    assert not {"stop_job", "drain_host"} & done


def test_night_23_the_same_host_last_each_time_is_its_client() -> None:
    uneven = {0: 1.0, 8: 0.3, 16: 0.33, 24: 0.31}
    at = case(placements=[placement("A", HOSTS)], steps=checkpoints([70] * 4 + [300], uneven))
    incident = only(at)
    assert (incident.verdict, incident.component.split("/")[0]) == (Verdict.COMPONENT, "filesystem:h15")
    done = [step.do for step in plan(incident, at)]
    assert {"soft_avoid", "run_test"} <= set(done)
    assert not {"stop_job", "drain_host"} & set(done)


def test_night_24_the_jobs_own_limit_touches_no_host() -> None:
    killed = event("job.out_of_memory", "job:?", host="h17", job="4471", attributes={"constraint": "CONSTRAINT_MEMCG"})
    exits = [event("rank.exited", "rank:4471/3", 1), event("process.killed", "process:h17/python[9]", 0)]
    at = case([killed, *exits], [placement("4471", HOSTS)])
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.JOB, "job:4471")
    assert not {"drain_host", "reset_device", "reboot_host"} & set(steps(incident, at))
    assert "page_owner" in steps(incident, at)


def test_night_24_twin_a_host_without_memory_is_the_host() -> None:
    killed = event("host.out_of_memory", "host:h17", attributes={"constraint": "CONSTRAINT_NONE"}, process="python[99]")
    at = case([killed], [placement("4471", HOSTS)])
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.COMPONENT, "host:h17")
    assert incident.action is Action.DRAIN_HOST
    assert in_order(
        ["drain_host", "collect_evidence", "restart_service", "fix_software", "run_test"], steps(incident, at)
    )


def test_night_24_sibling_a_killed_daemon_is_the_host_not_the_network() -> None:
    attributes = {"constraint": "CONSTRAINT_NONE", "victim_daemon": "slurmd"}
    killed = event("host.out_of_memory", "host:h17", attributes=attributes)
    lost = event("scheduler.host_down", "host:h17", 300)
    at = case([killed, lost], [placement("4471", HOSTS)])
    incident = only(at)
    assert (incident.verdict, incident.component, incident.fault) == (
        Verdict.COMPONENT,
        "host:h17",
        "host_out_of_memory",
    )


def test_night_25_ranks_in_different_operations_are_the_program() -> None:
    said = [
        progress(rank, op="ALLREDUCE" if rank < 4 else "ALLGATHER", group_ranks=tuple(range(8))) for rank in range(8)
    ]
    at = case(placements=[placement("4471", ["h15"])], progress=tuple(said))
    incident = only(at)
    assert (incident.verdict, incident.fault) == (Verdict.JOB, "collective_mismatch")
    done = steps(incident, at)
    assert in_order(["collect_evidence", "hold_job", "page_owner"], done)
    assert not {"drain_host", "exclude_for_job", "relaunch_in_allocation"} & set(done)


def test_night_25_the_same_step_on_other_hosts_is_the_program_though_a_rank_did_not_come() -> None:
    first = placement("4471", ["h1", "h2"], attempt=0, from_ms=T0, to_ms=T0 + 400_000)
    again = placement("4471", ["h5", "h6"], attempt=1, from_ms=T0 + 500_000)
    made = [
        Step(step=step, job="4471", at_ms=begin + (step - 1193) * 10_000)
        for begin in (T0, T0 + 500_000)
        for step in range(1194, 1204)
    ]
    waits = tuple(
        progress(rank, at_s=1210.0, state="waiting" if rank != 5 else "completed", seq=100 if rank != 5 else 98,
                 group_ranks=tuple(range(16)))
        for rank in range(16)
    )  # fmt: skip
    at = case(placements=[first, again], steps=tuple(made), progress=waits, now_ms=T0 + 1_300_000)
    incident = only(at)
    assert (incident.verdict, incident.fault) == (Verdict.JOB, "job_same_step")
    assert not {"drain_host", "exclude_for_job", "relaunch_in_allocation"} & set(steps(incident, at))


def uneven_steps(with_work: bool) -> tuple[Step, ...]:
    return tuple(
        Step(
            step=step, job="A", rank=rank, at_ms=T0 + step * 10_000 + rank, duration_ms=10.0 * length,
            work=float(length) if with_work else None,
        )
        for step in range(12)
        for rank in range(8)
        for length in [900 + (rank * 37 + step * 61) % 400]
    )  # fmt: skip


def test_night_26_uneven_work_is_the_job() -> None:
    incident = only(case(placements=[placement("A", ["h15"])], steps=uneven_steps(with_work=True)))
    assert (incident.verdict, incident.action) == (Verdict.JOB, Action.WATCH)


def test_night_26_without_the_work_nothing_is_claimed() -> None:
    assert diagnose(case(placements=[placement("A", ["h15"])], steps=uneven_steps(with_work=False))) == ()


def test_night_33_a_wrong_clock_neither_blames_nor_acquits() -> None:
    off = event("monitor.clock_off", "monitor:h15/agent", host="h15", attributes={"offset_s": "90"})
    assert diagnose(case([off], [placement("4471", HOSTS)])) == ()
    lost = event("accelerator.off_bus", card("h17", 3), 0, code="XID 79")
    late = event("accelerator.program_error", card("h15", 1), -90, job="4471")
    found = diagnose(case([off, lost, late], [placement("4471", HOSTS)]))
    assert card("h17", 3) in [one.component for one in found]
    assert not any(one.component.startswith("accelerator:h15") and one.verdict is not Verdict.JOB for one in found)


def test_night_34_two_faults_stay_two() -> None:
    lost = event("accelerator.off_bus", card("h17", 3), 0, code="XID 79")
    dark = event("optic.error", "optic:h20/eth3", 30, message="no light")
    features = {"accelerator": accelerators(HOSTS, h17_goes_blind), "host": hosts_up(HOSTS)}
    at = case([lost, dark], [placement("4471", HOSTS)], [], features)
    found = {one.component: one for one in diagnose(at)}
    assert set(found) == {card("h17", 3), "optic:h20/eth3"}
    assert all(one.verdict is Verdict.COMPONENT for one in found.values())
    assert found["optic:h20/eth3"].action is Action.CHECK_LINK
    told = plan(found["optic:h20/eth3"], at)
    assert not any(step.do == "drain_host" for step in told)


@pytest.mark.parametrize("at", [night_1(), night_8(), night_14()], ids=["1", "8", "14"])
def test_evidence_is_saved_before_anything_is_wiped(at: Case) -> None:
    for incident in planned(diagnose(at), at):
        verbs = [step.do for step in incident.plan]
        wipes = [
            i for i, verb in enumerate(verbs) if verb in ("reset_device", "reboot_host", "power_cycle", "stop_job")
        ]
        assert not wipes or "collect_evidence" in verbs[: wipes[0]]


def ports(sent: dict[str, float], held: dict[str, float], windows: int = 3) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "component": port, "end_ms": T0 + 10_000 * window, "tx_pause_total__increase": sent.get(port, 0.0),
                "rx_pause_total__increase": held.get(port, 0.0),
            }
            for port in sorted({*sent, *held})
            for window in range(1, windows + 1)
        ]
    )  # fmt: skip


def test_night_16_who_sends_pause_is_the_cause_and_only_its_host_port_is_closed() -> None:
    held = {f"port:h{number}/eth0": 500_000.0 for number in range(15, 80)}
    at = case([], [placement("4471", HOSTS)], [], {"port": ports({"port:h88/eth0": 400_000.0}, held)})
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.COMPONENT, "port:h88/eth0")
    told = plan(incident, at)
    assert [step.target for step in told if step.do == "isolate_port"] == ["port:h88/eth0"]
    assert {step.target for step in told if step.do == "drain_host"} == {"host:h88"}


def test_a_congested_network_in_which_everybody_sends_a_little_pause_blames_nobody() -> None:
    every = {f"port:h{number}/eth0": 20_000.0 + number for number in range(40)}
    assert diagnose(case([], [], [], {"port": ports(every, every)})) == ()


POWER = [
    Edge(child=f"host:h{number}", parent="pdu:r12-a", relation=Relation.POWERED_BY) for number in range(100, 108)
] + leaf("leaf-07", [f"h{number}" for number in range(100, 132)])


def test_night_18_hosts_that_lose_power_together_are_the_pdu() -> None:
    dark = [event("port.down", f"port:leaf-07/Ethernet{place}", place / 10) for place in range(8)]
    lost = [event("scheduler.host_down", f"host:h{100 + place}", 300) for place in range(8)]
    at = case([*dark, *lost], [placement("A", ["h100", "h101"])], POWER)
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.SHARED, "pdu:r12-a")
    told = plan(incident, at)
    assert {step.target for step in told if step.do == "dependency_hold"} == {f"host:h{n}" for n in range(100, 108)}
    assert not {"power_cycle", "drain_host", "check_link"} & {step.do for step in told}


def test_hosts_that_only_the_scheduler_lost_together_are_their_shared_part_too() -> None:
    lost = [event("scheduler.host_down", f"host:h{number}", number / 10) for number in range(100, 108)]
    assert only(case(lost, [], POWER)).component == "pdu:r12-a"


def test_night_10_a_failed_repair_on_an_idle_card_needs_no_log_line() -> None:
    def failed(component: str, end_s: int, row: Row) -> Row:
        return row | {"memory_repair_failed": float(component == card("h18", 5))}

    at = case([], [], [], {"accelerator": accelerators(HOSTS, failed)})
    incident = only(at)
    assert (incident.component, incident.fault) == (card("h18", 5), "accelerator_memory_repair_failed")
    assert steps(incident, at)[:2] == ["drain_host", "collect_evidence"]


def test_a_repair_flag_that_has_gone_again_is_nothing() -> None:
    def pending(component: str, end_s: int, row: Row) -> Row:
        return row | {"memory_repair_pending": float(component == card("h18", 5) and end_s < 0)}

    assert diagnose(case([], [], [], {"accelerator": accelerators(HOSTS, pending)})) == ()


def test_a_job_that_stands_for_minutes_is_told_even_where_nothing_tells_why() -> None:
    frame = accelerators(HOSTS, lambda component, end_s, row: stalled_after(0, row, end_s), to_s=200)
    at = case([], [placement("4471", HOSTS)], [], {"accelerator": frame})
    incident = only(at)
    assert (incident.verdict, incident.component, incident.action) == (Verdict.UNKNOWN, "job:4471", Action.WATCH)
    assert {step.do for step in plan(incident, at)} == {"collect_evidence", "page_owner", "watch"}


def test_a_pause_as_long_as_a_checkpoint_is_nothing() -> None:
    def pause(component: str, end_s: int, row: Row) -> Row:
        return stalled_after(0, row, end_s) if end_s <= 70 else row

    frame = accelerators(HOSTS, pause, to_s=200)
    assert diagnose(case([], [placement("4471", HOSTS)], [], {"accelerator": frame})) == ()


def test_night_3_one_bad_link_in_a_scale_up_domain_leaves_the_reporters_alone() -> None:
    trays = [f"t{number}" for number in range(18)]
    rack = [Edge(child=f"host:{tray}", parent="rack:r7", relation=Relation.PART_OF) for tray in trays]
    guilty = card("t7", 2)
    others = [card(tray, index) for tray in trays for index in range(4) if card(tray, index) != guilty]
    events = [event("accelerator.link_fatal", guilty, 0.0, code="Xid 149")]
    for place, peer in enumerate(others):
        events.append(event("accelerator.link_nonfatal", peer, 0.05 + place / 200, code="Xid 145"))
        asks = {"advice": Action.DRAIN_HOST, "attributes": {"asks": "drain_p2p"}}
        events.append(event("accelerator.recovery_action", peer, 0.1 + place / 200, **asks))
    at = case(events, [placement("4471", trays, cards=4)], rack)
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.COMPONENT, guilty)
    assert incident.action is Action.RESET_DEVICE
    told = plan(incident, at)
    assert {step.target for step in told if step.do in ("drain_host", "reset_device", "run_test")} == {
        "host:t7",
        guilty,
    }
    assert set(incident.dependants) >= set(others)
    assert in_order(["collect_evidence", "reset_device", "run_test"], steps(incident, at))
