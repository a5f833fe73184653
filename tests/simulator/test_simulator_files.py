"""The folder of a night: every file is what the real tool would have left, and our own formats read it."""

import json
from pathlib import Path

import pytest

from collectors.formats import log
from collectors.formats.reading import Tally
from sickbay.clock import Clock
from sickbay.messages import Event
from simulator.output.files import write
from simulator.printing.envelopes import ENVELOPES
from simulator.scenario import scenario


def _folder(path: Path, envelope: str = "syslog") -> Path:
    made = scenario(seed=4, timeout_s=60)
    made.at(60).fault("accelerator_off_bus")
    made.at(80).decoy("scancel_storm")
    return write(made, path, until_s=150, envelope=envelope)


def test_metrics_are_query_range_answers_with_exporter_labels(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    answer = json.loads((folder / "DCGM_FI_DEV_POWER_USAGE.json").read_bytes())
    assert answer["status"] == "success"
    assert answer["data"]["resultType"] == "matrix"
    series = answer["data"]["result"]
    assert len(series) == 64
    assert {"gpu", "UUID", "pci_bus_id", "Hostname", "instance", "job", "__name__"} <= series[0]["metric"].keys()
    assert series[0]["metric"]["pci_bus_id"].startswith("00000000:")
    lengths = sorted(len(one["values"]) for one in series)
    assert lengths[0] == lengths[7] == 7
    assert lengths[8] == lengths[-1] == 15
    at, value = series[0]["values"][0]
    assert isinstance(at, int)
    assert float(value) > 50


def test_up_tells_the_dead_exporter_from_the_living_host(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    series = json.loads((folder / "up.json").read_bytes())["data"]["result"]
    down = {one["metric"]["job"] for one in series if one["values"][-1][1] == "0"}
    assert down == {"dcgm"}


@pytest.mark.slow
@pytest.mark.parametrize("envelope", sorted(ENVELOPES))
def test_kernel_logs_are_read_in_every_envelope(tmp_path: Path, envelope: str) -> None:
    folder = _folder(tmp_path, envelope)
    found = []
    for path in folder.glob("kern-*.log"):
        tally = Tally()
        found += [r for r in log.read([path.read_bytes()], tally) if isinstance(r.record, Event)]
        assert not tally.unparsed
    codes = {reading.record.code for reading in found if isinstance(reading.record, Event)}
    assert {"Xid 79", "Xid 45"} <= codes
    clock = Clock.NO_YEAR if envelope == "syslog_classic" else Clock.ABSOLUTE
    assert {reading.stamp.clock for reading in found} == {clock}


def test_topology_and_jobs_name_every_host_once(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    made = scenario(seed=4)
    topology, jobs = (folder / "topology.conf").read_text(), (folder / "scontrol_show_job.txt").read_text()
    for host in made.cluster.hosts:
        assert topology.count(host) == 1
        assert jobs.count(host) >= 1
    assert topology.count("SwitchName=") == len(made.cluster.leaves) + 1
    assert jobs.count("JobId=") == len(made.jobs)


def test_job_logs_hold_steps(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    text = next(folder.glob("slurm-*.out")).read_text()
    assert " iteration " in text
    assert "elapsed time per iteration (ms)" in text
