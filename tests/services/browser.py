"""A real browser for tests: the system's Chromium, headless, with an empty profile.

Where the binary is missing the test is skipped, or fails with SERVICES=require.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.services.process import missing

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def binary() -> str:
    """Path of the browser; skips or fails the test where it is missing."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or missing("chromium")


@contextmanager
def running() -> Iterator[Browser]:
    """A browser, closed at the end."""
    path = binary()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests that look at a page: a thread can run only one."""
    with running() as one:
        yield one


def inert_page(browser: Browser, path: Path, width: int) -> Page:
    """A page of ours, opened; fails the test where it runs, asks or links anything, or is wider than the window."""
    page = browser.new_page(viewport={"width": width, "height": 800})
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.hit") is None
    assert said == []
    assert asked == [path.as_uri()]
    assert page.evaluate("document.scripts.length") == 0
    assert page.evaluate("document.querySelectorAll('a, img, form, iframe, [onload], [onerror]').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    return page
