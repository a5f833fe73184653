"""One browser for all tests that look at a page."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.services import browser as chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium.running() as running:
        yield running
