"""Nights 1, 4, 5 b, 8, 14, 24 and 25 as composed folders: the right verdict, and no forbidden act.

The cluster is simulated, the files are in the formats of real tools; names, places and noise come from the seed.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from sickbay.answer import IncidentRow
from sickbay.app.answering.offline import Options, Result, run
from sickbay.messages import Action, strength
from simulator.output.files import write
from simulator.parts.cluster import Card
from simulator.scenario import Scenario, scenario

CONTAIN = ("drain_host", "exclude_for_job", "dependency_hold", "isolate_device")
SEEDS = (11, 12)


Judge = Callable[..., Result]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Writes a night's folder and diagnoses it. `init`: NCCL's own lines tell who ran where; `drop`: files left out."""

    def judged(
        night: Scenario, *, until_s: int, init: bool = False, drop: tuple[str, ...] = (), **how: object
    ) -> Result:
        folder = write(night, tmp_path / "night", until_s=until_s, **how)  # type: ignore[arg-type]
        if init:
            _init_lines(night, folder)
        for pattern in drop:
            for path in folder.glob(pattern):
                path.unlink()
        return run([folder], Options())

    return judged


def _init_lines(night: Scenario, folder: Path) -> None:
    """What every rank prints when its communicator starts, one file per job."""
    for job in night.jobs:
        cards = [card for host in job.hosts for card in night.cluster.of(host)]
        rows = [
            f"{card.host}:{48_000 + rank}:{48_500 + rank} [{rank % 8}] NCCL INFO ncclCommInitRank "
            f"comm 0x55d0c0ff{rank:04x} rank {rank} nranks {len(cards)} cudaDev {rank % 8} nvmlDev {rank % 8} "
            f"busId {int(card.pci.split(':')[1], 16):x}000 commId 0x8f1c{rank // len(cards):04x} - Init COMPLETE"
            for rank, card in enumerate(cards)
        ]
        (folder / f"nccl-{job.id}.log").write_text("\n".join(rows) + "\n")


def strongest(result: Result) -> IncidentRow:
    """The incident with the strongest headline."""
    assert result.answer.incidents, "no incident"
    return max(result.answer.incidents, key=lambda row: (strength(Action(row.action)), row.probability))


def acts(result: Result) -> set[tuple[str, str]]:
    """All (verb, target) that any plan advises."""
    return {(step.do, step.target) for row in result.answer.incidents for step in row.plan}


def hosts_touched(result: Result, *verbs: str) -> set[str]:
    """Hosts whose availability some plan changes by one of the verbs."""
    return {target.partition(":")[2].split("/")[0] for do, target in acts(result) if do in verbs}


def one_job(seed: int, hosts: int = 16, timeout_s: int = 120) -> Scenario:
    """All hosts run one job; the time-out is shortened so that a night fits a test."""
    return scenario(seed=seed, hosts=hosts, hosts_per_job=hosts, timeout_s=timeout_s, hosts_per_leaf=4)


def card_of(night: Scenario, place: int = 37) -> Card:
    host = night.cluster.hosts[place // 8 % len(night.cluster.hosts)]
    return night.cluster.of(host)[place % 8]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_mixed_folder_gives_one_incident_naming_the_card(judge: Judge, seed: int) -> None:
    night = one_job(seed)
    card = card_of(night)
    night.at(90).fault("accelerator_off_bus", on=card)
    result = judge(night, until_s=240, init=True, drop=("scontrol*",))
    (row,) = result.answer.incidents
    assert (row.verdict, row.component, row.fault) == ("component", card.component, "accelerator_off_bus")
    assert row.action == "reboot_host"
    assert any("collective" in line.detector or "stall" in line.detector for line in row.evidence), "its time-outs"
    assert ("reset_device", card.component) not in acts(result)
    assert hosts_touched(result, *CONTAIN) == {card.host}
    assert result.status == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_without_the_code_line_it_still_names_the_host(judge: Judge, seed: int) -> None:
    night = one_job(seed)
    card = card_of(night)
    night.at(90).fault("accelerator_off_bus", on=card, burst=False)
    result = judge(night, until_s=240, init=True, drop=("scontrol*", f"kern-{card.host}.log"))
    (row,) = result.answer.incidents
    assert row.verdict == "component"
    assert row.component.partition(":")[2].split("/")[0] == card.host
    assert hosts_touched(result, *CONTAIN) == {card.host}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("coded", [True, False])
@pytest.mark.parametrize("envelope", ["syslog", "journal", "dmesg"])
def test_night_1_card_off_the_bus(judge: Judge, seed: int, coded: bool, envelope: str) -> None:
    night = one_job(seed, hosts=4)
    card = card_of(night, 13)
    night.at(90).fault("accelerator_off_bus", on=card, coded=coded)
    result = judge(night, until_s=230, envelope=envelope)
    (row,) = result.answer.incidents
    assert (row.verdict, row.component) == ("component", card.component)
    order = [step.do for step in row.plan]
    assert order.index("drain_host") < order.index("collect_evidence") < order.index("power_cycle")
    assert "reset_device" not in order
    assert hosts_touched(result, *CONTAIN) == {card.host}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_night_4_one_card_slow(judge: Judge, seed: int) -> None:
    night = one_job(seed, hosts=4)
    card = card_of(night, 20)
    night.at(120).fault("accelerator_thermal", on=card)
    result = judge(night, until_s=600)
    (row,) = result.answer.incidents
    assert (row.verdict, row.component) == ("component", card.component)
    assert row.fault in ("accelerator_thermal", "accelerator_slow")
    assert not [step for step in row.plan if step.do == "stop_job" and step.when == "now"]
    assert row.action == "watch"
    assert hosts_touched(result, *CONTAIN) <= {card.host}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_night_5b_half_the_lanes_since_boot(judge: Judge, seed: int) -> None:
    night = one_job(seed, hosts=4)
    card = card_of(night, 9)
    night.at(0).fault("pcie_degraded", on=card)
    result = judge(night, until_s=180)
    (row,) = result.answer.incidents
    assert row.verdict == "component"
    assert row.fault == "pcie_degraded"
    assert row.component.partition(":")[2].split("/")[0] == card.host
    assert not [step for step in row.plan if step.do in ("stop_job", "isolate_port") and step.when == "now"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_night_8_the_exporter_dies_as_the_firmware_hangs(judge: Judge, seed: int) -> None:
    night = one_job(seed, hosts=4)
    card = card_of(night, 27)
    night.at(90).fault("accelerator_firmware_hang", on=card)
    result = judge(night, until_s=230)
    (row,) = result.answer.incidents
    assert row.verdict == "component"
    assert row.component in (card.component, f"host:{card.host}")
    assert hosts_touched(result, *CONTAIN) == {card.host}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_night_14_leaf_reboot(judge: Judge, seed: int) -> None:
    night = one_job(seed, hosts=8)
    leaf = night.cluster.leaves[1]
    night.at(60).fault("switch_down", on=leaf)
    result = judge(night, until_s=150)
    (row,) = result.answer.incidents
    assert (row.verdict, row.component) == ("shared", f"switch:{leaf}")
    assert hosts_touched(result, *CONTAIN, "reboot_host", "power_cycle") == set(), "the hosts are innocent"
    assert "hold_job" in {do for do, _ in acts(result)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_night_24_a_job_over_its_own_limit(judge: Judge, seed: int) -> None:
    night = scenario(seed=seed, hosts=4)
    host = night.cluster.hosts[1]
    night.at(60).fault("application_out_of_memory", on=host)
    result = judge(night, until_s=120)
    (row,) = result.answer.incidents
    assert row.verdict == "job"
    assert hosts_touched(result, *CONTAIN, "reset_device", "reboot_host") == set()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_night_24_twin_the_host_itself_is_out_of_memory(judge: Judge, seed: int) -> None:
    night = scenario(seed=seed, hosts=4)
    host = night.cluster.hosts[1]
    night.at(90).fault("host_out_of_memory", on=host)
    row = strongest(judge(night, until_s=150))
    assert (row.verdict, row.component) == ("component", f"host:{host}")
    assert row.action in ("drain_host", "reboot_host")


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_night_25_deadlock_after_a_push(judge: Judge, seed: int) -> None:
    night = one_job(seed, hosts=4)
    night.at(60).fault("collective_mismatch", on=night.cluster.hosts[0])
    result = judge(night, until_s=400)
    assert {row.verdict for row in result.answer.incidents} == {"job"}
    assert hosts_touched(result, "drain_host", "dependency_hold", "reboot_host") == set()
    assert "hold_job" in {do for do, _ in acts(result)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "decoy", ["checkpoint_pause", "corrected_errors", "exporter_gap", "glitch", "profiling_blank", "scancel_storm"]
)
def test_what_only_looks_bad_contains_nobody(judge: Judge, seed: int, decoy: str) -> None:
    night = scenario(seed=seed, hosts=4)
    night.at(90).decoy(decoy)
    result = judge(night, until_s=260)
    strong = [row for row in result.answer.incidents if row.action not in ("ignore", "watch", "restart_job")]
    assert strong == []
    assert hosts_touched(result, *CONTAIN, "reset_device", "reboot_host", "power_cycle") == set()
