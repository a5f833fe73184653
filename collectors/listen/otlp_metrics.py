"""OTLP metrics: numbers as series, under the mapping of scrapes (a collector keeps an exporter's names and labels) and
that of OpenTelemetry's own names (collectors/codes/otel.toml). Histograms and summaries are counted and left out.
"""

from collections.abc import Iterator
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from collectors.formats.metric_names import is_known
from collectors.formats.series_matrix import Series
from collectors.listen import Allowed, Request, Told, Unfit
from collectors.listen.memory import SeriesMemory
from collectors.listen.otlp import answered, attributes, host_of, parsed, within
from collectors.listen.series import told_of

MAX_POINTS = 50_000  # of one request
DELTA = 1  # AggregationTemporality: a difference, no running total; no column takes one
_NO_VALUE = 1  # DataPointFlags: a point that says that there is none


def read(request: Request, memory: SeriesMemory, allowed: Allowed) -> Told:
    """What the points tell."""
    message, told = parsed(request, ExportMetricsServiceRequest), Told()
    told_of(list(_all(message, told)), request, memory, allowed, told)
    answered(request, told, ExportMetricsServiceResponse(), "rejected_data_points")
    return told


def _all(message: Any, told: Told) -> Iterator[Series]:
    left = MAX_POINTS
    for resource_metrics in within(message.resource_metrics, "scope_metrics"):
        labels = _resource(attributes(resource_metrics.resource.attributes))
        for scope in resource_metrics.scope_metrics:
            for metric in scope.metrics:
                for series in _metric(metric, labels, told):
                    left -= 1
                    if left < 0:
                        raise Unfit(f"more than {MAX_POINTS} points: send less at once", 413, "too_large")
                    yield series


def _resource(told: dict[str, str]) -> dict[str, str]:
    """A resource's attributes as the labels of a scrape."""
    labels = {"job": told.get("service.name", ""), "instance": told.get("service.instance.id", "")}
    return {name: value for name, value in (labels | {"hostname": host_of(told)}).items() if value}


def _metric(metric: Any, labels: dict[str, str], told: Told) -> Iterator[Series]:
    kind = metric.WhichOneof("data")
    name = _name(metric)
    if kind not in ("gauge", "sum"):
        told.refuse("not_a_number")
        return
    if kind == "sum" and metric.sum.aggregation_temporality == DELTA:
        told.refuse("delta", len(metric.sum.data_points), f"{metric.name[:80]}: differences: send running totals")
        return
    if not is_known(name):
        return
    for point in getattr(metric, kind).data_points:
        if not point.flags & _NO_VALUE:
            value = float(point.as_int) if point.WhichOneof("value") == "as_int" else point.as_double
            at_ms = point.time_unix_nano / 1e6
            yield Series({**labels, **attributes(point.attributes), "__name__": name}, ([at_ms], [value]))


def _name(metric: Any) -> str:
    """The name under which the mapping knows it: a collector's Prometheus receiver may have cut off `_total`."""
    name = str(metric.name)
    return next((one for one in (name, f"{name}_total") if is_known(one)), name)
