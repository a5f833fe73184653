"""Topics are declared once, and all producers agree where a key goes."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay import messages
from sickbay.messages import Message
from sickbay.topics import TOPICS, Topic, murmur2, partition_of
from sickbay.wire import MAX_FRAME

# The values that Kafka's own test of its partitioner expects (Utils.murmur2).
KAFKA_KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}

NOT_MESSAGES = {"frame", "layout", "control", "action", "outcome", "state", "deadletter"}


@pytest.mark.parametrize("key", KAFKA_KNOWN)
def test_the_hash_is_kafkas(key: bytes) -> None:
    assert murmur2(key) == KAFKA_KNOWN[key]


@given(st.binary(max_size=70), st.integers(1, 64))
def test_a_key_goes_to_one_partition_that_exists(key: bytes, partitions: int) -> None:
    assert 0 <= partition_of(key, partitions) < partitions
    assert partition_of(key, partitions) == partition_of(bytes(key), partitions)


def test_hosts_spread_evenly_over_partitions() -> None:
    spread = Counter(partition_of(b"node-%05d" % host, 16) for host in range(12_500))
    assert set(spread) == set(range(16))
    assert max(spread.values()) < 1.2 * min(spread.values())


@pytest.mark.parametrize("topic", TOPICS.values(), ids=lambda topic: topic.name)
def test_a_topic_is_declared_soundly(topic: Topic) -> None:
    assert re.fullmatch(r"sickbay\.[a-z]+\.v[1-9]", topic.name)
    assert TOPICS[topic.name] is topic
    assert topic.partitions in (1, 4, 16)
    assert topic.compacted != (topic.keep_ms is not None)  # kept by age or by key, never by nothing
    assert topic.lag_ms == 0 or topic.compacted
    assert not (topic.driving and topic.compacted)  # ticks would pile up as versions
    assert topic.max_bytes >= MAX_FRAME or "frame" not in topic.holds
    precious = {"event", "evidence", "action", "control", "incident", "outcome"}
    assert topic.sync == "full" or not precious & set(topic.holds)


def test_what_topics_hold_are_messages_or_named_here() -> None:
    tags = {
        str(kind.__struct_config__.tag)
        for kind in vars(messages).values()
        if isinstance(kind, type) and issubclass(kind, Message) and kind is not Message
    }
    held = {held for topic in TOPICS.values() for held in topic.holds}
    assert held - tags == NOT_MESSAGES
    assert {"event", "evidence", "incident", "placement", "edge", "identity", "change"} <= held
