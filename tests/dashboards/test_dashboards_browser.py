"""The report in a real browser: nothing runs, nothing is fetched, nothing sticks out of a narrow screen."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from dashboards.pictures import Plot
from dashboards.report import render
from sickbay.answer import Answer, as_dict
from tests.services.browser import inert_page

pytestmark = pytest.mark.service

START = 1_773_194_400_000
ATTACKS = (
    "<script>window.hit = 1; document.title = 'hit'</script>",
    '"><img src="http://127.0.0.1:9/x" onerror="window.hit = 1">',
    "</style></title></svg><svg onload='window.hit = 1'><script>window.hit = 1</script>",
    "<a href='javascript:window.hit=1'>click</a>",
    "\u202egnp.exe\u202c \x00 \ud800",
)


def _answer() -> dict[str, Any]:
    text = " ".join(ATTACKS)
    told = as_dict(Answer())
    told["incidents"] = [
        {
            "id": "x1", "verdict": "component", "component": f"accelerator:host-with-a-rather-long-name/{text}",
            "fault": "accelerator_off_bus", "severity": "fatal", "probability": 0.94, "action": "reboot_host",
            "plan": [{"do": "drain_host", "target": text, "phase": "contain", "why": text}],
            "suspects": [{"component": text, "probability": 0.94}], "summary": text + " 主机断电：需要人工处理。",
            "evidence": [{"detector": "x", "component": text, "says": text, "path": text, "line": 12}], "against": [],
            "dependants": [text], "affected": {"jobs": [text], "ranks": [], "components": []},
            "onset": "2026-03-11T02:02:00.000Z", "detected": "2026-03-11T02:02:10.000Z", "test": "",
        }
    ]  # fmt: skip
    told["events"] = [
        {"at": "2026-03-11T02:02:00.000Z", "until": None, "count": 2, "at_boot_s": None, "component": text, "kind": "k",
         "code": text, "severity": "fatal", "message": text, "path": text, "line": 12}
    ]  # fmt: skip
    return told


def _page(lang: str) -> str:
    band = [610.0 + i % 3 for i in range(30)]
    times = [START + 10_000 * i for i in range(30)]
    mine = [615.0 if i < 12 else float("nan") for i in range(30)]
    plot = Plot("x1", ATTACKS[0], ATTACKS[1], times, mine, band, [b - 9 for b in band], [b + 9 for b in band], START)
    return render(_answer(), lang=lang, plots=[plot], title=ATTACKS[2])


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_report_is_quiet_and_fits(browser: Browser, tmp_path: Path, lang: str, width: int) -> None:
    path = tmp_path / "report.html"
    path.write_text(_page(lang), encoding="utf-8")
    page = inert_page(browser, path, width)
    assert page.locator("svg").count() == 2
    assert page.locator("svg text").first.is_visible()
    assert page.screenshot(full_page=True)
    page.close()


def test_pictures_have_names_for_those_who_cannot_see_them(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(_page("en"), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.get_by_role("img").count() == 2
    page.close()
