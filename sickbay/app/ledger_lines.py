"""One line of the ledger for people, and the whole ledger read from the log."""

from sickbay import actions
from sickbay.actions import Action, Control
from sickbay.app.plain import plain
from sickbay.clock import rfc3339
from sickbay.log import OffsetOutOfRange, Reader, Record, Task

ACTIONS, CONTROL = Task("sickbay.actions.v1", 0), Task("sickbay.control.v1", 0)


def line_of(action: Action) -> str:
    """When, state, verb, target, why, and the ids by which to ask and answer."""
    by = "" if action.by == "policy" else f" [{action.by}]"
    why = action.why or action.read_back
    more = f" ({action.read_back})" if action.why and action.read_back else ""
    text = f"{rfc3339(action.at_ms) or '-':<24} {action.state:<8} {action.do} {action.target}: {why}{more}{by}"
    return plain(f"{text[:600]} | action {action.id} incident {action.incident}")


class Followed:
    """Reads a topic of one partition from its start, a little more with each `read`; damaged records are counted."""

    def __init__(self, reader: Reader, task: Task) -> None:
        self._reader, self._task = reader, task
        self._next: int | None = None

    def read(self) -> list[Record]:
        """What is new. Raises LogError."""
        if self._next is None:
            self._next = self._reader.bounds(self._task).begin
        found: list[Record] = []
        while records := self._more(self._next):
            found += records
            self._next = records[-1].offset + 1
        return found

    def _more(self, offset: int) -> list[Record]:
        try:
            return self._reader.read(self._task, offset)
        except OffsetOutOfRange as error:  # compaction keeps the newest of each key
            return self._reader.read(self._task, error.bounds.begin)


def ledger_of(reader: Reader) -> dict[str, Action]:
    """Every action by id, its newest line."""
    found: dict[str, Action] = {}
    for record in Followed(reader, ACTIONS).read():
        action = told(record.value)
        if isinstance(action, Action):
            found[action.id] = action
    return found


def controls_of(records: list[Record], known: dict[bytes, Control]) -> dict[bytes, Control]:
    """The controls after some more records: the newest of each key, none where it was taken back."""
    found = dict(known)
    for record in records:
        control = told(record.value)
        if isinstance(control, Control):
            found[record.key] = control
        elif record.value is None:
            found.pop(record.key, None)
    return found


def told(value: bytes | None) -> actions.LedgerMessage | None:
    """The message in a record, None where it is none."""
    try:
        return actions.decode(value) if value else None
    except ValueError:
        return None
