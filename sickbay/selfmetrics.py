"""What Sickbay tells of itself: every own metric in one table, in a registry of its own.

Names are `sickbay_<package>_<what>_<unit>[_total]`. A process makes one `SelfMetrics` and hands it to its shells; the
pure parts return counts and know nothing of this. The reference in docs is made from METRICS.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

MAX_SERIES = 1000  # of one metric: further label values are counted as "other", so that bad input cannot fill memory
OTHER = "other"
PACKAGES = ("kernel", "collectors", "streams", "diagnosis", "remediation", "dashboards", "simulator")
UNITS = (
    "seconds", "bytes", "records", "frames", "rows", "windows", "events", "lines", "claims", "incidents", "errors",
    "actions", "hosts", "targets", "alerts", "sources", "hours",
)  # fmt: skip

# From an idle event's way (design: p99 <= 1 s) to a rebuild (<= 30 s) and a broker's outage (10 min).
SECONDS = (0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 600.0)

Type = Literal["counter", "gauge", "histogram"]
Series: TypeAlias = Counter | Gauge | Histogram


@dataclass(frozen=True, slots=True)
class Metric:
    """One own metric. A counter's name ends in `_total`."""

    package: str
    what: str
    unit: str
    type: Type
    labels: tuple[str, ...]
    help: str

    @property
    def name(self) -> str:
        """The full name, as it is scraped."""
        return f"sickbay_{self.package}_{self.what}_{self.unit}{'_total' if self.type == 'counter' else ''}"


LOG_APPENDED = Metric("kernel", "log_appended", "records", "counter", ("topic",), "Records appended.")
LOG_READ = Metric("kernel", "log_read", "records", "counter", ("topic",), "Records read by processors.")
LOG_ERRORS = Metric("kernel", "log", "errors", "counter", ("kind",), "Errors of the log, by the name of the exception.")
LOG_COMMIT = Metric("kernel", "log_commit", "seconds", "histogram", ("group",), "Time that a commit took.")
LOG_LAG = Metric(
    "kernel", "log_lag", "seconds", "gauge", ("group", "topic", "partition"), "Age of the committed frontier."
)
LOG_HIDDEN = Metric(
    "kernel", "log_hidden", "seconds", "gauge", ("topic", "partition"),
    "How long an open transaction has hidden a partition's end: its last stable offset stands still.",
)  # fmt: skip
LOG_BLIND = Metric("kernel", "log_blind", "records", "counter", ("topic",), "Removed before a processor read them.")
LOG_DUPLICATE = Metric("kernel", "log_duplicate", "records", "counter", ("topic",), "Told twice by a sender: dropped.")
LOG_MISSED = Metric(
    "kernel", "log_missed", "records", "counter", ("topic",), "Lost or late, by gaps in sequence numbers."
)
LOG_FOUND = Metric(
    "kernel", "log_found", "records", "counter", ("topic",), "Missed before, and not lost: late, or sent as backfill."
)
WIRE_DECODED = Metric("kernel", "wire_decoded", "frames", "counter", (), "Frames decoded.")
WIRE_DROPPED = Metric("kernel", "wire_dropped", "rows", "counter", ("table",), "Rows of tables not known here.")
FORMATS_SKIPPED = Metric(
    "collectors", "formats_skipped", "lines", "counter", ("format", "reason"), "Lines that a format could not read."
)
PROBE_DURATION = Metric("collectors", "probe_duration", "seconds", "histogram", ("source",), "Time of one collection.")
PROBE_FAILED = Metric("collectors", "probe", "errors", "counter", ("source",), "Collections that failed or timed out.")
SOURCE_STATE = Metric(
    "collectors", "state", "sources", "gauge", ("source", "state"),
    "One where a source is in this state: ok, absent, blind, hangs, off or waits.",
)  # fmt: skip
WINDOWS_CLOSED = Metric("streams", "closed", "windows", "counter", ("table",), "Windows closed.")
ROWS_LATE = Metric("streams", "late", "rows", "counter", ("table",), "Rows that came after their window had closed.")
WINDOWS_STALE = Metric(
    "streams", "stale", "windows", "counter", ("table",), "Windows closed before their side inputs were complete."
)
HOSTS_SILENT = Metric(
    "streams",
    "silent",
    "hosts",
    "gauge",
    (),
    "Hosts of this process's partitions not heard for over 30 s, but in the hour.",
)
ROWS_CLAMPED = Metric(
    "streams", "clamped", "rows", "counter", ("table",), "Rows stamped more than 2 s ahead of their append: clamped."
)
ROWS_BEYOND = Metric(
    "streams",
    "beyond",
    "rows",
    "counter",
    ("table",),
    "Rows left out: their sender names more parts than one may have.",
)
LOOKS = Metric("diagnosis", "look", "seconds", "histogram", (), "Time that a step of looks took, of which it had some.")
LOG_TIME = Metric(
    "diagnosis", "judged_until", "seconds", "gauge", (), "Log time up to which all was judged, in seconds since 1970."
)
WINDOWS_BEHIND = Metric(
    "diagnosis", "left_out", "windows", "gauge", (), "One where windows are left out, as they are too far behind."
)
MESSAGES_DROPPED = Metric(
    "diagnosis", "messages_dropped", "records", "gauge", (), "Events and progress that memory had no room for."
)
STEPS_FOLDED = Metric(
    "diagnosis", "steps_folded", "records", "gauge", (), "Steps that memory keeps as a row of their job and step only."
)
STEPS_LATE = Metric(
    "diagnosis", "steps_late", "records", "gauge", (), "Steps told too late for the row of their job and step."
)
WINDOWS_CUT = Metric(
    "diagnosis", "cut", "windows", "gauge", (), "Windows that the newest look did without, as too much is of interest."
)
CLAIMS_MADE = Metric("diagnosis", "made", "claims", "counter", ("detector",), "Evidence records put out.")
DETECTOR_ERRORS = Metric("diagnosis", "detector", "errors", "counter", ("detector",), "Failures of detectors.")
INCIDENTS_OPEN = Metric("diagnosis", "open", "incidents", "gauge", ("verdict",), "Incidents open now.")
ONSET_TO_INCIDENT = Metric(
    "diagnosis", "onset_to_incident", "seconds", "histogram", ("verdict",), "From the onset to the incident."
)
HEARTBEAT_AGE = Metric(
    "diagnosis", "heartbeat_age", "seconds", "gauge", (), "Age of what diagnosis read, as seen outside it."
)
DEAD_LETTERS = Metric("kernel", "dead_letter", "records", "counter", ("topic", "reason"), "Records put aside as unfit.")
SPOOL_BYTES = Metric("collectors", "spool", "bytes", "gauge", (), "What an agent keeps until the log has it.")
SPOOL_DROPPED = Metric(
    "collectors", "spool_dropped", "records", "counter", (), "Dropped by an agent whose spool was full."
)
SPOOL_AGE = Metric(
    "collectors", "spool_age", "seconds", "gauge", (), "Age of the oldest record that waits in an agent's spool."
)
LOG_AWAY = Metric(
    "collectors", "log_away", "seconds", "gauge", (), "For how long the log has not taken what an agent sends."
)
FRAMES_SENT = Metric(
    "collectors", "sent", "frames", "counter", ("way",), "Frames that agents put into the log: live, or as backfill."
)
DIRECT_ALERTS = Metric(
    "collectors", "direct", "alerts", "counter", ("status",), "Hardware codes told to Alertmanager by an agent itself."
)
EVENTS_SENT = Metric("collectors", "sent", "events", "counter", ("kind",), "Events that agents put into the log.")
ACTIONS_CHANGED = Metric(
    "remediation", "changed", "actions", "counter", ("do", "state", "mode"), "Changes written into the ledger."
)
TARGETS_HELD = Metric("remediation", "held", "targets", "gauge", (), "Held by Sickbay now.")
ALERTS_STANDING = Metric("remediation", "standing", "alerts", "gauge", ("severity",), "Alerts kept alive now.")
ALERTS_SENT = Metric("remediation", "sent", "alerts", "counter", ("status",), "Alerts that Alertmanager took.")
ALERT_ERRORS = Metric(
    "remediation", "alert_sending", "errors", "counter", ("reason",), "Alertmanager was away or refused alerts."
)
INCIDENT_SINCE = Metric(
    "remediation", "incident_since", "seconds", "gauge",
    ("incident", "verdict", "fault", "severity", "action", "component"),
    "Onset of an incident that stands, in seconds since 1970.",
)  # fmt: skip
SCHEDULER_ERRORS = Metric("remediation", "scheduler", "errors", "counter", ("kind",), "Calls of the scheduler in vain.")
ONSET_TO_HOLD = Metric("remediation", "onset_to_hold", "seconds", "histogram", (), "From the onset to the hold.")

LISTEN_ACCEPTED = Metric(
    "collectors", "listen_accepted", "records", "counter", ("kind",), "Rows and records that a listener took."
)
LISTEN_REFUSED = Metric(
    "collectors", "listen_refused", "records", "counter", ("kind", "reason"), "What a listener did not take, and why."
)

ARCHIVED = Metric("streams", "archived", "rows", "counter", ("table",), "Rows written into the archive.")
ARCHIVE_DAMAGED = Metric(
    "streams", "archive_damaged", "records", "counter", ("topic",), "Records that the archive could not read."
)
ARCHIVE_LOST = Metric(
    "streams", "archive_lost", "records", "counter", ("topic",), "Removed by retention before the archive had them."
)
ARCHIVE_ERRORS = Metric("streams", "archive", "errors", "counter", ("kind",), "Writes of the archive in vain.")
ARCHIVE_UPKEEP = Metric(
    "streams", "archive_upkeep", "hours", "counter", ("table", "what"),
    "Hours of archived telemetry that were sorted, made into minutes or removed.",
)  # fmt: skip
ARCHIVE_SINCE = Metric(
    "streams", "archive_complete_since", "seconds", "gauge", (), "When the archive last had all, in seconds since 1970."
)

METRICS: tuple[Metric, ...] = (
    LOG_APPENDED, LOG_READ, LOG_ERRORS, LOG_COMMIT, LOG_LAG, LOG_HIDDEN, LOG_BLIND, LOG_DUPLICATE, LOG_MISSED,
    LOG_FOUND,
    WIRE_DECODED, WIRE_DROPPED, FORMATS_SKIPPED, PROBE_DURATION, PROBE_FAILED, SOURCE_STATE,
    WINDOWS_CLOSED, ROWS_LATE, WINDOWS_STALE, ROWS_CLAMPED, ROWS_BEYOND, HOSTS_SILENT,
    CLAIMS_MADE, DETECTOR_ERRORS, INCIDENTS_OPEN, ONSET_TO_INCIDENT,
    LOOKS, LOG_TIME, WINDOWS_BEHIND, MESSAGES_DROPPED, STEPS_FOLDED, STEPS_LATE, WINDOWS_CUT,
    SCHEDULER_ERRORS, ONSET_TO_HOLD,
    HEARTBEAT_AGE, DEAD_LETTERS, SPOOL_BYTES, SPOOL_DROPPED, EVENTS_SENT,
    SPOOL_AGE, LOG_AWAY, FRAMES_SENT, DIRECT_ALERTS,
    ACTIONS_CHANGED, TARGETS_HELD,
    ALERTS_STANDING, ALERTS_SENT, ALERT_ERRORS, INCIDENT_SINCE,
    LISTEN_ACCEPTED, LISTEN_REFUSED,
    ARCHIVED, ARCHIVE_DAMAGED, ARCHIVE_LOST, ARCHIVE_ERRORS, ARCHIVE_UPKEEP, ARCHIVE_SINCE,
)  # fmt: skip


class SelfMetrics:
    """The metrics of one process. Raises KeyError for one that is not in METRICS, ValueError for other labels."""

    def __init__(self, metrics: Sequence[Metric] = METRICS) -> None:
        self._registry, self._lock = CollectorRegistry(), threading.Lock()
        self._series = {metric: self._made(metric) for metric in metrics}
        self._seen: dict[Metric, set[tuple[str, ...]]] = {metric: set() for metric in metrics}

    def _made(self, metric: Metric) -> Series:
        if metric.type == "counter":
            return Counter(metric.name, metric.help, metric.labels, registry=self._registry)
        if metric.type == "gauge":  # without labels it would stand at 0 from the start, as if somebody had measured
            return Gauge(metric.name, metric.help, metric.labels, registry=self._registry if metric.labels else None)
        return Histogram(metric.name, metric.help, metric.labels, registry=self._registry, buckets=SECONDS)

    def count(self, metric: Metric, amount: float = 1, **labels: str) -> None:
        """Add to a counter. Raises ValueError for a negative amount."""
        series = self._of(metric, labels)
        if not isinstance(series, Counter):
            raise TypeError(f"{metric.name} is a {metric.type}")
        series.inc(amount)

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """Set a gauge."""
        series = self._of(metric, labels)
        if not isinstance(series, Gauge):
            raise TypeError(f"{metric.name} is a {metric.type}")
        series.set(value)
        if not metric.labels:
            self._show(metric, series)

    def _show(self, metric: Metric, series: Gauge) -> None:
        """From its first value on; several stages of a process may tell it."""
        with self._lock:
            if not self._seen[metric]:
                self._registry.register(series)
                self._seen[metric].add(())

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """Add one observation to a histogram."""
        series = self._of(metric, labels)
        if not isinstance(series, Histogram):
            raise TypeError(f"{metric.name} is a {metric.type}")
        series.observe(value)

    def _of(self, metric: Metric, labels: dict[str, str]) -> Series:
        series = self._series[metric]
        if set(labels) != set(metric.labels):
            raise ValueError(f"{metric.name} has the labels {metric.labels}, not {tuple(labels)}")
        if not metric.labels:
            return series
        values = tuple(labels[label] for label in metric.labels)
        seen = self._seen[metric]
        if values not in seen and len(seen) >= MAX_SERIES:
            values = (OTHER,) * len(values)
        seen.add(values)
        return series.labels(*values)

    def tell(self, metric: Metric, series: Mapping[tuple[str, ...], float]) -> None:
        """Set a gauge's series to exactly these, by label values: what is over must not stand for ever."""
        gone = self._seen[metric] - set(series)
        for values in gone:
            self._series[metric].remove(*values)
        self._seen[metric] -= gone
        for values, value in series.items():
            self.set(metric, value, **dict(zip(metric.labels, values, strict=True)))

    def value(self, metric: Metric, **labels: str) -> float | None:
        """What a counter or gauge stands at, None where it was never touched."""
        return self._registry.get_sample_value(metric.name, labels)

    def text(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self._registry)
