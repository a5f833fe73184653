"""What all tests share: property tests are judged by their results, not by the load of the machine."""

import gc
import os
import warnings
from collections.abc import Iterator

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


@pytest.fixture(autouse=True)
def _sockets_of_failed_connections(request: pytest.FixtureRequest) -> Iterator[None]:
    """kafka-python leaves the sockets of connections that came to nothing to the collector of garbage: they are
    collected here, so that their warnings do not fail a later test, which has nothing to do with them."""
    yield
    if request.node.get_closest_marker("service"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
