"""With real parts: a Prometheus that remote-writes over TLS; commands and windows in processes of their own."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from sickbay.log import Appender
from sickbay.log.https_appender import HttpsAppender
from sickbay.log.opened import open_log
from sickbay.log.sqlite import SqliteLog
from sickbay.settings import LogSettings
from sickbay.topics import TOPICS
from tests.collectors.agent_kit import page, serving, wait_for
from tests.listen.listen_kit import TELEMETRY, certified, config, frames, records, site, tokens, values
from tests.listen.test_listen_relay import HOSTS, all_at_once, spoken
from tests.process.kit import features
from tests.services import prometheus
from tests.services.kafka import Addresses

EXPORTER = """# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",pci_bus_id="00000000:CB:00.0",Hostname="n1"} 41
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",pci_bus_id="00000000:CB:00.0",Hostname="n1"} 50
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1",pci_bus_id="00000000:CB:00.0",Hostname="n1"} 79
"""
SCRAPES = """global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: cards
    static_configs: [{targets: ['%s']}]
remote_write:
  - url: https://%s/api/v1/write
    authorization: {credentials: all}
    tls_config: {ca_file: %s}
    queue_config: {batch_send_deadline: 1s, max_shards: 2}
"""
COMMAND = (sys.executable, "-m", "sickbay")


@pytest.mark.service
def test_a_real_prometheus_writes_into_the_log(tmp_path: Path) -> None:
    with site(tmp_path) as one, serving(page(EXPORTER)) as url:
        target = url.removeprefix("http://").removesuffix("/metrics")
        text = SCRAPES % (target, one.listener.address, one.ca_file)
        with prometheus.serving(text, tmp_path):
            wait_for(lambda: len(one.values("accelerator", "temperature_celsius")) >= 3, 40)
        card = "accelerator:n1/0000:cb:00"
        assert set(one.values("accelerator", "temperature_celsius").values()) == {41.0}
        assert {name for name, _ in one.values("accelerator", "utilisation_ratio")} == {card}
        assert [event.code for event in one.told("sickbay.events.v1")] == ["XID 79"]
        assert one.said[1:] == []


@contextmanager
def command(folder: Path, *words: str) -> Iterator[str]:
    """A command at work with a listener; gives its address. Ended by SIGTERM, with status 0."""
    certified(folder)
    tokens(folder, all={"hosts": ["n*"], "kinds": ["records"]})
    (folder / "sickbay.toml").write_text(
        f'[log]\nengine = "sqlite"\npath = "{folder}/log"\n[listen]\ncertificate_file = "server.crt"\n'
        'private_key_file = "server.key"\ntokens_file = "tokens.toml"\n[windows]\nwidth_s = 2\nlateness_s = 1\n'
    )
    with (folder / "said").open("w") as said:
        child = subprocess.Popen([*COMMAND, *words, "--listen", "127.0.0.1:0"], cwd=folder, stderr=said, stdout=said)
    try:
        pattern = re.compile(r"listens at https://(\S+)")
        yield wait_for(lambda: (found := pattern.search((folder / "said").read_text())) and found[1], 40)
    finally:
        child.send_signal(signal.SIGTERM)
        assert child.wait(40) == 0, (folder / "said").read_text()


def send(folder: Path, address: str, hosts: list[str], *at_ms: int) -> None:
    (folder / "token").write_text("all")
    settings = LogSettings(
        engine="https", url=f"https://{address}", ca_file=str(folder / "server.crt"), token_file=str(folder / "token")
    )
    appender: Appender = HttpsAppender(settings, TOPICS)
    for host in hosts:
        for record in spoken(host, *at_ms):
            appender.append(record.topic, record.key, record.value)
    appender.flush()
    appender.close()


@pytest.mark.slow
def test_relay_and_up_take_frames_from_agents_to_windows(tmp_path: Path) -> None:
    with command(tmp_path, "up") as address:
        send(tmp_path, address, HOSTS[:4], int(time.time() * 1000))
        log = SqliteLog(tmp_path / "log", TOPICS)
        try:
            wait_for(lambda: [key for _, key, _ in features(log) if key.startswith(b"accelerator/")], 30)
        finally:
            log.close()
    (tmp_path / "relay").mkdir()
    with command(tmp_path / "relay", "relay", "--pod", "pod-7") as address:
        send(tmp_path / "relay", address, HOSTS, int(time.time() * 1000))
    log = SqliteLog(tmp_path / "relay" / "log", TOPICS)
    try:
        told = frames(log)
        assert {frame.host for frame in told} == set(HOSTS)
        assert values([batch for frame in told for batch in frame.samples], "accelerator", "power_watts")
    finally:
        log.close()


@pytest.mark.service
@pytest.mark.slow
def test_a_pod_s_agents_reach_kafka_through_a_relay(tmp_path: Path, kafka_broker: Addresses) -> None:
    settings = LogSettings(engine="kafka", brokers=kafka_broker.brokers, replication=1, prefix=f"{uuid4().hex[:8]}.")
    log = open_log(settings)
    try:
        with site(tmp_path, log, packs=True, settings=config(tmp_path, pod="pod-7")) as one:
            now_ms = int(time.time() * 1000)
            all_at_once(one, tmp_path, HOSTS, now_ms, now_ms + 1000)
            told = one.frames()
        assert sorted((frame.host, frame.sequence) for frame in told) == sorted(
            (host, number) for host in HOSTS for number in (1, 2)
        )
        assert len(records(log, TELEMETRY)) < len(told) / 2
    finally:
        log.close()
