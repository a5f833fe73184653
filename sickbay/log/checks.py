"""What every engine checks before it takes a record, so that all refuse the same things with the same words."""

from collections.abc import Mapping

from sickbay.log import (
    MAX_KEY,
    MAX_METADATA,
    Bounds,
    Fenced,
    OffsetOutOfRange,
    Output,
    Position,
    Replaced,
    Task,
    TooLarge,
    UnknownTopic,
)
from sickbay.topics import Topic, partition_of


def placed(topics: Mapping[str, Topic], output: Output) -> Task:
    """The partition that `output` goes to. Raises UnknownTopic or TooLarge."""
    topic = topics.get(output.topic)
    if topic is None:
        raise UnknownTopic(output.topic)
    if len(output.key) > MAX_KEY:
        raise TooLarge(f"{topic.name}: a key of {len(output.key)} bytes, at most {MAX_KEY}: shorten it")
    if output.value is not None and len(output.value) > topic.max_bytes:
        size = len(output.value)
        raise TooLarge(f"{topic.name}: a value of {size} bytes, at most {topic.max_bytes}: split it, or drop detail")
    if output.partition is None:
        return Task(topic.name, partition_of(output.key, topic.partitions))
    if not 0 <= output.partition < topic.partitions:
        raise UnknownTopic(topic.name, output.partition)
    return Task(topic.name, output.partition)


def known(topics: Mapping[str, Topic], task: Task) -> None:
    """Raises UnknownTopic for a task that is not declared."""
    topic = topics.get(task.topic)
    if topic is None:
        raise UnknownTopic(task.topic)
    if not 0 <= task.partition < topic.partitions:
        raise UnknownTopic(task.topic, task.partition)


def in_range(task: Task, offset: int, bounds: Bounds) -> None:
    """Raises OffsetOutOfRange; the end itself is in range: the next append will stand there."""
    if not bounds.begin <= offset <= bounds.end:
        raise OffsetOutOfRange(task, offset, bounds)


def fits(task: Task, position: Position) -> None:
    """Raises TooLarge where the metadata is too long, ValueError where the offset is negative."""
    size = len(position[1].encode())
    if size > MAX_METADATA:
        raise TooLarge(f"{task.topic}[{task.partition}]: metadata of {size} bytes, at most {MAX_METADATA}")
    if position[0] < 0:
        raise ValueError(f"{task.topic}[{task.partition}]: a negative offset {position[0]}")


def fenced(group: str, member: str, why: str) -> Fenced:
    """The refusal that every engine gives to a member that lost its tasks."""
    return Fenced(f"{member!r} of group {group!r}: {why}; nothing was committed: forget the open work and poll again")


def replaced(group: str, member: str) -> Replaced:
    """The refusal that every engine gives to a member whose name was taken."""
    return Replaced(f"{member!r} of group {group!r}: another process took its name; nothing was committed: stop")
