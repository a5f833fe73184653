"""One line of the ledger for people, and the whole ledger read from the log."""

from collections.abc import Callable, Iterable

from sickbay import actions, topics
from sickbay.actions import Action, Control
from sickbay.clock import rfc3339
from sickbay.log import Reader, Record, Task
from sickbay.log.reading import records
from sickbay.plain import plain

ACTIONS, CONTROL = Task(topics.ACTIONS, 0), Task(topics.CONTROL, 0)


def line_of(action: Action) -> str:
    """When, state, verb, target, why, and the ids by which to ask and answer."""
    why = action.why or action.read_back
    more = f" ({action.read_back})" if action.read_back and action.read_back not in why else ""
    by = "" if action.by == "policy" or f"by {action.by}" in why else f" [{action.by}]"
    text = f"{rfc3339(action.at_ms) or '-':<24} {action.state:<8} {action.do} {action.target}: {why}{more}{by}"
    return plain(f"{text[:600]} | action {action.id} incident {action.incident}")


def ledger_of(reader: Reader, unread: Callable[[Record], None] = lambda record: None) -> dict[str, Action]:
    """Every action by id, its newest line that can be read; `unread` gets the others."""
    found: dict[str, Action] = {}
    for record in records(reader, ACTIONS):
        action = told(record.value)
        if isinstance(action, Action):
            found[action.id] = action
        elif record.value:
            unread(record)
        else:
            found.pop(record.key.decode("utf-8", "replace"), None)
    return found


def controls_of(said: Iterable[Record], known: dict[bytes, Control]) -> dict[bytes, Control]:
    """The controls after some more records: the newest of each key, none where it was taken back."""
    found = dict(known)
    for record in said:
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
