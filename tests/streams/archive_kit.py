"""A log with everything in it, and what an archive of it must hold, told by the most naive reading there is."""

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from sickbay import actions, messages
from sickbay.actions import ActionState, Judged
from sickbay.log import Appender, Log, Record, tick
from sickbay.messages import (
    Action,
    Affected,
    Change,
    Edge,
    Event,
    Evidence,
    Identity,
    Incident,
    Placement,
    Progress,
    RankPlace,
    Relation,
    Severity,
    Step,
    Suspect,
    Verdict,
)
from sickbay.schema import TABLES
from sickbay.seal import Seal, opened, sealed
from sickbay.topics import FEATURES, TOPICS
from streams.archive import GAPS
from streams.archive_rows import FILLS
from streams.feature_record import decode as decode_features
from streams.feature_record import encode_frame as encode_features
from streams.feature_record import frame_of

SMALL = {name: replace(topic, partitions=min(3, topic.partitions)) for name, topic in TOPICS.items()}
START = 1_773_194_400_000
DRIVING = [topic.name for topic in SMALL.values() if topic.driving]


class Writer:
    """Appends records of all kinds, the same ones for the same seed."""

    def __init__(self, log: Log, seed: int = 0) -> None:
        self.appender: Appender = log.appender()
        self._topics = log.topics
        self._random, self._number = random.Random(seed), 0

    def some(self, count: int) -> None:
        """`count` records of random kinds; every tenth carries only time, every fifteenth cannot be read."""
        for _ in range(count):
            self._number += 1
            if self._number % 15 == 0:
                self.damaged()
            elif self._number % 10 == 0:
                tick(self.appender, self._topics, [self._random.choice(DRIVING)])
            else:
                self._random.choice(_KINDS)(self, self._number)
        self.appender.flush()

    def damaged(self) -> None:
        topic = self._random.choice([FEATURES, *FILLS])
        self.appender.append(topic, b"k", self._random.choice(DAMAGED))

    def put(self, topic: str, key: str, message: Any, host: str = "") -> None:
        encode = actions.encode if isinstance(message, actions.LedgerMessage) else messages.encode
        payload = encode(message)
        if host:
            payload = sealed(payload, Seal(host=host, incarnation=7, sequence=self._number), b"key" * 8)
        self.appender.append(topic, (host or key).encode(), payload)

    def event(self, number: int) -> None:
        host = f"n{number % 4}"
        event = Event(
            component=f"accelerator:{host}/0000:{number % 8:02x}:00",
            kind="accelerator.off_bus",
            at_ms=None if number % 7 == 0 else START + number * 100,
            code=str(number),
            severity=Severity.FATAL if number % 2 else Severity.INFO,
            attributes={"link": str(number)} if number % 3 else {},
            message=f"fell off the bus — {number} \x00 完",
        )
        self.put("sickbay.events.v1", host, event, host if number % 2 else "")

    def step(self, number: int) -> None:
        step = Step(step=number, job="job:7", rank=number % 8, at_ms=START + number, duration_ms=1.5, loss=0.1 * number)
        self.put("sickbay.steps.v1", "7", step, f"n{number % 4}")

    def progress(self, number: int) -> None:
        told = Progress(rank=number % 8, job="job:7", at_ms=START, seq=number, group_ranks=(0, 1, number))
        self.put("sickbay.steps.v1", "7", told)

    def facts(self, number: int) -> None:
        edge = Edge(child=f"accelerator:n1/{number}", parent="host:n1", relation=Relation.PART_OF, from_ms=START)
        self.put("sickbay.topology.v1", f"e{number % 9}", edge)
        self.put("sickbay.topology.v1", f"i{number % 9}", Identity(host="n1", index=str(number), uuid="U-1"))
        ranks = (RankPlace(rank=0, host="n1"), RankPlace(rank=1, host="n2", component="accelerator:n2/0"))
        self.put("sickbay.placement.v1", "7", Placement(job="7", attempt=number, hosts=("n1", "n2"), ranks=ranks))
        self.put("sickbay.changes.v1", "host:n1", Change(target="host:n1", what="driver", at_ms=START, new="550.1"))

    def incident(self, number: int) -> None:
        claim = Evidence(
            id=f"e{number}", detector="lost", version="1", component="host:n1", fault="accelerator_off_bus", llr=3.0,
            onset_from_ms=START, window_end_ms=START + 10_000, facts={"count": "2"},
        )  # fmt: skip
        incident = Incident(
            id=f"i{number % 3}", verdict=Verdict.COMPONENT, component="host:n1", fault="accelerator_off_bus",
            severity=Severity.ERROR, probability=0.97, action=Action.DRAIN_HOST, evidence=(claim,),
            suspects=(Suspect(component="host:n1", probability=0.97),), affected=Affected(jobs=("job:7",)),
            dependants=("accelerator:n1/0", "accelerator:n1/1"), onset_ms=START, detected_ms=START + number,
        )  # fmt: skip
        self.put("sickbay.evidence.v1", "c", claim)
        self.put("sickbay.incidents.v1", incident.id, incident)
        self.put("sickbay.incidents.v1", "judged", Judged(as_of_ms=START, open=(incident.id,)))
        self.appender.append("sickbay.incidents.v1", b"closed long ago", None)

    def ledger(self, number: int) -> None:
        state = list(ActionState)[number % len(ActionState)]
        act = actions.Action(id=f"a{number % 3}", incident="i1", do="drain_host", target="host:n1", state=state,
                             evidence=("e1", "e2"), at_ms=START + number)  # fmt: skip
        self.put("sickbay.actions.v1", act.id, act)
        test = actions.Outcome(id="o", incident="i1", target="host:n1", result="confirmed", sensitivity=0.9)
        self.put("sickbay.outcomes.v1", test.id, test)
        word = actions.Control(kind="approval", target=act.id, by="ann", at_ms=START)
        self.put("sickbay.control.v1", "approval:a:1", word)

    def window(self, number: int) -> None:
        """Features of one of two tables."""
        table = "accelerator" if number % 2 else "port"
        names = [f"{TABLES[table].component}:n{host}/{number % 3}" for host in range(3)]
        end_ms = START + number * 10_000
        frame = pl.DataFrame(
            {"component": names, "end_ms": [end_ms] * 3, "n": [10, 9, 8], "covered_ms": [10_000] * 3}
        ).with_columns(
            pl.Series("power_watts" if number % 2 else "up", [float(number), np.nan, 2.5], pl.Float32).fill_nan(None)
        )
        self.appender.append(FEATURES, f"{table}/{number}".encode(), encode_features(table, end_ms, frame))


_KINDS = (
    Writer.event, Writer.event, Writer.step, Writer.progress, Writer.facts, Writer.incident, Writer.ledger,
    Writer.window, Writer.window,
)  # fmt: skip
DAMAGED = (
    b"\x00\xff not JSON", b"{", b"[]", b"null", b'{"type":"event"}', b'{"type":"nothing"}', b'{"type":5}', b"\x01" * 99,
    b'{"type":"event","component":"host:n1","kind":"k","at_ms":99999999999999999999999}',
    b'{"type":"event","component":"host:n1","kind":"k","attributes":[1]}',
    b'{"type":"event","component":"host:n1","kind":"\xff"}', b'{"a":' * 5000,
    b'{"type":"event","component":"host:n1","kind":"k","seal":{"host":5}}',
)  # fmt: skip

Rows = list[tuple[Any, ...]]


def records(log: Log, topics: Iterable[str]) -> Iterable[Record]:
    """Everything in these topics."""
    reader = log.reader()
    for name in topics:
        for partition in range(log.topics[name].partitions):
            task = Record(name, partition, 0, 0, b"", b"").task
            at = reader.bounds(task).begin
            while some := reader.read(task, at, 100):
                yield from some
                at = some[-1].offset + 1


def expected(log: Log, topics: Iterable[str] = (FEATURES, *FILLS)) -> dict[str, Rows]:
    """What the archive must hold: (partition, offset, append_ms, and what the record says) by table."""
    found: dict[str, Rows] = {}
    for record in records(log, topics):
        if not record.value:
            continue
        place = (record.partition, record.offset, record.append_ms)
        try:
            if record.topic == FEATURES:
                block = decode_features(record.value)
                for row in frame_of(block).to_dicts():
                    found.setdefault(f"features_{block.table}", []).append((*place, _told(row)))
                continue
            payload, seal, _ = opened(record.value)
            message = _decoded(payload)
        except ValueError:
            continue
        table_name = FILLS[record.topic].get(type(message))
        if table_name is not None:
            told = {name: msgspec.to_builtins(getattr(message, name)) for name in message.__struct_fields__}
            if seal is not None:
                told |= {"sender": seal.host, "incarnation": seal.incarnation, "sequence": seal.sequence}
            found.setdefault(table_name, []).append((*place, _told(told)))
    return {table: sorted(rows) for table, rows in found.items()}


def _decoded(payload: bytes) -> Any:
    try:
        return messages.decode(payload)
    except ValueError:
        return actions.decode(payload)


def stored(folder: Path) -> dict[str, Rows]:
    """What the archive holds, in the same words."""
    found: dict[str, Rows] = {}
    for log in sorted(folder.glob("*/_delta_log")):
        if log.parent.name == GAPS:
            continue
        for row in pl.scan_delta(str(log.parent)).collect().to_dicts():
            place = (row.pop("partition"), row.pop("offset"), row.pop("append_ms"))
            told = {name: row[name] for name in row if name not in ("day", "time", "key", "record", "proved")}
            found.setdefault(log.parent.name, []).append((*place, _told(told)))
    return {table: sorted(rows) for table, rows in found.items()}


def _told(row: dict[str, Any]) -> str:
    """A row as text: nothing told is nothing, parts are parts whether they lie in a column of their own or in JSON."""
    plain: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, str) and value[:1] in ("[", "{"):
            value = json.loads(value)
        if value is not None:
            plain[name] = value
    return json.dumps(plain, sort_keys=True)
