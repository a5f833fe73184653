"""Static pictures: what the suspect measured against its peers, and when everything happened. SVG, drawn offline.

Text goes through `plain` first: a lone surrogate aborts the whole process inside the drawing program.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from dashboards.svg import cleaned
from sickbay.plain import plain

SUSPECT, PEERS, ONSET, INK = "#c2410c", "#64748b", "#b91c1c", "#475569"
SEVERITY = {"fatal": "#b91c1c", "error": "#ea580c", "warning": "#ca8a04", "info": "#94a3b8"}
WIDTH, HEIGHT = 640, 150
MAX_POINTS = 400  # of one line: more are not seen
MAX_MARKS = 600  # events in the timeline
FONT = "system-ui, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif"


@dataclass(frozen=True, slots=True)
class Plot:
    """One column over time: the suspect's line over the band of its peers. NaN is a gap, and is shown as one.

    `at_ms`: n times. `suspect`, `middle`, `low`, `high`: n values each; the band is what most peers stay within.
    """

    incident: str
    title: str
    unit: str
    at_ms: Sequence[int]
    suspect: Sequence[float]
    middle: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    onset_ms: int | None = None
    detected_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """Marks of events by component, and the incidents' onsets. Times are RFC 3339."""

    marks: tuple[Mapping[str, Any], ...]
    onsets: tuple[str, ...]

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "Timeline":
        """The timeline of an answer: events of the parts that its incidents name first, others where there is room."""
        named = {str(incident["component"]) for incident in answer["incidents"]}
        named |= {row["component"] for incident in answer["incidents"] for row in incident["evidence"]}
        dated = [event for event in answer["events"] if event["at"]]
        wanted = [event for event in dated if event["component"] in named] or dated
        marks = tuple({**event, "lane": plain(event["component"])[:60]} for event in wanted[:MAX_MARKS])
        return cls(marks, tuple(incident["onset"] for incident in answer["incidents"] if incident["onset"]))


def picture(plot: Plot, words: Mapping[str, str]) -> Markup:
    """The plot as inline SVG."""
    alt = _altair()
    rows = list(_rows(plot))
    x = alt.X("at:T", title=None, axis=alt.Axis(format="%H:%M:%S", tickCount=6))
    base = alt.Chart(alt.Data(values=rows)).encode(x=x)
    large = max((abs(value) for value in plot.high if value == value), default=0.0) >= 100_000
    gaps = {"invalid": "break-paths-show-path-domains"}

    def value(field: str) -> Any:
        axis = alt.Axis(format="~s") if large else alt.Axis()  # 20G, not 20,000,000,000
        return alt.Y(field, title=plain(plot.unit), scale=alt.Scale(zero=False, nice=True), axis=axis)

    layers = [
        base.mark_area(color=PEERS, opacity=0.22, **gaps).encode(y=value("low:Q"), y2="high:Q"),
        base.mark_line(color=PEERS, strokeDash=[4, 3], **gaps).encode(y=value("middle:Q")),
        base.mark_line(color=SUSPECT, strokeWidth=2, **gaps).encode(y=value("suspect:Q")),
        *_rules([(plot.onset_ms, ONSET, words["onset"]), (plot.detected_ms, INK, words["detected"])]),
    ]
    return _svg(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT), plain(plot.title))


def timeline_picture(timeline: Timeline, words: Mapping[str, str]) -> Markup:
    """The timeline as inline SVG, empty without a dated event."""
    alt = _altair()
    if not timeline.marks:
        return Markup("")
    marks = [{"at": m["at"], "lane": m["lane"], "severity": m["severity"]} for m in timeline.marks]
    lanes = list(dict.fromkeys(mark["lane"] for mark in marks))[:24]
    colour = alt.Scale(domain=list(SEVERITY), range=list(SEVERITY.values()))
    points = (
        alt.Chart(alt.Data(values=[mark for mark in marks if mark["lane"] in lanes]))
        .mark_point(filled=True, size=70, opacity=0.85)
        .encode(
            x=alt.X("at:T", title=None, axis=alt.Axis(format="%H:%M:%S", tickCount=6)),
            y=alt.Y("lane:N", title=None, sort=lanes, axis=alt.Axis(labelLimit=320)),
            color=alt.Color("severity:N", scale=colour, legend=alt.Legend(orient="top", title=None)),
        )
    )
    rules = _rules([(_ms(onset), ONSET, words["onset"]) for onset in timeline.onsets[:8]], named=False)
    return _svg(alt.layer(points, *rules).properties(width=WIDTH - 180, height=22 * len(lanes) + 10), words["timeline"])


def _rows(plot: Plot) -> Iterable[dict[str, Any]]:
    step = max(1, -(-len(plot.at_ms) // MAX_POINTS))
    for place in range(0, len(plot.at_ms), step):
        yield {
            "at": _text(plot.at_ms[place]),
            "suspect": _finite(plot.suspect[place]),
            "middle": _finite(plot.middle[place]),
            "low": _finite(plot.low[place]),
            "high": _finite(plot.high[place]),
        }


def _rules(marks: Sequence[tuple[int | None, str, str]], *, named: bool = True) -> list[Any]:
    alt = _altair()
    layers = []
    for row, (at_ms, colour, name) in enumerate(marks):
        if at_ms is None:
            continue
        base = alt.Chart(alt.Data(values=[{"at": _text(at_ms), "name": name}])).encode(x="at:T")
        layers.append(base.mark_rule(color=colour, strokeWidth=1.5, strokeDash=[2, 2]))
        if named:
            text = base.mark_text(color=colour, align="left", dx=4, dy=6, baseline="top", fontSize=11)
            layers.append(text.encode(text="name:N", y=alt.value(14 * row)))
    return layers


def _svg(chart: Any, name: str) -> Markup:
    import vl_convert

    look = {
        "labelFont": FONT, "titleFont": FONT, "labelColor": INK, "titleColor": INK, "gridColor": "#e2e8f0",
        "domainColor": "#94a3b8", "tickColor": "#94a3b8", "labelFontSize": 11, "titleFontWeight": "normal",
    }  # fmt: skip
    # The drawing program measures text with its own fonts, the reader's may be wider: hence the padding.
    room = {"left": 24, "right": 12, "top": 5, "bottom": 5}
    chart = chart.configure(background="transparent", font=FONT, padding=room)
    chart = chart.configure_axis(**look).configure_view(stroke=None)
    return Markup(cleaned(vl_convert.vegalite_to_svg(chart.to_dict()), name))


def _altair() -> Any:
    """The drawing library, loaded when a picture is drawn: it takes half a second."""
    import altair

    return altair


def _finite(value: float) -> float | None:
    return float(value) if value == value and abs(value) != float("inf") else None


def _text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]


def _ms(at: str) -> int | None:
    try:
        return round(datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp() * 1000)
    except ValueError:
        return None
