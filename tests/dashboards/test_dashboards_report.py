"""The report: everything the answer says is on the page, and nothing that a log says can do anything there."""

import copy
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboards.pictures import Plot
from dashboards.report import headline, labels, render
from dashboards.svg import cleaned
from sickbay.answer import Answer, as_dict
from sickbay.messages import Action, Verdict
from sickbay.plain import plain

CARD = "accelerator:h1/0000:5d:00"
START = 1_773_194_400_000

INCIDENT: dict[str, Any] = {
    "id": "x1", "verdict": "component", "component": CARD, "fault": "accelerator_off_bus", "severity": "fatal",
    "probability": 0.94, "action": "reboot_host",
    "plan": [
        {"do": "drain_host", "target": "host:h1", "phase": "contain", "when": "now", "interrupts": False,
         "needs_approval": True, "why": "no new work"},
        {"do": "power_cycle", "target": "host:h1", "phase": "repair", "when": "when_idle", "interrupts": True,
         "needs_approval": True, "why": "a reset cannot work"},
    ],
    "suspects": [{"component": CARD, "probability": 0.94}],
    "summary": f"{CARD} has fallen off the bus.",
    "evidence": [{"detector": "codes", "component": CARD, "says": "it said so", "path": "kern.log", "line": 12}],
    "against": [{"detector": "peers", "component": CARD, "says": "its siblings are well", "path": "", "line": 0}],
    "dependants": ["host:h2"],
    "affected": {"jobs": ["4411"], "ranks": ["rank:4411/3"], "components": [CARD]},
    "onset": "2026-03-11T02:02:00.000Z", "detected": "2026-03-11T02:02:10.000Z", "test": "power_cycle_and_enumerate",
}  # fmt: skip
EVENT: dict[str, Any] = {
    "at": "2026-03-11T02:02:00.000Z", "until": None, "count": 2, "at_boot_s": None, "component": CARD,
    "kind": "accelerator.off_bus", "code": "Code 79", "severity": "fatal", "message": "it has fallen off the bus",
    "path": "kern.log", "line": 12,
}  # fmt: skip


def answer(**fields: Any) -> dict[str, Any]:
    """An answer with one incident and one event."""
    told = as_dict(Answer())
    told["incidents"], told["events"] = [copy.deepcopy(INCIDENT)], [copy.deepcopy(EVENT)]
    told["inputs"] = [{"path": "kern.log", "kind": "log", "records": 3, "unparsed": 1, "clock": "no_year", "note": ""}]
    return {**told, **fields}


class Page(HTMLParser):
    """What a browser would see."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def inert(page: str) -> Page:
    """The page, once it is sure that nothing in it runs or asks for anything outside."""
    seen = Page(page)
    for tag, attributes in seen.tags:
        assert tag not in {"script", "iframe", "object", "embed", "form", "base", "img", "a", "foreignobject", "use"}, (
            tag
        )
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in {"src", "srcset", "action", "formaction", "background"}, (tag, name)
            assert "javascript:" not in (value or "").lower() or name in {"aria-label", "data-is"}
            if name in {"href", "xlink:href"}:
                assert value == "data:,", (tag, name)
    assert not set(page) & set("\x00\x1b\u202e\u202d\u2066\u2067\u200b\ufeff")
    return seen


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "' onmouseover='alert(1)",
    "</style><script>alert(1)</script>",
    "</title></svg><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% for x in y %}",
    "\u202egnp.exe\u202c",
    "nul\x00and\x1b[31mred",
    "lone \ud800 surrogate",
    "<!-- -->]]><![CDATA[<b>",
    "&lt;script&gt;&amp;",
)


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_and_does_nothing(text: str) -> None:
    incident = copy.deepcopy(INCIDENT) | {"component": f"host:{text}", "summary": text, "fault": text, "test": text}
    incident["suspects"] = [{"component": text, "probability": 0.5}]
    incident["evidence"] = [{"detector": text, "component": text, "says": text, "path": text, "line": 1}]
    incident["plan"] = [{"do": text, "target": text, "phase": text, "when": text, "why": text}]
    incident["dependants"] = [text]
    incident["affected"] = {"jobs": [text], "ranks": [text], "components": [text]}
    event = EVENT | {"component": text, "code": text, "message": text, "path": text}
    inputs = [{"path": text, "kind": text, "records": 1, "unparsed": 0, "clock": text, "note": text}]
    plot = Plot("x1", text, text, [START, START + 1], [1.0, 2.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0], START, START)
    told = answer(incidents=[incident], events=[event], inputs=inputs)
    page = inert(render(told, plots=[plot], title=text))
    shown = " ".join(plain(text).split())
    assert page.text.count(shown) >= 10


@pytest.mark.slow
@given(text=st.text(max_size=60))
@settings(deadline=None, max_examples=60)
def test_any_text_is_inert(text: str) -> None:
    told = answer(incidents=[copy.deepcopy(INCIDENT) | {"summary": text}], events=[])
    page = inert(render(told))
    assert " ".join(plain(text).split()) in page.text


@pytest.mark.slow
def test_the_page_says_all_that_people_ask() -> None:
    page = Page(render(answer()))
    for said in (
        "has fallen off the bus", "94 %", "something else", "6 %", "it said so", "kern.log:12", "its siblings are well",
        "drain host", "power cycle", "when idle", "a reset cannot work", "4411", "rank:4411/3", "host:h2",
        "2026-03-11 02:02:00", "2026-03-11 02:02:10", "power cycle and enumerate", "Code 79", "no year told",
        "reboot host",
    ):  # fmt: skip
        assert said in page.text, said


def test_blind_sources_are_named() -> None:
    blind = EVENT | {"kind": "monitor.lines_lost", "component": "monitor:h1/journal", "message": "lost 312 lines"}
    assert "lost 312 lines" in Page(render(answer(events=[blind]))).text
    assert labels("en")["not_blind"] in Page(render(answer())).text


def test_no_incident_says_so() -> None:
    page = Page(render(answer(incidents=[], events=[])))
    assert labels("en")["nothing"] in page.text


def test_chinese_words_and_text_stand_on_the_page() -> None:
    told = answer(incidents=[INCIDENT | {"summary": "主机断电：需要人工处理。"}])
    page = render(told, lang="zh")
    assert '<html lang="zh">' in page
    text = Page(page).text
    for said in ("故障报告", "主机断电：需要人工处理。", "重启主机", "断电重启", "把握有多大"):
        assert said in text


def test_every_word_is_there_in_both_languages() -> None:
    english, chinese = labels("en"), labels("zh")
    assert labels("xx") == english
    ours = {key for key in english if chinese[key] == english[key]}
    assert not ours - {"ranks"}
    for name in (*Action, *Verdict):
        assert name.value in chinese


def test_the_gravest_incident_comes_first() -> None:
    mild = INCIDENT | {"id": "x2", "severity": "warning", "component": "host:mild", "probability": 0.99}
    text = Page(render(answer(incidents=[mild, INCIDENT]))).text
    assert text.index(CARD) < text.index("host:mild")
    assert headline(answer(incidents=[mild, INCIDENT]), labels("en")).startswith("2 ")


@pytest.mark.slow
def test_a_flood_of_events_and_lines_stays_readable() -> None:
    events = [EVENT | {"line": line, "severity": "info"} for line in range(3000)] + [EVENT | {"message": "THE ONE"}]
    evidence = [INCIDENT["evidence"][0] | {"line": line} for line in range(2000)]
    page = render(answer(events=events, incidents=[INCIDENT | {"evidence": evidence}]))
    assert len(page) < 400_000
    assert "THE ONE" in page


@pytest.mark.slow
def test_a_gap_in_a_line_stays_a_gap() -> None:
    nan = float("nan")
    whole = Plot("x1", "power", "W", [START + 1000 * i for i in range(9)], [1.0] * 9, [1.0] * 9, [0.9] * 9, [1.1] * 9)
    broken = Plot(
        "x1",
        "power",
        "W",
        whole.at_ms,
        [1.0, 1.0, 1.0, nan, nan, nan, 1.0, 1.0, 1.0],
        whole.middle,
        whole.low,
        whole.high,
    )
    assert _strokes(render(answer(), plots=[broken])) == _strokes(render(answer(), plots=[whole])) + 1


def _strokes(page: str) -> int:
    """Pieces of orange lines."""
    lines = [
        attributes for tag, attributes in Page(page).tags if tag == "path" and attributes.get("stroke") == "#c2410c"
    ]
    return sum((attributes["d"] or "").count("M") for attributes in lines)


def test_only_known_parts_of_a_drawing_are_kept() -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" onload="x()" width="10"><script>x()</script>'
        '<foreignObject><b>x</b></foreignObject><path d="M0" fill="url(http://x)" stroke="red" onclick="x()"/>'
        '<image href="http://x"/><a href="javascript:x()"><text>hidden</text></a>'
        '<text fill="javascript:x">t</text></svg>'
    )
    kept = cleaned(svg, 'name "<b>"')
    for bad in ("script", "onload", "onclick", "foreignObject", "http://x", "image", "hidden", "javascript"):
        assert bad not in kept
    assert '<path d="M0" stroke="red"' in kept
