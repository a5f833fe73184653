"""One partition in memory: a list of records by offset, and what age and compaction remove from it."""

from bisect import bisect_left

from sickbay.log import Receipt, Record, Task
from sickbay.topics import TOMBSTONE_MS, Topic


class Partition:
    """The records of one task, by offset; `begin` rises with retention only."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.begin = self.end = self.last_ms = 0

    def at(self, offset: int) -> int:
        """The place of the first record at or after `offset`."""
        return bisect_left(self.records, offset, key=lambda record: record.offset)

    def append(self, task: Task, key: bytes, value: bytes | None, now_ms: int) -> Receipt:
        """Add one at the end; its append time never goes back."""
        self.last_ms = max(self.last_ms, now_ms)
        self.records.append(Record(*task, self.end, self.last_ms, key, value))
        self.end += 1
        return Receipt(*task, self.end - 1, self.last_ms)


def expired(partition: Partition, topic: Topic, now_ms: int) -> list[int]:
    """The offsets that age or compaction removes, oldest first."""
    records = partition.records
    if not topic.compacted:
        return [] if topic.keep_ms is None else [r.offset for r in records if r.append_ms < now_ms - topic.keep_ms]
    settled = [record for record in records if record.append_ms < now_ms - topic.lag_ms]
    newest = {record.key: record.offset for record in settled}
    forgotten_ms = now_ms - topic.lag_ms - TOMBSTONE_MS
    return [
        record.offset
        for record in settled
        if newest[record.key] != record.offset or (record.value is None and record.append_ms < forgotten_ms)
    ]
