"""What all tests share: property tests are judged by their results, not by the load of the machine."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.services.browser import browser
from tests.services.kafka import kafka_broker

__all__ = ["browser", "kafka_broker"]  # one of each a session, for every folder

FACTOR = int(os.environ.get("FUZZ_FACTOR", "1"))  # `make fuzz` sets 10

settings.register_profile(
    "sickbay", deadline=None, max_examples=100 * FACTOR, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("sickbay")


def pytest_configure() -> None:
    """A run that is told to end tears its services down: else a broker would outlive it."""
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: object) -> None:
    pytest.exit("told to end", returncode=128 + number)
