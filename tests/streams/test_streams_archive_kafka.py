"""The archive of a Kafka log, whose transactions leave holes between offsets."""

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from sickbay import messages
from sickbay.log import Output, TaskLog
from sickbay.log.opened import open_log
from sickbay.messages import Event
from sickbay.settings import LogSettings
from streams.archive import Archive
from tests.services.kafka import Addresses
from tests.streams.archive_kit import SMALL, START, Writer, expected, stored

EVENTS, FEATURES, INCIDENTS = "sickbay.events.v1", "sickbay.features.v1", "sickbay.incidents.v1"
TOPICS = (EVENTS, FEATURES, INCIDENTS)


def committed(member: TaskLog, number: int) -> None:
    """Two events in a transaction of their own."""
    events = [Event(component="host:n1", kind="k", at_ms=START, code=f"{number}/{half}") for half in range(2)]
    member.commit([Output(EVENTS, b"n1", messages.encode(event), 0) for event in events], {})


@pytest.mark.service
def test_holes_of_transactions_are_no_gaps(kafka_broker: Addresses, tmp_path: Path) -> None:
    settings = LogSettings(engine="kafka", brokers=kafka_broker.brokers, prefix="archive-holes.", replication=1)
    log = open_log(
        settings, {name: replace(topic, partitions=min(2, topic.partitions)) for name, topic in SMALL.items()}
    )
    try:
        member = log.join("writer", [INCIDENTS], "writer-1")
        until = time.monotonic() + 30
        while not member.assignment() and time.monotonic() < until:
            member.poll(1, 0.2)
        writer = Writer(log)
        archive = Archive(log, tmp_path, topics=TOPICS)
        for number in range(4):
            committed(member, number)
            writer.some(40)
            archive.drain()
        committed(member, 4)
        Archive(log, tmp_path, topics=TOPICS).drain()
        wanted = expected(log, TOPICS)
        assert stored(tmp_path) == wanted
        offsets = [offset for partition, offset, *_ in wanted["events"] if partition == 0]
        assert any(later - earlier > 1 for earlier, later in pairwise(offsets))
        assert archive.gaps.at == {}
        archive.settle()
        assert Archive(log, tmp_path, topics=TOPICS).drain() == {}
    finally:
        log.close()
