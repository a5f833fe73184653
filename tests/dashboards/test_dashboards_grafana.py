"""The boards: the committed JSON is what the code makes, the lint finds what it is for, queries ask what exists."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboards.grafana import BOARDS
from dashboards.grafana.ask import VARIABLES, check
from dashboards.grafana.build import containers, text
from dashboards.grafana.lint import MAX_PANELS, expressions, problems
from dashboards.grafana.queries import greatest, once, quantile, rate
from sickbay.cli import main
from sickbay.selfmetrics import METRICS, Metric

ROOT = Path(__file__).resolve().parents[2]
HEIGHT = Metric("kernel", "height", "bytes", "gauge", ("topic",), "A gauge.")
COUNT = Metric("kernel", "seen", "rows", "counter", ("table",), "A counter.")
TIME = Metric("kernel", "took", "seconds", "histogram", ("group",), "A histogram.")
KNOWN = (HEIGHT, COUNT, TIME)


@pytest.mark.parametrize("name", BOARDS)
def test_the_committed_board_is_what_the_code_makes(name: str) -> None:
    committed = ROOT / "deploy" / "grafana" / f"{name}.json"
    assert committed.read_text(encoding="utf-8") == text(name), "sickbay dashboards build"


@pytest.mark.parametrize("name", BOARDS)
def test_nothing_is_wrong_with_a_board(name: str) -> None:
    assert problems(containers(name)) == []


def test_the_fleet_board_shows_what_an_operator_asks_first() -> None:
    asked = " ".join(expr for _, expr, _ in expressions(containers("fleet")))
    for what in (
        "open_incidents", "onset_to_incident", "held_targets", "changed_actions", "wire_decoded", "sent_events",
        "log_lag", "late_rows", "log_duplicate", "log_missed", "dead_letter", "heartbeat_age", "spool_dropped",
        "incident_since", "standing_alerts",
    ):  # fmt: skip
        assert what in asked, what


def test_queries_are_made_from_names_of_metrics() -> None:
    assert greatest(HEIGHT, "topic") == 'max by (topic) (sickbay_kernel_height_bytes{cluster=~"$cluster"})'
    assert once(HEIGHT) == 'sum(max by (cluster) (sickbay_kernel_height_bytes{cluster=~"$cluster"}))'
    assert rate(COUNT, table="a|b") == (
        'sum(rate(sickbay_kernel_seen_rows_total{cluster=~"$cluster", table=~"a|b"}[$__rate_interval]))'
    )
    assert quantile(0.9, TIME, "group") == (
        "histogram_quantile(0.9, sum by (le, group) "
        '(rate(sickbay_kernel_took_seconds_bucket{cluster=~"$cluster"}[$__rate_interval])))'
    )


def panel(id: int, expr: str, **fields: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": id, "type": "timeseries", "title": f"panel {id}", "description": "What it shows.",
        "fieldConfig": {"defaults": {"unit": "s"}}, "gridPos": {"x": 0, "y": 8 * id, "w": 12, "h": 8},
        "targets": [{"expr": expr, "datasource": {"uid": "${source}"}}],
    }  # fmt: skip
    return told | fields


def board(*panels: dict[str, Any]) -> dict[str, Any]:
    return {
        "title": "A board", "uid": "a-board", "tags": ["sickbay"], "panels": list(panels),
        "templating": {"list": [{"type": "datasource", "name": "source"}]},
    }  # fmt: skip


GOOD = (panel(1, greatest(HEIGHT, "topic")), panel(2, rate(COUNT, "table")), panel(3, quantile(0.5, TIME)))


def test_a_good_board_passes() -> None:
    assert problems(board(*GOOD), KNOWN) == []


C = 'cluster=~"$cluster"'


@pytest.mark.parametrize(
    ("expr", "said"),
    [
        (f"max(sickbay_kernel_depth_bytes{{{C}}})", "no metric of ours"),
        (f"rate(sickbay_kernel_seen_rows{{{C}}}[5m])", "no metric of ours"),  # without its _total
        (f"rate(sickbay_kernel_took_seconds{{{C}}}[5m])", "no metric of ours"),  # a histogram has parts only
        (f"rate(node_load1{{{C}}}[5m])", "no metric of ours"),
        ("max(sickbay_kernel_height_bytes)", "without the cluster"),
        ('max(sickbay_kernel_height_bytes{topic="x"})', "without the cluster"),
        (f'max(sickbay_kernel_height_bytes{{{C}, table="x"}})', "has no label table"),
        (f"max by (table) (sickbay_kernel_height_bytes{{{C}}})", "grouped by table"),
        (f"sum(sickbay_kernel_seen_rows_total{{{C}}})", "its rate tells something"),
        (f"rate(sickbay_kernel_height_bytes{{{C}}}[5m])", "no rate tells something"),
        ("  ", "an empty query"),
    ],
)
def test_the_lint_finds_a_wrong_query(expr: str, said: str) -> None:
    (found,) = problems(board(panel(1, expr)), KNOWN)
    assert said in found


def _set(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda told: told["panels"][1].update({key: value})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set("title", ""), "has no title"),
        (_set("description", " "[:0]), "has no description"),
        (_set("fieldConfig", {}), "has no unit"),
        (_set("targets", []), "has no query"),
        (_set("id", 1), "2 panels have the id 1"),
        (_set("gridPos", {"x": 6, "y": 12, "w": 12, "h": 8}), "lie over each other"),
        (_set("gridPos", {"x": 16, "y": 40, "w": 12, "h": 8}), "does not lie within 24 columns"),
        (lambda told: told.pop("uid"), "has no uid"),
        (lambda told: told["panels"].clear(), "has no panels"),
        (lambda told: told["templating"]["list"].clear(), "chooses the data source"),
        (lambda told: told["panels"][0]["targets"][0].update(datasource={"uid": "abc"}), "fixed data source"),
        (
            lambda told: told["panels"].extend(panel(n, greatest(HEIGHT)) for n in range(9, 9 + MAX_PANELS)),
            "are not read",
        ),
    ],
)
def test_the_lint_finds_a_wrong_board(change: Callable[[dict[str, Any]], object], said: str) -> None:
    told = copy.deepcopy(board(*GOOD))
    change(told)
    assert any(said in line for line in problems(told, KNOWN)), problems(told, KNOWN)


def test_touching_panels_do_not_lie_over_each_other() -> None:
    left, right = (
        GOOD[0] | {"gridPos": {"x": 0, "y": 0, "w": 12, "h": 8}},
        GOOD[1] | {"gridPos": {"x": 12, "y": 0, "w": 12, "h": 8}},
    )
    assert problems(board(left, right), KNOWN) == []


def test_panels_of_a_closed_row_are_looked_at_too() -> None:
    closed = {"id": 7, "type": "row", "title": "Closed", "gridPos": {"x": 0, "y": 0, "w": 24, "h": 1}}
    hidden = board({**closed, "panels": [panel(1, "max(sickbay_kernel_nothing_bytes{})")]}, panel(2, greatest(HEIGHT)))
    assert len(problems(hidden, KNOWN)) == 1
    assert len(expressions(hidden)) == 2


# ---- check against a server ---------------------------------------------------------------------------------------


def test_a_check_fills_variables_and_tells_errors_and_emptiness() -> None:
    answers = iter([b'{"status":"success","data":{"result":[1,2]}}', b'{"status":"error","error":"parse error"}', b"<"])
    paths: list[str] = []

    def get(path: str) -> bytes:
        paths.append(path)
        return next(answers)

    found = check(board(*GOOD), get, 1_800_000_000.0)
    assert [(one.series, one.error) for one in found] == [(2, ""), (0, "parse error"), (0, "no answer of a Prometheus")]
    assert all("%24" not in path and "$" not in path for path in paths)
    assert not any(name in one.expr for one in found for name in VARIABLES)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'{"status":"success"}', b'{"status":"success","data":[]}', b"\xff"]
)
def test_what_is_no_prometheus_is_told(body: bytes) -> None:
    (found,) = check(board(GOOD[0]), lambda path: body, 0.0)
    assert found.error


def test_build_writes_what_is_committed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboards", "build", "--out", str(tmp_path / "new")]) == 0
    for name in BOARDS:
        assert (tmp_path / "new" / f"{name}.json").read_text(encoding="utf-8") == text(name)
        assert f"{name}.json" in capsys.readouterr().out
    (tmp_path / "file").write_text("")
    assert main(["dashboards", "build", "--out", str(tmp_path / "file")]) == 4


def test_check_without_a_server_lints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboards", "check"]) == 0
    assert capsys.readouterr().out == "fleet: nothing wrong\n"
    assert main(["dashboards", "check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "schema": "sickbay.dashboards/1", "faults": {"fleet": []}, "queries": {},
    }  # fmt: skip


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "nowhere", "file:///etc/passwd"])
def test_check_without_an_answer_is_bad_usage(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboards", "check", "--prometheus", url]) == 2
    assert "--prometheus" in capsys.readouterr().err


def test_every_metric_can_be_asked_for() -> None:
    """The lint knows each metric of the table by the name under which it is scraped."""
    for metric in METRICS:
        asked = {"gauge": greatest(metric), "counter": rate(metric), "histogram": quantile(0.5, metric)}
        expr = asked[metric.type]
        assert problems(board(panel(1, expr))) == [], metric.name
