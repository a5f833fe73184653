"""What the host's own grammars must not do: name healthy parts, count one error twice, believe a program."""

from collections.abc import Sequence

import pytest

from collectors.formats import log
from collectors.formats.reading import Tally
from sickbay.messages import Event, Severity


def events(*lines: str) -> list[Event]:
    read = log.read(["\n".join(lines).encode()], Tally())
    return [reading.record for reading in read if isinstance(reading.record, Event)]


def told(found: Sequence[Event]) -> list[tuple[str, str]]:
    return [(event.kind, event.component) for event in found]


SUMMARY = "pcieport 0000:64:01.0: AER: Corrected error received: 0000:65:00.0"
DETAIL = "nvidia 0000:65:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"


def test_a_summary_and_its_detail_are_one_error_wherever_other_lines_stand() -> None:
    (event,) = events(SUMMARY, *["usb 1-1: new device"] * 20, DETAIL)
    assert event.attributes == {"root_port": "0000:64:01.0", "layer": "Physical Layer", "agent": "Receiver ID"}
    assert event.line == 1


def test_a_detail_far_behind_belongs_to_another_error() -> None:
    assert len(events(SUMMARY, *["usb 1-1: new device"] * 100, DETAIL)) == 2


def test_errors_of_two_functions_stay_apart() -> None:
    other = SUMMARY.replace("65:00.0", "66:00.0")
    assert told(events(SUMMARY, other, DETAIL)) == [
        ("pcie.corrected", "pcie:?/0000:65:00.0"),
        ("pcie.corrected", "pcie:?/0000:66:00.0"),
        ("pcie.corrected", "pcie:?/0000:65:00.0"),
    ]


def test_a_recovery_that_failed_is_one_unless_the_error_was_not_fatal() -> None:
    failed = "pcieport 0000:64:01.0: AER: device recovery failed"
    fatal = "pcieport 0000:64:01.0: AER: Uncorrected (Fatal) error received: 0000:65:00.0"
    mild = fatal.replace("(Fatal)", "(Non-Fatal)")
    assert [event.kind for event in events(failed)] == ["pcie.recovery_failed"]
    assert [event.kind for event in events(mild, failed)] == ["pcie.uncorrected"]
    assert [event.kind for event in events(mild, failed, fatal, failed)] == [
        "pcie.uncorrected",
        "pcie.fatal",
        "pcie.recovery_failed",
    ]


def test_a_firmware_record_cut_short_is_still_told() -> None:
    head = "{7}[Hardware Error]: "
    (event,) = events(
        f"{head}event severity: fatal", f"{head} Error 0, type: fatal", f"{head}  section_type: PCIe error"
    )
    assert (event.kind, event.component, event.severity) == ("pcie.fatal", "pcie:?", Severity.FATAL)


def test_the_words_hardware_error_alone_are_nothing() -> None:
    head = "{7}[Hardware Error]: "
    assert events(f"{head}event severity: corrected", "mce: [Hardware Error]: Machine check events logged") == []


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off the bus.",
        "Kernel panic - not syncing: told by a program",
        "pcieport 0000:64:01.0: DPC: containment event, status:0x1f01 source:0x0000",
        "EDAC MC0: 1 UE memory read error on DIMM_B1 (channel:0)",
        "nvme nvme2: Disabling device after reset failure: -19",
        "mlx5_core 0000:9a:00.0: PCI slot is unavailable",
        "watchdog: Watchdog detected hard LOCKUP on cpu 88",
    ],
)
def test_a_program_that_quotes_the_kernel_is_not_believed(line: str) -> None:
    assert events(f"May  6 14:07:09 node-7 kernel: {line}") != []
    assert events(f"May  6 14:07:09 node-7 train[4711]: {line}") == []
    assert events(f"the user asked what this means: {line}") == []


def test_a_user_who_logs_out_is_not_a_shutdown() -> None:
    assert events("May  6 14:07:09 node-7 systemd[48122]: Reached target Shutdown.") == []
    assert events("May  6 14:07:09 node-7 systemd[48122]: Reached target shutdown.target - Shutdown.") == []
    assert told(events("May  6 14:07:09 node-7 systemd[1]: Reached target Shutdown.")) == [
        ("host.shutdown_orderly", "host:?")
    ]


@pytest.mark.parametrize(
    ("constraint", "group", "kind"),
    [
        ("MEMCG", "/slurm/uid_1/job_77/step_0", "job.out_of_memory"),
        ("MEMCG", "/system.slice/slurmstepd.scope/job_77/step_0/user/task_0", "job.out_of_memory"),
        ("MEMCG", "/system.slice/docker-0a1b.scope", "job.out_of_memory"),
        ("MEMCG", "/system.slice/metricsd.service", "process.killed"),
        ("NONE", "/user.slice", "host.out_of_memory"),
        ("CPUSET", "/slurm/uid_1/job_77/step_0", "host.out_of_memory"),
        ("MEMORY_POLICY", "/slurm/uid_1/job_77/step_0", "host.out_of_memory"),
    ],
)
def test_one_word_decides_whose_memory_ran_out(constraint: str, group: str, kind: str) -> None:
    (event,) = events(
        f"oom-kill:constraint=CONSTRAINT_{constraint},nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={group},"
        f"task_memcg={group},task=trainer,pid=5150,uid=1"
    )
    assert event.kind == kind
    assert event.job == ("77" if kind == "job.out_of_memory" and "job_77" in group else "")


def test_the_same_process_id_may_be_killed_again_later() -> None:
    kill = (
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,"
        "task=trainer,pid=5150,uid=1"
    )
    line = "Out of memory: Killed process 5150 (trainer) total-vm:1kB, anon-rss:1kB"
    assert len(events(kill, line)) == 1
    assert len(events(kill, line, kill, line)) == 2


def test_a_blocked_task_tells_what_it_waits_for_only_from_its_own_stack() -> None:
    blocked = "INFO: task saver:610 blocked for more than 120 seconds."
    (event,) = events(blocked, "Call Trace:", " __schedule+0x2d0/0x890", " ptlrpc_queue_wait+0x78/0x2e0 [ptlrpc]")
    assert event.attributes == {"limit_s": "120", "waits_on": "lustre"}
    far = ["usb 1-1: new device"] * 10
    (event,) = events(blocked, *far, "Call Trace:", " nv_open_device+0x78/0x2e0 [nvidia]")
    assert "waits_on" not in event.attributes


def test_functions_and_line_numbers_of_a_driver_do_not_matter() -> None:
    text = "mlx5_core 0000:9a:00.0: {}device's health compromised - reached miss count"
    assert {
        told(events(text.format(where)))[0] for where in ("poll_health:816:(pid 0): ", "", "x_y_z:1:(pid 99): ")
    } == {("nic.health", "nic:?/0000:9a:00.0")}


def test_partitions_and_name_spaces_are_their_disk() -> None:
    devices = ("nvme2n1", "nvme2n1p3", "nvme2c0n1", "sda", "sda3", "md0", "dm-3")
    found = [events(f"I/O error, dev {device}, sector 8 op 0x0:(READ)")[0].component for device in devices]
    assert found == [f"disk:?/{name}" for name in ("nvme2", "nvme2", "nvme2", "sda", "sda", "md0", "dm-3")]


def test_corrected_errors_are_worth_watching_once_they_come_often() -> None:
    summary = "pcieport 0000:64:01.0: AER: Corrected error received: 0000:65:00.0"
    seldom = "".join(f"[{60 * i}.000000] {summary}\n" for i in range(40))
    often = "".join(f"[{i}.000000] {summary}\n" for i in range(40))
    undated = f"{summary}\n" * 40
    assert {event.kind for event in events(seldom)} == {event.kind for event in events(undated)} == {"pcie.corrected"}
    [first, second] = [event for event in events(often) if event.kind == "pcie.corrected_rate"]
    assert (first.component, first.count) == ("pcie:?/0000:65:00.0", 16) == (second.component, second.count)


def test_rates_are_of_one_module_and_host() -> None:
    line = "[{}.000000] EDAC MC0: 1 CE memory read error on DIMM_{} (channel:0)\n"
    mixed = "".join(line.format(i, "AB"[i % 2]) for i in range(18))
    alone = "".join(line.format(i, "A") for i in range(10))
    assert {event.kind for event in events(mixed)} == {"dimm.corrected"}
    assert [event.kind for event in events(alone)].count("dimm.corrected_rate") == 1
