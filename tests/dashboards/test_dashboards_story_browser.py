"""The story's page in a real browser: nothing runs, nothing is fetched, nothing sticks out of a narrow screen."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from sickbay.app.asking.report import page as story_page
from sickbay.app.asking.story import Story, story
from sickbay.log.memory import MemoryLog
from tests.dashboards.story_kit import ID, Clock, night
from tests.dashboards.test_dashboards_browser import ATTACKS
from tests.dashboards.test_dashboards_story import hostile
from tests.services.browser import inert_page

pytestmark = pytest.mark.service


def _night() -> Story:
    clock = Clock()
    log = MemoryLog(clock=lambda: clock.now_ms)
    night().write(log, clock)
    return story(log.reader(), ID)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", ["night", "hostile"])
def test_the_story_is_quiet_and_fits(browser: Browser, tmp_path: Path, kind: str, lang: str, width: int) -> None:
    told = _night() if kind == "night" else hostile(" ".join(ATTACKS) + "x" * 300)
    path = tmp_path / "story.html"
    path.write_text(story_page(told, lang), encoding="utf-8", errors="replace")
    page = inert_page(browser, path, width)
    assert page.evaluate(OVER) == []
    assert page.locator("ol.story li").count() >= 4
    assert page.locator("ol.story li").first.is_visible()
    assert page.screenshot(full_page=True)
    page.close()


# Texts that are wider than the box they stand in: cut off without a scroll bar.
OVER = """
[...document.querySelectorAll('.story li, .chips, .card > p, h2, td')]
  .filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === 'visible')
  .filter(e => !e.closest('.table, figure')).map(e => e.className + ': ' + e.textContent.slice(0, 60))
"""
