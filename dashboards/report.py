"""The HTML report: one self-contained page of an answer, for the people who read it the morning after.

No script, nothing from outside, and a policy that forbids both. Text of sources is hostile: it is escaped by the
template, its control and direction characters are shown as such, and pictures pass through a list of allowed parts.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from markupsafe import Markup

from dashboards.pictures import Plot, Timeline, picture, timeline_picture
from dashboards.timeline import Cost, Row
from sickbay.actions import Action
from sickbay.clock import rfc3339
from sickbay.components import called
from sickbay.plain import plain

MAX_EVENTS = 100  # rows of the event table: the JSON has all
MAX_DOUBTFUL = 20  # sources that were blind or lost lines
MAX_LINES = 12  # evidence lines an incident shows before they are folded away
_CONTAIN = frozenset({"reset_device", "drain_host", "reboot_host", "replace_part"})


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture in the page."""

    title: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class Done:
    """What became of an incident, for a page on its story: its time line, its actions as they stand, what it took."""

    rows: Sequence[Row] = ()
    actions: Sequence[Action] = ()
    cost: Cost = field(default_factory=Cost)
    state: str = ""


def render(
    answer: Mapping[str, Any],
    *,
    lang: str = "en",
    plots: Sequence[Plot] = (),
    title: str = "",
    version: str = "",
    done: Mapping[str, Done] | None = None,
) -> str:
    """The page for an answer (`sickbay.diagnosis/1` as plain containers). `plots` name the incident they belong to.

    `done`: by incident, what was done and when. `lang`: en or zh, for our own words; anything else falls back to
    English.
    """
    words = labels(lang)
    drawn: dict[str, list[Drawn]] = {}
    for plot in plots:
        drawn.setdefault(plot.incident, []).append(Drawn(plot.title, picture(plot, words)))
    incidents = sorted(answer["incidents"], key=_gravity, reverse=True)
    page: str = _template().render(
        words=words, lang=lang if lang in _languages() else "en", answer=answer, incidents=incidents, drawn=drawn,
        timeline=timeline_picture(Timeline.of(answer), words), title=title or words["title"], version=version,
        events=_worst(answer["events"]), max_lines=MAX_LINES, head=headline(answer, words),
        newest=max((event["until"] or event["at"] or "" for event in answer["events"]), default=""),
        done=done or {},
        doubtful=[event for event in answer["events"] if event["kind"].startswith("monitor.")][:MAX_DOUBTFUL],
    )  # fmt: skip
    return page


def headline(answer: Mapping[str, Any], words: Mapping[str, str]) -> str:
    """One sentence for the whole page."""
    found = answer["incidents"]
    if not found:
        return words["nothing"]
    hands = sum(incident["action"] in _CONTAIN for incident in found)
    return words["found"].format(incidents=len(found), hands=hands)


@cache
def labels(lang: str) -> Mapping[str, str]:
    """Our own words in `lang`, English where it is not known."""
    tables = _labels()
    return {**tables["en"], **tables.get(lang, {})}


@cache
def _labels() -> dict[str, dict[str, str]]:
    return tomllib.loads(resources.files("dashboards").joinpath("labels.toml").read_text(encoding="utf-8"))


def _languages() -> frozenset[str]:
    return frozenset(_labels())


@cache
def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(
            lambda name: resources.files("dashboards").joinpath("templates", name).read_text(encoding="utf-8")
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else plain(value),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["word"] = word
    environment.filters["called"] = lambda name: called(str(name))
    environment.filters["clock"] = clock
    environment.filters["moment"] = lambda at_ms: rfc3339(at_ms) or ""
    return environment.get_template("report.html")


def word(key: object, words: Mapping[str, str]) -> str:
    """Our word for a name of the contract (`drain_host`), the name itself with blanks where we have none."""
    return words.get(str(key), str(key).replace("_", " "))


def clock(at: object) -> str:
    """`2026-03-11 02:14:07` of an RFC 3339 time; a dash for none."""
    text = str(at or "")
    return f"{text[:10]} {text[11:19]}" if len(text) >= 19 else "–"


def _gravity(incident: Mapping[str, Any]) -> tuple[int, float]:
    order = ("info", "warning", "error", "fatal")
    severity = incident["severity"]
    return (order.index(severity) if severity in order else 0, incident["probability"])


def _worst(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The events worth a row: the worst kept, in the order of time."""
    order = {"fatal": 0, "error": 1, "warning": 2}
    ranked = sorted(range(len(events)), key=lambda place: order.get(events[place]["severity"], 3))[:MAX_EVENTS]
    return [events[place] for place in sorted(ranked)]
