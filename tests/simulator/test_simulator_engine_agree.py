"""An operator's files and the agents' records of the same night lead to the same incidents."""

from pathlib import Path

import pytest

from simulator.scenario import Scenario, scenario
from tests.simulator.agree_kit import from_files, from_log

UNTIL_S, AT_S = 240, 60
SCENARIOS = (
    "accelerator_off_bus", "accelerator_firmware_hang", "accelerator_thermal", "accelerator_unresponsive",
    "accelerator_link_down", "accelerator_memory_uncorrectable", "accelerator_slow", "application_out_of_memory",
    "collective_mismatch", "cooling_lost", "dimm_degrading", "disk_failed", "fabric_fault", "host_blind",
    "host_lockup", "host_out_of_memory", "link_down", "link_flap", "nic_failed", "optic_dark", "optic_fades",
    "pcie_degraded", "switch_down",
)  # fmt: skip
QUIET = ("checkpoint_pause", "corrected_errors", "exporter_gap")


def made(what: str) -> Scenario:
    night = scenario(seed=7, hosts=8, per_host=2, hosts_per_job=4, timeout_s=60)
    night.add(what, AT_S, None, {})
    return night


@pytest.mark.slow
@pytest.mark.parametrize("what", SCENARIOS)
def test_files_and_log_give_the_same_incidents(what: str, tmp_path: Path) -> None:
    said = from_files(made(what), tmp_path / "night", UNTIL_S)
    assert said
    assert said == from_log(made(what), UNTIL_S)


@pytest.mark.slow
@pytest.mark.parametrize("what", QUIET)
def test_of_what_only_looks_bad_both_say_the_same(what: str, tmp_path: Path) -> None:
    assert from_files(made(what), tmp_path / "night", UNTIL_S) == from_log(made(what), UNTIL_S)
