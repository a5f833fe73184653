"""Panels as data, and how the SDK makes them: a board lists what it shows, never where each pixel goes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.grafana.queries import Query

SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${source}")
WIDTH = 24  # columns of Grafana's grid
GREEN, YELLOW, RED = "green", "yellow", "red"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `unit` is Grafana's id of a unit; `levels`: from which value on it is yellow, and red."""

    title: str
    description: str
    unit: str
    queries: Sequence[Query]
    kind: Literal["stat", "lines", "bars", "table"] = "lines"
    width: int = 8
    height: int = 8
    levels: tuple[float, float] | None = None
    nothing: str = ""  # what it says where there is no data
    hidden: Sequence[str] = ()  # columns of a table that say nothing
    named: dict[str, str] = field(default_factory=dict)  # columns of a table with other names
    units: dict[str, str] = field(default_factory=dict)  # of columns with a unit of their own, by their new names


def built(panel: Panel, number: int) -> Any:
    """The panel as a builder of the SDK."""
    made = _MADE[panel.kind](panel)
    made = made.id(number).title(panel.title).description(panel.description).unit(panel.unit).datasource(SOURCE)
    made = made.height(panel.height).span(panel.width)
    for place, query in enumerate(panel.queries):
        made = made.with_target(_target(query, chr(ord("A") + place), panel.kind == "table"))
    if panel.levels:
        made = made.thresholds(_thresholds(panel.levels))
    return made.no_value(panel.nothing) if panel.nothing else made


def row(title: str, number: int) -> Any:
    """A heading over panels."""
    return builders.Row(title).id(number)


def _stat(panel: Panel) -> Any:
    last = common_builders.ReduceDataOptions().calcs(["lastNotNull"])
    made = stat.Panel().reduce_options(last).graph_mode(common.BigValueGraphMode.AREA)
    colour = common.BigValueColorMode.VALUE if panel.levels else common.BigValueColorMode.NONE
    return made.color_mode(colour)


def _lines(panel: Panel) -> Any:
    legend = common_builders.VizLegendOptions().show_legend(True).display_mode(common.LegendDisplayMode.LIST)
    made = timeseries.Panel().legend(legend.placement(common.LegendPlacement.BOTTOM)).min(0)
    made = made.tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    made = made.fill_opacity(8).show_points(common.VisibilityMode.AUTO)
    if panel.levels:
        style = common_builders.GraphThresholdsStyleConfig().mode(common.GraphTresholdsStyleMode.LINE)
        made = made.thresholds_style(style)
    return made


def _bars(panel: Panel) -> Any:
    stacked = common_builders.StackingConfig().mode(common.StackingMode.NORMAL)
    return _lines(panel).draw_style(common.GraphDrawStyle.BARS).stacking(stacked).fill_opacity(60)


def _table(panel: Panel) -> Any:
    options = {"excludeByName": dict.fromkeys(panel.hidden, True), "renameByName": panel.named, "indexByName": {}}
    made = table.Panel().show_header(True)
    for name, unit in panel.units.items():
        made = made.override_by_name(name, [dashboard.DynamicConfigValue(id_val="unit", value=unit)])
    return made.with_transformation(dashboard.DataTransformerConfig(id_val="organize", options=options))


_MADE = {"stat": _stat, "lines": _lines, "bars": _bars, "table": _table}


def _target(query: Query, ref: str, as_table: bool) -> Any:
    target = prometheus.Dataquery().expr(query.expr).ref_id(ref).legend_format(query.legend or "__auto")
    target = target.datasource(SOURCE)
    if as_table:
        target = target.format(PromQueryFormat.TABLE)
    return target.instant() if query.instant else target.range()


def _thresholds(levels: tuple[float, float]) -> Any:
    steps = [dashboard.Threshold(value=None, color=GREEN)]
    steps += [dashboard.Threshold(value=at, color=colour) for at, colour in zip(levels, (YELLOW, RED), strict=True)]
    return builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)
