"""The dead letters for people: which there are, and putting one back where it came from."""

from collections import deque
from collections.abc import Collection, Iterable

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


def letters(reader: Reader, topic: str = "", numbers: Collection[int] = (), newest: int | None = None) -> list[Letter]:
    """The letters that are kept, the oldest first: of one source topic, of these numbers, the newest so many."""
    found: deque[Letter] = deque(maxlen=newest)  # a week of them may be more than memory takes
    for record in records(reader, _TASK):
        if numbers and record.offset not in numbers:
            continue
        try:
            letter = decode(record.value or b"")
        except ValueError:  # a tick, or not one of ours
            continue
        if topic in ("", letter.topic):
            found.append(Letter(record.offset, letter))
    return list(found)


def replay(log: Log, numbers: Iterable[int]) -> dict[int, str]:
    """Appends letters to their source topics again. Returns the problem of each number, empty where all went well."""
    wanted = dict.fromkeys(numbers)  # each once, however often it is named
    known = {one.number: one.letter for one in letters(log.reader(), numbers=wanted)} if wanted else {}
    appender = log.appender()
    try:
        return {number: _replayed(appender, known.get(number)) for number in wanted}
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
