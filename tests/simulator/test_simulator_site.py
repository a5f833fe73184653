"""A simulated site in real time: what its hosts print and export is what the project's own formats read."""

import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.formats import log, prometheus_text
from collectors.formats.reading import Tally
from sickbay.messages import Event, Step
from sickbay.schema import Samples
from simulator.live import trainer
from simulator.live.site import Site

HOSTS = ("n1", "n2", "n3")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, HOSTS, seed=3)
    yield made
    made.close()


def scrape(site: Site, host: str, what: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(site.exporters.url(host, what), timeout=1) as answer:
        return bytes(answer.read())


def tables(text: bytes) -> dict[str, Samples]:
    readings = list(prometheus_text.read([text], Tally()))
    return {one.record.table: one.record for one in readings if isinstance(one.record, Samples)}


def test_the_exporters_text_is_read_back_with_the_cards_of_that_host(site: Site) -> None:
    accelerators = tables(scrape(site, "n2", "accelerators"))["accelerator"]
    assert len(accelerators.component) == 8
    assert all("0000:" in name for name in accelerators.component)
    assert tables(scrape(site, "n2", "node"))["host"].values["memory_total_bytes"][0] > 1e12


def test_cards_draw_power_while_the_job_steps_and_less_while_it_waits(site: Site) -> None:
    def watts(word: str) -> float:
        for host in HOSTS:
            trainer.say(site.folder, host, word)
        site.second()
        return float(tables(scrape(site, "n1", "accelerators"))["accelerator"].values["power_watts"].mean())

    assert watts("step") > 500 > watts("wait") > 150


@pytest.mark.slow
def test_a_lost_card_prints_its_code_and_makes_the_exporter_hang_until_repaired(site: Site) -> None:
    card = site.lose("n2", 3)
    readings = list(log.read([site.kernel_log("n2").read_bytes()], Tally()))
    events = [one.record for one in readings if isinstance(one.record, Event)]
    assert "Xid 79" in {event.code for event in events}
    assert all(card.pci in event.component for event in events)
    site.second()
    with pytest.raises((TimeoutError, urllib.error.URLError)):
        scrape(site, "n2", "accelerators")
    assert scrape(site, "n2", "node")
    assert scrape(site, "n1", "accelerators")
    site.repair("n2")
    site.second()
    assert len(tables(scrape(site, "n2", "accelerators"))["accelerator"].component) == 8


def test_every_host_sees_the_shared_scratch(site: Site) -> None:
    (site.scratch / "slurm-7.out").write_text("x")
    assert all((site.root(host) / "scratch" / "slurm-7.out").exists() for host in HOSTS)


def test_the_trainer_needs_nothing_but_the_standard_library() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", trainer.__file__, "/nowhere"], capture_output=True, text=True, timeout=20,
        env={"SLURM_JOB_ID": "1", "SLURMD_NODENAME": "n1", "SLURM_JOB_NODELIST": "; rm"},
    )  # fmt: skip
    assert "start it under srun" in done.stderr


@pytest.mark.slow
def test_a_job_steps_waits_for_a_lost_card_and_goes_on_from_its_checkpoint(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trainer, "LOAD_S", 0.1)
    monkeypatch.setattr(trainer, "STEP_S", 0.05)
    monkeypatch.setattr(trainer, "BEAT_S", 0.02)

    def train(seconds: float) -> list[Step]:
        ends = time.time() + seconds
        others = [
            threading.Thread(target=trainer.train, args=(site.folder, "7", host, list(HOSTS)), kwargs={"until": ends})
            for host in HOSTS[1:]
        ]
        for other in others:
            other.start()
        trainer.train(site.folder, "7", HOSTS[0], list(HOSTS), until=ends)
        for other in others:
            other.join()
        readings = log.read([capsys.readouterr().out.encode()], Tally())
        return [one.record for one in readings if isinstance(one.record, Step) and one.record.loss is not None]

    first = train(2.0)
    saved = int((site.scratch / "7.checkpoint").read_text())
    assert 5 <= saved <= first[-1].step
    site.lose("n3", 0)
    assert train(0.4) == []
    site.repair("n3")
    assert train(0.6)[0].step == saved + 1
