"""The incidents topic for its readers: incidents by id, and between them the heartbeat of diagnosis."""

from sickbay import actions, messages
from sickbay.actions import Judged
from sickbay.log import Reader, Task
from sickbay.log.reading import Followed
from sickbay.messages import Incident
from sickbay.topics import INCIDENTS

_TASK = Task(INCIDENTS, 0)


def told(value: bytes | None) -> Incident | Judged | None:
    """What a record says; None for a tick, a removed key, or what cannot be read."""
    if not value:
        return None
    try:
        if value.startswith(b'{"type":"judged"'):
            judged = actions.decode(value)
            return judged if isinstance(judged, Judged) else None
        message = messages.decode(value)
    except ValueError:
        return None
    return message if isinstance(message, Incident) else None


class IncidentsView:
    """What stands on the topic, read on with each `read`: the newest word on every incident, and the heartbeat."""

    def __init__(self, reader: Reader) -> None:
        self._topic = Followed(reader, _TASK)
        self.incidents: dict[str, Incident] = {}
        self.judged: Judged | None = None

    def read(self) -> None:
        """Takes what is new."""
        for record in self._topic.read():
            found = told(record.value)
            if isinstance(found, Judged):
                self.judged = found
            elif found is not None:
                self.incidents[found.id] = found
            elif record.value is None:
                self.incidents.pop(record.key.decode("utf-8", "replace"), None)


def current(reader: Reader) -> tuple[dict[str, Incident], Judged | None]:
    """The incidents by id and the newest heartbeat, as they stand now."""
    view = IncidentsView(reader)
    view.read()
    return view.incidents, view.judged
