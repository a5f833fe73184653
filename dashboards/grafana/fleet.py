"""The board "fleet and incidents": what stands, what is held, whether Sickbay itself can be trusted right now."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard

from dashboards.grafana.panels import SOURCE, Panel, built, row
from dashboards.grafana.queries import Query, greatest, grown, once, quantile, rate, total
from sickbay import selfmetrics as own

UID = "sickbay-fleet"
TITLE = "Sickbay: fleet and incidents"
SPAN = "1h"  # quantiles of what happens a few times a day need a long window

# Heartbeats come every 5 s; 30 s is when the alert SickbaySilent stands.
HEARTBEAT = (15, 30)
# Design: live lag stays under 5 s; remediation acts on nothing older than 15 s.
LAG = (5, 15)
# Design: onset to hold within 10 s, onset to the right machine within 15 s.
ONSET = (15, 60)

_INCIDENT_LABELS = "cluster, incident, verdict, fault, severity, action, component"

ROWS: Sequence[tuple[str, Sequence[Panel]]] = (
    (
        "Now",
        (
            Panel("Open incidents", "Root causes that diagnosis holds open, one each.", "short",
                  [Query(f"sum({once(own.INCIDENTS_OPEN, 'verdict')})")], "stat", 5, 4, (1, 5), "not told"),
            Panel("Held by Sickbay", "Targets that Sickbay keeps away from work, until their test passes.", "short",
                  [Query(once(own.TARGETS_HELD))], "stat", 5, 4, (1, 8), "not told"),
            Panel("Heartbeat age", "Age of what diagnosis has read. Old: no incident says nothing.", "s",
                  [Query(greatest(own.HEARTBEAT_AGE))], "stat", 5, 4, HEARTBEAT, "no heartbeat"),
            Panel("Worst lag", "Age of the committed frontier of the slowest group, judged from outside.", "s",
                  [Query(greatest(own.LOG_LAG))], "stat", 5, 4, LAG, "not told"),
            Panel("Alerts in vain, 1 h", "Alertmanager was away or refused: people were not told.", "short",
                  [Query(grown(own.ALERT_ERRORS, SPAN))], "stat", 4, 4, (1, 20), "none"),
            Panel("Incidents that stand", "Each root cause that people are told of; `sickbay report ID` tells more.",
                  "string",
                  [Query(f"{greatest(own.INCIDENT_SINCE, _INCIDENT_LABELS)} * 1000", instant=True)],
                  "table", 24, 8, nothing="none, or no alerts stage runs", hidden=("Time",), named={"Value": "since"},
                  units={"since": "dateTimeFromNow"}),
        ),
    ),
    (
        "Incidents and actions",
        (
            Panel("Open incidents by verdict", "What kind of thing is at fault.", "short",
                  [Query(once(own.INCIDENTS_OPEN, "verdict"), "{{verdict}}")]),
            Panel("Onset to incident", "From the first sign in the world to the incident, over an hour.", "s",
                  [Query(quantile(0.5, own.ONSET_TO_INCIDENT, span=SPAN), "half"),
                   Query(quantile(0.95, own.ONSET_TO_INCIDENT, span=SPAN), "95 %")], levels=ONSET),
            Panel("Onset to hold", "From the onset to the hold that the scheduler read back, over an hour.", "s",
                  [Query(quantile(0.5, own.ONSET_TO_HOLD, span=SPAN), "half"),
                   Query(quantile(0.95, own.ONSET_TO_HOLD, span=SPAN), "95 %")], levels=ONSET),
            Panel("Actions by state", "Lines written into the ledger, per second. `shown`: nothing was touched.", "cps",
                  [Query(rate(own.ACTIONS_CHANGED, "do, state, mode"), "{{do}} {{state}} ({{mode}})")], "bars"),
            Panel("Held targets", "Nodes that get no work because of Sickbay.", "short",
                  [Query(once(own.TARGETS_HELD), "held")]),
            Panel("Alerts", "Alerts kept alive by severity, and what could not be sent, per second.", "short",
                  [Query(once(own.ALERTS_STANDING, "severity"), "{{severity}}"),
                   Query(rate(own.ALERT_ERRORS, "reason"), "in vain: {{reason}}")]),
        ),
    ),
    (
        "Telemetry and the log",
        (
            Panel("Telemetry", "Frames that were decoded, and rows of tables not known here, per second.", "cps",
                  [Query(rate(own.WIRE_DECODED), "decoded"),
                   Query(rate(own.WIRE_DROPPED, "table"), "dropped {{table}}")]),
            Panel("Events", "Events that agents put into the log, by kind, per second.", "cps",
                  [Query(rate(own.EVENTS_SENT, "kind"), "{{kind}}")], "bars"),
            Panel("Lag by group", "Age of the committed frontier: what lies between a fault and its incident.", "s",
                  [Query(greatest(own.LOG_LAG, "group, topic"), "{{group}} {{topic}}")], levels=LAG),
            Panel("Late, clamped, stale, duplicate",
                  "Rows too late or too early for their window, windows closed without all facts, records told twice.",
                  "cps",
                  [Query(rate(own.ROWS_LATE, "table"), "late {{table}}"),
                   Query(rate(own.ROWS_CLAMPED, "table"), "clamped {{table}}"),
                   Query(rate(own.WINDOWS_STALE, "table"), "stale {{table}}"),
                   Query(rate(own.LOG_DUPLICATE, "topic"), "duplicate {{topic}}")]),
            Panel("Put aside and lost", "Dead letters, and what sequence numbers or retention say is gone.", "cps",
                  [Query(rate(own.DEAD_LETTERS, "topic, reason"), "{{topic}} {{reason}}"),
                   Query(rate(own.LOG_MISSED, "topic"), "missed {{topic}}"),
                   Query(rate(own.LOG_BLIND, "topic"), "removed unread {{topic}}")]),
            Panel("Windows", "Windows closed, per second: none, and nothing is diagnosed from telemetry.", "cps",
                  [Query(rate(own.WINDOWS_CLOSED, "table"), "{{table}}")]),
            Panel("Commit time", "Outputs and positions stored as one: 95 %.", "s",
                  [Query(quantile(0.95, own.LOG_COMMIT, "group"), "{{group}}")]),
            Panel("Records appended", "What goes into each topic, per second.", "cps",
                  [Query(rate(own.LOG_APPENDED, "topic"), "{{topic}}")]),
            Panel("Errors of the log and scheduler", "By kind, per second.", "cps",
                  [Query(rate(own.LOG_ERRORS, "kind"), "log: {{kind}}"),
                   Query(rate(own.SCHEDULER_ERRORS, "kind"), "scheduler: {{kind}}")]),
        ),
    ),
    (
        "Agents",
        (
            Panel("Spools", "What all agents keep until the log takes it, and the fullest one.", "bytes",
                  [Query(total(own.SPOOL_BYTES), "all"), Query(greatest(own.SPOOL_BYTES), "fullest")]),
            Panel("Dropped by agents", "Records lost because a spool was full, per second.", "cps",
                  [Query(rate(own.SPOOL_DROPPED), "dropped")], levels=(0.001, 1)),
            Panel("Collections that failed", "A source that hangs or fails is a reading too, per second.", "cps",
                  [Query(rate(own.PROBE_FAILED, "source"), "{{source}}")]),
        ),
    ),
)  # fmt: skip


def board() -> Any:
    """The board, as a model of the SDK."""
    made = builders.Dashboard(TITLE).uid(UID).tags(["sickbay"]).description(
        "Made by `sickbay dashboards build` from dashboards/grafana/fleet.py: change it there."
    ).time("now-3h", "now").refresh("10s").timezone("utc").readonly().tooltip(
        dashboard.DashboardCursorSync.CROSSHAIR
    )  # fmt: skip
    for variable in _variables():
        made = made.with_variable(variable)
    numbers = count(1)
    for title, panels in ROWS:
        made = made.with_row(row(title, next(numbers)))
        for panel in panels:
            made = made.with_panel(built(panel, next(numbers)))
    return made.build()


def _variables() -> list[Any]:
    every = dashboard.VariableOption(selected=True, text="All", value="$__all")
    source = builders.DatasourceVariable("source").label("Prometheus").type("prometheus")
    clusters = builders.QueryVariable("cluster").label("Cluster").datasource(SOURCE)
    clusters = clusters.query(f"label_values({own.LOG_APPENDED.name}, cluster)").current(every)
    clusters = clusters.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(
        dashboard.VariableSort.ALPHABETICAL_ASC
    )
    return [source, clusters.multi(True).include_all(True).all_value(".*")]
