"""The dead letters for people: which there are, and putting one back where it came from."""

from collections.abc import Iterable

from msgspec import Struct

from sickbay.log import Appender, Log, LogError, Reader, Task
from sickbay.log.reading import records
from sickbay.topics import DEADLETTER
from streams.dead_letters import DeadLetter, decode

_TASK = Task(DEADLETTER, 0)


class Letter(Struct, frozen=True):
    """A letter and its number, by which people call it."""

    number: int
    letter: DeadLetter


def letters(reader: Reader, topic: str = "") -> list[Letter]:
    """All letters that are kept, of one source topic if one is named, the oldest first."""
    found: list[Letter] = []
    for record in records(reader, _TASK):
        try:
            letter = decode(record.value or b"")
        except ValueError:  # a tick, or not one of ours
            continue
        if topic in ("", letter.topic):
            found.append(Letter(record.offset, letter))
    return found


def replay(log: Log, numbers: Iterable[int]) -> dict[int, str]:
    """Appends letters to their source topics again. Returns the problem of each number, empty where all went well."""
    known = {one.number: one.letter for one in letters(log.reader())}
    appender = log.appender()
    try:
        return {number: _replayed(appender, known.get(number)) for number in numbers}
    finally:
        appender.close()


def _replayed(appender: Appender, letter: DeadLetter | None) -> str:
    if letter is None:
        return "there is no such letter"
    if not letter.whole:
        return f"only {len(letter.value or b'')} of its {letter.size} bytes are kept"
    try:
        appender.append(letter.topic, letter.key, letter.value, partition=letter.partition).result()
    except LogError as error:
        return str(error)
    return ""
