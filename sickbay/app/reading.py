"""Finding a place in the log by time."""

from sickbay.log import Reader, Task


def since(reader: Reader, task: Task, at_ms: int) -> int:
    """The offset of the first record that was appended at or after a time; the end where there is none."""
    low, high = reader.bounds(task)
    while low < high:  # records before `low` are older, those from `high` on are not
        middle = (low + high) // 2
        records = reader.read(task, middle, 1)  # the next one, where compaction or a transaction left a gap
        if not records or records[0].offset >= high or records[0].append_ms >= at_ms:
            high = middle
        else:
            low = records[0].offset + 1
    return low
