"""What a job asks of remediation, from its host's event to the control topic: that it is not stopped, who restarts it.

Remediation reads controls and no events. The key names the job: what it said last is what holds, told again or not.
"""

from sickbay import actions
from sickbay.actions import Control
from sickbay.log import Output
from sickbay.messages import AnyMessage, Event
from sickbay.topics import CONTROL

KINDS = {"job.no_stop_until": "no_stop", "job.restart_owner": "restart_owner"}
LONGEST_MS = 24 * 3_600_000  # that a job may put off
MAX_OWNER = 60  # characters


def wish(message: AnyMessage, append_ms: int) -> Output | None:
    """The control that an event of a job asks for, None for any other message."""
    if not isinstance(message, Event) or message.kind not in KINDS:
        return None
    kind, until_ms = KINDS[message.kind], None
    if kind == "no_stop":
        told = message.attributes.get("until_ms", "")
        until_ms = min(int(told) if told.isdecimal() and len(told) < 20 else 0, append_ms + LONGEST_MS)
    control = Control(
        kind=kind, target=message.component, by=f"the job, by {message.host}"[:300], at_ms=append_ms,
        until_ms=until_ms, note=message.attributes.get("owner", "")[:MAX_OWNER],
    )  # fmt: skip
    return Output(CONTROL, f"{kind}:{message.component}:job".encode()[:1024], actions.encode(control))
