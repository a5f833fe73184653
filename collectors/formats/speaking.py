"""Who may say what: shared by the body grammars."""

from typing import Any

from collectors.formats.reading import Line
from sickbay.components import Name
from sickbay.messages import Event
from sickbay.vocabulary import event_kinds

ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"  # a PCI function as the kernel prints it


def kernel_speaks(line: Line) -> bool:
    """Whether the kernel said this line, or nobody is known to have said it."""
    return line.origin in ("kernel", "")


def told(kind: str, component: Name, **fields: Any) -> Event:
    """An event with the severity and blame of its kind where none is given."""
    row = event_kinds()[kind]
    return Event(component=component, kind=kind, **({"severity": row.severity, "blame": row.blame} | fields))


def process(name: str, pid: str) -> str:
    """A process as events name it: `name[pid]`."""
    return f"{name.strip()}[{pid}]"
