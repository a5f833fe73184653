"""PromQL over Sickbay's own metrics: names come from `sickbay.selfmetrics`, never typed here.

Every selector holds the cluster variable; a scrape without a `cluster` label is part of "All". Gauges of what a whole
cluster has (held targets, open incidents) are told by each process that knows: `once` counts them once.
"""

from dataclasses import dataclass

from sickbay.selfmetrics import Metric

CLUSTER = 'cluster=~"$cluster"'
RATE = "$__rate_interval"


@dataclass(frozen=True, slots=True)
class Query:
    """One query. `legend` in Grafana's `{{label}}` form; `instant`: of now only, for single numbers and tables."""

    expr: str
    legend: str = ""
    instant: bool = False


def selected(metric: Metric, suffix: str = "", **match: str) -> str:
    """The selector of a metric, with labels that match regular expressions."""
    more = "".join(f', {label}=~"{pattern}"' for label, pattern in match.items())
    return f"{metric.name}{suffix}{{{CLUSTER}{more}}}"


def total(metric: Metric, by: str = "", **match: str) -> str:
    """A gauge summed over processes."""
    return f"sum{_by(by)}({selected(metric, **match)})"


def greatest(metric: Metric, by: str = "", **match: str) -> str:
    """A gauge's greatest value over processes."""
    return f"max{_by(by)}({selected(metric, **match)})"


def once(metric: Metric, by: str = "") -> str:
    """A gauge that several processes of a cluster may tell: each cluster counted once, summed over clusters."""
    inner = greatest(metric, ", ".join(filter(None, ("cluster", by))))
    return f"sum{_by(by)}({inner})"


def rate(metric: Metric, by: str = "", **match: str) -> str:
    """A counter's increase per second."""
    return f"sum{_by(by)}(rate({selected(metric, **match)}[{RATE}]))"


def grown(metric: Metric, span: str, by: str = "") -> str:
    """A counter's increase over a span."""
    return f"sum{_by(by)}(increase({selected(metric)}[{span}]))"


def quantile(share: float, metric: Metric, by: str = "", span: str = RATE) -> str:
    """A quantile of a histogram."""
    buckets = f"rate({selected(metric, '_bucket')}[{span}])"
    return f"histogram_quantile({share}, sum by ({', '.join(filter(None, ('le', by)))}) ({buckets}))"


def _by(labels: str) -> str:
    return f" by ({labels}) " if labels else ""
