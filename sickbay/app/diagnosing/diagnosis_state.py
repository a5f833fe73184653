"""What diagnosis must know of what it said and cannot find in the last half hour: incidents as they were judged, and
the ids of claims. Each is a compacted record of the state topic, written in the same commit as what follows from it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from diagnosis.incidents import in_order
from sickbay import messages
from sickbay.app.alerting.standstill import is_ours
from sickbay.app.asking.incidents_topic import current
from sickbay.log import Output, Reader, Record, Task
from sickbay.log.reading import records
from sickbay.messages import Incident
from sickbay.topics import STATE, Topic

PREFIX = b"diagnosis/"
INCIDENT, KNOWN = PREFIX + b"incident/", PREFIX + b"known/"
IDS = 20_000  # of one record: some hundred kB

_ids = msgspec.json.Decoder(list[str])


class Memory(NamedTuple):
    """`bare`: incidents without plans; `told`: as they stand in the log; `known`: when each claim was last noted;
    `noted`: when how many were."""

    bare: tuple[Incident, ...] = ()
    told: tuple[Incident, ...] = ()
    known: Mapping[str, int] = {}
    noted: Mapping[int, int] = {}


def task_of(topics: Mapping[str, Topic]) -> Task:
    """Where the records lie: the last partition of the state topic."""
    return Task(STATE, topics[STATE].partitions - 1)


def of_incidents(
    before: Mapping[str, Incident], after: Iterable[Incident], task: Task
) -> Iterator[Output]:  # fmt: skip
    """The incidents that are not as they were."""
    left = dict(before)
    for one in after:
        if left.pop(one.id, None) != one:
            yield Output(STATE, INCIDENT + one.id.encode(), messages.encode(one), task.partition)
    for id_ in left:
        yield Output(STATE, INCIDENT + id_.encode(), None, task.partition)


def of_claims(ids: list[str], at_ms: int, task: Task) -> Iterator[Output]:
    """The claims that were noted by one look."""
    for part in range(0, len(ids), IDS):
        key = KNOWN + f"{at_ms}/{part // IDS}".encode()
        yield Output(STATE, key, msgspec.json.encode(ids[part : part + IDS]), task.partition)


def without_claims(at_ms: int, number: int, task: Task) -> Iterator[Output]:
    """Removes what `of_claims` put out of so many ids."""
    for part in range(0, number, IDS):
        yield Output(STATE, KNOWN + f"{at_ms}/{part // IDS}".encode(), None, task.partition)


def read(
    reader: Reader, topics: Mapping[str, Topic], damaged: Callable[[Record], None] = lambda record: None
) -> Memory:
    """What stands in the log. Of a version that wrote no state: the incidents that it told. What is `damaged` is gone
    without: an incident stands as it was told, a claim is made again."""
    bare: dict[str, Incident] = {}
    lists: dict[bytes, list[str]] = {}
    lost = set[str]()
    for record in records(reader, task := task_of(topics), reader.bounds(task).begin):
        if not record.key.startswith(PREFIX):
            continue
        bare.pop(id_ := record.key[len(INCIDENT) :].decode("utf-8", "replace"), None)
        lists.pop(record.key, None)
        lost.discard(id_)
        try:
            _keep(record, bare, lists)
        except ValueError:
            damaged(record)
            lost.add(id_)
    told = current(reader)[0]
    bare |= {id_: messages.replace(told[id_], plan=()) for id_ in lost & told.keys()}
    if not bare and not lists:
        bare = {id_: one for id_, one in told.items() if not is_ours(one)}
    known, noted = dict[str, int](), dict[int, int]()
    for at_ms, ids in sorted((_at_ms(key), ids) for key, ids in lists.items()):
        noted[at_ms] = noted.get(at_ms, 0) + len(ids)
        known |= dict.fromkeys(ids, at_ms)
    standing = in_order(told[id_] for id_ in bare if id_ in told)
    return Memory(in_order(bare.values()), standing, known, noted)


def _keep(record: Record, bare: dict[str, Incident], lists: dict[bytes, list[str]]) -> None:
    """Raises ValueError for what is damaged."""
    if not record.value:
        return
    if record.key.startswith(KNOWN):
        _at_ms(record.key)
        lists[record.key] = _ids.decode(record.value)
    elif isinstance(one := messages.decode(record.value), Incident):
        bare[one.id] = one


def _at_ms(key: bytes) -> int:
    return int(key[len(KNOWN) :].split(b"/")[0])
