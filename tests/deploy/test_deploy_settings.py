"""Settings, rules, topics and keys that are shipped: each read by what will read it."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deploy import topics
from sickbay.config import load
from sickbay.seal import host_key
from sickbay.selfmetrics import METRICS
from sickbay.topics import TOPICS
from tests.services.process import found

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy"
RULES = FOLDER / "sickbay-rules.yml"
SUFFIXES = ("_bucket", "_sum", "_count")


def run(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, timeout=60)


def test_the_example_settings_are_good_and_touch_nothing() -> None:
    config = load(FOLDER / "sickbay.toml")
    assert config.log.engine == "kafka"
    assert config.security.require_signed
    assert config.remediation.mode == "observe"
    assert config.remediation.kill_switch == str(FOLDER / "stop")
    assert config.metrics.listen == ""  # units set it, each its own


def test_the_settings_that_are_commented_out_are_good_too(tmp_path: Path) -> None:
    text = (FOLDER / "sickbay.toml").read_text()
    opened = re.sub(r"^# ((?:\w+ = |\[\w+\] +#).*)$", r"\1", text, flags=re.M)
    assert opened != text
    (tmp_path / "sickbay.toml").write_text(opened)
    assert load(tmp_path / "sickbay.toml").remediation.test_command == ("/opt/site/bin/node-test",)


def test_the_topics_are_those_of_the_code() -> None:
    assert (FOLDER / "topics.json").read_text() == topics.text(), "python deploy/topics.py > deploy/topics.json"
    assert [row["name"] for row in json.loads(topics.text())] == list(TOPICS)


def test_the_topics_as_commands_name_each_setting() -> None:
    lines = topics.commands("broker:9092")
    assert len(lines) == len(TOPICS)
    assert (
        "--topic sickbay.events.v1 --partitions 16 --replication-factor 3"
        in lines[list(TOPICS).index("sickbay.events.v1")]
    )
    assert all("--config message.timestamp.type=LogAppendTime" in line for line in lines)


def test_a_hosts_key_is_the_one_that_is_checked_against(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.key"
    cluster.write_text("ab" * 32 + "\n")
    done = run(sys.executable, "deploy/host-key", str(cluster), str(tmp_path), "n1", "n2")
    assert done.stdout.split() == [str(tmp_path / "n1.key"), str(tmp_path / "n2.key")], done.stderr
    written = (tmp_path / "n1.key").read_text().strip()
    assert bytes.fromhex(written) == host_key(bytes.fromhex("ab" * 32), "n1")
    assert written != (tmp_path / "n2.key").read_text().strip()
    assert stat.S_IMODE((tmp_path / "n1.key").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("key", "host", "says"),
    [("zz", "n1", "hex digits"), ("ab", "n1", "hex digits"), ("ab" * 32, "../n1", "is no host name")],
)
def test_a_bad_key_or_name_is_refused(tmp_path: Path, key: str, host: str, says: str) -> None:
    (tmp_path / "cluster.key").write_text(key)
    done = run(sys.executable, "deploy/host-key", str(tmp_path / "cluster.key"), str(tmp_path), host)
    assert done.returncode == 2
    assert says in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.key"]


def test_the_rules_ask_for_metrics_that_there_are() -> None:
    known = {metric.name for metric in METRICS} | {metric.name + end for metric in METRICS for end in SUFFIXES}
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    asked = {name for rule in rules for name in re.findall(r"\bsickbay_\w+", rule["expr"])}
    assert asked
    assert asked <= known
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in rules)


@pytest.mark.service
def test_prometheus_takes_its_settings_and_rules() -> None:
    (tool,) = found("promtool")
    done = run(tool, "check", "config", "deploy/prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.service
def test_the_rules_fire_when_sickbay_is_gone_or_late(tmp_path: Path) -> None:
    (tool,) = found("promtool")
    up = 'up{job="sickbay", instance="a:1"}'
    lag = 'sickbay_kernel_log_lag_seconds{cluster="c", group="diagnosis", topic="t", partition="0"}'
    labels = {"severity": "error"}
    late = "diagnosis is 1m 30s behind: it looks healthy and is not."
    gone = "No process of Sickbay answers: nothing is being diagnosed."
    cases = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": up, "values": "1x8 0x8"}, {"series": lag, "values": "0x7 90x8"}],
                "alert_rule_test": [
                    {"eval_time": "1m", "alertname": "SickbayAbsent", "exp_alerts": []},
                    {"eval_time": "1m", "alertname": "SickbayBehind", "exp_alerts": []},
                    {
                        "eval_time": "3m45s",
                        "alertname": "SickbayAbsent",
                        "exp_alerts": [{"exp_labels": labels, "exp_annotations": {"summary": gone}}],
                    },
                    {
                        "eval_time": "3m45s",
                        "alertname": "SickbayBehind",
                        "exp_alerts": [
                            {
                                "exp_labels": {**labels, "cluster": "c", "group": "diagnosis"},
                                "exp_annotations": {"summary": late},
                            }
                        ],
                    },
                ],
            }
        ],
    }
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(cases))
    done = run(tool, "test", "rules", str(tmp_path / "tests.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.service
def test_alertmanager_takes_its_settings() -> None:
    (tool,) = found("amtool")
    done = run(tool, "check-config", "deploy/alertmanager.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.service
@pytest.mark.parametrize(("severity", "receiver"), [("error", "people"), ("info", "watched")])
def test_what_is_only_watched_does_not_reach_people(severity: str, receiver: str) -> None:
    (tool,) = found("amtool")
    label = ("alertname=SickbayIncident", f"severity={severity}")
    done = run(tool, "config", "routes", "test", "--config.file=deploy/alertmanager.yml", *label)
    assert done.stdout.strip() == receiver, done.stderr
