"""A real browser for tests: the system's Chromium, headless, with an empty profile.

Where the binary is missing the test is skipped, or fails with SERVICES=require.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

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
