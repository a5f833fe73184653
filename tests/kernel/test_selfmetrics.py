"""Own metrics keep the naming law, and a flood of labels stays bounded."""

import re

import pytest

from sickbay import selfmetrics
from sickbay.selfmetrics import MAX_SERIES, METRICS, PACKAGES, UNITS, Metric, SelfMetrics

DECODED, REFUSED, LAG, COMMIT = (
    selfmetrics.WIRE_DECODED,
    selfmetrics.ALERT_ERRORS,
    selfmetrics.LOG_LAG,
    selfmetrics.LOG_COMMIT,
)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_name_says_package_thing_and_unit(metric: Metric) -> None:
    assert metric.package in PACKAGES
    assert metric.unit in UNITS
    assert re.fullmatch(r"sickbay_[a-z]+(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.type == "counter")
    assert metric.type != "histogram" or metric.unit == "seconds"
    assert re.fullmatch(r"[A-Z].{10,100}\.", metric.help)
    assert all(re.fullmatch(r"[a-z]+", label) for label in metric.labels)


def test_every_declared_metric_is_in_the_table_once() -> None:
    declared = [value for value in vars(selfmetrics).values() if isinstance(value, Metric)]
    assert sorted(metric.name for metric in declared) == sorted(metric.name for metric in METRICS)
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_what_is_told_is_scraped() -> None:
    metrics = SelfMetrics()
    metrics.count(DECODED, 3)
    metrics.count(REFUSED, reason="refused")
    metrics.set(LAG, 1.5, group="features", topic="sickbay.telemetry.v1", partition="3")
    metrics.observe(COMMIT, 0.01, group="features")
    text = metrics.text().decode()
    assert "sickbay_kernel_wire_decoded_frames_total 3.0" in text
    assert 'sickbay_remediation_alert_sending_errors_total{reason="refused"} 1.0' in text
    assert 'sickbay_kernel_log_lag_seconds{group="features",partition="3",topic="sickbay.telemetry.v1"} 1.5' in text
    assert 'sickbay_kernel_log_commit_seconds_count{group="features"} 1.0' in text
    assert metrics.value(DECODED) == 3
    assert metrics.value(REFUSED, reason="never") is None


def test_what_nobody_measures_does_not_stand_at_zero() -> None:
    metrics = SelfMetrics()
    assert selfmetrics.HEARTBEAT_AGE.name not in metrics.text().decode()
    assert metrics.value(selfmetrics.HEARTBEAT_AGE) is None
    metrics.set(selfmetrics.HEARTBEAT_AGE, 4.0)
    metrics.set(selfmetrics.HEARTBEAT_AGE, 0.0)
    assert metrics.value(selfmetrics.HEARTBEAT_AGE) == 0
    assert f"{selfmetrics.HEARTBEAT_AGE.name} 0.0" in metrics.text().decode()


def test_two_processes_in_one_do_not_share_numbers() -> None:
    one, two = SelfMetrics(), SelfMetrics()
    one.count(DECODED)
    assert two.value(DECODED) == 0


def test_wrong_uses_are_errors() -> None:
    metrics = SelfMetrics()
    with pytest.raises(ValueError, match="has the labels"):
        metrics.count(REFUSED)
    with pytest.raises(ValueError, match="has the labels"):
        metrics.count(DECODED, reason="x")
    with pytest.raises(TypeError, match="is a gauge"):
        metrics.count(LAG, group="g", topic="t", partition="0")
    with pytest.raises(TypeError, match="is a counter"):
        metrics.set(DECODED, 1)
    with pytest.raises(TypeError, match="is a counter"):
        metrics.observe(DECODED, 1)
    with pytest.raises(KeyError):
        metrics.count(Metric("kernel", "stray", "frames", "counter", (), "Not in the table."))


def test_a_flood_of_labels_is_counted_as_other() -> None:
    metrics = SelfMetrics()
    for number in range(MAX_SERIES + 50):
        metrics.count(REFUSED, reason=f"r{number}")
    metrics.count(REFUSED, reason="r0")
    assert metrics.value(REFUSED, reason="other") == 50
    assert metrics.value(REFUSED, reason="r0") == 2
