"""What keeps the embedded log small: retention and compaction, in slices, so that no writer waits long for one."""

import sqlite3
from itertools import islice

from sickbay.log import Task
from sickbay.log.store import SHIFT, Store
from sickbay.topics import TOMBSTONE_MS, Topic

VACUUM_PAGES = 256  # given back to the file system after a slice


class Upkeep:
    """Removes what the declarations allow. It remembers, in memory only, what it need not look at again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._done: dict[Task, tuple[int, int]] = {}

    def sweep(self, now_ms: int, limit: int) -> int:
        """Remove up to `limit` records, one transaction a partition; tells how many."""
        removed = 0
        for task in self._store.numbers:
            topic = self._store.topics.get(task.topic)
            if topic is None or task.partition >= topic.partitions or removed >= limit:
                continue  # of a newer or older declaration: not ours to remove
            remove = self._compact if topic.compacted else self._expire
            removed += remove(task, topic, now_ms, limit - removed)
        return removed

    def _expire(self, task: Task, topic: Topic, now_ms: int, limit: int) -> int:
        if topic.keep_ms is None:
            return 0
        low = self._store.numbers[task] << SHIFT
        with self._store.read() as cursor:
            cut = self._cut(cursor, task, now_ms - topic.keep_ms)
            ids = cursor.execute("SELECT id FROM records WHERE id >= ? AND id < ? LIMIT ?", (low, low + cut, limit))
            gone = [row for (row,) in ids]
        return self._remove(task, gone, gone[-1] - low + 1) if gone else 0

    def _compact(self, task: Task, topic: Topic, now_ms: int, limit: int) -> int:
        low = self._store.numbers[task] << SHIFT
        with self._store.read() as cursor:
            settled = self._cut(cursor, task, now_ms - topic.lag_ms)
            forgotten = self._cut(cursor, task, now_ms - topic.lag_ms - TOMBSTONE_MS)
            if self._done.get(task) == (settled, forgotten):
                return 0
            query = "SELECT key, max(id) FROM records WHERE id >= ? AND id < ? GROUP BY key"
            newest = dict(cursor.execute(query, (low, low + settled)))
            rows = cursor.execute(
                "SELECT id, key, value IS NULL FROM records WHERE id >= ? AND id < ? ORDER BY id", (low, low + settled)
            )
            obsolete = (row for row, key, dead in rows if newest[key] != row or (dead and row < low + forgotten))
            gone = list(islice(obsolete, limit))
        if len(gone) < limit:
            self._done[task] = (settled, forgotten)
        return self._remove(task, gone, None) if gone else 0

    def _cut(self, cursor: sqlite3.Cursor, task: Task, before_ms: int) -> int:
        """The first offset appended at or after `before_ms`: append times never go back, so halving finds it."""
        low = self._store.numbers[task] << SHIFT
        begin, end = self._store.bounds(cursor, task)
        query = "SELECT id, append_ms FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT 1"
        while begin < end:
            middle = (begin + end) // 2
            found = cursor.execute(query, (low + middle, low + end)).fetchone()
            if found is None or found[1] >= before_ms:
                end = middle
            else:
                begin = found[0] - low + 1
        return begin

    def _remove(self, task: Task, ids: list[int], first: int | None) -> int:
        with self._store.write(self._store.topics[task.topic].sync) as cursor:
            cursor.executemany("DELETE FROM records WHERE id = ?", [(row,) for row in ids])
            if first is not None:
                head = self._store.head(cursor, task)
                self._store.set_head(cursor, task, head._replace(first=max(head.first, first)))
            cursor.execute(f"PRAGMA incremental_vacuum({VACUUM_PAGES})").fetchall()
        return len(ids)
