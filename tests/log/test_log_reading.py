"""Reading without a group: whole, on from where one stood, from a moment on; over what was removed, to an end."""

import pytest

from sickbay.log import OffsetOutOfRange, Record, Task
from sickbay.log.memory import MemoryLog
from sickbay.log.reading import Followed, records, since
from sickbay.topics import Topic

TASK = Task("in", 0)
TOPICS = {"in": Topic("in", "any", ("event",), 1, keep_ms=1000)}
NOW = 1_700_000_000_000


class Site:
    """A log of one partition whose clock the test moves, one record of 100 a second."""

    def __init__(self, count: int = 0) -> None:
        self.now_ms = NOW
        self.log = MemoryLog(TOPICS, clock=lambda: self.now_ms)
        self._appender = self.log.appender()
        self.put(count)

    def put(self, count: int) -> None:
        for number in range(count):
            self._appender.append("in", b"k", b"%d" % number)
            self.now_ms += 10
        self._appender.flush()

    def age(self) -> None:
        """Everything there is grows too old, and is removed."""
        self.now_ms += 5000
        while self.log.sweep():
            pass


def offsets(found: list[Record]) -> list[int]:
    return [record.offset for record in found]


def test_a_task_is_read_whole_and_from_an_offset_on() -> None:
    reader = Site(5000).log.reader()  # more than one batch
    assert offsets(list(records(reader, TASK))) == list(range(5000))
    assert offsets(list(records(reader, TASK, 4990))) == list(range(4990, 5000))
    assert list(records(reader, TASK, 5000)) == []


def test_what_was_removed_is_passed_over() -> None:
    site = Site(10)
    site.age()
    site.put(3)
    assert offsets(list(records(site.log.reader(), TASK, 2)))[-3:] == [10, 11, 12]


def test_a_log_that_grows_is_read_to_the_end_it_had() -> None:
    site = Site(3)
    found = []
    for record in records(site.log.reader(), TASK):
        found.append(record)
        site.put(1)
        assert len(found) < 10
    assert offsets(found) == [0, 1, 2]


def test_an_offset_beyond_the_end_is_an_error() -> None:
    with pytest.raises(OffsetOutOfRange):
        list(records(Site(3).log.reader(), TASK, 4))


def test_a_follower_goes_on_where_it_stood_and_begins_anew_in_a_shorter_log() -> None:
    site, shorter = Site(3), Site(2)
    followed = Followed(site.log.reader(), TASK)
    assert offsets(list(followed.read())) == [0, 1, 2]
    assert list(followed.read()) == []
    site.put(2)
    assert offsets(list(followed.read())) == [3, 4]
    followed._reader = shorter.log.reader()
    assert offsets(list(followed.read())) == [0, 1]


def test_a_place_in_the_log_is_found_by_time() -> None:
    site = Site(100)
    reader = site.log.reader()
    for at_ms in (NOW - 1, NOW, NOW + 1, NOW + 10, NOW + 501, site.now_ms - 10, site.now_ms):
        right = next((one.offset for one in reader.read(TASK, 0, 1000) if one.append_ms >= at_ms), 100)
        assert since(reader, TASK, at_ms) == right
