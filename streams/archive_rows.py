"""Records of the log as rows of the archive: which topic fills which tables, and what their columns are. Pure.

Every row keeps where its record lies (`partition`, `offset`, `append_ms`) and two columns to ask by: `time`, when what
it speaks of happened, and `day`, of append time, by which the tables are cut into folders. `time` is the source's own
stamp where it told one, at most 2 s after append time, so that a wrong clock cannot put a row out of reach.

The columns of a message are those of its struct; parts that are structs themselves are JSON text. `record` is the
whole record as it stood, without its seal, and `key` its key. Telemetry has a way of its own: `archive_telemetry`.
"""

import operator
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, reduce
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import msgspec
import polars as pl

from sickbay import topics
from sickbay.actions import Action, Control, Judged, Outcome
from sickbay.admission import AGENTS, Admission, Refused, own_word, same_sender
from sickbay.log import Record, Task
from sickbay.messages import Change, Edge, Event, Evidence, Identity, Incident, Message, Placement, Progress, Step
from sickbay.schema import WINDOWED
from sickbay.seal import Opened, opened
from sickbay.topics import FEATURES
from streams.feature_columns import CANNOT, features_of
from streams.feature_record import is_clock

AHEAD_MS = 2_000  # as in windows: a stamp further ahead of append time is a wrong clock
TIME = pl.Datetime("us", "UTC")
PLACE: dict[str, pl.DataType] = {
    "day": pl.Date(), "time": TIME, "partition": pl.Int64(), "offset": pl.Int64(), "append_ms": pl.Int64(),
}  # fmt: skip
SENDER: dict[str, pl.DataType] = {
    "sender": pl.String(), "incarnation": pl.Int64(), "sequence": pl.Int64(), "proved": pl.Boolean(),
}  # fmt: skip
KEY: dict[str, pl.DataType] = {"key": pl.String()}
KEYS: dict[str, pl.DataType] = {
    "component": pl.String(), "end_ms": pl.Int64(), "n": pl.Int64(), "covered_ms": pl.Int64(),
}  # fmt: skip

# Which message of which topic fills which table. None: known, and not kept.
FILLS: Mapping[str, Mapping[type[Message], str | None]] = {
    topics.EVENTS: {Event: "events"},
    topics.STEPS: {Step: "steps", Progress: "progress"},
    topics.TOPOLOGY: {Edge: "edges", Identity: "identities"},
    topics.PLACEMENT: {Placement: "placements"},
    topics.CHANGES: {Change: "changes"},
    topics.CONTROL: {Control: "control"},
    topics.EVIDENCE: {Evidence: "evidence"},
    topics.INCIDENTS: {Incident: "incidents", Judged: None},
    topics.ACTIONS: {Action: "actions"},
    topics.OUTCOMES: {Outcome: "outcomes"},
}
_STAMPS = ("at_ms", "end_ms", "window_end_ms")  # the first that is told is the row's time; else append time


class Damaged(ValueError):
    """The record cannot be a row; the text says why."""


class Row(NamedTuple):
    """One row, or for features the rows of a record."""

    table: str
    record: Record
    values: dict[str, Any] | pl.DataFrame


def tables_of(topic: str) -> dict[str, pl.Schema]:
    """The tables that a topic fills, with the columns they begin with (features get theirs as they come)."""
    if topic == FEATURES:
        return {f"features_{name}": pl.Schema(PLACE | KEYS) for name in WINDOWED}
    sender = SENDER if topic in AGENTS else {}
    return {
        table: pl.Schema(PLACE | KEY | sender | _columns(kind) | {"record": pl.String()})
        for kind, table in FILLS[topic].items()
        if table is not None
    }


TOPICS: tuple[str, ...] = (*FILLS, FEATURES)


@dataclass(frozen=True, slots=True)
class Reading:
    """How records become rows. `admission`: what of agents is let in, as everywhere else."""

    admission: Admission = field(default_factory=Admission)

    def row(self, record: Record) -> Row | None:
        """The row of a record; None for one that is not kept: a tick, a removed key, a heartbeat. Raises Damaged."""
        if record.is_tick or record.value is None:
            return None
        try:
            if record.topic == FEATURES:
                if is_clock(record.key):
                    return None
                table, frame = features_of(record.value)
                return Row(table, record, frame)
            return self._message(record, record.value)
        except CANNOT as error:
            raise Damaged(str(error)) from None

    def _message(self, record: Record, value: bytes) -> Row | None:
        sealed = (
            opened(value, self.admission.key_of if self.admission.key else None) if record.topic in AGENTS else None
        )
        payload = sealed.payload if sealed else value
        message = decoded(payload, tuple(FILLS[record.topic]))
        table = FILLS[record.topic][type(message)]
        if table is None:
            return None
        sender = self._sender(record, message, sealed) if sealed else {}
        own = {"key": record.key.decode("utf-8", "replace"), "record": payload.decode("utf-8", "replace")}
        return Row(table, record, {**sender, **_cells(message), **own})

    def _sender(self, record: Record, message: Message, sealed: Opened) -> dict[str, Any]:
        seal, proved = sealed.seal, sealed.proved
        if self.admission.require_signed and not proved:
            raise Damaged("it is not signed")
        if seal is None:
            return {"proved": proved}
        try:
            same_sender(seal.host, record)
            own_word(message, seal.host, proved, self.admission.controllers)
        except Refused as error:
            raise Damaged(str(error)) from None
        return {"proved": proved, "sender": seal.host, "incarnation": seal.incarnation, "sequence": seal.sequence}


class Messages:
    """The rows of a batch of records. `damaged`: records that could not be read, with the last `reason`."""

    def __init__(self, records: Iterable[Record], reading: Reading) -> None:
        self._rows: list[Row] = []
        self.damaged, self.reason = 0, ""
        for record in records:
            try:
                if (row := reading.row(record)) is not None:
                    self._rows.append(row)
            except Damaged as error:
                self.damaged += 1
                self.reason = f"{record.topic}[{record.partition}] {record.offset}: {error}"

    def frame(self, table: str, schema: pl.Schema, at: Mapping[Task, int]) -> tuple[pl.DataFrame, int]:
        """The rows of a table whose records stand at or after these offsets, and how many fit no column."""
        own = [row for row in self._rows if row.table == table and row.record.offset >= at[row.record.task]]
        return frame_of(own, schema)


def decoded(payload: bytes, kinds: tuple[type[Message], ...]) -> Message:
    """One of these messages; members that this version does not know are left out. Raises ValueError."""
    try:
        message: Message = _decoder(kinds).decode(payload)
    except msgspec.ValidationError:
        message = _tolerant(payload, kinds)
    if not isinstance(message, kinds):
        raise Damaged(f"a message of type {message.__struct_config__.tag!r} does not belong here")
    return message


@cache
def _decoder(kinds: tuple[type[Message], ...]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(reduce(operator.or_, (*kinds, Judged)))  # of a single type a missing tag would pass


def _tolerant(payload: bytes, kinds: Sequence[type[Message]]) -> Message:
    raw = msgspec.json.decode(payload)
    tag = raw.get("type") if isinstance(raw, dict) else None
    for kind in kinds:
        if tag == kind.__struct_config__.tag:
            return msgspec.convert(_known(raw, msgspec.inspect.type_info(kind)), kind)
    raise Damaged(f"a message of type {str(tag)[:60]!r} does not belong here")


def _known(value: Any, kind: msgspec.inspect.Type) -> Any:
    """The value without members that its struct does not have."""
    match kind:
        case msgspec.inspect.StructType() if isinstance(value, dict):
            fields = {field.encode_name: field.type for field in kind.fields}
            kept = {name: _known(part, fields[name]) for name, part in value.items() if name in fields}
            return {**kept, "type": value["type"]} if "type" in value and kind.tag_field else kept
        case msgspec.inspect.VarTupleType() if isinstance(value, list):
            return [_known(part, kind.item_type) for part in value]
    return value


@cache
def _columns(kind: type[Message]) -> dict[str, pl.DataType]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: _column(hints[name]) for name in kind.__struct_fields__}


_PLAIN: dict[type, pl.DataType] = {bool: pl.Boolean(), int: pl.Int64(), float: pl.Float64(), str: pl.String()}


def _column(annotation: Any) -> pl.DataType:
    """The column of a field: its own type where it is a word, a number or a tuple of those, else JSON text."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _column(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return _column(next(one for one in arguments if one is not types.NoneType))
    if origin is tuple and arguments[0] in (str, int):
        return pl.List(_PLAIN[arguments[0]])
    return _PLAIN.get(annotation, pl.String())


def _cells(message: Message) -> dict[str, Any]:
    columns = _columns(type(message))
    return {name: _cell(getattr(message, name), column) for name, column in columns.items()}


def _cell(value: Any, column: pl.DataType) -> Any:
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str) or column != pl.String():
        return list(value) if isinstance(value, tuple) else value
    return msgspec.json.encode(value).decode()


def frame_of(rows: Iterable[Row], schema: pl.Schema) -> tuple[pl.DataFrame, int]:
    """The rows of one table as a frame, in order, and how many of their records could not be put into it."""
    kept = list(rows)
    try:
        return _frame(kept, schema), 0
    except CANNOT:
        if len(kept) < 2:
            return pl.DataFrame(schema=schema), len(kept)
    half = len(kept) // 2
    (first, lost), (second, more) = frame_of(kept[:half], schema), frame_of(kept[half:], schema)
    return pl.concat([first, second], how="diagonal_relaxed"), lost + more


def _frame(rows: Sequence[Row], schema: pl.Schema) -> pl.DataFrame:
    wide = [_placed(row.values, row.record) for row in rows if isinstance(row.values, pl.DataFrame)]
    if wide:
        return pl.concat([pl.DataFrame(schema=schema), *wide], how="diagonal")
    told = [
        {**_place(row.record), **row.values, **_when(row.values, row.record)}
        for row in rows
        if not isinstance(row.values, pl.DataFrame)
    ]
    frame = pl.DataFrame(told, schema={**schema, "day": pl.Int64, "time": pl.Int64}, strict=True)
    return frame.with_columns(*_times())


def _times() -> tuple[pl.Expr, pl.Expr]:
    return (
        (pl.col("day") // 86_400_000).cast(pl.Int32).cast(pl.Date),
        (pl.col("time") * 1000).cast(TIME),
    )


def _place(record: Record) -> dict[str, int]:
    return {"partition": record.partition, "offset": record.offset, "append_ms": record.append_ms}


def _when(values: Mapping[str, Any], record: Record) -> dict[str, int]:
    told = next((values[name] for name in _STAMPS if name in values and values[name] is not None), record.append_ms)
    return {"day": record.append_ms, "time": max(0, min(told, record.append_ms + AHEAD_MS))}


def _placed(frame: pl.DataFrame, record: Record) -> pl.DataFrame:
    latest = record.append_ms + AHEAD_MS
    return frame.with_columns(
        *(pl.lit(value, pl.Int64).alias(name) for name, value in _place(record).items()),
        day=pl.lit(record.append_ms, pl.Int64),
        time=pl.col("end_ms").clip(0, latest),
    ).with_columns(*_times())
